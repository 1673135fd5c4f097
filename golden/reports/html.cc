// A report for a browser: one file, nothing fetched.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "golden/reports/reports.h"
#include "golden/reports/text.h"

namespace mxo {
namespace {

constexpr std::string_view kStyle =
    "body{font:14px system-ui,sans-serif;margin:2em;color:#222;max-width:70em}"
    "table{border-collapse:collapse}td,th{padding:.25em .7em;text-align:left;"
    "border-bottom:1px solid #ddd}.PASS{color:#080}.FAIL,.INVALID{color:#b00;font-weight:600}"
    ".NOT_RUN{color:#a60}.NOT_OWED{color:#067}code{font-size:13px}svg{background:#f6f6f6}";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

std::string rectangle(double x, double y, double w, double h, const std::string& fill,
                      const std::string& title) {
  char text[160];
  std::snprintf(text, sizeof text,
                "<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" fill=\"%s\">", x, y, w, h,
                fill.c_str());
  return std::string(text) + "<title>" + title + "</title></rect>";
}

/// Share of a block that differs, white to red, on a root scale so that one element shows.
std::string shade(double share) {
  const int rest = static_cast<int>(235 * (1 - std::sqrt(std::min(1.0, share))));
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", share > 0 ? 200 : 235, rest, rest);
  return text;
}

std::string heat_map(const HeatMap& heat) {
  constexpr double cell = 9;
  std::string svg = "<svg width=\"" + number_text(static_cast<double>(heat.columns) * cell) +
                    "\" height=\"" + number_text(static_cast<double>(heat.rows) * cell) +
                    "\" role=\"img\">";
  const auto size = static_cast<double>(heat.row_step * heat.column_step);
  for (Index r = 0; r < heat.rows; ++r) {
    for (Index c = 0; c < heat.columns; ++c) {
      const Index n = heat.differing[static_cast<std::size_t>(r * heat.columns + c)];
      if (n == 0) continue;
      svg += rectangle(static_cast<double>(c) * cell, static_cast<double>(r) * cell, cell - 1,
                       cell - 1, shade(static_cast<double>(n) / size),
                       "rows from " + std::to_string(r * heat.row_step) + ", columns from " +
                           std::to_string(c * heat.column_step) + ": " + std::to_string(n) +
                           " differ");
    }
  }
  return svg + "</svg>";
}

std::string bucket_name(std::size_t bucket) {
  if (bucket < 3) return std::to_string(bucket);
  const auto power = [](std::size_t e) {
    return number_text(std::ldexp(1.0, static_cast<int>(e)));
  };
  return number_text(std::ldexp(1.0, static_cast<int>(bucket) - 2) + 1) + "-" + power(bucket - 1);
}

std::string histogram(const std::vector<Index>& counts) {
  constexpr double width = 28;
  constexpr double height = 110;
  const Index top = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  std::string svg = "<svg width=\"" + number_text(static_cast<double>(counts.size()) * width) +
                    "\" height=\"" + number_text(height + 4) + "\" role=\"img\">";
  for (std::size_t b = 0; b < counts.size(); ++b) {
    if (counts[b] == 0) continue;
    // log scale: equal elements dwarf all others
    const double h =
        height * std::log1p(static_cast<double>(counts[b])) / std::log1p(static_cast<double>(top));
    svg +=
        rectangle(static_cast<double>(b) * width, height - h, width - 3, h,
                  b == 0 ? "#7a7" : "#c55", bucket_name(b) + " ulp: " + std::to_string(counts[b]));
  }
  return svg + "</svg>";
}

std::string row(const CaseVerdict& verdict, const TensorVerdict* tensor) {
  const Outcome outcome = tensor != nullptr ? tensor->outcome : verdict.outcome;
  const std::string name(name_of(outcome));
  std::string text = "<tr><td class=\"" + name + "\">" + name + "</td><td>" + escaped(verdict.id) +
                     "</td><td>" + (tensor != nullptr ? escaped(tensor->name) : "") + "</td>";
  if (tensor == nullptr)
    return text + "<td colspan=\"6\">" + escaped(verdict.reason) + "</td></tr>\n";
  const Measures& m = tensor->all;
  for (const std::string& figure :
       {std::to_string(m.elements), std::to_string(m.differing), std::to_string(m.max_ulp),
        number_text(m.max_absolute), decibel_text(m.sqnr), escaped(tensor->reason)}) {
    text += "<td>" + figure + "</td>";
  }
  return text + "</tr>\n";
}

std::string details(const CaseVerdict& verdict, const TensorVerdict& tensor) {
  std::string text = "<h2>" + escaped(verdict.id) + " " + escaped(tensor.name) + "</h2>\n";
  if (tensor.worst_group >= 0) {
    const Slice& worst = tensor.groups[static_cast<std::size_t>(tensor.worst_group)];
    text += "<p>Worst group: " + std::to_string(worst.index) + " (rows " +
            std::to_string(worst.begin) + " to " + std::to_string(worst.end) + "), " +
            std::to_string(worst.measures.differing) + " differ, SQNR " +
            decibel_text(worst.measures.sqnr) + "</p>\n";
  }
  text += "<p>Differences by blocks of " + std::to_string(tensor.heat.row_step) +
          " rows (down) x " + std::to_string(tensor.heat.column_step) + " columns (across)</p>\n" +
          heat_map(tensor.heat) + "\n<p>Elements by distance in ulp: 0, 1, 2, 3-4, 5-8, ... " +
          "(log scale; NaN on one side: " + std::to_string(tensor.all.nan_one_sided) + ")</p>\n" +
          histogram(tensor.histogram) + "\n<table><tr><th>at<th>expected<th>found</tr>\n";
  for (const Difference& d : tensor.first) {
    text += "<tr><td>" + position_text(d.at) + "</td><td><code>" + bits_text(tensor, d.expected) +
            "</code></td><td><code>" + bits_text(tensor, d.actual) + "</code></td></tr>\n";
  }
  return text + "</table>\n";
}

}  // namespace

std::string html_report(const Report& report) {
  std::string text =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>" + escaped(report.title) +
      "</title><style>" + std::string(kStyle) + "</style>\n<h1>" + escaped(report.title) +
      "</h1>\n<p>Gate " + escaped(report.gate) + ": <b class=\"" +
      std::string(name_of(report.outcome())) + "\">" + std::string(name_of(report.outcome())) +
      "</b></p>\n<table><tr><th>verdict<th>case<th>output<th>elements<th>differing"
      "<th>max ulp<th>max abs<th>SQNR<th></tr>\n";
  for (const CaseVerdict& verdict : report.cases) {
    if (verdict.outputs.empty() || !verdict.reason.empty()) text += row(verdict, nullptr);
    for (const TensorVerdict& tensor : verdict.outputs) text += row(verdict, &tensor);
  }
  text += "</table>\n";
  for (const CaseVerdict& verdict : report.cases) {
    for (const TensorVerdict& tensor : verdict.outputs) {
      if (tensor.all.differing > 0) text += details(verdict, tensor);
    }
  }
  return text + "</html>\n";
}

}  // namespace mxo
