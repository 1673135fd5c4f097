// The catalogue's quantize and delayed_scale: what of a call reaches the backend.
#include "ops/quantize.h"

#include <set>
#include <sstream>

#include "formats/scale_rules.h"
#include "ops/catalogue.h"
#include "ops/delayed_scale.h"
#include "ops/packed_scales.h"
#include "ops/scale_layouts.h"
#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

struct QuantizeEntry : testing::Test {
  EntryCalls<Quantize> call{"quantize"};

  QuantizeEntry() { call.add("x", Dtype::u16, {64, 256}); }
};

TEST_F(QuantizeEntry, OperandsReachTheBackend) {
  const Quantize& op = call.op();
  EXPECT_EQ(call.told(op.x), "x bf16 [64, 256]");
  EXPECT_FALSE(op.group_ends.given());
  EXPECT_FALSE(op.given.given());
  EXPECT_EQ(call.told(op.to.codes), "codes e4m3 [64, 256]");
  EXPECT_EQ(call.told(op.to.scales), "scales e8m0 [64, 8]");
  EXPECT_EQ(op.to.storage, ScaleStorage::row_major);
  EXPECT_EQ(op.rule.mode, ScaleMode::rceil);
  EXPECT_EQ(op.rule.element.rounding, Rounding::even);
  const Quantize& other =
      call.op({{"format", "e5m2"}, {"block", "1x128"}, {"epsilon", "0.5"}, {"rounding", "zero"}});
  EXPECT_EQ(call.told(other.to.codes), "codes e5m2 [64, 256]");
  EXPECT_EQ(call.told(other.to.scales), "scales f32 [64, 2]");
  EXPECT_EQ(other.rule.f32.epsilon, 0.5);
  EXPECT_EQ(other.rule.element.rounding, Rounding::zero);
  call.add("given", Dtype::i32, {64, 2});
  EXPECT_EQ(call.told(call.op({{"block", "1x128"}}).given), "given f32 [64, 2]");
}

TEST_F(QuantizeEntry, GivenSaysWhatEachRuleDoesWithIt) {
  const std::string_view text = catalogue_entry("quantize").inputs[2].shape;
  const std::size_t begin = text.find("under the rules ");
  const std::size_t end = text.find("; divided under the others");
  ASSERT_LT(begin, end) << text;
  std::istringstream words{std::string(text.substr(begin, end - begin))};
  std::set<std::string> told;  // "sglang" stands behind "for RxK," alone
  bool whole = false;
  for (std::string word; words >> word;) {
    if (word.back() == ',') word.pop_back();
    told.insert((whole ? "RxK " : "") + word);
    whole = whole || word == "RxK";
  }
  for (const ScaleRuleRow& row : kScaleRules) {
    if (row.scale != ScaleType::f32) continue;
    const std::string name(row.name);
    const bool multiplies =
        row.rule.f32.code != CodeScaling::divide && given_scale(3.0f, row.rule.f32).factor == 3.0f;
    const bool of_whole = row.blocks == "RxK" && told.contains("RxK " + name);
    EXPECT_EQ(told.contains(name) || of_whole, multiplies) << name << " " << row.blocks;
  }
}

TEST_F(QuantizeEntry, BlocksOfRowsBeginAnewAtGroups) {
  call.numbers("group_ends", {32, 64});
  const Quantize& op = call.op({{"block", "128x128"}});
  EXPECT_EQ(call.told(op.group_ends), "group_ends i32 [2]");
  EXPECT_EQ(call.told(op.to.scales), "scales f32 [2, 2]");
}

TEST_F(QuantizeEntry, TilesAreWrittenAtOnce) {
  const Quantize& op = call.op({{"scale_layout", "blocked"}});
  EXPECT_EQ(op.to.storage, ScaleStorage::blocked);
  EXPECT_EQ(call.told(op.to.scales), "scales e8m0 [1024]");
  call.homes.emplace("scales", Tensor(Dtype::u8, {1024}));
  EXPECT_EQ(call.said({{"scale_layout", "blocked"}}), "");
}

/// Quantises, and lays scales out: which way, of which scales.
class LayingOut : public Keeper<Quantize> {
 public:
  std::string laid;

 protected:
  using Keeper<Quantize>::run;
  void run(const PackScales& op) override {
    laid = "packed " + std::to_string(static_cast<int>(op.layout)) + ": " + describe(op.scales);
  }
  void run(const SwizzleScales& op) override {
    laid = "tiles " + std::to_string(static_cast<int>(op.layout)) + ": " + describe(op.scales);
  }
};

struct LaidOutEntry : testing::Test {
  EntryCalls<Quantize, LayingOut> call{"quantize"};

  LaidOutEntry() { call.add("x", Dtype::bf16, {64, 256}); }
  /// How scales were laid out, or what was said.
  std::string laid(const Settings& settings) {
    const std::string said = call.said(settings);
    return said.empty() ? call.backend.laid : said;
  }
  static std::string tiles(ScaleLayout layout) {
    return "tiles " + std::to_string(static_cast<int>(layout));
  }
  static std::string packed(PackedLayout layout) {
    return "packed " + std::to_string(static_cast<int>(layout));
  }
};

