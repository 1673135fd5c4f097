// EXPECTED against ACTUAL: two files, or a suite and a directory of outputs.
#include "golden/suites/compare.h"

#include <algorithm>

#include "formats/error.h"
#include "golden/files/read_tensors.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/outputs.h"
#include "golden/judge/step_order.h"
#include "golden/suites/case_file.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

void join(CaseVerdict& verdict, std::vector<TensorVerdict> outputs) {
  for (TensorVerdict& output : outputs) {
    verdict.outcome = graver(verdict.outcome, output.outcome);
    verdict.outputs.push_back(std::move(output));
  }
}

const Tensor* tensor_or_null(const TensorFile& file, const std::string& name) {
  const auto at = file.tensors.find(name);
  return at == file.tensors.end() ? nullptr : &at->second;
}

CaseVerdict compare_case(const fs::path& suite, const fs::path& actual, const ManifestCase& item,
                         const CompareOptions& options) {
  CaseVerdict verdict{item.id, item.op, Outcome::not_owed, {}, {}};
  try {
    const StoredCase stored = read_case(suite, item);
    std::error_code error;
    if (!fs::exists(actual, error)) {
      verdict.outcome = Outcome::not_run;
      verdict.reason = actual.string() + ": no such file";
      return verdict;
    }
    const TensorFile outputs = read_safetensors(actual);
    std::vector<OutputInQuestion> questions;
    for (const ManifestOperand& operand : item.operands) {
      if (operand.role != Role::expected) continue;
      questions.push_back(
          {operand.name, stored.owed(item, operand), tensor_or_null(outputs, operand.name)});
    }
    const Parameters parameters(item.parameters);
    join(verdict,
         judge_outputs({item.op, stored.inputs, parameters}, std::move(questions), options));
  } catch (const Error& error) {
    if (error.fault() == Fault::argument) throw;  // the caller's gate or sum, not the files
    verdict.outcome = Outcome::invalid;
    verdict.reason = error.what();
  }
  return verdict;
}

Report compare_suite(const fs::path& expected, const fs::path& actual,
                     const CompareOptions& options, const Progress& progress) {
  std::error_code error;
  if (!fs::is_directory(actual, error)) {
    throw Error(Fault::file, actual.string() +
                                 ": needs a directory of <case id>.safetensors, since " +
                                 expected.string() + " is a suite");
  }
  const Manifest manifest = read_manifest(expected);
  const bool another_suite = fs::is_regular_file(actual / kManifestName, error);
  Report report;
  for (const ManifestCase& item : manifest.cases) {
    if (progress) {
      progress(
          static_cast<double>(report.cases.size()) / static_cast<double>(manifest.cases.size()),
          item.id);
    }
    report.cases.push_back(compare_case(
        expected, another_suite ? case_file(actual, item.id) : actual / (item.id + ".safetensors"),
        item, options));
  }
  return report;
}

/// What a file says of the call it holds; empty fields where it says nothing.
struct CallInFile {
  std::string op;
  Parameters parameters;
  std::vector<std::string> outputs;
};

CallInFile call_in(const TensorFile& file) {
  CallInFile call;
  for (const auto& [key, value] : file.metadata) {
    constexpr std::string_view set = "mxo.set.";
    if (key == "mxo.op") call.op = value;
    if (key.starts_with(set)) call.parameters.set(key.substr(set.size()), value);
  }
  const auto outputs = file.metadata.find("mxo.outputs");
  if (call.op.empty() || outputs == file.metadata.end()) return call;
  std::string_view rest = outputs->second;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    call.outputs.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return call;
}

/// Groups of a tensor in a bare file: those of its `group_ends`, if they can be its rows.
Groups groups_in_file(const TensorFile& file, const CallInFile& call, const std::string& name,
                      const Tensor& tensor) {
  if (!call.op.empty()) return groups_of(call.op, name, file.tensors, tensor);
  const auto at = file.tensors.find("group_ends");
  if (at == file.tensors.end() || tensor.rank() != 2) return {};
  Groups groups{group_ends_of(at->second), -1};
  if (groups.ends.empty() || groups.ends.back() > tensor.extent(0)) return {};
  groups.owed_rows = groups.ends.back();
  return groups;
}

/// The format of a pair: what either file says it is; a type of its own before a plain integer.
Dtype format_of_pair(const TensorFile& expected, const TensorFile& actual, const std::string& name,
                     const std::string& actual_name) {
  const auto is_bits = [](Dtype d) {
    return d == Dtype::u8 || d == Dtype::u16 || d == Dtype::u32 || d == Dtype::i32;
  };
  const Dtype format = format_of(expected, name);
  const Dtype other = format_of(actual, actual_name);
  return is_bits(format) && size_of(format) == size_of(other) ? other : format;
}

Report compare_files(const fs::path& expected_path, const fs::path& actual_path,
                     const CompareOptions& options) {
  TensorFile expected = read_tensors(expected_path);
  const TensorFile actual = read_tensors(actual_path);
  const CallInFile call = call_in(expected);
  if (options.gate.kind == Gate::Kind::bound && call.op.empty()) {
    throw Error(Fault::argument, expected_path.string() +
                                     ": gate bound needs a case file, which names its operator");
  }
  const bool single_arrays =
      expected_path.extension() == ".npy" && actual_path.extension() == ".npy";
  CaseVerdict verdict{expected_path.filename().string(), call.op, Outcome::not_owed, {}, {}};
  std::vector<OutputInQuestion> questions;
  for (const auto& [name, tensor] : expected.tensors) {
    const bool output = call.outputs.empty() || std::find(call.outputs.begin(), call.outputs.end(),
                                                          name) != call.outputs.end();
    const auto at = single_arrays ? actual.tensors.begin() : actual.tensors.find(name);
    const bool given = at != actual.tensors.end();
    if (!output || (name == "group_ends" && !given)) continue;
    Owed owed;
    owed.expected = &tensor;
    owed.format = format_of_pair(expected, actual, name, given ? at->first : name);
    owed.groups = groups_in_file(expected, call, name, tensor);
    questions.push_back({name, owed, given ? &at->second : nullptr});
  }
  join(verdict,
       judge_outputs({call.op, expected.tensors, call.parameters}, std::move(questions), options));
  if (verdict.outputs.empty()) {
    throw Error(Fault::file, expected_path.string() + ": holds no tensor to compare");
  }
  const auto op = expected.metadata.find("op");
  if (op != expected.metadata.end()) order_by_step(op->second, verdict);
  Report report;
  report.cases.push_back(std::move(verdict));
  return report;
}

}  // namespace

Report compare(const fs::path& expected, const fs::path& actual, const CompareOptions& options,
               const Progress& progress) {
  std::error_code error;
  Report report = fs::is_directory(expected, error)
                      ? compare_suite(expected, actual, options, progress)
                      : compare_files(expected, actual, options);
  report.title = "compare " + expected.string() + " " + actual.string();
  report.gate = to_text(options.gate);
  return report;
}

}  // namespace mxo
