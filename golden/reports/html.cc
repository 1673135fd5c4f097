// A report for a browser: one file, nothing fetched.
#include <algorithm>
#include <cmath>

#include "golden/reports/html_figures.h"
#include "golden/reports/html_style.h"
#include "golden/reports/reports.h"
#include "golden/reports/text.h"

namespace mxo {
namespace {

/// Cases whose details are on the page, failures first; the others have their line in the table.
constexpr std::size_t kMostDetails = 60;
constexpr std::size_t kMostGroups = 512;

using Cases = std::vector<const CaseVerdict*>;

std::string verdict_cell(Outcome outcome) {
  const std::string name(name_of(outcome));
  return "<td class=\"" + name + "\">" + name + "</td>";
}

std::string cell(const std::string& text) { return "<td class=\"n\">" + text + "</td>"; }

/// What the filter reads of a case.
std::string attributes(const CaseVerdict& verdict) {
  std::string text = verdict.id + " " + verdict.op + " " + verdict.reason;
  for (const TensorVerdict& tensor : verdict.outputs)
    text += " " + tensor.name + " " + tensor.reason;
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return " data-verdict=\"" + std::string(name_of(verdict.outcome)) + "\" data-text=\"" +
         escaped(text) + "\"";
}

bool is_bad(const CaseVerdict& verdict) {
  return verdict.outcome != Outcome::pass && verdict.outcome != Outcome::not_compared;
}

/// The gravest first, else as they came.
Cases in_order(const Report& report) {
  Cases cases;
  for (const CaseVerdict& verdict : report.cases) cases.push_back(&verdict);
  std::stable_sort(cases.begin(), cases.end(), [](const CaseVerdict* a, const CaseVerdict* b) {
    return a->outcome != b->outcome && worse_of(a->outcome, b->outcome) == a->outcome;
  });
  return cases;
}

std::string totals(const Report& report) {
  std::string text = "<div class=\"totals\">";
  for (const Outcome outcome :
       {Outcome::fail, Outcome::invalid, Outcome::not_run, Outcome::pass, Outcome::not_compared}) {
    const std::string name(name_of(outcome));
    text += "<label class=\"" + name + "\"><b>" + std::to_string(report.count(outcome)) + "</b>" +
            name + " <input type=\"checkbox\" value=\"" + name + "\" checked></label>";
  }
  return text +
         "</div>\n<p><input type=\"search\" id=\"filter\" placeholder=\"filter: words of a "
         "case, operator, output or reason\" aria-label=\"filter\"> <span class=\"soft\">"
         "<span id=\"shown\">" +
         std::to_string(report.cases.size()) + "</span> of " + std::to_string(report.cases.size()) +
         " cases</span></p>\n";
}

/// One row a case: its worst output speaks for it.
std::string table_row(const CaseVerdict& verdict, const std::string& anchor) {
  std::string text = "<tr" + attributes(verdict) + ">" + verdict_cell(verdict.outcome) + "<td>";
  const std::string id = escaped(verdict.id);
  text += anchor.empty() ? id : "<a href=\"#" + anchor + "\">" + id + "</a>";
  text += "</td><td>" + escaped(verdict.op) + "</td>";
  const auto graver = [](const TensorVerdict& a, const TensorVerdict& b) {
    return a.outcome == b.outcome ? worse(a.all, b.all)
                                  : worse_of(a.outcome, b.outcome) == a.outcome;
  };
  const TensorVerdict* worst = nullptr;
  for (const TensorVerdict& tensor : verdict.outputs) {
    if (worst == nullptr || graver(tensor, *worst)) worst = &tensor;
  }
  std::string reason = verdict.reason;
  if (worst == nullptr) {
    text += "<td></td><td></td><td></td><td></td>";
  } else {
    const Measures& m = worst->all;
    const bool named = m.differing > 0 || worst->outcome == Outcome::fail;
    text += "<td>" + (named ? escaped(worst->name) : "") + "</td>" +
            cell(std::to_string(m.differing) + " of " + std::to_string(m.elements)) +
            cell(std::to_string(m.max_ulp)) + cell(decibel_text(m.sqnr));
    if (reason.empty()) reason = worst->reason;
  }
  const std::string beside = remarks_of(verdict);
  if (!beside.empty()) reason += (reason.empty() ? "" : "; ") + beside;
  return text + "<td>" + escaped(reason) + "</td></tr>\n";
}

std::string group_table(const TensorVerdict& tensor) {
  if (tensor.groups.empty()) return {};
  const std::string word(group_word(tensor));
  std::string text = "<h3>By " + word +
                     "</h3>\n<div class=\"wide\"><table class=\"groups\"><tr><th>" + word +
                     "<th>rows<th class=\"n\">differing<th class=\"n\">max ulp<th class=\"n\">max "
                     "abs<th class=\"n\">SQNR</tr>\n";
  for (std::size_t g = 0; g < std::min(tensor.groups.size(), kMostGroups); ++g) {
    const Slice& group = tensor.groups[g];
    const Measures& m = group.measures;
    text += group.index == tensor.worst_group ? "<tr class=\"worst\">" : "<tr>";
    text += "<td>" + std::to_string(group.index) + "</td><td>" + span_text(group) + "</td>" +
            cell(std::to_string(m.differing) + " of " + std::to_string(m.elements)) +
            cell(std::to_string(m.max_ulp)) + cell(number_text(m.max_absolute)) +
            cell(decibel_text(m.sqnr)) + "</tr>\n";
  }
  text += "</table></div>\n";
  if (tensor.groups.size() > kMostGroups) {
    text += "<p class=\"soft\">" + std::to_string(tensor.groups.size() - kMostGroups) +
            " more are in the JSON report</p>\n";
  }
  return text;
}

bool differs(const TensorVerdict& tensor) {
  return tensor.all.differing + tensor.all.violating > 0;
}

/// What differs, and what has groups: both may be asked about.
bool has_details(const TensorVerdict& tensor) { return differs(tensor) || !tensor.groups.empty(); }

std::string output_details(const TensorVerdict& tensor) {
  const Measures& m = tensor.all;
  std::string text =
      "<h3>" + escaped(tensor.name) + "</h3>\n<p><span class=\"" +
      std::string(name_of(tensor.outcome)) + "\">" + std::string(name_of(tensor.outcome)) +
      "</span> " + std::string(name_of(tensor.format)) + " " + position_text(tensor.shape) + ": " +
      std::to_string(m.differing) + " of " + std::to_string(m.elements) + " differ, max ulp " +
      std::to_string(m.max_ulp) + ", max abs " + number_text(m.max_absolute) + ", SQNR " +
      decibel_text(m.sqnr) +
      (std::isnan(m.right_sqnr)
           ? ""
           : ", a right kernel has " + decibel_text(m.right_sqnr) + " or more") +
      (m.nan_one_sided > 0 ? ", NaN on one side " + std::to_string(m.nan_one_sided) + " times"
                           : "") +
      "</p>\n";
  for (const std::string& said : {tensor.reason, tensor.note}) {
    if (!said.empty()) text += "<p class=\"soft\">" + escaped(said) + "</p>\n";
  }
  if (differs(tensor)) {
    text += "<div class=\"wide\">" + heat_map_svg(tensor) + "</div>\n<div class=\"wide\">" +
            histogram_svg(tensor) + "</div>\n";
  }
  text += group_table(tensor);
  if (tensor.first.empty()) return text;
  text += "<div class=\"wide\"><table class=\"first\"><tr><th>at<th>expected<th>found</tr>\n";
  for (const Difference& d : tensor.first) {
    text += "<tr><td>" + position_text(d.at) + "</td><td><code>" + bits_text(tensor, d.expected) +
            "</code></td><td><code>" + bits_text(tensor, d.actual) + "</code></td></tr>\n";
  }
  return text + "</table></div>\n";
}

std::string details(const CaseVerdict& verdict, const std::string& anchor) {
  std::string text = "<section id=\"" + anchor + "\"" + attributes(verdict) + "><h2>" +
                     escaped(verdict.id) + "</h2>\n<p><span class=\"" +
                     std::string(name_of(verdict.outcome)) + "\">" +
                     std::string(name_of(verdict.outcome)) + "</span> " + escaped(verdict.op) +
                     " <a class=\"soft\" href=\"#top\">to the table</a></p>\n";
  if (!verdict.reason.empty()) text += "<p>" + escaped(verdict.reason) + "</p>\n";
  const std::string beside = remarks_of(verdict);
  if (!beside.empty()) text += "<p>" + escaped(beside) + "</p>\n";
  if (!verdict.explanation.empty()) {
    text += "<p class=\"why\">" + escaped(verdict.explanation) + "</p>\n";
  }
  for (const TensorVerdict& tensor : verdict.outputs) {
    if (has_details(tensor)) text += output_details(tensor);
  }
  return text + "</section>\n";
}

std::string footer(const Report& report) {
  std::string text = "<footer>";
  if (!report.command.empty()) {
    text += "<p>To repeat:</p><pre id=\"command\">" + escaped(report.command) + "</pre>";
  }
  text += "<p>mxo-report/1";
  if (!report.version.empty()) text += ", mxoracle " + escaped(report.version);
  if (!report.date.empty()) text += ", " + escaped(report.date);
  return text + "</p></footer>\n";
}

}  // namespace

std::string html_report(const Report& report) {
  const std::string outcome(name_of(report.outcome()));
  std::string text =
      "<!doctype html><html lang=\"en\" id=\"top\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>" +
      escaped(report.title) + "</title><style>" + std::string(kStyle) +
      "</style></head>\n<body><h1>" + escaped(report.title) + "</h1>\n<p>Gate " +
      escaped(report.gate) + ": <b id=\"outcome\" class=\"" + outcome + "\">" + outcome +
      "</b></p>\n" + totals(report) +
      "<div class=\"wide\"><table id=\"cases\"><tr><th>verdict<th>case<th>operator<th>worst output"
      "<th class=\"n\">differing<th class=\"n\">max ulp<th class=\"n\">SQNR<th>reason</tr>\n";
  const Cases cases = in_order(report);
  std::string all_details;
  std::size_t detailed = 0;
  for (const CaseVerdict* verdict : cases) {
    std::string anchor;
    const bool told = is_bad(*verdict) ? !verdict->outputs.empty()
                                       : std::any_of(verdict->outputs.begin(),
                                                     verdict->outputs.end(), has_details);
    if (told && detailed < kMostDetails) {
      anchor = "case-" + std::to_string(++detailed);
      all_details += details(*verdict, anchor);
    }
    text += table_row(*verdict, anchor);
  }
  text += "</table></div>\n" + all_details;
  return text + footer(report) + "<script>" + std::string(kScript) + "</script></body></html>\n";
}

}  // namespace mxo
