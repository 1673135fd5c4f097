// Files against files, suites against directories, bounds, and what the reports say.
#include "golden/suites/compare.h"

#include <fstream>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "emu/backends.h"
#include "formats/error.h"
#include "golden/judge/bound.h"
#include "golden/reports/reports.h"
#include "golden/suites/generate.h"
#include "golden/suites/moving_elements.h"
#include "golden/suites/repeat.h"
#include "tests/golden/ranks.h"
#include "tests/golden/scratch.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

/// A suite and a directory of its own outputs.
struct SuiteAndOutputs {
  Scratch scratch;
  fs::path suite = scratch / "suite";
  fs::path outputs = scratch / "outputs";
  Manifest manifest;

  SuiteAndOutputs() {
    const auto backend = make_reference_backend();
    manifest = generate(suite, {.suite = "quantize", .level = 0, .seed = 1, .spelling = {}},
                        *backend, ranks());
    fs::create_directory(outputs);
    for (const ManifestCase& item : manifest.cases) {
      TensorFile file = read_safetensors(case_file(suite, item.id));
      TensorFile out;
      for (const ManifestOperand& operand : item.operands) {
        if (operand.role == Role::expected) {
          out.tensors.emplace(operand.name, file.tensors.at(operand.name));
        }
      }
      write_safetensors(output(item.id), out);
    }
  }
  fs::path output(const std::string& id) const { return outputs / (id + ".safetensors"); }
  void damage(const std::string& id) const {
    TensorFile file = read_safetensors(output(id));
    file.tensors.begin()->second.data()[5] ^= std::byte{2};
    write_safetensors(output(id), file);
  }
};

TEST(Compare, JudgesASuiteCaseByCase) {
  const SuiteAndOutputs s;
  Report report = compare(s.suite, s.outputs);
  EXPECT_EQ(report.exit_code(), 0);
  EXPECT_EQ(report.count(Outcome::pass), static_cast<Index>(s.manifest.cases.size()));

  fs::remove(s.output(s.manifest.cases[0].id));
  report = compare(s.suite, s.outputs);
  EXPECT_EQ(report.cases[0].outcome, Outcome::not_run);
  EXPECT_EQ(report.exit_code(), 5);

  s.damage(s.manifest.cases[1].id);
  report = compare(s.suite, s.outputs);
  EXPECT_EQ(report.cases[1].outcome, Outcome::fail);
  EXPECT_EQ(report.exit_code(), 1);

  std::ofstream(case_file(s.suite, s.manifest.cases[2].id)) << "damaged";
  report = compare(s.suite, s.outputs);
  EXPECT_EQ(report.cases[2].outcome, Outcome::invalid);
  EXPECT_EQ(report.exit_code(), 3);
}

TEST(Compare, CallsAMalformedActualInvalidAndAMissingTensorAFailure) {
  const SuiteAndOutputs s;
  std::ofstream(s.output(s.manifest.cases[0].id)) << "malformed";
  TensorFile file = read_safetensors(s.output(s.manifest.cases[1].id));
  file.tensors.erase(file.tensors.begin());
  write_safetensors(s.output(s.manifest.cases[1].id), file);
  const Report report = compare(s.suite, s.outputs);
  EXPECT_EQ(report.cases[0].outcome, Outcome::invalid);
  EXPECT_EQ(report.cases[1].outcome, Outcome::fail);
}

TEST(Compare, TakesAnotherSuiteAsActual) {
  const SuiteAndOutputs s;
  EXPECT_EQ(compare(s.suite, s.suite).exit_code(), 0);
  EXPECT_THROW(compare(s.suite, s.output(s.manifest.cases[0].id)), Error);
  EXPECT_THROW(compare(s.outputs, s.suite), Error);  // a directory without a manifest
}

TEST(Compare, JudgesACaseFileByItsOutputsOnly) {
  const SuiteAndOutputs s;
  const std::string& id = s.manifest.cases[0].id;
  EXPECT_EQ(compare(case_file(s.suite, id), s.output(id)).exit_code(), 0);
  s.damage(id);
  EXPECT_EQ(compare(case_file(s.suite, id), s.output(id)).exit_code(), 1);
}

