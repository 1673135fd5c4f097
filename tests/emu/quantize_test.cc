// quantize and dequantize: every instruction set and thread count gives the reference's bytes.
#include "ops/quantize.h"

#include <gtest/gtest.h>

#include "ops/scale_layouts.h"
#include "tests/support/contestants.h"
#include "tests/support/strided.h"

namespace mxo::test::quantize_test {
namespace {

/// Along which axis neighbours share a scale.
enum class Axis { columns, rows };

struct Question {
  std::vector<Index> shape;
  Dtype input = Dtype::bf16;
  Dtype format = Dtype::e4m3;
  ScaleMode mode = ScaleMode::rceil;
  Axis axis = Axis::columns;
  ScaleProfile profile = kTorchao;
  Index neighbours = kMxBlock;
  Lie x{"contiguous"};
  Lie codes{"contiguous"};
  Lie scales{"contiguous"};

  BlockExtents block() const {
    return axis == Axis::columns ? BlockExtents{1, neighbours} : BlockExtents{neighbours, 1};
  }
  ScaleRule rule() const { return mx_rule(mode, profile); }
};

struct Answer {
  std::vector<std::byte> codes, scales, back_f32, back_bf16;
  bool operator==(const Answer&) const = default;
};

std::vector<Index> scales_shape(const Question& q) { return shape_of_scales(q.shape, q.block()); }

/// Quantises, then dequantises both ways.  Whole buffers come back, guard bytes included.
Answer ask(Backend& backend, const Question& q, const Strided& x) {
  const std::vector<std::byte> before = x.bytes();
  Strided codes(q.format, q.shape, q.codes);
  Strided scales(Dtype::e8m0, scales_shape(q), q.scales);
  quantize(backend, {x.operand(), {}, {codes.result(), scales.result(), q.block()}, q.rule()});
  EXPECT_EQ(before, x.bytes()) << "the operand changed";
  Strided f32(Dtype::f32, q.shape, q.x);
  Strided bf16(Dtype::bf16, q.shape, q.x);
  const ScaledTensor quantized{codes.operand(), scales.operand(), q.block()};
  dequantize(backend, {quantized, {}, f32.result()});
  dequantize(backend, {quantized, {}, bf16.result()});
  return {codes.bytes(), scales.bytes(), f32.bytes(), bf16.bytes()};
}

void everyone_agrees(const std::vector<Question>& questions, const std::vector<Fill>& fills) {
  const auto reference = make_reference_backend();
  const auto backends = all_backends();
  std::uint32_t seed = 1;
  for (const Question& q : questions) {
    for (const Fill how : fills) {
      Strided x(q.input, q.shape, q.x);
      fill(x, how, ++seed);
      const Answer want = ask(*reference, q, x);
      int number = 0;
      for (const auto& backend : backends) {
        const Answer got = ask(*backend, q, x);
        ASSERT_TRUE(got == want) << backend->name() << " #" << number << ", "
                                 << describe(x.operand()) << " to " << name_of(q.format)
                                 << ", mode " << static_cast<int>(q.mode) << ", block "
                                 << name_of(q.block()) << ", x " << q.x.name << ", codes "
                                 << q.codes.name << ", scales " << q.scales.name << ", fill "
                                 << static_cast<int>(how) << ": codes " << (got.codes == want.codes)
                                 << " scales " << (got.scales == want.scales) << " f32 "
                                 << (got.back_f32 == want.back_f32) << " bf16 "
                                 << (got.back_bf16 == want.back_bf16);
        ++number;
      }
    }
  }
}

constexpr Dtype kFormats[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz};
constexpr Dtype kInputs[] = {Dtype::f32, Dtype::bf16, Dtype::f16};
constexpr Axis kAxes[] = {Axis::columns, Axis::rows};

TEST(Quantize, EveryRuleGivesTheReferencesBytesOnEveryInstructionSet) {
  constexpr ScaleProfile kDivision{Descale::division, InfinityRule::nan, NanRule::ignore,
                                   FloorRule::multiply};
  std::vector<Question> questions;
  for (const Dtype format : kFormats)
    for (const Dtype input : kInputs)
      for (const Axis axis : kAxes)
        for (const ScaleMode mode :
             {ScaleMode::rceil, ScaleMode::floor, ScaleMode::ceil, ScaleMode::even})
          for (const auto& profile : {kTorchao, kTransformerEngine, kOcp, kDivision})
            questions.push_back({{64, 544}, input, format, mode, axis, profile});
  everyone_agrees(questions, {Fill::edges});
}

TEST(Quantize, AnyStridesGiveTheReferencesBytesAndLeaveTheGapsAlone) {
  std::vector<Question> questions;
  for (const Dtype input : kInputs)
    for (const Axis axis : kAxes)
      for (const Lie& x : lies())
        for (const Lie& codes : lies()) {
          Question q{{2, 64, 160}, input, Dtype::e4m3, ScaleMode::rceil, axis};
          q.x = x;
          q.codes = codes;
          q.scales = lies()[questions.size() % lies().size()];
          questions.push_back(q);
        }
  everyone_agrees(questions, {Fill::blocks});
}

TEST(Quantize, OddShapesAndBlocksGiveTheReferencesBytes) {
  struct Size {
    std::vector<Index> shape;
    Index block;
  };
  const Size sizes[] = {{{0, 64}, 32},    {{32, 0}, 32},  {{0, 0}, 32},    {{0, 32, 32}, 32},
                        {{32, 32}, 32},   {{32, 96}, 32}, {{320, 32}, 32}, {{3, 32, 2112}, 32},
                        {{64, 4160}, 32}, {{12, 12}, 1},  {{12, 24}, 4},   {{1024, 512}, 512},
                        {{34, 68}, 17},   {{1, 5, 5}, 5}};
  std::vector<Question> questions;
  for (const Size& size : sizes)
    for (const Dtype input : kInputs)
      for (const Axis axis : kAxes) {
        Question q{size.shape, input, Dtype::e5m2, ScaleMode::floor, axis};
        q.neighbours = size.block;
        if (q.shape[q.shape.size() - (axis == Axis::rows ? 2 : 1)] % q.neighbours == 0)
          questions.push_back(q);
      }
  everyone_agrees(questions, {Fill::noise, Fill::anything});
}

/// What quantize alone writes, for tensors too large to take back as well.
Answer quantized(Backend& backend, const Question& q, const Strided& x) {
  Strided codes(q.format, q.shape, q.codes);
  Strided scales(Dtype::e8m0, scales_shape(q), q.scales);
  quantize(backend, {x.operand(), {}, {codes.result(), scales.result(), q.block()}, q.rule()});
  return {codes.bytes(), scales.bytes(), {}, {}};
}

TEST(Quantize, ResultsPastTheCachesAreStreamedToTheSameBytes) {
  Strided x(Dtype::bf16, {1024, 4192}, {"contiguous"});
  fill(x, Fill::blocks, 11);
  const auto reference = make_reference_backend();
  for (const Axis axis : kAxes) {
    for (const Lie& codes :
         {Lie{"contiguous"}, Lie{"offset", 1, 0, 1}, Lie{"turned", 1, 0, 0, true}}) {
      Question q{{1024, 4192}, Dtype::bf16, Dtype::e4m3, ScaleMode::rceil, axis};
      q.codes = codes;
      q.scales.turned = codes.turned;
      const Answer want = quantized(*reference, q, x);
      for (const char* isa : {"avx2", "best"}) {
        if (!cpu::machine_has(cpu::Isa::avx2)) GTEST_SKIP() << "only the vector tables stream";
        const auto backend = make_cpu_backend({isa, 2});
        EXPECT_TRUE(quantized(*backend, q, x) == want) << isa << " " << codes.name;
      }
    }
  }
}

// All bf16 patterns against all scales a block can have: element 0 sets amax.
TEST(Quantize, EveryBf16PatternUnderEveryScaleGivesTheReferencesBytes) {
  Strided x(Dtype::bf16, {256, 8192}, {"contiguous"});
  const auto put = [&](Index i, std::uint16_t bits) { std::memcpy(x.at(i), &bits, 2); };
  const auto reference = make_reference_backend();
  for (std::uint32_t part = 0; part < 8; ++part) {
    for (Index i = 0; i < x.elements(); ++i) {
      const auto scale = static_cast<std::uint16_t>(i / 8192 << 7 | 0x55);
      const auto code =
          static_cast<std::uint16_t>(part << 13 | static_cast<std::uint32_t>(i % 8192));
      put(i, i % 32 == 0 || (code & 0x7FFF) > (scale & 0x7FFF) ? scale & 0x7FFF : code);
    }
    for (const Dtype format : kFormats) {
      const Question q{{256, 8192}, Dtype::bf16, format, ScaleMode::floor};
      const Answer want = quantized(*reference, q, x);
      for (const cpu::Isa isa : cpu::machine_isas()) {
        if (isa == cpu::Isa::scalar) continue;
        const auto backend = make_cpu_backend({std::string(name_of(isa)), 2});
        ASSERT_TRUE(quantized(*backend, q, x) == want)
            << name_of(format) << " " << part << " " << name_of(isa);
      }
    }
  }
}

TEST(Quantize, WithBlockedScalesGivesWhatQuantizeAndSwizzleGiveInTwoSteps) {
  std::uint32_t seed = 900;
  for (const auto& shape : {std::vector<Index>{1, 32}, {129, 160}, {3, 40, 288}, {0, 64}}) {
    std::vector<Index> blocked = {blocked_bytes(shape[shape.size() - 2], shape.back() / kMxBlock)};
    if (shape.size() == 3) blocked.insert(blocked.begin(), shape[0]);
    Question q{shape};
    Strided x(q.input, shape, {"odd_rows", 1, 3, 5});
    fill(x, Fill::edges, ++seed);
    Strided codes(q.format, shape, {"contiguous"});
    Strided scales(Dtype::e8m0, scales_shape(q), {"contiguous"});
    Strided want(Dtype::e8m0, blocked, {"offset", 1, 0, 1});
    const auto reference = make_reference_backend();
    quantize(*reference, {x.operand(), {}, {codes.result(), scales.result(), kMxColumns}});
    swizzle_scales(*reference,
                   {scales.operand(),
                    {},
                    want.result(),
                    shape.size() == 3 ? ScaleLayout::per_group_3d : ScaleLayout::blocked});
    for (const auto& backend : {make_backend("reference"), make_backend("cpu", 2)}) {
      Strided fused_codes(q.format, shape, {"contiguous"});
      Strided found(Dtype::e8m0, blocked, {"offset", 1, 0, 1});
      Quantize op{x.operand(), {}, {fused_codes.result(), found.result(), kMxColumns}};
      op.to.storage = ScaleStorage::blocked;
      quantize(*backend, op);
      EXPECT_TRUE(found.bytes() == want.bytes()) << backend->name();
      EXPECT_TRUE(fused_codes.bytes() == codes.bytes()) << backend->name();
      op.to.block = kMxRows;
      EXPECT_THROW(quantize(*backend, op), Error) << "blocks of rows have no blocked scales";
    }
  }
}

TEST(Dequantize, EveryNaNUnderF32ScalesIsTheCanonicalOne) {
  constexpr std::uint32_t kScales[] = {0, 0x7F800000, 0x7F800001, 0xFFC00000, 0x3FC00000};
  Strided codes(Dtype::e5m2, {5, 256}, {"contiguous"});
  Strided scales(Dtype::f32, {5, 1}, {"contiguous"});
  for (Index i = 0; i < codes.elements(); ++i) std::memcpy(codes.at(i), &i, 1);
  for (Index r = 0; r < 5; ++r) std::memcpy(scales.at(r), &kScales[r], 4);
  const auto back = [&](Backend& backend, Dtype type) {
    Strided x(type, {5, 256}, {"contiguous"});
    dequantize(backend, {{codes.operand(), scales.operand(), kWholeRow}, {}, x.result()});
    return x.bytes();
  };
  for (const Dtype type : {Dtype::f32, Dtype::bf16})
    for (const auto& backend : all_backends())
      EXPECT_EQ(back(*backend, type), back(*make_reference_backend(), type)) << backend->name();
}

}  // namespace
}  // namespace mxo::test::quantize_test
