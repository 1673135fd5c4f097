// Runs of one kernel: is it bit-stable, and what moves?
#include "golden/suites/repeat.h"

#include <limits>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/files/safetensors.h"
#include "golden/suites/moving_elements.h"
#include "tests/golden/scratch.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

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
  fs::create_symlink(same[0], scratch / "link");
  for (const fs::path& again : {same[0], scratch / "link"}) {
    EXPECT_THROW(compare_repeats(std::vector<fs::path>{same[0], same[1], again}), Error);
  }
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

TEST(Repeat, PutsPlacesIntoWords) {
  EXPECT_EQ(place_in_words({0, 1, 2, 3}, 2, 2), "every row, every column");
  EXPECT_EQ(place_in_words({0, 32, 64, 96}, 1, 128), "row 0, every 32 columns from 0 to 96");
  EXPECT_EQ(place_in_words({5, 7, 12}, 4, 64),
            "row 0, 3 columns between 5 and 12 (in one tile of "
            "16 columns)");
}

}  // namespace
}  // namespace mxo