TEST(Compare, JudgesFilesByEveryTensorOfExpected) {
  const Scratch scratch;
  TensorFile expected;
  expected.tensors.emplace("y", floats({4, 1}, {1, 2, 3, 4}));
  expected.tensors.emplace("group_ends", tensor_from<std::int32_t>(Dtype::i32, {2}, {1, 3}));
  write_safetensors(scratch / "e", expected);
  TensorFile actual;
  actual.tensors.emplace("y", floats({4, 1}, {1, 2, 3, 99}));  // beyond the last group
  actual.tensors.emplace("more", floats({1}, {1}));
  write_safetensors(scratch / "a", actual);
  Report report = compare(scratch / "e", scratch / "a");
  EXPECT_EQ(report.exit_code(), 0);
  EXPECT_EQ(report.cases[0].outputs[0].groups.size(), 2u);
  EXPECT_EQ(report.cases[0].outputs[0].all.not_owed, 1);
  actual.tensors.at("y").as<float>()[2] = 0;
  write_safetensors(scratch / "a", actual);
  report = compare(scratch / "e", scratch / "a");
  EXPECT_EQ(report.exit_code(), 1);
  EXPECT_EQ(report.cases[0].outputs[0].worst_group, 1);
  actual.tensors.erase("y");
  write_safetensors(scratch / "a", actual);
  EXPECT_EQ(compare(scratch / "e", scratch / "a").exit_code(), 1);
  CompareOptions bound;
  bound.gate = parse_gate("bound");
  EXPECT_THROW(compare(scratch / "e", scratch / "a", bound), Error);
}

/// x [2, 32] by w [1, 1, 32], all ones but for what `plant` changes.
NamedTensors product_inputs() {
  NamedTensors in;
  in.emplace("x.codes", Tensor(Dtype::u8, {2, 32}));
  in.emplace("x.scales", Tensor(Dtype::u8, {2, 1}));
  in.emplace("w.codes", Tensor(Dtype::u8, {1, 1, 32}));
  in.emplace("w.scales", Tensor(Dtype::u8, {1, 1, 1}));
  in.emplace("group_ends", tensor_from<std::int32_t>(Dtype::i32, {1}, {2}));
  for (auto& [name, tensor] : in) {
    const bool codes = name.ends_with("codes");
    if (name == "group_ends") continue;
    for (Index i = 0; i < tensor.elements(); ++i) {
      tensor.as<std::uint8_t>()[i] = codes ? 0x38 : 127;  // 1.0 and 2^0
    }
  }
  return in;
}

TEST(Bound, IsGammaTimesTheMagnitudesAndHalfAStep) {
  const NamedTensors in = product_inputs();
  const auto bound = certified_bound("grouped_matmul", "y", in, {}, Dtype::f32, "");
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->exact[0], 32);
  const double gamma = 32 * 0x1p-24 / (1 - 32 * 0x1p-24);
  const double allowed = gamma * 32 + 32 * (1 + gamma) * 0x1p-24;
  EXPECT_GE(bound->allowed[0], allowed);
  EXPECT_LE(bound->allowed[0], allowed * 1.0001);
  const auto exact = certified_bound("grouped_matmul", "y", in, {}, Dtype::bf16, "exact");
  EXPECT_NEAR(exact->allowed[0], 32 * 0x1p-8, 1e-6);
  EXPECT_FALSE(certified_bound("quantize", "codes", in, {}, Dtype::e4m3, ""));
  EXPECT_THROW(certified_bound("grouped_matmul", "y", in, {}, Dtype::f32, "unknown"), Error);
}

TEST(Bound, HoldsForAnyOrderOfF32AdditionAndRefusesMore) {
  // Cancellation: the bound follows the magnitudes, not the small result.
  NamedTensors in = product_inputs();
  for (Index i = 0; i < 32; i += 2) in.at("x.codes").as<std::uint8_t>()[i] = 0xB9;  // -1.125
  const auto backend = make_reference_backend();
  Parameters f32;
  f32.set("out", "f32");
  const Tensor y = call_operator(*backend, "grouped_matmul", in, f32).at("y");
  const auto bound = certified_bound("grouped_matmul", "y", in, f32, Dtype::f32, "");
  Owed owed;
  owed.expected = &y;
  owed.format = Dtype::f32;
  owed.bound = &*bound;
  CompareOptions options;
  options.gate = parse_gate("bound");
  EXPECT_EQ(bound->exact[0], -2);
  Tensor near = y;
  near.as<float>()[0] += static_cast<float>(0.9 * bound->allowed[0]);
  EXPECT_NE(near.as<float>()[0], y.as<float>()[0]);
  EXPECT_EQ(compare_tensor("y", owed, near, options).outcome, Outcome::pass);
  Tensor far = y;
  far.as<float>()[0] += static_cast<float>(1.1 * bound->allowed[0]);
  EXPECT_EQ(compare_tensor("y", owed, far, options).outcome, Outcome::fail);
}