TEST_F(LaidOutEntry, LayoutsOfOthersFollowQuantising) {
  EXPECT_EQ(laid({{"scale_layout", "tiles_8x4"}}),
            packed(PackedLayout::tiles_8x4) + ": e8m0 [64, 8]");
  EXPECT_EQ(call.made(), "codes e4m3 [64, 256], scales e8m0 [512]");
  EXPECT_EQ(call.backend.kept.size(), 1u);
  EXPECT_EQ(call.backend.kept[0].to.storage, ScaleStorage::row_major);
  EXPECT_EQ(laid({{"scale_layout", "mn_major_tma"}, {"block", "1x128"}, {"format", "e5m2"}}),
            packed(PackedLayout::mn_major_tma) + ": f32 [64, 2]");
  EXPECT_EQ(call.made(), "codes e5m2 [64, 256], scales f32 [2, 64]");
  call.add("x", Dtype::bf16, {3, 64, 256});
  EXPECT_EQ(laid({{"scale_layout", "packed_ue8m0"}}),
            packed(PackedLayout::packed_ue8m0) + ": e8m0 [3, 64, 8]");
}

TEST_F(LaidOutEntry, ScalesThatTurnFollowQuantising) {
  const Settings turned = {{"scale_layout", "blocked"}, {"transpose", "true"}, {"block", "32x1"}};
  EXPECT_EQ(laid(turned), tiles(ScaleLayout::blocked) + ": e8m0 [256, 2]");
  EXPECT_EQ(call.made(), "codes e4m3 [256, 64], scales e8m0 [1024]");
  call.add("x", Dtype::bf16, {3, 64, 256});
  EXPECT_EQ(laid(turned), tiles(ScaleLayout::per_group_3d) + ": e8m0 [3, 256, 2]");
  EXPECT_EQ(call.made(), "codes e4m3 [3, 256, 64], scales e8m0 [3, 1024]");
}

TEST_F(LaidOutEntry, ExponentsAloneNeedPowersOfTwo) {
  const std::string refused =
      "quantize: scale_layout: packed_ue8m0 keeps exponents alone, needs e8m0 scales or "
      "power_of_2=up";
  const auto packs = [&](const char* block, const char* power) {
    return laid({{"scale_layout", "packed_ue8m0"}, {"block", block}, {"power_of_2", power}});
  };
  EXPECT_EQ(packs("1x128", "none"), refused);
  const std::string floats = packed(PackedLayout::packed_ue8m0) + ": f32 [64, 2]";
  EXPECT_EQ(packs("1x128", "up"), floats);
  EXPECT_EQ(laid({{"scale_layout", "mn_major_tma"}, {"block", "1x128"}, {"power_of_2", "none"}}),
            packed(PackedLayout::mn_major_tma) + ": f32 [64, 2]");
  EXPECT_EQ(laid({{"scale_layout", "packed_ue8m0"}}),
            packed(PackedLayout::packed_ue8m0) + ": e8m0 [64, 8]");
  call.add("given", Dtype::f32, {64, 2});
  EXPECT_EQ(packs("1x128", "none"), floats) << "the caller knows what he gives";
}

TEST(DelayedScaleEntry, OperandsReachTheBackend) {
  EntryCalls<DelayedScale> call{"delayed_scale"};
  call.add("history", Dtype::i32, {4});
  call.add("scale", Dtype::i32, {1});
  const DelayedScale& op = call.op();
  EXPECT_FALSE(op.x.given());
  EXPECT_EQ(call.told(op.history), "history f32 [4]");
  EXPECT_EQ(call.told(op.scale), "scale f32 [1]");
  EXPECT_EQ(op.format, Dtype::e4m3);
  EXPECT_EQ(op.choice, AmaxChoice::max);
  EXPECT_EQ(op.margin, 0);
  EXPECT_EQ(call.told(op.next_history), "next_history f32 [4]");
  EXPECT_EQ(call.told(op.next_scale), "next_scale f32 [1]");
  call.add("x", Dtype::u16, {3, 5});
  const DelayedScale& other =
      call.op({{"format", "e5m2"}, {"amax", "most_recent"}, {"margin", "-64"}});
  EXPECT_EQ(call.told(other.x), "x bf16 [3, 5]");
  EXPECT_EQ(other.format, Dtype::e5m2);
  EXPECT_EQ(other.choice, AmaxChoice::most_recent);
  EXPECT_EQ(other.margin, -64);
  EXPECT_EQ(call.op({{"margin", "64"}}).margin, 64);
  for (const char* margin : {"-65", "65"}) {
    EXPECT_EQ(
        call.said({{"margin", margin}}),
        "delayed_scale: margin: found " + std::string(margin) + ", needs a number from -64 to 64");
  }
}

}  // namespace
}  // namespace mxo
