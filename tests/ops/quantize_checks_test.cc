// What quantize and dequantize ask of blocks, groups and constants, and the matrices they hand on.
#include <gtest/gtest.h>

#include "formats/tensor.h"
#include "ops/swiglu_quantize.h"
#include "tests/support/refusal.h"

namespace mxo::quantize_checks_test {
namespace {

/// Notes what it is handed.
class Noting : public Bare {
 public:
  using Bare::Bare;
  std::vector<Quantize> quantized;
  std::vector<Dequantize> dequantized;
  std::vector<ScaleRule> rules;

 protected:
  void run(const Quantize& op) override { quantized.push_back(op); }
  void run(const Dequantize& op) override { dequantized.push_back(op); }
  void run(const SwigluQuantize& op) override { rules.push_back(op.rule); }
  void run(const SwigluQuantizeBackward& op) override { rules.push_back(op.rule); }
};

/// What is said of quantize, and of dequantize with the same fields.
struct Asked {
  std::vector<Index> x{4, 64};
  BlockExtents block{1, 32};
  Dtype scale = Dtype::e8m0;
  std::vector<Index> scales{4, 2};
  std::vector<std::int32_t> ends = {};
  ScaleStorage storage = ScaleStorage::row_major;
  ScaleRule rule = {};
  Dtype type = Dtype::f32;
  bool host = true;