TEST(Bound, RefusesOperandsThatTheOperatorWouldRefuse) {
  const auto ends = [](Dtype type, std::vector<Index> shape) { return Tensor(type, shape); };
  const auto refuses = [](const char* name, Tensor tensor) {
    NamedTensors in = product_inputs();
    in.insert_or_assign(name, std::move(tensor));
    EXPECT_THROW(certified_bound("grouped_matmul", "y", in, {}, Dtype::f32, ""), Error) << name;
  };
  refuses("group_ends", ends(Dtype::u8, {4}));
  refuses("group_ends", ends(Dtype::i32, {1, 1}));
  refuses("group_ends", tensor_from<std::int32_t>(Dtype::i32, {1}, {1 << 30}));
  refuses("group_ends", tensor_from<std::int32_t>(Dtype::i32, {1}, {-1}));
  refuses("group_ends", tensor_from<std::int32_t>(Dtype::i32, {2}, {2, 1}));
  refuses("x.codes", Tensor(Dtype::u8, {64}));
  refuses("x.scales", Tensor(Dtype::u8, {2, 3}));
  refuses("w.codes", Tensor(Dtype::u8, {1, 1, 64}));
}

TEST(Report, OfNothingIsInvalid) {
  Report report{.title = "t", .gate = "bits", .cases = {}};
  EXPECT_EQ(report.exit_code(), 3);
  EXPECT_NE(table_report(report).find("nothing was compared"), std::string::npos);
  report.cases.push_back({"a", "op", Outcome::not_owed, "", {}});
  EXPECT_EQ(report.exit_code(), 3);
  report.cases.push_back({"b", "op", Outcome::pass, "", {}});
  EXPECT_EQ(report.exit_code(), 0);
  EXPECT_EQ(table_report(report).find("nothing"), std::string::npos);
}

TEST(Compare, RefusesAFileWithNothingToCompare) {
  const Scratch scratch;
  TensorFile none;
  none.tensors.emplace("group_ends", tensor_from<std::int32_t>(Dtype::i32, {1}, {3}));
  write_safetensors(scratch / "e", none);
  write_safetensors(scratch / "a", TensorFile{});
  EXPECT_THROW(compare(scratch / "e", scratch / "a"), Error);
}

TEST(Compare, TakesTheOperatorAndItsOperandsFromTheCaller) {
  const Scratch scratch;
  const auto backend = make_reference_backend();
  CallGiven given{"grouped_matmul", {}, product_inputs()};
  given.parameters.set("out", "f32");
  TensorFile file;
  file.tensors = call_operator(*backend, given.op, given.operands, given.parameters);
  write_safetensors(scratch / "e", file);
  file.tensors.at("y").as<float>()[0] += 1e-5f;
  write_safetensors(scratch / "a", file);
  CompareOptions options;
  options.gate = parse_gate("bound");
  EXPECT_EQ(compare(scratch / "e", scratch / "a", options, {}, given).exit_code(), 0);
  file.tensors.at("y").as<float>()[0] += 1;
  write_safetensors(scratch / "a", file);
  const Report report = compare(scratch / "e", scratch / "a", options, {}, given);
  EXPECT_EQ(report.exit_code(), 1);
  EXPECT_EQ(report.cases[0].outputs[0].groups.size(), 1u);
  EXPECT_THROW(compare(scratch / "e", scratch / "a", options), Error);
  given.operands.insert_or_assign("group_ends", Tensor(Dtype::u8, {1}));
  EXPECT_THROW(compare(scratch / "e", scratch / "a", options, {}, given), Error);
}

