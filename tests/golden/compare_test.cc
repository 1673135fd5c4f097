// Files against files, suites against directories, runs of one kernel against each other.
#include "golden/suites/compare.h"

#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "emu/backends.h"
#include "golden/files/safetensors.h"
#include "golden/reports/reports.h"
#include "golden/suites/generate.h"
#include "golden/suites/moving_elements.h"
#include "golden/suites/repeat.h"
#include "tests/golden/expected.h"
#include "tests/golden/product_inputs.h"
#include "tests/golden/ranks.h"
#include "tests/golden/scratch.h"

namespace mxo::compare_test {
namespace {

namespace fs = std::filesystem;

/// A suite and a directory of its own outputs.
struct SuiteAndOutputs {
  Scratch scratch;
  fs::path suite = scratch / "suite";
  fs::path outputs = scratch / "outputs";
  Manifest manifest;

  explicit SuiteAndOutputs(const std::string& name = "quantize") {
    const auto backend = make_reference_backend();
    manifest =
        generate(suite, {.suite = name, .level = 0, .seed = 1, .spelling = {}}, *backend, ranks());
    fs::create_directory(outputs);
    for (const ManifestCase& item : manifest.cases) {
      TensorFile file = read_safetensors(case_file(suite, item.id));
      TensorFile out;
      for (const ManifestOperand& operand : item.operands) {
        if (operand.role == Role::expected)
          out.tensors.emplace(operand.name, file.tensors.at(operand.name));
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
  EXPECT_EQ(report.title, "compare " + s.suite.string() + " " + s.outputs.string());
  EXPECT_EQ(report.gate, "bits");
  EXPECT_EQ(report.count(Outcome::pass), static_cast<Index>(s.manifest.cases.size()));

  fs::remove(s.output(s.manifest.cases[0].id));
  report = compare(s.suite, s.outputs);
  EXPECT_EQ(report.cases[0].outcome, Outcome::not_run);
  EXPECT_EQ(report.cases[0].reason, s.output(s.manifest.cases[0].id).string() + ": no such file");
  EXPECT_EQ(report.exit_code(), 5);

  s.damage(s.manifest.cases[1].id);
  report = compare(s.suite, s.outputs);
  EXPECT_EQ(report.cases[1].outcome, Outcome::fail);
  EXPECT_EQ(report.exit_code(), 1);

  std::ofstream(case_file(s.suite, s.manifest.cases[2].id)) << "damaged";
  report = compare(s.suite, s.outputs);
  EXPECT_EQ(report.cases[2].outcome, Outcome::invalid);
  EXPECT_NE(report.cases[2].reason, "");
  EXPECT_EQ(report.exit_code(), 3);
}

/// A kernel that returns one buffer twice: the first result is read after the second call.
TEST(Compare, NamesTheCaseWhoseResultOverwroteAnother) {
  const SuiteAndOutputs s;
  const std::string& id = s.manifest.cases[0].id;
  std::string other;
  for (const ManifestCase& item : s.manifest.cases) {
    const TensorFile file = read_safetensors(s.output(item.id));
    const TensorFile first = read_safetensors(s.output(id));
    const auto& [name, tensor] = *first.tensors.begin();
    const auto at = file.tensors.find(name);
    if (at == file.tensors.end() || at->second.shape() != tensor.shape()) continue;
    const bool same = std::memcmp(at->second.data(), tensor.data(), tensor.bytes()) == 0;
    if (!same) other = item.id;
  }
  ASSERT_NE(other, "");
  fs::copy_file(s.output(other), s.output(id), fs::copy_options::overwrite_existing);
  const Report report = compare(s.suite, s.outputs);
  EXPECT_EQ(report.cases[0].outcome, Outcome::fail);
  std::string notes;
  for (const TensorVerdict& output : report.cases[0].outputs) notes += output.note;
  EXPECT_NE(notes.find("holds what is expected of quantize."), notes.npos) << notes;
  EXPECT_EQ(notes.find(id), notes.npos) << notes;
  s.damage(id);
  EXPECT_EQ(compare(s.suite, s.outputs).cases[0].outputs[0].note.find("holds what"),
            std::string::npos);
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

TEST(Compare, RefusesASuiteAsActual) {
  const SuiteAndOutputs s;
  EXPECT_THROW(compare(s.suite, s.suite), Error);
  EXPECT_THROW(compare(s.suite, s.output(s.manifest.cases[0].id)), Error);
  EXPECT_THROW(compare(s.outputs, s.suite), Error);  // a directory without a manifest
}

TEST(Compare, CallsACopyOfTheCaseInvalid) {
  const SuiteAndOutputs s;
  const std::string& id = s.manifest.cases[0].id;
  fs::copy_file(case_file(s.suite, id), s.output(id), fs::copy_options::overwrite_existing);
  const Report report = compare(s.suite, s.outputs);
  EXPECT_EQ(report.cases[0].outcome, Outcome::invalid);
  EXPECT_NE(report.cases[0].reason.find("ACTUAL holds the operands"), std::string::npos);
  EXPECT_EQ(report.cases[1].outcome, Outcome::pass);
  EXPECT_EQ(compare(case_file(s.suite, id), s.output(id)).exit_code(), 3);
  EXPECT_EQ(compare(case_file(s.suite, id), case_file(s.suite, id)).exit_code(), 3);
}

TEST(Compare, NotesWhatNothingIsExpectedOf) {
  const SuiteAndOutputs s;
  const std::string& id = s.manifest.cases[0].id;
  TensorFile file = read_safetensors(s.output(id));
  file.tensors.emplace("saved", floats({1}, {1}));
  write_safetensors(s.output(id), file);
  const std::string said = "ACTUAL holds more, not compared: saved";
  Report report = compare(s.suite, s.outputs);
  EXPECT_EQ(report.exit_code(), 0);
  EXPECT_EQ(report.cases[0].note, said);
  EXPECT_EQ(report.cases[1].note, "");
  EXPECT_NE(table_report(report).find("of 1 ACTUAL holds more than is compared"),
            std::string::npos);
  report = compare(case_file(s.suite, id), s.output(id));
  EXPECT_EQ(report.exit_code(), 0);
  for (const std::string& page :
       {table_report(report), json_report(report), junit_report(report), html_report(report)}) {
    EXPECT_NE(page.find(said), page.npos) << page;
  }
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
  EXPECT_EQ(report.cases[0].outputs[0].all.not_compared, 1);
  actual.tensors.at("y").as<float>()[2] = 0;
  write_safetensors(scratch / "a", actual);
  report = compare(scratch / "e", scratch / "a");
  EXPECT_EQ(report.exit_code(), 1);
  EXPECT_EQ(report.cases[0].outputs[0].worst_group, 1);
  actual.tensors.erase("y");
  write_safetensors(scratch / "a", actual);
  EXPECT_EQ(compare(scratch / "e", scratch / "a").exit_code(), 1);
  EXPECT_THROW(compare(scratch / "e", scratch / "a", gated("bound")), Error);
}

TEST(Compare, RefusesAFileWithNothingToCompare) {
  const Scratch scratch;
  TensorFile none;
  none.tensors.emplace("group_ends", tensor_from<std::int32_t>(Dtype::i32, {1}, {3}));
  write_safetensors(scratch / "e", none);
  write_safetensors(scratch / "a", TensorFile{});
  EXPECT_THROW(compare(scratch / "e", scratch / "a"), Error);
  none.tensors.at("group_ends").as<std::int32_t>()[0] = 0;
  none.tensors.emplace("y", floats({2, 1}, {1, 2}));
  write_safetensors(scratch / "e", none);
  EXPECT_EQ(compare(scratch / "e", scratch / "e").exit_code(), 3);
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
  const CompareOptions options = gated("bound");
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

TEST(Compare, NamesAKernelThatReadsWhatNobodyOwns) {
  const SuiteAndOutputs s("poison");
  EXPECT_EQ(compare(s.suite, s.outputs).exit_code(), 0);
  // A kernel whose padding leaks into a row: less than half a step, so that a gate would pass it.
  const fs::path leaking = s.output("poison.permute.nan");
  TensorFile file = read_safetensors(leaking);
  file.tensors.at("y").as<std::uint16_t>()[24] ^= 1;
  write_safetensors(leaking, file);
  const CompareOptions options = gated("ulp=1");
  const Report report = compare(s.suite, s.outputs, options);
  EXPECT_EQ(report.count(Outcome::fail), 2);
  const std::string said = "1 of 168 elements of y, the first at [1, 0]";
  for (const CaseVerdict& verdict : report.cases) {
    const bool ours = verdict.id.starts_with("poison.permute.");
    EXPECT_EQ(verdict.outcome == Outcome::fail, ours) << verdict.id;
    EXPECT_EQ(verdict.reason.find(said) != said.npos, ours) << verdict.reason;
  }
  const CaseFilter one("id=poison.permute.nan");  // and the other of its pair
  const Report both = compare(s.suite, s.outputs, options, {}, {}, one);
  EXPECT_EQ(both.count(Outcome::fail), 2);
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
            "stable    z  4 elements\n1 of 2 tensors with the same bits in all 4 runs\n");
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

/// A directory of one output, which it links to, through a link to a directory.
fs::path linked_run(const fs::path& made, const fs::path& output) {
  for (const char* name : {"kept", "run"}) fs::create_directories(made / name);
  fs::create_symlink(output, made / "kept" / "y.safetensors");
  fs::create_directory_symlink(made / "kept", made / "run" / "link");
  return made / "run";
}

TEST(Repeat, ReadsWhatRunsLinkToAndNothingTwice) {
  const Scratch scratch;
  const fs::path a = run_of(scratch, "a", [](float* y) { y[0] = 1; });
  const fs::path b = run_of(scratch, "b", [](float* y) { y[0] = 2; });
  const std::vector<fs::path> runs{linked_run(scratch / "c", a), linked_run(scratch / "d", b)};
  fs::create_directory(runs[0] / "a.partial-0123456789abcdef");  // of a writer that was killed
  fs::copy_file(a, runs[0] / "a.partial-0123456789abcdef" / "y.safetensors");
  const RepeatReport report = compare_repeats(runs);
  EXPECT_EQ(report.tensors[0].moving, 1);
  EXPECT_EQ(report.tensors[0].file, "link/y.safetensors");
  const fs::path link = runs[0] / "link" / "y.safetensors";
  const std::vector<std::vector<fs::path>> twice{
      {a, b, a}, {a, link}, {runs[0], linked_run(scratch / "e", a)}, {runs[0], runs[0]}};
  for (const auto& again : twice) EXPECT_THROW(compare_repeats(again), Error);
  fs::create_directory_symlink(".", runs[0] / "back");
  EXPECT_THROW(compare_repeats(runs), Error);
}

TEST(Repeat, RefusesRunsWithoutAnElement) {
  const Scratch scratch;
  TensorFile file;
  file.tensors.emplace("y", Tensor(Dtype::f32, {0, 4}));
  for (const char* name : {"a", "b"}) write_safetensors(scratch / name, file);
  EXPECT_THROW(compare_repeats(std::vector{scratch / "a", scratch / "b"}), Error);
}

TEST(Repeat, PutsPlacesIntoWords) {
  EXPECT_EQ(place_in_words({0, 1, 2, 3}, 2, 2), "every row, every column");
  EXPECT_EQ(place_in_words({0, 32, 64, 96}, 1, 128), "row 0, every 32 columns from 0 to 96");
  EXPECT_EQ(place_in_words({5, 7, 12}, 4, 64),
            "row 0, 3 columns between 5 and 12 (in one tile of 16 columns)");
}

}  // namespace
}  // namespace mxo::compare_test
