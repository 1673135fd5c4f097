// Codes and scales of a quantiser that rounds amax to bf16, or does not saturate.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/causes_listed.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Bytes = std::vector<int>;
using Settings = std::map<std::string, std::string, std::less<>>;

/// x [2, 64]: the first element of each block of 32 is given, the second is 1, all others are 0.
Call quantised(const std::vector<float>& first, Settings set = {}) {
  Call call{"quantize", {}, Parameters(std::move(set))};
  Tensor x(Dtype::f32, {2, 64});
  for (std::size_t b = 0; b < 4; ++b) {
    x.as<float>()[32 * b] = first[b];
    x.as<float>()[32 * b + 1] = 1;
  }
  call.replace("x", std::move(x));
  return call;
}

CausesListed rules_of(const Call& call) { return {call, add_rule_hypotheses}; }

Bytes bytes_of(const NamedTensors& out, const char* name, Index step = 1) {
  Bytes bytes;
  const Tensor& t = out.at(name);
  for (Index i = 0; i < t.elements(); i += step) bytes.push_back(t.as<std::uint8_t>()[i]);
  return bytes;
}

/// Scales, first and second codes of four blocks where a cause holds.
struct Quantised {
  Bytes scales, first, second;
  Quantised(const Call& call, const char* cause) {
    const CausesListed causes = rules_of(call);
    const auto out = causes.come(cause);
    if (!out) return;
    scales = bytes_of(*out, "scales");
    first = bytes_of(*out, "codes", 32);
    const Bytes all = bytes_of(*out, "codes");
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % 32 == 1) second.push_back(all[i]);
      EXPECT_TRUE(i % 32 < 2 || all[i] == (scales[i / 32] == 0xFF ? 0x7F : 0)) << i;
    }
  }
};

/// 449 is 448 in bf16, which needs no scale; 451 is 452, as its scale of 2 has it anyway.
TEST(RuleHypothesesCodes, OfAnAmaxInBf16) {
  const Quantised q(quantised({449, -449, 451, 10}), "amax=bf16");
  EXPECT_EQ(q.scales, (Bytes{127, 127, 128, 122}));
  EXPECT_EQ(q.first, (Bytes{0x7E, 0xFE, 0x76, 0x7A}));
  EXPECT_EQ(q.second, (Bytes{0x38, 0x38, 0x30, 0x60}));
}

TEST(RuleHypothesesCodes, OfAnAmaxInBf16FollowTheCall) {
  const Quantised mode(quantised({511.5f, 500, 1, 2}, {{"scale_mode", "floor"}}), "amax=bf16");
  EXPECT_EQ(mode.scales, (Bytes{128, 127, 119, 120}));
  EXPECT_EQ(mode.first, (Bytes{0x78, 0x7E, 0x78, 0x78}));
  const Quantised format(quantised({57345, 57344, 1, 2}, {{"format", "e5m2"}}), "amax=bf16");
  EXPECT_EQ(format.scales, (Bytes{127, 127, 112, 113}));
  EXPECT_EQ(format.first, (Bytes{0x7B, 0x7B, 0x78, 0x78}));
}

TEST(RuleHypothesesCodes, OfAnAmaxOfNaNAreNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Quantised q(quantised({nan, 1, 1, 1}), "amax=bf16");
  EXPECT_EQ(q.scales.front(), 0xFF);
  EXPECT_EQ(q.first.front(), 0x7F);
}

/// 500 is more than 448, the largest code: NaN, or with e5m2 infinity.
TEST(RuleHypothesesCodes, BeyondTheLargestAreNot) {
  const Quantised q(quantised({500, -500, 448, 1}, {{"scale_mode", "floor"}}), "no_saturation");
  EXPECT_EQ(q.scales, (Bytes{127, 127, 127, 119}));
  EXPECT_EQ(q.first, (Bytes{0x7F, 0xFF, 0x7E, 0x78}));
  EXPECT_EQ(q.second, (Bytes{0x38, 0x38, 0x38, 0x78}));
  const Quantised wide(quantised({65000, 1, 1, 1}, {{"scale_mode", "floor"}, {"format", "e5m2"}}),
                       "no_saturation");
  EXPECT_EQ(wide.first, (Bytes{0x7C, 0x78, 0x78, 0x78}));
}

TEST(RuleHypothesesCodes, AreOfTheOutput) {
  const CausesListed causes = rules_of(quantised({1, 1, 1, 1}));
  for (const char* name : {"amax=bf16", "no_saturation"}) {
    ASSERT_NE(causes.find(name), nullptr);
    EXPECT_EQ(causes.at(name).stage, Stage::output);
    EXPECT_TRUE(causes.altered(name));
  }
  EXPECT_EQ(causes.at("amax=bf16").phrase, "amax is rounded to bf16 before the scale is chosen");
  EXPECT_EQ(causes.at("no_saturation").phrase, "values beyond the largest code do not saturate");
  EXPECT_EQ(rules_of({"dispatch", {}, {}}).find("amax=bf16"), nullptr);
}

/// Blocks of 64 along a row are blocks as any; others are another thing.
TEST(RuleHypothesesCodes, AreOfBlocksAlongARow) {
  const auto applies = [](const Settings& set) {
    return rules_of(quantised({1, 1, 1, 1}, set)).come("no_saturation").has_value();
  };
  EXPECT_TRUE(applies({{"block", "1x64"}, {"scale", "e8m0"}}));
  EXPECT_FALSE(applies({{"block", "2x16"}}));
  EXPECT_FALSE(applies({{"block", "1x64"}, {"scale", "f32"}}));
  EXPECT_FALSE(applies({{"block", "1xK"}, {"scale", "e8m0"}}));
  EXPECT_FALSE(applies({{"scale_layout", "blocked"}})) << "in tiles";
  const CausesListed causes = rules_of(quantised({1, 1, 1, 1}));
  for (const char* lost : {"codes", "scales"}) {
    NamedTensors out = run_call(*causes.backend, causes.call);
    out.erase(lost);
    EXPECT_FALSE(causes.rewritten("no_saturation", std::move(out))) << lost;
  }
}

}  // namespace
}  // namespace mxo
