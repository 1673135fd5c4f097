// EXPECTED against ACTUAL: two files, or a suite and a directory of outputs.
#include "golden/suites/compare.h"

#include <set>

#include "formats/error.h"
#include "golden/files/read_tensors.h"
#include "golden/judge/judge_call.h"
#include "golden/suites/case_file.h"
#include "golden/suites/compare_files.h"
#include "golden/suites/other_results.h"
#include "golden/suites/other_tensors.h"
#include "golden/suites/poison_pairs.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

const Tensor* tensor_or_null(const TensorFile& file, const std::string& name) {
  const auto at = file.tensors.find(name);
  return at == file.tensors.end() ? nullptr : &at->second;
}

CaseVerdict compare_case(const fs::path& suite, const fs::path& actual, const ManifestCase& item,
                         const OtherResults& others, const CompareOptions& options) {
  CaseVerdict verdict{item.id, item.op, Outcome::not_compared, {}, {}};
  try {
    const StoredCase stored = read_case(suite, item);
    std::error_code error;
    if (!fs::exists(actual, error)) {
      verdict.outcome = Outcome::not_run;
      verdict.reason = actual.string() + ": no such file";
      return verdict;
    }
    const TensorFile outputs = as_declared(read_tensors(actual));
    std::vector<JudgedOutput> questions;
    std::set<std::string> expected;
    std::set<std::string> operands;
    for (const ManifestOperand& operand : item.operands) {
      if (operand.role != Role::expected) {
        if (operand.name != "group_ends") operands.insert(operand.stored_name());
        continue;
      }
      expected.insert(operand.name);
      questions.push_back({operand.name, stored.expected_output(item, operand),
                           tensor_or_null(outputs, operand.name)});
    }
    const Parameters parameters(item.parameters);
    auto verdicts =
        judge_outputs({item.op, stored.inputs, parameters}, std::move(questions), options);
    for (TensorVerdict& output : verdicts) {
      const Tensor* wrong = tensor_or_null(outputs, output.name);
      if (output.outcome != Outcome::fail || wrong == nullptr) continue;
      const std::string other = others.find(item.id, *wrong);
      if (!other.empty()) output.note += (output.note.empty() ? "" : "; ") + other;
    }
    take(verdict, std::move(verdicts));
    see_other_tensors(outputs, expected, operands, holds_all(outputs, stored.file, operands),
                      verdict);
  } catch (const Error& error) {
    if (error.fault() == Fault::argument) throw;  // the caller's gate or sum, not the files
    verdict.outcome = Outcome::invalid;
    verdict.reason = error.what();
  }
  return verdict;
}

Report compare_suite(const fs::path& expected, const fs::path& actual,
                     const CompareOptions& options, const Progress& progress,
                     const CaseFilter& only) {
  std::error_code error;
  if (!fs::is_directory(actual, error)) {
    throw Error(Fault::file, actual.string() +
                                 ": is no directory; needs a directory of <case id>.safetensors, "
                                 "because " +
                                 expected.string() + " is a suite");
  }
  const Manifest all = read_manifest(expected);
  const Manifest manifest = with_twins(all, only.of(all));
  if (fs::is_regular_file(actual / kManifestName, error)) {
    throw Error(Fault::file, actual.string() +
                                 ": is a suite, which holds what is expected and not what a kernel "
                                 "gave; needs a directory of <case id>.safetensors");
  }
  const auto actual_of = [&](const std::string& id) { return actual / (id + ".safetensors"); };
  const OtherResults others(manifest);
  Report report;
  for (const ManifestCase& item : manifest.cases) {
    if (progress) {
      progress(
          static_cast<double>(report.cases.size()) / static_cast<double>(manifest.cases.size()),
          item.id);
    }
    report.cases.push_back(compare_case(expected, actual_of(item.id), item, others, options));
  }
  compare_poison_pairs(expected, manifest, actual_of, report);
  return report;
}

}  // namespace

Report compare(const fs::path& expected, const fs::path& actual, const CompareOptions& options,
               const Progress& progress, CallGiven given, const CaseFilter& only) {
  std::error_code error;
  Report report;
  if (fs::is_directory(expected, error)) {
    report = compare_suite(expected, actual, options, progress, only);
  } else {
    report.cases.push_back(compare_files(expected, actual, options, std::move(given)));
  }
  report.title = "compare " + expected.string() + " " + actual.string();
  report.gate = to_text(options.gate);
  return report;
}

}  // namespace mxo
