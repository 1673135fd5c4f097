// The cases of a suite of recipes, one verdict each.
#include "golden/suites/shapes/case_report.h"

#include <algorithm>

#include "formats/error.h"
#include "golden/files/manifest.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

std::vector<ShapedCase> cases_of(const fs::path& directory, const CaseFilter& only) {
  ShapeSuite suite = read_shape_suite(directory);
  Manifest manifest;
  for (const ShapedCase& item : suite.cases) {
    ManifestCase row;
    row.id = item.id;
    row.op = item.call.op;
    row.parameters = item.call.set.all();
    manifest.cases.push_back(std::move(row));
  }
  manifest = only.of(std::move(manifest));
  std::erase_if(suite.cases, [&](const ShapedCase& item) {
    return std::none_of(manifest.cases.begin(), manifest.cases.end(),
                        [&](const ManifestCase& row) { return row.id == item.id; });
  });
  return std::move(suite.cases);
}

}  // namespace

std::string place_of(const Box& box, const OutputShape& whole) {
  const Box all = whole_box(whole.shape);
  std::string text =
      "rows " + std::to_string(box.row_begin) + " to " + std::to_string(box.row_end - 1);
  if (box.columns() != all.columns()) {
    text += ", columns " + std::to_string(box.column_begin) + " to " +
            std::to_string(box.column_end - 1);
  }
  return text;
}

Index elements_of(const OutputShape& whole) {
  const Box all = whole_box(whole.shape);
  return all.rows() * all.columns();
}

Report each_case(const fs::path& suite, const CaseFilter& only, const Progress& progress,
                 const JudgeShapedCase& judge) {
  std::vector<ShapedCase> cases = cases_of(suite, only);
  Report report;
  for (ShapedCase& item : cases) {
    const auto of_case = [&](double share) {
      if (!progress) return;
      progress(
          (static_cast<double>(report.cases.size()) + share) / static_cast<double>(cases.size()),
          item.id);
    };
    of_case(0);
    CaseVerdict verdict{item.id, item.call.op, Outcome::not_compared, {}, {}};
    try {
      read_digests(case_file(suite, item.id), item);
      judge(item, verdict, of_case);
      for (const TensorVerdict& output : verdict.outputs) {
        verdict.outcome = worse_of(verdict.outcome, output.outcome);
      }
    } catch (const Error& error) {
      if (error.fault() == Fault::argument) throw;
      verdict.outcome = error.fault() == Fault::unsupported ? Outcome::not_run : Outcome::invalid;
      verdict.reason = error.what();
    }
    report.cases.push_back(std::move(verdict));
  }
  if (progress) progress(1, "done");
  return report;
}

}  // namespace mxo
