// A report for programs: JSON, and JUnit XML.
#include <cmath>

#include <nlohmann/json.hpp>

#include "golden/reports/reports.h"
#include "golden/reports/text.h"

namespace mxo {
namespace {

using Json = nlohmann::ordered_json;

/// A new field keeps it, a changed one does not.
constexpr const char* kSchema = "mxo-report/1";

/// JSON has no infinities: they are the strings "inf" and "-inf".
Json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json measures(const Measures& m) {
  return {{"elements", m.elements},
          {"not_compared", m.not_compared},
          {"differing", m.differing},
          {"violating", m.violating},
          {"not_bounded", m.not_bounded},
          {"nan_both", m.nan_both},
          {"nan_one_sided", m.nan_one_sided},
          {"inf_one_sided", m.inf_one_sided},
          {"max_ulp", m.max_ulp},
          {"max_absolute", json_number(m.max_absolute)},
          {"max_relative", json_number(m.max_relative)},
          {"sqnr", json_number(m.sqnr)},
          {"calc_diff", json_number(m.calc_diff)},
          {"cosine", json_number(m.cosine)},
          {"right_sqnr", std::isnan(m.right_sqnr) ? Json(nullptr) : json_number(m.right_sqnr)}};
}

Json slices(const std::vector<Slice>& all) {
  Json json = Json::array();
  for (const Slice& slice : all) {
    Json item{{"index", slice.index}, {"begin", slice.begin}, {"end", slice.end}};
    item.update(measures(slice.measures));
    json.push_back(std::move(item));
  }
  return json;
}

std::string hex(const TensorVerdict& tensor, std::uint64_t bits) {
  const std::string text = bits_text(tensor, bits);
  return "0x" + text.substr(0, text.find(' '));
}

Json tensor_json(const TensorVerdict& tensor) {
  Json json{{"name", tensor.name},
            {"verdict", name_of(tensor.outcome)},
            {"reason", tensor.reason},
            {"note", tensor.note},
            {"format", name_of(tensor.format)},
            {"shape", tensor.shape},
            {"all", measures(tensor.all)},
            {"groups", slices(tensor.groups)},
            {"row_blocks", slices(tensor.row_blocks)},
            {"k_blocks", slices(tensor.column_blocks)}};
  json["worst_group"] = tensor.worst_group < 0 ? Json(nullptr) : Json(tensor.worst_group);
  const Slice* best = best_slice(tensor.groups);
  json["best_group"] = best == nullptr ? Json(nullptr) : Json(best->index);
  json["first_differences"] = Json::array();
  for (const Difference& d : tensor.first) {
    json["first_differences"].push_back(
        {{"at", d.at}, {"expected", hex(tensor, d.expected)}, {"actual", hex(tensor, d.actual)}});
  }
  json["ulp_histogram"] = tensor.histogram;
  return json;
}

std::string reasons(const CaseVerdict& verdict) {
  std::string text = verdict.reason;
  for (const TensorVerdict& tensor : verdict.outputs) {
    if (tensor.reason.empty() || tensor.outcome == Outcome::not_compared) continue;
    text += (text.empty() ? "" : "; ") + tensor.name + ": " + tensor.reason;
  }
  return text;
}

}  // namespace

std::string json_report(const Report& report) {
  Json json{{"schema", kSchema},
            {"version", report.version},
            {"date", report.date},
            {"command", report.command},
            {"title", report.title},
            {"gate", report.gate},
            {"verdict", name_of(report.outcome())},
            {"exit_code", report.exit_code()}};
  for (const Outcome outcome :
       {Outcome::pass, Outcome::fail, Outcome::not_compared, Outcome::not_run, Outcome::invalid}) {
    json["counts"][std::string(name_of(outcome))] = report.count(outcome);
  }
  json["cases"] = Json::array();
  for (const CaseVerdict& verdict : report.cases) {
    Json item{
        {"id", verdict.id},         {"op", verdict.op},     {"verdict", name_of(verdict.outcome)},
        {"reason", verdict.reason}, {"note", verdict.note}, {"explanation", verdict.explanation},
        {"outputs", Json::array()}};
    for (const TensorVerdict& tensor : verdict.outputs) {
      item["outputs"].push_back(tensor_json(tensor));
    }
    json["cases"].push_back(std::move(item));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string junit_report(const Report& report) {
  // A report that proves nothing has an error of its own: the code of the exit says so, too.
  const bool nothing = report.compared_nothing();
  const auto total = [](const char* name, Index count) {
    return std::string(name) + "=\"" + std::to_string(count) + "\"";
  };
  const std::string totals =
      total("tests", static_cast<Index>(report.cases.size()) + nothing) +
      total(" failures", report.count(Outcome::fail)) +
      total(" errors", report.count(Outcome::invalid) + nothing) +
      total(" skipped", report.count(Outcome::not_run) + report.count(Outcome::not_compared));
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites " + totals +
                     ">\n<testsuite name=\"" + escaped(report.title) + "\" " + totals +
                     ">\n<properties><property name=\"schema\" value=\"" + kSchema +
                     "\"/><property name=\"version\" value=\"" + escaped(report.version) +
                     "\"/><property name=\"command\" value=\"" + escaped(report.command) +
                     "\"/></properties>\n";
  for (const CaseVerdict& verdict : report.cases) {
    text += "<testcase classname=\"" + escaped(verdict.op.empty() ? "file" : verdict.op) +
            "\" name=\"" + escaped(verdict.id) + "\"";
    const char* element = verdict.outcome == Outcome::fail      ? "failure"
                          : verdict.outcome == Outcome::invalid ? "error"
                          : verdict.outcome == Outcome::pass    ? nullptr
                                                                : "skipped";
    std::string inside;
    if (element != nullptr) {
      inside = std::string("<") + element + " message=\"" + escaped(reasons(verdict)) + "\"/>";
    }
    const std::string said = remarks_of(verdict);
    if (!said.empty()) inside += "<system-out>" + escaped(said) + "</system-out>";
    text += inside.empty() ? "/>\n" : ">" + inside + "</testcase>\n";
  }
  if (nothing) {
    text += "<testcase classname=\"report\" name=\"nothing was compared\"><error/></testcase>\n";
  }
  return text + "</testsuite>\n</testsuites>\n";
}

}  // namespace mxo
