// swiglu_quantize and its gradients give the bytes of the two steps.
#include "ops/swiglu_quantize.h"

#include <gtest/gtest.h>

#include "tests/support/contestants.h"
#include "tests/support/random_tensors.h"
#include "tests/support/strided.h"

namespace mxo::test::swiglu_quantize_test {
namespace {

/// One way to quantise.
struct How {
  Dtype format = Dtype::e4m3;
  bool mx = true;
  BlockExtents block = kMxColumns;
  F32ScaleRule rule = kFlowBlockwise;
  std::vector<std::int32_t> ends = {};
};

struct Question {
  Index rows;
  Index width;  ///< F
  How how;
  Dtype input = Dtype::bf16;
  Dtype rounding = Dtype::f32;
  bool weighted = true;
  Lie x{"contiguous"};
  Lie codes{"contiguous"};
  Lie scales{"contiguous"};
};

Strided scales_for(const How& how, Index rows, Index columns, const Tensor& ends, const Lie& lie) {
  const Index shape[] = {rows, columns};
  const std::vector<Index> scales =
      how.ends.empty()
          ? shape_of_scales(shape, how.block)
          : shape_of_scales(shape, how.block, row_blocks(ends.operand(), how.block.rows));
  return Strided(how.mx ? Dtype::e8m0 : Dtype::f32, scales, lie);
}

/// All memory that the forward and the backward pass write, guard bytes included.
using Answer = std::vector<std::vector<std::byte>>;

struct Operands {
  Strided x;
  Strided dy;
  Tensor probs;
  Tensor ends;
};

/// `fused`: one operator each.  Else swiglu, then the quantiser.
Answer ask(Backend& backend, const Question& q, const Operands& in, bool fused) {
  const Operand probs = q.weighted ? in.probs.operand() : Operand{};
  Tensor dprobs(Dtype::f32, {q.rows});
  const Result dprobs_out = q.weighted ? dprobs.result() : Result{};
  Strided codes(q.how.format, {q.rows, q.width}, q.codes);
  Strided scales = scales_for(q.how, q.rows, q.width, in.ends, q.scales);
  Strided dcodes(q.how.format, {q.rows, 2 * q.width}, q.codes);
  Strided dscales = scales_for(q.how, q.rows, 2 * q.width, in.ends, q.scales);
  const ScaledResult y{codes.result(), scales.result(), q.how.block};
  const ScaledResult dx{dcodes.result(), dscales.result(), q.how.block};
  const Operand ends = q.how.ends.empty() ? Operand{} : in.ends.operand();
  const ScaleRule rule = f32_rule(q.how.rule);
  if (fused) {
    swiglu_quantize(backend, {in.x.operand(), probs, ends, q.rounding, y, rule});
    swiglu_quantize_backward(
        backend, {in.x.operand(), probs, in.dy.operand(), ends, q.rounding, dx, rule, dprobs_out});
  } else {
    Tensor between(q.rounding, {q.rows, q.width});
    swiglu(backend, {in.x.operand(), probs, between.result()});
    Tensor gradient(q.rounding, {q.rows, 2 * q.width});
    swiglu_backward(backend,
                    {in.x.operand(), probs, in.dy.operand(), gradient.result(), dprobs_out});
    quantize(backend, {between.operand(), ends, y, rule});
    quantize(backend, {gradient.operand(), ends, dx, rule});
  }
  return {codes.bytes(),
          scales.bytes(),
          dcodes.bytes(),
          dscales.bytes(),
          {dprobs.data(), dprobs.data() + dprobs.bytes()}};
}

void fused_is_unfused(const std::vector<Question>& questions) {
  const auto reference = make_reference_backend();
  const auto backends = all_backends();
  std::uint32_t seed = 1;
  for (const Question& q : questions) {
    for (const Fill how : {Fill::noise, Fill::edges}) {
      Operands in{{q.input, {q.rows, 2 * q.width}, q.x},
                  {q.input == Dtype::f16 ? Dtype::f16 : Dtype::bf16, {q.rows, q.width}, q.x},
                  random_floats(Dtype::f32, {q.rows}, ++seed),
                  group_ends_of(q.how.ends)};
      fill(in.x, how, ++seed);
      fill(in.dy, how, ++seed);
      const Answer want = ask(*reference, q, in, false);
      ASSERT_EQ(want, ask(*reference, q, in, true));
      for (const auto& backend : backends) {
        const Answer got = ask(*backend, q, in, true);
        for (std::size_t i = 0; i < want.size(); ++i) {
          ASSERT_EQ(want[i] == got[i], true)
              << backend->name() << " output " << i << ", " << q.rows << " x " << q.width << ", mx "
              << q.how.mx << ", block " << name_of(q.how.block) << ", x " << q.x.name << ", codes "
              << q.codes.name << ", fill " << static_cast<int>(how);
        }
      }
    }
  }
}

std::vector<How> ways() {
  std::vector<How> all;
  for (const BlockExtents block : {kMxColumns, kMxRows}) all.push_back({Dtype::e4m3, true, block});
  for (const BlockExtents block : {BlockExtents{1, 8}, BlockExtents{8, 1}, BlockExtents{32, 32}})
    all.push_back({Dtype::e5m2, true, block});
  for (const BlockExtents block : {kRowBlock, kColumnBlock, kSquareBlock, kWholeRow, kWholeColumn,
                                   kWholeTensor, BlockExtents{5, 7}}) {
    all.push_back({Dtype::e4m3, false, block});
    all.push_back({Dtype::e4m3fnuz, false, block, kTorchaoBlockwise});
  }
  return all;
}

TEST(SwigluQuantize, GivesTheBytesOfSwigluThenQuantizeInEveryWay) {
  std::vector<Question> questions;
  for (const How& how : ways()) {
    for (const Dtype input : {Dtype::bf16, Dtype::f32}) {
      for (const Dtype rounding : {Dtype::bf16, Dtype::f32})
        questions.push_back({64, 96, how, input, rounding, input == rounding});
    }
    questions.push_back({64, 96, how, Dtype::f16, Dtype::f16});
    questions.push_back({64, 96, how, Dtype::f16, Dtype::f32, false});
    questions.push_back({64, 96, how, Dtype::bf16, Dtype::f16});
    questions.push_back({32, 1056, how});
    if (how.block.rows == 1) questions.push_back({9, 4224, how});  // wider than a panel of few rows
    questions.push_back({0, 32, how});
    questions.push_back({32, 0, how});
  }
  fused_is_unfused(questions);
}

TEST(SwigluQuantize, RestartsTilesAtEachGroupAndLeavesRowsPastTheLastAlone) {
  How how{Dtype::e4m3, false, kColumnBlock};
  std::vector<Question> questions;
  for (const std::vector<std::int32_t>& ends :
       {std::vector<std::int32_t>{300}, {0, 1, 1, 130, 290}, {128, 256}, {0, 0}}) {
    how.ends = ends;
    questions.push_back({300, 72, how});
  }
  fused_is_unfused(questions);
}

TEST(SwigluQuantize, TakesAnyStridesAndWritesNothingBetweenThem) {
  std::vector<Question> questions;
  const std::vector<Lie> lies = test::lies();
  for (const How& how : ways()) {
    for (std::size_t i = 0; i < lies.size(); ++i) {
      Question q{40, 72, how};
      q.rows = how.mx && how.block.rows > 1 ? 64 : 40;
      q.width = how.mx ? 96 : 72;
      if (i % 2 == 1) q.input = q.rounding = Dtype::f16;
      q.x = lies[i];
      q.codes = lies[(i + 3) % lies.size()];
      q.scales = lies[(i + 5) % lies.size()];
      questions.push_back(q);
    }
  }
  fused_is_unfused(questions);
}

}  // namespace
}  // namespace mxo::test::swiglu_quantize_test