  std::string said(bool back = false) const {
    Tensor held(type, x), codes(Dtype::e4m3, x), to(scale, scales);
    Tensor groups(Dtype::i32, {static_cast<Index>(ends.size())});
    std::copy(ends.begin(), ends.end(), groups.as<std::int32_t>());
    const Operand group_ends = ends.empty() ? Operand{} : groups.operand();
    Noting noting(host);
    return refusal([&] {
      if (back) {
        dequantize(noting,
                   {{codes.operand(), to.operand(), block, storage}, group_ends, held.result()});
        if (x.size() < 4) {
          EXPECT_EQ(noting.dequantized.size(), 1u);
          EXPECT_EQ(noting.dequantized.at(0).x.rank, static_cast<int>(x.size()));
        }
      } else {
        quantize(
            noting,
            {held.operand(), group_ends, {codes.result(), to.result(), block, storage}, rule, {}});
        if (x.size() < 4) {
          EXPECT_EQ(noting.quantized.size(), 1u);
          EXPECT_EQ(noting.quantized.at(0).x.rank, static_cast<int>(x.size()));
        }
      }
    });
  }
  /// Of both, which say the same.
  std::string both() const {
    const std::string one = said();
    const std::string other = said(true);
    EXPECT_EQ(one.empty(), other.empty()) << one << other;
    if (!one.empty() && !other.empty()) {
      EXPECT_EQ(one.substr(one.find(':')), other.substr(other.find(':')));
    }
    return one;
  }
};

TEST(QuantizeChecks, AskForWholeBlocksUnderBytes) {
  EXPECT_EQ(Asked{}.both(), "");
  EXPECT_EQ((Asked{.x = {4, 63}}.both()), "quantize: x: K is 63, not a multiple of 32");
  EXPECT_EQ((Asked{.x = {63, 4}, .block = {32, 1}, .scales = {2, 4}}.both()),
            "quantize: x: R is 63, not a multiple of 32");
  EXPECT_EQ((Asked{.x = {3, 4}, .block = {2, 1}, .scales = {2, 4}}.both()),
            "quantize: x: R is 3, not a multiple of 2");
  EXPECT_EQ((Asked{.x = {63, 4}, .block = {32, 1}, .scale = Dtype::f32, .scales = {2, 4}}.both()),
            "");
  EXPECT_EQ((Asked{.x = {4, 63}, .scale = Dtype::f32}.both()), "");
  EXPECT_EQ((Asked{.x = {4, 63}, .block = {1, kWhole}, .scales = {4, 1}}.both()), "");
  EXPECT_EQ((Asked{.x = {5, 63}, .block = {kWhole, kWhole}, .scales = {1, 1}}.both()), "");
  EXPECT_EQ((Asked{.x = {64}, .scales = {2}}.both()),
            "quantize: x: found f32 [64], needs rank 2 to 4");
  for (const BlockExtents& bad : {BlockExtents{-1, 32}, BlockExtents{1, -32}})
    EXPECT_NE((Asked{.block = bad}.both().find("needs positive numbers")), std::string::npos);
}

TEST(QuantizeChecks, AskForBlocksOfRowsUnderGroups) {
  const Asked columns{.x = {70, 4}, .block = {32, 1}, .scales = {3, 4}, .ends = {33, 33, 65}};
  EXPECT_EQ(columns.both(), "");
  Asked more = columns;
  more.scales = {9, 4};
  EXPECT_EQ(more.both(), "");
  more.scales = {2, 4};
  EXPECT_EQ(more.both(), "quantize: scales: found e8m0 [2, 4], needs [at least 3, 4]");
  more.host = false;
  EXPECT_EQ(more.both(), "") << "a device reports its own shortage";
  more.scales = {0, 4};
  EXPECT_EQ(more.both(), "");
  more.scales = {3, 5};
  EXPECT_EQ(more.both(), "quantize: scales: found e8m0 [3, 5], needs [at least 0, 4]");
  Asked rows = columns;
  rows.block = {1, 2};
  EXPECT_EQ(rows.both(),
            "quantize: group_ends: found with block 1x2, needs blocks of more than one row");
  rows.block = {2, 1};
  rows.scales = {33, 4};
  EXPECT_EQ(rows.both(), "");
  Asked whole = columns;
  whole.block = {kWhole, 1};
  EXPECT_EQ(whole.both(), "");
  whole.scales = {4, 4};
  EXPECT_EQ(whole.both(), "quantize: scales: found e8m0 [4, 4], needs [3, 4]");
  EXPECT_EQ((Asked{.x = {1, 70, 4}, .block = {35, 1}, .scales = {1, 2, 4}, .ends = {70}}.both()),
            "quantize: group_ends: found with x f32 [1, 70, 4], needs x of rank 2");
  whole.host = false;
  whole.scales = {3, 4};
  EXPECT_EQ(whole.both(), "");
  Asked beyond = columns;
  beyond.ends = {33, 33, 71};
  EXPECT_NE(beyond.both().find("entry 2 is 71, beyond the 70 rows given"), std::string::npos);
}

TEST(QuantizeChecks, HandOnFourAxesAsMatricesOfThree) {
  Tensor x(Dtype::bf16, {3, 2, 4, 64}), codes(Dtype::e4m3, {3, 2, 4, 64});
  Tensor scales(Dtype::f32, {3, 2, 4, 1}), given(Dtype::f32, {3, 2, 4, 1});
  Noting noting;
  const BlockExtents block{1, 128};
  quantize(noting,
           {x.operand(), {}, {codes.result(), scales.result(), block}, {}, given.operand()});
  dequantize(noting, {{codes.operand(), scales.operand(), block}, {}, x.result()});
  ASSERT_EQ(noting.quantized.size(), 3u);
  ASSERT_EQ(noting.dequantized.size(), 3u);
  const auto lies = [](const auto& part, const Tensor& whole, Index i) {
    EXPECT_EQ(part.data, whole.data() + static_cast<std::size_t>(i) * whole.bytes() / 3);
    EXPECT_EQ(part.dtype, whole.dtype());
    ASSERT_EQ(part.rank, 3);
    const auto all = whole.operand();
    for (int axis = 0; axis < 3; ++axis) {
      EXPECT_EQ(part.extent[axis], all.extent[axis + 1]);
      EXPECT_EQ(part.stride[axis], all.stride[axis + 1]);
    }
  };
  for (Index i = 0; i < 3; ++i) {
    const Quantize& to = noting.quantized[static_cast<std::size_t>(i)];
    lies(to.x, x, i);
    lies(to.to.codes, codes, i);
    lies(to.to.scales, scales, i);
    lies(to.given, given, i);
    EXPECT_EQ(to.to.block, block);
    const Dequantize& from = noting.dequantized[static_cast<std::size_t>(i)];
    lies(from.from.codes, codes, i);
    lies(from.from.scales, scales, i);
    lies(from.x, x, i);
  }
  EXPECT_EQ((Asked{.x = {2, 4, 64}, .scales = {2, 4, 2}}.both()), "");
}

/// A floor of amax in the type of x is that of the rounding that x has gone through.
TEST(QuantizeChecks, SettleTheRuleOfGatesByTheirRounding) {
  Tensor x(Dtype::f32, {4, 64}), y(Dtype::e4m3, {4, 32}), scales(Dtype::f32, {4, 1});
  Tensor dy(Dtype::f32, {4, 32}), dx(Dtype::e4m3, {4, 64});
  ScaleRule rule;
  rule.f32.floor = AmaxFloor::in_x;
  rule.f32.epsilon = 1 + 0x1p-9;
  Noting noting;
  swiglu_quantize(
      noting, {x.operand(), {}, {}, Dtype::bf16, {y.result(), scales.result(), {1, 128}}, rule});
  const ScaledResult to{dx.result(), scales.result(), {1, 128}};
  swiglu_quantize_backward(noting, {x.operand(), {}, dy.operand(), {}, Dtype::bf16, to, rule, {}});
  ASSERT_EQ(noting.rules.size(), 2u);
  for (const ScaleRule& settled : noting.rules) {
    EXPECT_EQ(settled.f32.epsilon, 1);
    EXPECT_EQ(settled.f32.floor, AmaxFloor::in_f32);
  }
}

TEST(QuantizeChecks, RefuseGatesThatNoRuleHas) {
  Tensor x(Dtype::f32, {4, 64}), y(Dtype::e4m3, {4, 32}), scales(Dtype::e8m0, {4, 1});
  Tensor dy(Dtype::f32, {4, 32}), dx(Dtype::e4m3, {4, 64}), dscales(Dtype::e8m0, {4, 2});
  const auto said = [&](const GateRule& gate, bool back, bool blocked = false) -> std::string {
    Noting noting;
    const auto storage = blocked ? ScaleStorage::blocked : ScaleStorage::row_major;
    return refusal([&] {
      const ScaledResult dx_to{dx.result(), dscales.result(), {1, 32}, storage};
      const ScaledResult to{y.result(), scales.result(), {1, 32}, storage};
      if (back) {
        swiglu_quantize_backward(
            noting, {x.operand(), {}, dy.operand(), {}, Dtype::f32, dx_to, {}, {}, gate});
      } else {
        swiglu_quantize(noting, {x.operand(), {}, {}, Dtype::f32, to, {}, gate});
      }
    });
  };
  for (const bool back : {false, true}) {
    const std::string op = back ? "swiglu_quantize_backward: " : "swiglu_quantize: ";
    EXPECT_EQ(said({}, back), "");
    EXPECT_EQ(said({.limit = 0}, back), op + "limit: found no positive number, needs one");
    EXPECT_EQ(said({}, back, true), op + "scales: found blocked, needs row-major");
  }
  EXPECT_EQ(said({.arithmetic = GateArithmetic::triton_sm90}, false), "");
  EXPECT_NE(said({.arithmetic = GateArithmetic::triton_sm90}, true), "");
  Tensor odd(Dtype::f32, {4, 65});
  Noting noting;
  const ScaledResult to{y.result(), scales.result(), {1, 32}};
  EXPECT_EQ(refusal([&] {
              swiglu_quantize(noting, {odd.operand(), {}, {}, Dtype::f32, to});
            }),
            "swiglu_quantize: x: the number of columns, 2F, is 65, not a multiple of 2");
}

}  // namespace
}  // namespace mxo::quantize_checks_test
