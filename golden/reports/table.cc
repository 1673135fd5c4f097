// A report for a terminal: one line per output, details below a failure.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "golden/reports/reports.h"
#include "golden/reports/text.h"

namespace mxo {
namespace {

/// Cases that are listed one by one.
constexpr Index kMostTold = 40;

std::string painted(Outcome outcome, Colour colour) {
  std::string text(name_of(outcome));
  text.resize(8, ' ');
  if (colour == Colour::off) return text;
  const char* code = outcome == Outcome::pass           ? "32"
                     : outcome == Outcome::not_compared ? "36"
                     : outcome == Outcome::not_run      ? "33"
                                                        : "31";
  return std::string("\x1b[") + code + "m" + text + "\x1b[0m";
}

std::string line(Outcome outcome, Colour colour, const std::string& what, const std::string& rest) {
  std::string text = painted(outcome, colour) + "  " + one_line(what);
  const std::size_t used = what.size();
  text.append(used < 44 ? 44 - used : 1, ' ');
  return text + " " + one_line(rest) + "\n";
}

std::string slice_line(const std::string& kind, const Slice& slice) {
  const Measures& m = slice.measures;
  return "          " + kind + " " + place_text(slice) + ": " + std::to_string(m.differing) +
         " of " + std::to_string(m.elements) + " differ" + ulp_text(m) + ", max abs " +
         number_text(m.max_absolute) + ", SQNR " + decibel_text(m.sqnr) +
         (std::isnan(m.right_sqnr) ? "" : ", right from " + decibel_text(m.right_sqnr)) + "\n";
}

std::string group_lines(const TensorVerdict& tensor, GroupLines groups) {
  const std::string word(group_word(tensor));
  std::string text;
  if (groups == GroupLines::all) {
    for (const Slice& group : tensor.groups) text += slice_line(word, group);
    return text;
  }
  if (tensor.worst_group >= 0) {
    text +=
        slice_line("worst " + word, tensor.groups[static_cast<std::size_t>(tensor.worst_group)]);
  }
  if (const Slice* best = best_slice(tensor.groups)) text += slice_line("best " + word, *best);
  return text;
}

/// Blocks of rows and of columns, and the first elements that differ.
std::string details(const TensorVerdict& tensor) {
  std::string text;
  if (const Slice* rows = worst_slice(tensor.row_blocks)) text += slice_line("worst rows", *rows);
  if (const Slice* rows = best_slice(tensor.row_blocks)) text += slice_line("best rows", *rows);
  if (const Slice* columns = worst_slice(tensor.column_blocks)) {
    text += slice_line("worst columns", *columns);
  }
  for (const Difference& d : tensor.first) {
    text += "          " + position_text(d.at) + ": expected " + bits_text(tensor, d.expected) +
            ", found " + bits_text(tensor, d.actual) + "\n";
  }
  return text;
}

std::string figures(const TensorVerdict& tensor) {
  const Measures& m = tensor.all;
  std::string text = tensor.reason;
  if (text.empty()) {
    text = std::to_string(m.elements) + " elements";
    if (m.differing > 0) text += ", " + std::to_string(m.differing) + " differ";
    if (m.not_compared > 0) text += ", " + std::to_string(m.not_compared) + " not compared";
  }
  text += sqnr_text(tensor) + not_bounded_text("; ", m);
  return tensor.note.empty() ? text : text + "; " + tensor.note;
}

/// Every output of a case, and what is wrong with it.
std::string case_lines(const CaseVerdict& verdict, Colour colour, GroupLines groups) {
  std::string text;
  if (verdict.outputs.empty()) text += line(verdict.outcome, colour, verdict.id, verdict.reason);
  for (const TensorVerdict& tensor : verdict.outputs) {
    text += line(tensor.outcome, colour, verdict.id + " " + tensor.name, figures(tensor));
    const bool differs = tensor.all.differing + tensor.all.violating > 0;
    if (differs || groups == GroupLines::all) text += group_lines(tensor, groups);
    if (differs) text += details(tensor);
  }
  // A case can be refused after some of its outputs were judged.
  if (!verdict.outputs.empty() && !verdict.reason.empty()) {
    text += line(verdict.outcome, colour, verdict.id, verdict.reason);
  }
  if (!verdict.note.empty()) text += line(verdict.outcome, colour, verdict.id, verdict.note);
  return text;
}

/// "PASS  quantize  96 cases, 1200000 elements", operators in the order in which they come.
std::string counted(const Report& report, Outcome outcome, Index from, Colour colour) {
  struct Count {
    std::string op;
    Index cases = 0;
    Measures sum = {};
    double least_sqnr = std::numeric_limits<double>::infinity();
    Index noted = 0;
    std::string first_reason = {};
  };
  std::vector<Count> counts;
  Index seen = 0;
  for (const CaseVerdict& verdict : report.cases) {
    if (verdict.outcome != outcome || seen++ < from) continue;
    auto at = std::find_if(counts.begin(), counts.end(),
                           [&](const Count& count) { return count.op == verdict.op; });
    if (at == counts.end()) at = counts.insert(at, Count{verdict.op});
    ++at->cases;
    at->noted += !verdict.note.empty();
    if (at->cases == 1) at->first_reason = verdict.reason;
    for (const TensorVerdict& tensor : verdict.outputs) {
      at->sum.elements += tensor.all.elements;
      at->sum.differing += tensor.all.differing;
      at->sum.not_bounded += tensor.all.not_bounded;
      if (tensor.all.differing > 0) at->least_sqnr = std::min(at->least_sqnr, tensor.all.sqnr);
    }
  }
  std::string text;
  for (const Count& count : counts) {
    if (outcome == Outcome::not_run) {
      text += line(outcome, colour, count.op,
                   std::to_string(count.cases) +
                       (count.cases == 1 ? " case: " : " cases, the first: ") + count.first_reason);
      continue;
    }
    text += line(
        outcome, colour, count.op,
        std::string(from > 0 ? "and " : "") + std::to_string(count.cases) +
            (count.cases == 1 ? " case, " : " cases, ") + std::to_string(count.sum.elements) +
            " elements" +
            (count.sum.differing > 0 ? ", " + std::to_string(count.sum.differing) +
                                           " differ, least SQNR " + decibel_text(count.least_sqnr)
                                     : "") +
            not_bounded_text(", ", count.sum) +
            (count.noted > 0
                 ? ", of " + std::to_string(count.noted) + " ACTUAL holds more than is compared"
                 : ""));
  }
  return text;
}

/// What did not pass, one by one up to a number; then everything else by operator.
std::string suite_lines(const Report& report, Colour colour, GroupLines groups) {
  std::string text;
  for (const Outcome outcome : {Outcome::invalid, Outcome::fail}) {
    Index told = 0;
    for (const CaseVerdict& verdict : report.cases) {
      if (verdict.outcome == outcome && told++ < kMostTold) {
        text += case_lines(verdict, colour, groups);
      }
    }
    if (told > kMostTold) text += counted(report, outcome, kMostTold, colour);
  }
  if (groups == GroupLines::all) {
    for (const CaseVerdict& verdict : report.cases) {
      if (verdict.outcome == Outcome::pass) text += case_lines(verdict, colour, groups);
    }
  }
  for (const Outcome outcome : {Outcome::not_run, Outcome::not_compared, Outcome::pass}) {
    if (outcome == Outcome::pass && groups == GroupLines::all) continue;
    text += counted(report, outcome, 0, colour);
  }
  return text;
}

}  // namespace

std::string table_report(const Report& report, Colour colour, GroupLines groups) {
  std::string text = one_line(report.title) + "  gate " + report.gate + "\n";
  if (report.cases.size() == 1) {
    text += case_lines(report.cases.front(), colour, groups);
  } else {
    text += suite_lines(report, colour, groups);
  }
  if (report.compared_nothing()) text += line(Outcome::invalid, colour, "nothing was compared", "");
  for (const Outcome outcome :
       {Outcome::pass, Outcome::fail, Outcome::not_compared, Outcome::not_run, Outcome::invalid}) {
    text += std::to_string(report.count(outcome)) + " " + std::string(name_of(outcome)) +
            (outcome == Outcome::invalid ? "\n" : "  ");
  }
  return text;
}

}  // namespace mxo
