// One call through the catalogue, the judge and explain.
#include "golden/oracle.h"

#include <cmath>
#include <ostream>
#include <vector>

#include "formats/error.h"
#include "golden/explain/call.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/outputs.h"
#include "golden/reports/text.h"

namespace mxo {
namespace {

NamedTensors copies_of(const NamedViews& views) {
  NamedTensors tensors;
  for (const auto& [name, operand] : views.operands()) {
    Tensor copy(operand.dtype(), operand.shape());
    copy_elements(operand.view, copy.result());
    tensors.emplace(name, std::move(copy));
  }
  return tensors;
}

const Tensor& expected_of(std::string_view op, const NamedTensors& expected,
                          const std::string& name) {
  const auto at = expected.find(name);
  if (at != expected.end()) return at->second;
  std::string known;
  for (const auto& [key, tensor] : expected) known += (known.empty() ? "" : ", ") + key;
  throw Error(Fault::argument,
              std::string(op) + ": " + name + ": found no such output, needs one of " + known);
}

std::string slice_line(const char* kind, const std::vector<Slice>& slices) {
  const Slice* worst = worst_slice(slices);
  if (worst == nullptr) return "";
  const Measures& m = worst->measures;
  return "\n  worst " + std::string(kind) + " " + std::to_string(worst->index) + " (" +
         std::to_string(worst->begin) + " to " + std::to_string(worst->end) +
         "): " + std::to_string(m.differing) + " of " + std::to_string(m.elements) +
         " differ, max ulp " + std::to_string(m.max_ulp) + ", SQNR " + decibel_text(m.sqnr);
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
          " elements differ (" + number_text(percent) + " %), max ulp " +
          std::to_string(all.max_ulp) + ", SQNR " + decibel_text(all.sqnr);
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
  return text;
}

Explanation CheckResult::explain() const {
  Call call = make_call(op_, inputs_, parameters_);
  call.world = world_;
  return mxo::explain(*backend_, call, expected, actual_);
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
  for (const auto& [key, value] : settings) result.parameters_.set(key, value);
  result.backend_ = backend_;
  result.world_ = world_;
  result.op_ = op;
  result.inputs_ = copies_of(inputs);
  result.actual_ = copies_of(actual);
  result.expected =
      call_operator(*backend_, op, NamedViews(result.inputs_), result.parameters_, world_);

  std::vector<OutputInQuestion> outputs;
  for (const auto& [name, tensor] : result.actual_) {
    const Tensor& expected = expected_of(op, result.expected, name);
    OutputInQuestion output{name, {}, &tensor};
    output.owed.expected = &expected;
    output.owed.format = expected.dtype();
    output.owed.groups = groups_of(op, name, result.inputs_, result.parameters_, expected);
    outputs.push_back(std::move(output));
  }
  result.verdict = {std::string(op), std::string(op), Outcome::not_owed, {}, {}};
  result.verdict.outputs =
      judge_outputs({result.op_, result.inputs_, result.parameters_}, std::move(outputs), options);
  for (const TensorVerdict& tensor : result.verdict.outputs) {
    result.verdict.outcome = graver(result.verdict.outcome, tensor.outcome);
  }
  result.outcome = Report{{}, {}, {result.verdict}}.outcome();
  return result;
}

}  // namespace mxo
