// From two files to questions for the judge.
#include "golden/suites/compare_files.h"

#include <algorithm>
#include <future>
#include <set>
#include <string_view>

#include "formats/error.h"
#include "golden/files/read_tensors.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/judge_call.h"
#include "golden/judge/step_order.h"
#include "golden/judge/validate_call.h"
#include "golden/suites/other_tensors.h"
#include "ops/catalogue/ranks.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

/// A call as a file and the caller describe it; fields that neither gives are empty.
struct CallInFile {
  std::string op;
  Parameters parameters;
  std::vector<std::string> outputs;  ///< empty: every tensor
  NamedTensors inputs;

  bool is_output(const std::string& name) const {
    return outputs.empty() || (!op.empty() && names_step(catalogue_entry(op), name)) ||
           std::any_of(outputs.begin(), outputs.end(),
                       [&](const std::string& spec) { return names_operand(spec, name); });
  }
  /// The operands that the operator cannot do without and that are not here: "w, group_ends".
  std::string missing() const {
    const auto& specs = catalogue_entry(op).inputs;
    const auto here = [&](const std::string& spec) {
      return std::any_of(inputs.begin(), inputs.end(),
                         [&](const auto& operand) { return names_operand(spec, operand.first); });
    };
    std::string names;
    for (const OperandSpec& spec : specs) {
      const std::string name(spec.name);
      // A plain operand or its codes, where the operator takes either.
      const bool either = std::any_of(specs.begin(), specs.end(), [&](const OperandSpec& other) {
        return other.name == name + ".codes";
      });
      if (here(name) || (either ? here(name + ".codes") : spec.optional)) continue;
      names += (names.empty() ? "" : ", ") + name;
    }
    return names;
  }
};

std::vector<std::string> split_at_commas(std::string_view rest) {
  std::vector<std::string> parts;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    parts.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return parts;
}

/// Operands in a file: all that are no outputs and that the operator takes.  Their memory changes
/// hands.
void take_operands(TensorFile& file, CallInFile& call) {
  constexpr std::string_view moved = "input.";  // where an output has the operand's name
  for (auto& [stored, tensor] : file.tensors) {
    const bool input = stored.starts_with(moved);
    const bool output = call.is_output(stored);
    if (!input && output && stored != "group_ends") continue;
    const std::string name = input ? stored.substr(moved.size()) : stored;
    const auto& specs = catalogue_entry(call.op).inputs;
    const bool taken = std::any_of(specs.begin(), specs.end(), [&](const OperandSpec& spec) {
      return names_operand(spec.name, name);
    });
    if (taken) call.inputs.try_emplace(name, output ? Tensor(tensor) : std::move(tensor));
  }
}

/// The call without the operands that are in the file.
CallInFile call_in(const TensorFile& file, const fs::path& path, CallGiven given) {
  CallInFile call{given.op, given.parameters, {}, std::move(given.operands)};
  const auto text = [&](const char* key) {
    const auto at = file.metadata.find(key);
    return at == file.metadata.end() ? std::string() : at->second;
  };
  if (call.op.empty()) {
    call.op = text("mxo.op");
    for (const auto& [key, value] : file.metadata) {
      constexpr std::string_view set = "mxo.set.";
      if (key.starts_with(set)) call.parameters.set(key.substr(set.size()), value);
    }
  }
  if (call.op.empty()) return call;
  try {
    for (const OperandSpec& spec : catalogue_entry(call.op).outputs) {
      if (!given.op.empty()) call.outputs.emplace_back(spec.name);
    }
  } catch (const Error& error) {
    throw Error(Fault::file, path.string() + ": " + error.what());
  }
  if (given.op.empty()) call.outputs = split_at_commas(text("mxo.outputs"));
  return call;
}

/// Groups of a tensor in a bare file: those of its `group_ends`, if they can be its rows.
Groups groups_in_file(const fs::path& path, const TensorFile& file, const CallInFile& call,
                      const std::string& name, const Tensor& tensor) {
  if (!call.op.empty()) return groups_of(call.op, name, call.inputs, call.parameters, tensor);
  const auto at = file.tensors.find("group_ends");
  if (at == file.tensors.end() || tensor.rank() != 2) return {};
  Groups groups{group_ends_of(at->second), -1, -1};
  if (groups.ends.empty() && at->second.elements() > 0) {
    throw Error(Fault::file, path.string() + ": group_ends: found " +
                                 describe(at->second.operand()) +
                                 ", needs i32 or i64 [E] that never decreases");
  }
  if (groups.ends.empty() || groups.ends.back() > tensor.extent(0)) return {};
  groups.compared_rows = groups.ends.back();
  return groups;
}

