// One call through the catalogue, the judge and explain.
#include "golden/oracle.h"

#include <ostream>
#include <vector>

#include "formats/error.h"
#include "golden/explain/case/call.h"
#include "golden/reports/text.h"

namespace mxo {
namespace {

NamedTensors copies_of(const NamedViews& views) {
  NamedTensors tensors;
  for (const auto& [name, operand] : views.operands()) {
    if (operand.view.data == nullptr && operand.elements() > 0)
      throw Error(Fault::argument, name + ": found no memory, needs the address of its elements");
    Tensor copy(operand.dtype(), operand.shape());
    copy_elements(operand.view, copy.result());
    tensors.emplace(name, std::move(copy));
  }
  return tensors;
}

std::string slice_line(const char* kind, const std::vector<Slice>& slices) {
  const Slice* worst = worst_slice(slices);
  if (worst == nullptr) return "";
  const Measures& m = worst->measures;
  return "\n  worst " + std::string(kind) + " " + place_text(*worst) + ": " +
         std::to_string(m.differing) + " of " + std::to_string(m.elements) + " differ" +
         ulp_text(m) + ", SQNR " + decibel_text(m.sqnr);
}

std::string lines_of(const TensorVerdict& tensor) {
  const Measures& all = tensor.all;
  std::string text = tensor.name + " " + std::string(name_of(tensor.format)) + " " +
                     position_text(tensor.shape) + ": " + std::string(name_of(tensor.outcome));
  if (all.differing == 0) {
    if (!tensor.reason.empty()) return text + ", " + tensor.reason;
    text += ", " + std::to_string(all.elements) + " elements";
    return tensor.note.empty() ? text : text + "; " + tensor.note;
  }
  const double percent = 100.0 * static_cast<double>(all.differing) /
                         static_cast<double>(all.elements > 0 ? all.elements : 1);
  text += ", " + std::to_string(all.differing) + " of " + std::to_string(all.elements) +
          " elements differ (" + number_text(percent) + " %)" + ulp_text(all) + ", SQNR " +
          decibel_text(all.sqnr);
  text += slice_line("group", tensor.groups) + slice_line("rows", tensor.row_blocks) +
          slice_line("columns", tensor.column_blocks);
  if (!tensor.note.empty()) text += "\n  " + tensor.note;
  for (const Difference& d : tensor.first) {
    text += "\n  " + position_text(d.at) + ": expected " + bits_text(tensor, d.expected) +
            ", found " + bits_text(tensor, d.actual);
  }
  return text;
}

}  // namespace

std::string CheckResult::report() const {
  std::string text = outcome == Outcome::invalid ? "INVALID: nothing was compared" : "";
  for (const TensorVerdict& tensor : verdict.outputs) {
    text += (text.empty() ? "" : "\n") + lines_of(tensor);
  }
  if (!verdict.note.empty()) text += "\n" + verdict.note;
  return text;
}

Explanation CheckResult::explain() const {
  Call asked = make_call(call.op, call.inputs, call.parameters);
  asked.world = world_;
  return mxo::explain(*backend_, asked, call.expected, call.actual);
}

std::ostream& operator<<(std::ostream& out, const CheckResult& result) {
  return out << result.report();
}

Oracle::Oracle(std::unique_ptr<Backend> backend, World* world)
    : backend_(std::move(backend)), world_(world) {}

CheckResult Oracle::check(std::string_view op, const NamedViews& inputs, const NamedViews& actual,
                          Settings settings, const CompareOptions& options) const {
  if (actual.operands().empty()) {
    throw Error(Fault::argument,
                std::string(op) + ": outputs: found none, needs at least one to judge");
  }
  CheckResult result;
  result.backend_ = backend_;
  result.world_ = world_;
  AnsweredCall& call = result.call;
  call.id = call.op = op;
  for (const auto& [key, value] : settings) {
    if (call.parameters.has(key))
      throw Error(Fault::argument, std::string(key) + ": given twice, needs one value");
    call.parameters.set(key, value);
  }
  call.inputs = copies_of(inputs);
  call.actual = copies_of(actual);
  call.expected = call_operator(*backend_, op, NamedViews(call.inputs), call.parameters, world_);
  CompareOptions how = options;
  how.backend = backend_.get();
  result.verdict = judge_call({call.op, call.inputs, call.parameters}, call.expected, call.actual,
                              how, WhichOutputs::given);
  result.outcome = Report{{}, {}, {result.verdict}}.outcome();
  return result;
}

}  // namespace mxo
