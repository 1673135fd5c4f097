// The outputs of a kernel against the expected ones, and why they differ.
#include "python/src/judgement.h"

#include <cstddef>

#include "emu/communicators.h"
#include "golden/explain/explain.h"
#include "golden/judge/bound.h"
#include "golden/judge/judge_call.h"
#include "golden/oracle.h"
#include "golden/reports/reports.h"
#include "golden/reports/text.h"
#include "python/src/bridge.h"
#include "python/src/engine.h"
#include "python/src/float_state.h"

extern "C" __attribute__((weak)) int malloc_trim(std::size_t) noexcept;  // of glibc alone

namespace mxo::python {
namespace {

namespace nb = nanobind;

CompareOptions options_of(const std::string& gate, const std::string& sum) {
  CompareOptions options;
  options.gate = parse_gate(gate);
  options.sum = sum;
  return options;
}

CheckResult* judge(Engine& engine, const std::string& op, const std::vector<ArrayIn>& inputs,
                   const nb::dict& set, const std::vector<ArrayIn>& actual, const std::string& gate,
                   const std::string& sum) {
  const Parameters parameters = parameters_from(set);
  CompareOptions options = options_of(gate, sum);
  options.backend = &engine.backend();
  const nb::gil_scoped_release release;
  const FloatState ieee(engine.threads());
  const NamedTensors operands = tensors_from(inputs);
  auto judgement = std::make_unique<CheckResult>();
  judgement->call.expected = engine.call(op, operands, parameters);
  judgement->verdict = judge_call({op, operands, parameters}, judgement->call.expected,
                                  tensors_from(actual), options, WhichOutputs::given);
  return judgement.release();
}

/// True if output `output` of this call has a certified bound; under gate bound others are held to
/// bits.
bool has_bound(const std::string& op, const std::string& output, const std::vector<ArrayIn>& inputs,
               const nb::dict& set) {
  const Parameters parameters = parameters_from(set);
  const nb::gil_scoped_release release;
  const FloatState ieee(1);
  const NamedTensors operands = tensors_from(inputs);
  return bound_when_asked(op, output, operands, parameters, "").has_value();
}

CheckResult* compare(const std::vector<ArrayIn>& expected, const std::vector<ArrayIn>& actual,
                     const std::string& gate) {
  const CompareOptions options = options_of(gate, "");
  const nb::gil_scoped_release release;
  const FloatState ieee(1);
  auto judgement = std::make_unique<CheckResult>();
  judgement->call.expected = tensors_from(expected);
  judgement->verdict = judge_call({{}, {}, {}}, judgement->call.expected, tensors_from(actual),
                                  options, WhichOutputs::given);
  return judgement.release();
}

nb::dict figures(const Measures& m) {
  nb::dict row;
  row["elements"] = m.elements;
  row["not_compared"] = m.not_compared;
  row["differing"] = m.differing;
  row["violating"] = m.violating;
  row["not_bounded"] = m.not_bounded;
  row["unbounded_differing"] = m.unbounded_differing;
  row["max_ulp"] = m.max_ulp;
  row["max_absolute"] = m.max_absolute;
  row["max_relative"] = m.max_relative;
  row["sqnr"] = m.sqnr;
  row["cosine"] = m.cosine;
  row["right_sqnr"] = m.right_sqnr;
  return row;
}

nb::list slices(const std::vector<Slice>& all) {
  nb::list list;
  for (const Slice& slice : all) {
    nb::dict row = figures(slice.measures);
    row["index"] = slice.index;
    row["begin"] = slice.begin;
    row["end"] = slice.end;
    list.append(row);
  }
  return list;
}

nb::object row_or_none(const Slice* slice) {
  if (slice == nullptr) return nb::none();
  return nb::object(slices({*slice})[0]);
}

nb::dict output_of(const TensorVerdict& tensor) {
  nb::dict row = figures(tensor.all);
  row["name"] = tensor.name;
  row["outcome"] = std::string(name_of(tensor.outcome));
  row["reason"] = tensor.reason;
  row["note"] = tensor.note;
  row["format"] = std::string(name_of(tensor.format));
  row["shape"] = nb::tuple(nb::cast(tensor.shape));
  row["groups"] = slices(tensor.groups);
  row["worst_group"] = row_or_none(worst_slice(tensor.groups));
  row["best_group"] = row_or_none(best_slice(tensor.groups));
  row["worst_rows"] = row_or_none(worst_slice(tensor.row_blocks));
  row["worst_columns"] = row_or_none(worst_slice(tensor.column_blocks));
  row["histogram"] = nb::cast(tensor.histogram);
  nb::list first;
  for (const Difference& d : tensor.first) {
    first.append(nb::make_tuple(nb::tuple(nb::cast(d.at)), bits_text(tensor, d.expected),
                                bits_text(tensor, d.actual)));
  }
  row["first"] = first;
  nb::dict heat;
  heat["rows"] = tensor.heat.rows;
  heat["columns"] = tensor.heat.columns;
  heat["row_step"] = tensor.heat.row_step;
  heat["column_step"] = tensor.heat.column_step;
  heat["differing"] = nb::cast(tensor.heat.differing);
  row["heat"] = heat;
  return row;
}

/// Gives what the judgement was of back to the system: glibc keeps pieces that lie between others.
void drop_expected(CheckResult& judgement) {
  judgement.call.expected.clear();
  if (malloc_trim != nullptr) malloc_trim(0);
}

nb::list outputs(const CheckResult& judgement) {
  nb::list list;
  for (const TensorVerdict& tensor : judgement.verdict.outputs) list.append(output_of(tensor));
  return list;
}

std::string outcome(const CheckResult& judgement) {
  return std::string(name_of(Report{{}, {}, {judgement.verdict}}.outcome()));
}

std::string html(const std::vector<const CheckResult*>& judgements,
                 const std::vector<std::string>& ids, const std::string& title,
                 const std::string& gate) {
  Report report{title, gate, {}};
  for (std::size_t i = 0; i < judgements.size(); ++i) {
    report.cases.push_back(judgements[i]->verdict);
    report.cases.back().id = ids[i];
  }
  return html_report(report);
}

/// None where the work was not enough.
nb::object explain_call(Engine& engine, const std::string& op, const std::vector<ArrayIn>& inputs,
                        const nb::dict& set, const std::vector<ArrayIn>& actual, double most_work) {
  const Parameters parameters = parameters_from(set);
  Explanation found;
  try {
    const nb::gil_scoped_release release;
    const FloatState ieee(engine.threads());
    const std::unique_ptr<World> world = make_in_process_world();
    Call call = make_call(op, tensors_from(inputs), parameters);
    call.world = world.get();
    const auto mine = engine.turn();
    const NamedTensors expected = run_call(engine.backend(), call);
    Work work{most_work};
    call.work = &work;
    found = explain(engine.backend(), call, expected, tensors_from(actual));
  } catch (const OutOfWork&) {
    return nb::none();
  }
  nb::list causes;
  for (const Cause& cause : found.causes) {
    nb::dict where;
    where["tensor"] = cause.where.tensor;
    where["groups"] = cause.where.groups;
    where["rows"] = cause.where.rows;
    where["columns"] = cause.where.columns;
    where["blocks"] = cause.where.blocks;
    nb::dict row;
    row["id"] = cause.id;
    row["kind"] = cause.is_symptom() ? "symptom" : "cause";
    row["sentence"] = cause.sentence;
    row["share"] = cause.share;
    row["where"] = where;
    causes.append(row);
  }
  nb::dict result;
  result["elements"] = found.elements;
  result["differing"] = found.differing;
  result["sqnr_db"] = found.sqnr_db;
  result["verdict"] = std::string(name_of(found.verdict));
  result["sentence"] = found.sentence();
  result["pattern"] = found.pattern;
  result["causes"] = causes;
  return result;
}

}  // namespace

void bind_judgement(nb::module_& module) {
  nb::class_<CheckResult>(module, "CheckResult")
      .def_prop_ro("outcome", outcome)
      .def_prop_ro("note", [](const CheckResult& j) { return j.verdict.note; })
      .def("outputs", outputs)
      .def("expected",
           [](const CheckResult& j) { return arrays_from(NamedTensors(j.call.expected)); })
      .def("drop_expected", drop_expected);
  module.def("judge", judge, nb::rv_policy::take_ownership);
  module.def("compare", compare, nb::rv_policy::take_ownership);
  module.def("has_bound", has_bound);
  module.def("html", html);
  module.def("explain", explain_call);
}

}  // namespace mxo::python
