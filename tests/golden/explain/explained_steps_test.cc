// Outputs of an operator of two steps: what is said is said of the step that made them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emu/backends.h"
#include "golden/explain/explain.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

/// A gate of four rows that is quantised in blocks of 32.
struct Gate {
  Gate() {
    call.replace("x", filled<float>(Dtype::f32, {4, 256}, [](Index i) {
                   return static_cast<float>(i * 37 % 101 - 50) / 16;
                 }));
    owed = run_call(*backend, call);
    came = owed;
  }
  std::uint8_t* codes() { return came.at("codes").as<std::uint8_t>(); }
  std::uint8_t* scales() { return came.at("scales").as<std::uint8_t>(); }
  Explanation explained() const { return explain(*backend, call, owed, came); }
  std::unique_ptr<Backend> backend = make_reference_backend();
  Call call{"swiglu_quantize", {}, {}};
  NamedTensors owed;
  NamedTensors came;
};

/// Bits in no order, so that no cause gives them.
void spoil(std::uint8_t* bytes, Index n) {
  for (Index i = 0; i < n; ++i) bytes[i] ^= static_cast<std::uint8_t>(i * i * 37 % 61 + 1);
}

TEST(ExplainedSteps, AreNamedWithTheirCause) {
  Gate g;
  ASSERT_EQ(g.owed.at("codes").elements(), 4 * 128);
  std::fill_n(g.codes() + 2 * 128, 128, std::uint8_t{0x7F});
  const Explanation e = g.explained();
  EXPECT_EQ(e.verdict, ExplainVerdict::explained) << e.sentence();
  ASSERT_EQ(e.causes.size(), 1u);
  EXPECT_EQ(e.causes[0].id, "never_written.nan");
  EXPECT_EQ(e.causes[0].sentence.find("codes as quantize: row 2 of codes holds NaN"), 0u)
      << e.sentence();
  EXPECT_EQ(e.causes[0].share, 1.0);
  EXPECT_EQ(e.causes[0].where.tensor, "codes");
  EXPECT_EQ(e.causes[0].where.rows, "2");
  EXPECT_EQ(e.pattern, "");
}

TEST(ExplainedSteps, LeaveThePatternOfTheRest) {
  Gate g;
  std::fill_n(g.codes() + 2 * 128, 128, std::uint8_t{0x7F});
  spoil(g.codes() + 3 * 128, 32);
  const Explanation e = g.explained();
  EXPECT_EQ(e.verdict, ExplainVerdict::partly) << e.sentence();
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_DOUBLE_EQ(e.causes[0].share, 0.8);
  EXPECT_EQ(e.pattern.find("codes as quantize: 32 elements differ"), 0u) << e.pattern;
}

TEST(ExplainedSteps, OfTwoOutputsNameEach) {
  Gate g;
  std::fill_n(g.codes() + 2 * 128, 128, std::uint8_t{0x7F});
  std::fill_n(g.scales(), 16, std::uint8_t{0});
  const Explanation e = g.explained();
  EXPECT_EQ(e.verdict, ExplainVerdict::explained) << e.sentence();
  ASSERT_EQ(e.causes.size(), 2u) << e.sentence();
  EXPECT_EQ(e.causes[0].where.tensor, "codes");
  EXPECT_EQ(e.causes[1].where.tensor, "scales");
  EXPECT_EQ(e.causes[1].sentence.find("codes as quantize: all of scales hold zeros"), 0u)
      << e.sentence();
  EXPECT_NEAR(e.causes[0].share + e.causes[1].share, 1, 1e-9);
}

TEST(ExplainedSteps, OfSeveralOutputsAreOfTheOneAsked) {
  Gate g;
  Call other = g.call;
  other.set.set("format", "e5m2");
  g.came = run_call(*g.backend, other);
  const Explanation e = g.explained();
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_EQ(e.causes[0].id, "format=e5m2");
  EXPECT_EQ(e.causes[0].where.tensor, "codes") << e.sentence();
}

TEST(ExplainedSteps, NeedNoCallsOfTheWholeWhereTheyGiveAll) {
  Gate g;
  std::fill_n(g.codes() + 2 * 128, 128, std::uint8_t{0x7F});
  std::vector<std::string> tried;
  explain(*g.backend, g.call, g.owed, g.came,
          [&](double, std::string_view what) { tried.emplace_back(what); });
  const auto count = [&](const char* what) { return std::count(tried.begin(), tried.end(), what); };
  EXPECT_GT(count("format=e5m2"), 0) << "of the step";
  EXPECT_EQ(count("x=halves"), 0) << "of the whole";
}

/// The gradient of probabilities is no output of a step that is a call.
TEST(ExplainedSteps, AreNamedAsTheWholeWhereItGivesMore) {
  Gate g;
  g.call.op = "swiglu_quantize_backward";
  g.call.replace("dy", filled<float>(Dtype::f32, {4, 128}, [](Index i) {
                   return static_cast<float>(i * 41 % 103 - 51) / 32;
                 }));
  g.call.replace("probs", filled<float>(Dtype::f32, {4}, [](Index i) {
                   return 0.25f + 0.125f * static_cast<float>(i);
                 }));
  g.owed = g.came = run_call(*g.backend, g.call);
  ASSERT_EQ(g.owed.at("codes").elements(), 4 * 256);
  std::fill_n(g.codes() + 2 * 256, 256, std::uint8_t{0x7F});
  g.came.at("dprobs").as<std::uint32_t>()[1] ^= 0x00400000u;
  const Explanation e = g.explained();
  EXPECT_EQ(e.verdict, ExplainVerdict::explained) << e.sentence();
  ASSERT_EQ(e.causes.size(), 2u) << e.sentence();
  EXPECT_EQ(e.causes[0].sentence.find("row 2 of codes holds NaN"), 0u) << e.sentence();
  EXPECT_EQ(e.causes[1].where.tensor, "dprobs");
}

/// Gradients of a layer that went wrong from the router's on.
TEST(ExplainedSteps, ThatComeFirstAreExplainedAlone) {
  const Tensor owed = filled<float>(
      Dtype::f32, {16, 32}, [](Index i) { return 1.0f + static_cast<float>(i * 37 % 101) / 64; });
  NamedTensors all;
  NamedTensors came;
  for (const char* name : {"drouter", "dx", "logits.dbias"}) {
    all.emplace(name, owed);
    Tensor zeros = owed;
    std::fill_n(zeros.as<float>() + 64, 64, 0.0f);
    came.emplace(name, std::move(zeros));
  }
  const auto backend = make_reference_backend();
  Call call{"moe_layer", {}, {}};
  call.replace("router", owed);
  const Explanation e = explain(*backend, call, all, came);
  EXPECT_EQ(e.verdict, ExplainVerdict::explained) << e.sentence();
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_EQ(e.causes[0].where.tensor, "drouter");
  EXPECT_EQ(e.causes[0].share, 1.0);
  EXPECT_EQ(e.pattern, "the first step to differ is drouter; 2 later outputs differ, too");
}

TEST(ExplainedSteps, OfNoiseAreUnknown) {
  Gate g;
  spoil(g.codes() + 3 * 128, 32);
  const Explanation e = g.explained();
  EXPECT_EQ(e.verdict, ExplainVerdict::unknown) << e.sentence();
  EXPECT_EQ(e.differing, 32);
}

}  // namespace
}  // namespace mxo
