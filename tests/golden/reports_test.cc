// What reports say of verdicts, as a table, JSON, JUnit and a page.
#include "golden/reports/reports.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/reports/text.h"
#include "tests/golden/expected.h"
#include "tests/golden/tensors.h"

namespace mxo::reports_test {
namespace {

TEST(Report, OfNothingIsInvalid) {
  Report report{.title = "t", .gate = "bits", .cases = {}};
  EXPECT_EQ(report.exit_code(), 3);
  EXPECT_NE(table_report(report).find("nothing was compared"), std::string::npos);
  report.cases.push_back({"a", "op", Outcome::not_compared, "", {}});
  EXPECT_NE(junit_report(report).find("errors=\"1\" skipped=\"1\""), std::string::npos);
  report.cases.push_back({"b", "op", Outcome::pass, "", {}});
  EXPECT_EQ(report.exit_code(), 3) << "a pass of no element";
  EXPECT_NE(table_report(report).find("nothing was compared"), std::string::npos);
  report.cases.back().outputs.emplace_back().all.elements = 1;
  EXPECT_EQ(report.exit_code(), 0);
  EXPECT_EQ((table_report(report) + junit_report(report)).find("nothing"), std::string::npos);
}

Report failing_report() {
  Report report{.title = "compare <a> & \"b\"", .gate = "bits", .cases = {}};
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  ExpectedOutput expected_output = owe(x);
  expected_output.groups.ends = {1, 2};
  CaseVerdict verdict{"case.1", "op", Outcome::fail, "", {}};
  verdict.outputs.push_back(compare_tensor("y", expected_output, floats({2, 2}, {1, 2, 3, 5})));
  report.cases.push_back(verdict);
  report.cases.push_back({"case.2", "op", Outcome::not_run, "no such file", {}});
  report.cases.push_back({"case.3", "op", Outcome::invalid, "sha256 differs", {}});
  return report;
}

TEST(Reports, SayWhatFailedAndWhere) {
  const Report report = failing_report();
  const std::string table = table_report(report);
  for (const char* text :
       {"FAIL", "case.1 y", "worst group 1", ", SQNR 14.77 dB", "worst group 1 (1): 1 of 2",
        "best group 0 (0): 0 of 2", "[1, 1]: expected 40800000 (4), found 40A00000 (5)", "NOT_RUN",
        "INVALID", "1 FAIL"}) {
    EXPECT_NE(table.find(text), table.npos) << text << "\n" << table;
  }
  EXPECT_EQ(table.find('\x1b'), table.npos);
  EXPECT_NE(table_report(report, Colour::on).find("\x1b[31mFAIL"), std::string::npos);
}

/// Groups of what passes are asked for, on a page always there.
TEST(Reports, HaveEveryGroupOfWhatPasses) {
  Report report = failing_report();
  report.cases.resize(1);
  report.cases[0].outcome = report.cases[0].outputs[0].outcome = Outcome::pass;
  for (const int cases : {1, 2}) {
    report.cases.resize(static_cast<std::size_t>(cases), report.cases[0]);
    const std::string all = table_report(report, Colour::off, GroupLines::all);
    for (const char* text : {"PASS", " group 0 (0)", " group 1 (1)"})
      EXPECT_NE(all.find(text), std::string::npos) << text << all;
    EXPECT_EQ(all.find("worst group 1 ("), std::string::npos) << all;
  }
  EXPECT_NE(table_report(report).find("2 differ, least SQNR 14.77 dB"), std::string::npos);
  Measures& m = report.cases[0].outputs[0].all;
  m.differing = m.violating = 0;
  m.right_sqnr = 46.7;
  const std::string page = html_report(report);
  for (const char* text : {"By group", "<td>1</td>", "a right kernel has 46.70 dB or more"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
}

/// A name from a malformed file: markup, an escape sequence, a byte that is no UTF-8.
TEST(Reports, WriteNoControlCharacterOfAHostileName) {
  Report report = failing_report();
  report.cases[0].outputs[0].name = "y\x1b[31m<script>\"&\x80\x01";
  report.cases[0].reason = "first line\nsecond \x07";
  for (const std::string& page : {html_report(report), junit_report(report)}) {
    EXPECT_EQ(page.find("<script>\"&"), page.npos);
    EXPECT_NE(page.find("second \\x07"), page.npos);
    const auto control = [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return (byte < 0x20 && c != '\n') || byte == 0x7F || byte >= 0x80;
    };
    EXPECT_TRUE(std::none_of(page.begin(), page.end(), control));
  }
  EXPECT_NE(html_report(report).find("y\\x1B[31m&lt;script&gt;&quot;&amp;\\x80\\x01"),
            std::string::npos);
  EXPECT_EQ(escaped("a\n<b>"), "a\n&lt;b&gt;");
}

TEST(Reports, AreParseableJson) {
  const auto json = nlohmann::json::parse(json_report(failing_report()));
  EXPECT_EQ(json["exit_code"], 3);
  EXPECT_EQ(json["counts"]["FAIL"], 1);
  const auto& output = json["cases"][0]["outputs"][0];
  EXPECT_EQ(output["verdict"], "FAIL");
  EXPECT_EQ(output["worst_group"], 1);
  EXPECT_EQ(output["best_group"], 0);
  EXPECT_TRUE(output["all"]["right_sqnr"].is_null());
  EXPECT_EQ(output["groups"][0]["sqnr"], "inf");
  EXPECT_EQ(output["first_differences"][0]["at"], (std::vector<int>{1, 1}));
  EXPECT_EQ(output["first_differences"][0]["expected"], "0x40800000");
}

TEST(Reports, SayTheirSchemaVersionDateAndCommand) {
  Report report = failing_report();
  report.version = "1.2.3";
  report.date = "2026-01-31 12:00:00 UTC";
  report.command = "mxo compare a b";
  const auto json = nlohmann::json::parse(json_report(report));
  EXPECT_EQ(json["schema"], "mxo-report/1");
  EXPECT_EQ(json["version"], "1.2.3");
  EXPECT_EQ(json["command"], "mxo compare a b");
  EXPECT_NE(junit_report(report).find("<property name=\"schema\" value=\"mxo-report/1\"/>"),
            std::string::npos);
  const std::string html = html_report(report);
  for (const char* text : {"mxo-report/1, mxoracle 1.2.3, 2026-01-31 12:00:00 UTC",
                           "<pre id=\"command\">mxo compare a b</pre>"}) {
    EXPECT_NE(html.find(text), std::string::npos) << text;
  }
}

TEST(Reports, TellFailuresFirstAndCountTheRest) {
  Report report = failing_report();
  for (int i = 0; i < 1000; ++i) {
    CaseVerdict verdict{
        "pass." + std::to_string(i), i % 2 == 0 ? "even" : "odd", Outcome::pass, "", {}};
    verdict.outputs.emplace_back().all.elements = 3;
    report.cases.insert(report.cases.begin(), verdict);
  }
  for (int i = 0; i < 50; ++i) report.cases.push_back(report.cases[1000]);
  const std::string table = table_report(report);
  EXPECT_LT(std::count(table.begin(), table.end(), '\n'), 300);
  EXPECT_LT(table.find("INVALID"), table.find("case.1 y"));
  EXPECT_LT(table.find("case.1 y"), table.find("PASS"));
  for (const char* text : {"500 cases, 1500 elements", "and 11 cases, 44 elements, 11 differ"})
    EXPECT_NE(table.find(text), std::string::npos) << text << table;
  const std::string html = html_report(report);
  EXPECT_LT(html.find("case.3"), html.find("case.1"));
  EXPECT_LT(html.find("case.1"), html.find("pass.1"));
}

TEST(Reports, LetTheOutputThatFailsSpeak) {
  Report report = failing_report();
  auto& outputs = report.cases[0].outputs;
  outputs.push_back(outputs[0]);
  outputs[0].outcome = Outcome::pass;  // under another gate
  outputs[1].name = "z";
  outputs[1].all.sqnr = std::numeric_limits<double>::infinity();
  EXPECT_NE(html_report(report).find("<td>z</td>"), std::string::npos);
}

TEST(Reports, EscapeMarkupInJunitAndHtml) {
  const std::string junit = junit_report(failing_report());
  EXPECT_NE(junit.find("name=\"compare &lt;a&gt; &amp; &quot;b&quot;\""), junit.npos) << junit;
  EXPECT_NE(junit.find("tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"1\""), junit.npos);
  const std::string html = html_report(failing_report());
  EXPECT_NE(html.find("compare &lt;a&gt; &amp;"), html.npos);
  EXPECT_NE(html.find("<rect"), html.npos);
  EXPECT_EQ(html.find("http"), html.npos) << "nothing may be fetched";
  for (const char* kind : {"class=\"cell h", "class=\"group\"", "class=\"axis\"", "class=\"bar",
                           "class=\"worst\"", "href=\"#case-1\"", "prefers-color-scheme:dark"}) {
    EXPECT_NE(html.find(kind), html.npos) << kind;
  }
}

}  // namespace
}  // namespace mxo::reports_test
