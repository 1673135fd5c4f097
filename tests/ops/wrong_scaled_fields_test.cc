// Operators on codes and scales with one field wrong: refused by name, and before anything runs.
#include <limits>

#include "formats/tensor.h"
#include "ops/delayed_scale.h"
#include "ops/quantize.h"
#include "ops/scaling_aware_transpose.h"
#include "ops/swiglu_quantize.h"
#include "tests/ops/right_call.h"

namespace mxo {
namespace {

/// Quantize and its relatives with codes and scales as fields of their own.
struct Flat {
  Operand x, probs, dy, group_ends, given;
  Result codes, scales, dprobs;
  BlockExtents block{1, 32};
  Dtype rounding = Dtype::f32;
};

void quantized(Backend& b, const Flat& f) {
  quantize(b, {f.x, f.group_ends, {f.codes, f.scales, f.block}, {}, f.given});
}
void forward(Backend& b, const Flat& f) {
  SwigluQuantize op{f.x, f.probs, f.group_ends, f.rounding, {f.codes, f.scales, f.block}};
  swiglu_quantize(b, op);
}
void backward(Backend& b, const Flat& f) {
  SwigluQuantizeBackward op{
      f.x, f.probs, f.dy, f.group_ends, f.rounding, {f.codes, f.scales, f.block}, {}, f.dprobs};
  swiglu_quantize_backward(b, op);
}

struct Back {
  Operand codes, scales, group_ends;
  Result x;
  BlockExtents block{1, 32};
};

void dequantized(Backend& b, const Back& f) {
  dequantize(b, {{f.codes, f.scales, f.block}, f.group_ends, f.x});
}

using Reads = std::vector<std::pair<std::string, Operand Flat::*>>;
using Writes = std::vector<std::pair<std::string, Result Flat::*>>;
const Writes kWrites = {{"codes", &Flat::codes}, {"scales", &Flat::scales}};

TEST(WrongFields, OfQuantizersAreRefused) {
  Tensor x(Dtype::f32, {6, 64}), codes(Dtype::e4m3, {6, 64}), scales(Dtype::e8m0, {6, 2});
  Tensor numbers(Dtype::f32, {6, 1}), given(Dtype::f32, {6, 1}), ends(Dtype::i32, {2});
  Tensor blocks(Dtype::f32, {2, 64});
  Flat mx{x.operand(), {}, {}, {}, {}, codes.result(), scales.result(), {}};
  RightCall<Flat>{"quantize", quantized, mx, {{"x", &Flat::x}}, kWrites}
      .expect_that_checks_see_all();
  Flat f32 = mx;
  f32.scales = numbers.result();
  f32.given = given.operand();
  f32.block = {1, 128};
  RightCall<Flat>{"quantize", quantized, f32, {{"x", &Flat::x}, {"given", &Flat::given}}, kWrites}
      .expect_that_checks_see_all();
  Flat grouped = mx;
  ends.as<std::int32_t>()[0] = 4;
  ends.as<std::int32_t>()[1] = 6;
  grouped.scales = blocks.result();
  grouped.group_ends = ends.operand();
  grouped.block = {128, 1};
  RightCall<Flat>{"quantize", quantized,
                  grouped,    {{"x", &Flat::x}, {"group_ends", &Flat::group_ends}},
                  kWrites,    {"group_ends.0"}}
      .expect_that_checks_see_all();
  Back back{codes.operand(), scales.operand(), {}, x.result()};
  RightCall<Back>{"dequantize",
                  dequantized,
                  back,
                  {{"codes", &Back::codes}, {"scales", &Back::scales}},
                  {{"x", &Back::x}}}
      .expect_that_checks_see_all();
  Back parts{codes.operand(), blocks.operand(), ends.operand(), x.result(), {128, 1}};
  RightCall<Back>{
      "dequantize",
      dequantized,
      parts,
      {{"codes", &Back::codes}, {"scales", &Back::scales}, {"group_ends", &Back::group_ends}},
      {{"x", &Back::x}},
      {"group_ends.0"}}
      .expect_that_checks_see_all();
}

TEST(WrongFields, OfGatesThatQuantizeAreRefused) {
  Tensor x(Dtype::bf16, {6, 64}), probs(Dtype::f32, {6}), dy(Dtype::bf16, {6, 32});
  Tensor codes(Dtype::e4m3, {6, 32}), scales(Dtype::e8m0, {6, 1});
  const Flat gate{x.operand(), probs.operand(), {}, {}, {}, codes.result(), scales.result(), {}};
  RightCall<Flat>{
      "swiglu_quantize", forward, gate, {{"x", &Flat::x}, {"probs", &Flat::probs}}, kWrites}
      .expect_that_checks_see_all();
  Tensor dcodes(Dtype::e4m3, {6, 64}), dscales(Dtype::e8m0, {6, 2}), dprobs(Dtype::f32, {6});
  const Flat gradients{x.operand(), probs.operand(), dy.operand(),     {},
                       {},          dcodes.result(), dscales.result(), dprobs.result()};
  Writes writes = kWrites;
  writes.push_back({"dprobs", &Flat::dprobs});
  RightCall<Flat>{"swiglu_quantize_backward",
                  backward,
                  gradients,
                  {{"x", &Flat::x}, {"probs", &Flat::probs}, {"dy", &Flat::dy}},
                  writes}
      .expect_that_checks_see_all();
  for (auto call : {forward, backward}) {
    Flat bad = call == forward ? gate : gradients;
    bad.rounding = Dtype::e4m3;
    const RightCall<Flat> right{"swiglu_quantize", call, bad, {}, {}};
    EXPECT_NE(right.complaint(bad).find("rounding: found e4m3, needs f32 or bf16 or f16"),
              std::string::npos);
  }
  Flat unweighed = gradients;
  unweighed.probs = {};
  EXPECT_EQ((RightCall<Flat>{"", backward, gradients, {}, {}}.complaint(unweighed)),
            "swiglu_quantize_backward: dprobs: needs to be given exactly when probs is");
}

TEST(WrongFields, OfDelayedScalesAreRefused) {
  Tensor x(Dtype::bf16, {6, 4}), history(Dtype::f32, {3}), scale(Dtype::f32, {1});
  Tensor next(Dtype::f32, {3}), next_scale(Dtype::f32, {1}), none(Dtype::f32, {0});
  DelayedScale op;
  op.history = history.operand();
  op.scale = scale.operand();
  op.next_history = next.result();
  op.next_scale = next_scale.result();
  using D = DelayedScale;
  const std::vector<std::pair<std::string, Result D::*>> writes = {
      {"next_history", &D::next_history}, {"next_scale", &D::next_scale}};
  RightCall<D>{
      "delayed_scale", delayed_scale, op, {{"history", &D::history}, {"scale", &D::scale}}, writes}
      .expect_that_checks_see_all();
  op.x = x.operand();
  const RightCall<D> right{"delayed_scale", delayed_scale, op, {}, writes};
  EXPECT_EQ(right.complaint(op), "");
  right.lay_over("next_history", &D::next_history, "x", &D::x);
  right.lay_over("next_scale", &D::next_scale, "x", &D::x);
  D bad = op;
  bad.x.dtype = Dtype::i32;
  EXPECT_EQ(right.complaint(bad), "delayed_scale: x: found i32, needs f32 or bf16 or f16");
  bad = op;
  bad.format = Dtype::bf16;
  EXPECT_NE(right.complaint(bad).find("delayed_scale: format: found bf16, needs e4m3"),
            std::string::npos);
  bad = op;
  bad.history = none.operand();
  bad.next_history = none.result();
  EXPECT_EQ(right.complaint(bad), "delayed_scale: history: found no element, needs one");
  bad.history = scale.operand();
  bad.scale = history.operand();
  bad.scale.extent[0] = 1;
  bad.next_history = next.result();
  bad.next_history.extent[0] = 1;
  EXPECT_EQ(right.complaint(bad), "") << "one element is a history";
}

TEST(WrongFields, OfTransposesThatKeepScalesAreRefused) {
  Tensor codes(Dtype::e4m3, {6, 4}), scales(Dtype::f32, {6, 1}), ends(Dtype::i32, {2});
  Tensor turned(Dtype::e4m3, {4, 6}), out(Dtype::f32, {2, 4});
  ends.as<std::int32_t>()[0] = 2;
  ends.as<std::int32_t>()[1] = 5;
  using T = ScalingAwareTranspose;
  T op;
  op.codes = codes.operand();
  op.scales = scales.operand();
  op.group_ends = ends.operand();
  op.codes_out = turned.result();
  op.scales_out = out.result();
  const RightCall<T> right{
      "scaling_aware_transpose",
      scaling_aware_transpose,
      op,
      {{"codes", &T::codes}, {"scales", &T::scales}, {"group_ends", &T::group_ends}},
      {{"codes_out", &T::codes_out}, {"scales_out", &T::scales_out}},
      {"group_ends.0"}};
  right.expect_that_checks_see_all();
  const auto with_scale = [&](Index row, float scale) {
    scales.as<float>()[row] = scale;
    const std::string said = right.complaint(op);
    scales.as<float>()[row] = 0;
    return said;
  };
  EXPECT_EQ(with_scale(0, 0x1p-126f), "");
  EXPECT_EQ(with_scale(4, 0x1p127f), "");
  EXPECT_EQ(with_scale(5, 3), "") << "a row of no group";
  const std::string needs = ", needs a power of two of at least 2^-126, or +0";
  EXPECT_EQ(with_scale(4, 3), "scaling_aware_transpose: scales: entry [4, 0] is 3.000000" + needs);
  for (const float bad : {0x1p-127f, -1.0f, -0.0f, 1.5f, std::numeric_limits<float>::infinity()}) {
    EXPECT_NE(with_scale(0, bad).find(needs), std::string::npos) << bad;
  }
  op.codes.dtype = Dtype::e4m3fnuz;
  EXPECT_EQ(right.complaint(op), "scaling_aware_transpose: codes_out: found e4m3, needs e4m3fnuz");
  op.codes_out.dtype = Dtype::e4m3fnuz;
  EXPECT_EQ(right.complaint(op), "");
  op.underflow = Underflow::flush;
  EXPECT_EQ(right.complaint(op),
            "scaling_aware_transpose: underflow: found a rule of e4m3, needs "
            "round for e4m3fnuz");
}

/// Two columns of scales; groups that end at `ends`.
std::string transposed_with(const std::vector<std::int32_t>& ends, Index row, Index column) {
  Tensor codes(Dtype::e4m3, {3, 130}), scales(Dtype::f32, {3, 2}), turned(Dtype::e4m3, {130, 3});
  Tensor groups(Dtype::i32, {static_cast<Index>(ends.size())});
  Tensor out(Dtype::f32, {static_cast<Index>(ends.size()), 130});
  std::copy(ends.begin(), ends.end(), groups.as<std::int32_t>());
  scales.as<float>()[row * 2 + column] = 3;
  Bare bare;
  return check_refusal([&] {
    scaling_aware_transpose(
        bare, {codes.operand(), scales.operand(), groups.operand(), turned.result(), out.result()});
  });
}

TEST(WrongFields, OfKeptScalesAreThoseOfGroups) {
  EXPECT_EQ(transposed_with({}, 0, 0), "");
  EXPECT_EQ(transposed_with({1}, 1, 0), "");
  const std::string op = "scaling_aware_transpose: scales: entry ";
  const std::string needs = " is 3.000000, needs a power of two of at least 2^-126, or +0";
  EXPECT_EQ(transposed_with({1}, 0, 0), op + "[0, 0]" + needs);
  EXPECT_EQ(transposed_with({1, 3}, 2, 1), op + "[2, 1]" + needs);
}

}  // namespace
}  // namespace mxo