Report failing_report() {
  Report report{.title = "compare <a> & \"b\"", .gate = "bits", .cases = {}};
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  const Tensor y = floats({2, 2}, {1, 2, 3, 5});
  Owed owed;
  owed.expected = &x;
  owed.format = Dtype::f32;
  owed.groups.ends = {1, 2};
  CaseVerdict verdict{"case.1", "op", Outcome::fail, "", {}};
  verdict.outputs.push_back(compare_tensor("y", owed, y));
  report.cases.push_back(verdict);
  report.cases.push_back({"case.2", "op", Outcome::not_run, "no such file", {}});
  report.cases.push_back({"case.3", "op", Outcome::invalid, "sha256 differs", {}});
  return report;
}

TEST(Reports, SayWhatFailedAndWhere) {
  const Report report = failing_report();
  const std::string table = table_report(report);
  for (const char* text : {"FAIL", "case.1 y", "worst group 1",
                           "[1, 1]: expected 40800000 (4), "
                           "found 40A00000 (5)",
                           "NOT_RUN", "INVALID", "1 FAIL"}) {
    EXPECT_NE(table.find(text), table.npos) << text << "\n" << table;
  }
  EXPECT_EQ(table.find('\x1b'), table.npos);
  EXPECT_NE(table_report(report, Colour::on).find("\x1b[31mFAIL"), std::string::npos);
}

TEST(Reports, AreParseableJson) {
  const auto json = nlohmann::json::parse(json_report(failing_report()));
  EXPECT_EQ(json["exit_code"], 3);
  EXPECT_EQ(json["counts"]["FAIL"], 1);
  const auto& output = json["cases"][0]["outputs"][0];
  EXPECT_EQ(output["verdict"], "FAIL");
  EXPECT_EQ(output["worst_group"], 1);
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
    verdict.outputs.emplace_back();
    verdict.outputs[0].all.elements = 3;
    report.cases.insert(report.cases.begin(), verdict);
  }
  for (int i = 0; i < 50; ++i) report.cases.push_back(report.cases[1000]);
  const std::string table = table_report(report);
  EXPECT_LT(std::count(table.begin(), table.end(), '\n'), 300);
  EXPECT_LT(table.find("INVALID"), table.find("case.1 y"));
  EXPECT_LT(table.find("case.1 y"), table.find("PASS"));
  for (const char* text : {"500 cases, 1500 elements", "and 11 cases, 44 elements, 11 differ"}) {
    EXPECT_NE(table.find(text), std::string::npos) << text << table;
  }
  const std::string html = html_report(report);
  EXPECT_LT(html.find("case.3"), html.find("case.1"));
  EXPECT_LT(html.find("case.1"), html.find("pass.1"));
}

