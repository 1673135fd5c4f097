// The catalogue's grouped_linear: parameters that reach the steps, outputs, and what is refused.
#include "ops/grouped_linear.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ops/catalogue.h"
#include "tests/ops/recorder.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

using Lines = std::vector<std::string>;
using Values = std::map<std::string, std::string, std::less<>>;

/// 96 tokens of K 64, N 32, of which the groups have the first 32 and the rest.
struct LinearEntry : testing::Test {
  Recorder recorder;
  NamedTensors in, homes;
  Lines made;

  LinearEntry() {
    add("x", Dtype::u16, {96, 64});
    add("w", Dtype::u16, {2, 32, 64});
    add("group_ends", Dtype::i32, {2});
    in.at("group_ends").as<std::int32_t>()[0] = 32;
    in.at("group_ends").as<std::int32_t>()[1] = 96;
  }
  void add(const std::string& name, Dtype dtype, std::vector<Index> shape) {
    in.insert_or_assign(name, Tensor(dtype, std::move(shape)));
  }
  /// What the call says, or nothing.
  std::string said(const Values& values = {}) {
    recorder.restart();
    recorder.rules.clear();
    recorder.names.clear();
    made.clear();
    for (const auto& [name, tensor] : in) recorder.names[tensor.data()] = name;
    NamedViews views = in;
    for (auto& [name, home] : homes) views.write_to(name, home);
    return refusal([&] {
      for (const auto& [name, out] :
           call_operator(recorder, "grouped_linear", views, Parameters(values))) {
        made.push_back(name + " " + describe(out.operand()));
      }
    });
  }
  Lines outputs(const Values& values = {}) {
    EXPECT_EQ(said(values), "");
    return made;
  }
  /// Whether a step of that name says this.
  bool says(const std::string& name, const std::string& part) const {
    return std::any_of(recorder.steps.begin(), recorder.steps.end(), [&](const auto& step) {
      return step.starts_with(name + " ") && step.find(part) != std::string::npos;
    });
  }
};

TEST_F(LinearEntry, ListsWhatMayBeAbsent) {
  std::string absent;
  for (const OperandSpec& spec : catalogue_entry("grouped_linear").inputs) {
    absent += std::string(spec.name) + (spec.optional ? "? " : " ");
  }
  EXPECT_EQ(absent, "x? x.codes? x.scales? w group_ends bias? dy? main_grad? ");
}

TEST_F(LinearEntry, OnlyWhatIsAskedIsComputed) {
  add("dy", Dtype::u16, {96, 32});
  add("bias", Dtype::f32, {32});
  EXPECT_EQ(outputs({{"only", "dx"}}), Lines{"dx bf16 [96, 64]"});
  EXPECT_EQ(outputs({{"only", "dw"}}), Lines{"dw bf16 [2, 32, 64]"});
  EXPECT_EQ(outputs({{"only", "dbias"}}), Lines{"dbias bf16 [32]"});
  EXPECT_EQ(outputs({{"only", "y"}}), Lines{"y bf16 [96, 32]"});
  EXPECT_EQ(outputs({{"only", "dw,y"}}), (Lines{"dw bf16 [2, 32, 64]", "y bf16 [96, 32]"}));
  EXPECT_EQ(said({{"only", "dx,x"}}),
            "grouped_linear: only: found 'x', needs some of y, dx, dw, dbias");
  EXPECT_EQ(said({{"only", ","}}),
            "grouped_linear: only: found '', needs some of y, dx, dw, dbias");
}

TEST_F(LinearEntry, CodesStandForTheirValues) {
  add("x.codes", Dtype::u8, {96, 64});
  add("x.scales", Dtype::u8, {96, 2});
  EXPECT_NE(said(), "") << "x twice";
  in.erase("x");
  EXPECT_EQ(outputs(), Lines{"y bf16 [96, 32]"});
  EXPECT_TRUE(says("grouped_matmul", "x.codes e4m3 [96, 64] * x.scales e8m0 [96, 2] of 1x32"));
  EXPECT_EQ(said({{"format", "e4m3fnuz"}}), "");
  EXPECT_TRUE(says("grouped_matmul", "x.codes e4m3fnuz [96, 64] * "));
  add("x.scales", Dtype::i32, {96, 1});
  EXPECT_EQ(said({{"recipe", "fp8_blockwise"}}), "");
  EXPECT_TRUE(says("grouped_matmul", "x.codes e4m3 [96, 64] * x.scales f32 [96, 1] of 1x128"));
  in.erase("x.scales");
  EXPECT_EQ(said(), "grouped_linear: x.scales: missing, this operand is needed");
  in.erase("x.codes");
  EXPECT_EQ(said(), "grouped_linear: x: missing, this operand is needed");
}

TEST_F(LinearEntry, GroupsArePaddedAsTold) {
  add("dy", Dtype::u16, {96, 32});
  in.at("group_ends").as<std::int32_t>()[0] = 5;
  EXPECT_NE(said(), "") << "blocks of tokens cross the ends";
  EXPECT_EQ(said({{"pad", "true"}}), "");
  EXPECT_TRUE(says("pad_groups", "dy bf16 [96, 32] to 32 -> "));
  EXPECT_EQ(said({{"pad", "true"}, {"alignment", "64"}}), "");
  EXPECT_TRUE(says("pad_groups", "dy bf16 [96, 32] to 64 -> "));
  for (const char* alignment : {"0", "-1"}) {
    EXPECT_EQ(
        said({{"alignment", alignment}}),
        "grouped_linear: alignment: found " + std::string(alignment) + ", needs a positive number");
  }
  EXPECT_EQ(said({{"alignment", "2147483648"}}),
            "grouped_linear: alignment: found 2147483648, needs at most 2147483647");
  in.at("group_ends").as<std::int32_t>()[0] = 32;
  EXPECT_EQ(said({{"alignment", "1"}, {"recipe", "bf16"}}), "");
  EXPECT_FALSE(says("pad_groups", "")) << "unless told";
}

TEST_F(LinearEntry, RanksAreRefusedBeforeShapesRestOnThem) {
  homes.emplace("y", Tensor(Dtype::bf16, {96, 32}));
  EXPECT_EQ(outputs(), Lines{}) << "it is the caller's";
  add("x", Dtype::bf16, {96});
  EXPECT_EQ(said(), "grouped_linear: x: found bf16 [96], needs rank 2");
  add("x", Dtype::bf16, {96, 64});
  add("w", Dtype::bf16, {2, 64});
  EXPECT_EQ(said(), "grouped_linear: w: found bf16 [2, 64], needs rank 3");
  in.erase("x");
  add("x.codes", Dtype::u8, {96});
  add("x.scales", Dtype::u8, {96, 2});
  EXPECT_EQ(said(), "grouped_linear: x.codes: found e4m3 [96], needs rank 2");
}

}  // namespace
}  // namespace mxo