/// The format of a pair: what EXPECTED says it is; of bytes that it does not name, what ACTUAL
/// says.
Dtype format_of_pair(const TensorFile& expected, const std::string& name, const Tensor* actual) {
  const Dtype format = format_of(expected, name);
  if (format != Dtype::u8 || actual == nullptr) return format;
  return is_minifloat8(actual->dtype()) || actual->dtype() == Dtype::e8m0 ? actual->dtype()
                                                                          : format;
}

/// Operands of a case file as it names them, but for ends of groups, which outputs may hold too.
std::set<std::string> operands_in(const TensorFile& file, const CallInFile& call) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : file.tensors) {
    const bool companion =
        name.ends_with(".undefined") || name.ends_with(".lo") || name.ends_with(".hi");
    if (!call.is_output(name) && name != "group_ends" && !companion) names.insert(name);
  }
  return names;
}

/// INVALID if no row of any tensor is in a group: equal ends of groups prove nothing.
void see_ends_alone(CaseVerdict& verdict) {
  const auto empty = [](const TensorVerdict& output) {
    return output.name == "group_ends" || output.all.elements == 0;
  };
  const bool ends_alone = std::all_of(verdict.outputs.begin(), verdict.outputs.end(), empty);
  if (verdict.outcome != Outcome::pass || verdict.outputs.size() == 1 || !ends_alone) return;
  verdict.outcome = Outcome::invalid;
  verdict.reason = "nothing was compared but group_ends";
}

void check(const fs::path& path, const CallInFile& call, const CompareOptions& options,
           const std::vector<JudgedOutput>& questions) {
  const bool bound = options.gate.needs_operands();
  const std::string gate = options.gate.kind == Gate::Kind::bound ? "gate bound" : "gate sqnr=auto";
  if (bound && call.op.empty()) {
    throw Error(Fault::argument, path.string() + ": " + gate +
                                     " needs the operator; compare with a case file, or give --op");
  }
  const std::string missing = call.op.empty() ? "all" : call.missing();
  if (!missing.empty()) {
    if (!bound) return;
    throw Error(Fault::argument, path.string() + ": " + gate + " needs the operands of " + call.op +
                                     ", found no " + missing +
                                     "; compare with a case file, or add --op " + call.op +
                                     " --input FILE");
  }
  std::map<std::string, const Tensor*> expected;
  for (const JudgedOutput& question : questions) {
    expected.emplace(question.name, question.expected_output.expected);
  }
  validate_call(path.string(), call.op, call.inputs, call.parameters, expected);
}

}  // namespace

CaseVerdict compare_files(const fs::path& expected_path, const fs::path& actual_path,
                          const CompareOptions& options, CallGiven given) {
  auto reading = std::async(std::launch::async, [&] { return read_tensors(actual_path); });
  TensorFile expected = read_tensors(expected_path);
  const TensorFile actual = as_declared(reading.get());
  const bool single_arrays =
      expected_path.extension() == ".npy" && actual_path.extension() == ".npy";
  CallInFile call = call_in(expected, expected_path, std::move(given));
  const std::set<std::string> operands = operands_in(expected, call);
  const bool copy = !single_arrays && holds_all(actual, expected, operands);
  if (!call.op.empty()) take_operands(expected, call);
  std::vector<JudgedOutput> questions;
  std::set<std::string> outputs;
  for (const auto& [name, tensor] : expected.tensors) {
    const auto at = single_arrays ? actual.tensors.begin() : actual.tensors.find(name);
    const bool there = at != actual.tensors.end();
    if (!call.is_output(name) || (name == "group_ends" && !there)) continue;
    ExpectedOutput expected_output;
    expected_output.expected = &tensor;
    expected_output.format = format_of_pair(expected, name, there ? &at->second : nullptr);
    expected_output.groups = groups_in_file(expected_path, expected, call, name, tensor);
    outputs.insert(name);
    questions.push_back({name, expected_output, there ? &at->second : nullptr});
  }
  if (questions.empty()) {
    std::string said = call.op.empty() ? "tensor to compare" : "output of " + call.op;
    for (const std::string& name : call.outputs) {
      said += (name == call.outputs.front() ? "; needs one of " : ", ") + name;
    }
    throw Error(Fault::file, expected_path.string() + ": holds no " + said);
  }
  check(expected_path, call, options, questions);
  CaseVerdict verdict{expected_path.filename().string(), call.op, Outcome::not_compared, {}, {}};
  take(verdict,
       judge_outputs({call.op, call.inputs, call.parameters}, std::move(questions), options));
  order_by_step(call.op, verdict);
  if (call.op.empty()) see_ends_alone(verdict);
  if (!single_arrays) see_other_tensors(actual, outputs, operands, copy, verdict);
  std::error_code none;
  if (fs::equivalent(expected_path, actual_path, none)) {
    verdict.note += (verdict.note.empty() ? "" : "; ") +
                    std::string("EXPECTED and ACTUAL are one file, which proves nothing");
  }
  return verdict;
}

}  // namespace mxo