TEST(Compare, TakesTheCasesThatAreAskedFor) {
  const SuiteAndOutputs s;
  const auto cases = [&](std::string_view only) {
    return compare(s.suite, s.outputs, {}, {}, {}, CaseFilter(only)).cases.size();
  };
  const std::size_t all = s.manifest.cases.size();
  EXPECT_EQ(cases(""), all);
  EXPECT_EQ(cases("op=quantize") + cases("op=dequantize"), all);
  EXPECT_EQ(cases("format=e4m3"), all);  // the default, too
  EXPECT_EQ(cases("id=" + s.manifest.cases[0].id), 1u);
  EXPECT_THROW(cases("op=nope"), Error);
  EXPECT_THROW(cases("quantize"), Error);
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

TEST(Compare, NamesAKernelThatReadsWhatNobodyOwns) {
  const Scratch scratch;
  const auto backend = make_reference_backend();
  generate(scratch / "suite", {.suite = "poison", .level = 0, .seed = 1, .spelling = {}}, *backend,
           ranks());
  fs::copy(scratch / "suite", scratch / "outputs", fs::copy_options::recursive);
  EXPECT_EQ(compare(scratch / "suite", scratch / "outputs").exit_code(), 0);
  // A kernel whose padding leaks into a row: less than half a step, so that a gate would pass it.
  const fs::path leaking = case_file(scratch / "outputs", "poison.permute.nan");
  TensorFile file = read_safetensors(leaking);
  file.tensors.at("y").as<std::uint16_t>()[24] ^= 1;
  write_safetensors(leaking, file);
  CompareOptions options;
  options.gate = parse_gate("ulp=1");
  const Report report = compare(scratch / "suite", scratch / "outputs", options);
  EXPECT_EQ(report.count(Outcome::fail), 2);
  for (const CaseVerdict& verdict : report.cases) {
    const bool ours = verdict.id.starts_with("poison.permute.");
    EXPECT_EQ(verdict.outcome == Outcome::fail, ours) << verdict.id;
    EXPECT_EQ(
        verdict.reason.find("1 of 168 elements of y, the first at [1, 0]") != std::string::npos,
        ours)
        << verdict.reason;
  }
}

/// Runs of one kernel: y is f32 [96, 256], 0 but for what `change` writes.
fs::path run_of(const Scratch& scratch, const char* name,
                const std::function<void(float*)>& change) {
  TensorFile file;
  Tensor y(Dtype::f32, {96, 256});
  change(y.as<float>());
  file.tensors.emplace("y", std::move(y));
  file.tensors.emplace("z", Tensor(Dtype::u8, {4}));
  const fs::path path = scratch / name;
  write_safetensors(path, file);
  return path;
}

TEST(Repeat, SaysWhichElementsMoveAndInWhichRuns) {
  const Scratch scratch;
  const auto still = [](float*) {};
  const auto tile = [](float* y) {
    for (int c = 128; c < 256; ++c) y[37 * 256 + c] = 0x1p-149f;
  };
  const std::vector<fs::path> same{run_of(scratch, "a", still), run_of(scratch, "b", still)};
  EXPECT_TRUE(compare_repeats(same).stable());
  const std::vector<fs::path> runs{same[0], run_of(scratch, "c", tile), same[1],
                                   run_of(scratch, "d", tile)};
  const RepeatReport report = compare_repeats(runs);
  EXPECT_FALSE(report.stable());
  ASSERT_EQ(report.tensors.size(), 2u);
  const Stability& y = report.tensors[0];
  EXPECT_EQ(y.moving, 128);
  EXPECT_EQ(y.results, 2);
  EXPECT_EQ(y.result_of, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(y.max_ulp, 1u);
  EXPECT_EQ(y.first, (std::vector<Index>{37, 128}));
  EXPECT_EQ(y.pattern, "row 37, columns 128 to 255 (in one tile of 128 columns)");
  EXPECT_TRUE(report.tensors[1].stable());
  EXPECT_EQ(nlohmann::json::parse(json_of(report))["tensors"][0]["moving"], 128);
  EXPECT_EQ(table_of(report),
            "moves     y  128 of 24576 elements: row 37, columns 128 to 255 (in one tile of 128 "
            "columns); at most 1 ulp apart; 2 results: runs 1, 3; runs 2, 4\n"
            "stable    z  4 elements\n1 of 2 tensors are the same bits in all 4 runs\n");
}

TEST(Repeat, SeesWhatOneRunOfThreeLacksOrHasAsNan) {
  const Scratch scratch;
  const std::vector<fs::path> runs{
      run_of(scratch, "a", [](float*) {}), run_of(scratch, "b", [](float*) {}),
      run_of(scratch, "c", [](float* y) { y[3] = std::numeric_limits<float>::quiet_NaN(); })};
  EXPECT_TRUE(compare_repeats(runs).tensors[0].nan);
  EXPECT_EQ(compare_repeats(runs).tensors[0].moving, 1);
  TensorFile file = read_safetensors(runs[2]);
  file.tensors.erase("y");
  write_safetensors(runs[2], file);
  EXPECT_EQ(compare_repeats(runs).tensors[0].reason, "run 3 lacks it");
  EXPECT_FALSE(compare_repeats(runs).stable());
  EXPECT_THROW(compare_repeats(std::span(runs).first(1)), Error);
}

TEST(Repeat, PutsPlacesIntoWords) {
  EXPECT_EQ(place_in_words({0, 1, 2, 3}, 2, 2), "every row, every column");
  EXPECT_EQ(place_in_words({0, 32, 64, 96}, 1, 128), "row 0, every 32 columns from 0 to 96");
  EXPECT_EQ(place_in_words({5, 7, 12}, 4, 64),
            "row 0, 3 columns between 5 and 12 (in one tile of "
            "16 columns)");
}

}  // namespace
}  // namespace mxo
