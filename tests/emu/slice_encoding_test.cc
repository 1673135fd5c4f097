// Codes to byte slices: the encoder in plain C++ against the values of the codes, the one by
// VPERMB against that, and the short tables it looks up.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/tile_emulation.h"

namespace mxo::slice_encoding_test {
namespace {

using cpu::kBlock;
using cpu::kChunk;
using cpu::kMaxSpread;
using cpu::kSpanBlocks;
using cpu::kSpanChunks;

constexpr Dtype kDtypes[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz};

/// A span of one K-vector, its scales and what becomes of it.
struct Span {
  std::uint8_t codes[kSpanChunks * kChunk] = {};
  std::uint8_t shift[kSpanBlocks] = {};
};
struct Slices {
  static constexpr int kStep = kChunk + 32;
  static constexpr int kRunStep = 3 * kStep;
  std::int8_t high[kSpanChunks * kRunStep];
  std::int8_t low[kSpanChunks * kRunStep];
  cpu::SliceTally tally;

  Slices() {
    std::memset(high, 0x5A, sizeof(high));
    std::memset(low, 0x5A, sizeof(low));
    std::memset(tally.residual, 0, sizeof(tally.residual));
    tally.clear();
  }
  cpu::SliceTarget target() { return {high, low, kStep, kRunStep}; }
  int integer(int c) {
    const int at = target().place(c / kChunk) + c % kChunk;
    return 256 * high[at] + static_cast<std::uint8_t>(low[at]);
  }
};

using Encode = decltype(cpu::TileKernels::encode_two_slices);

void expect_same(Encode encode, Dtype dtype, const Span& span, int chunks) {
  Slices found;
  Slices expected;
  const cpu::SliceTable& table = cpu::slice_table(dtype);
  // Twice, for tallies go on.
  for (int call = 0; call < 2; ++call) {
    encode(table, chunks, span.codes, span.shift, found.target(), found.tally);
    test::encode_two_slices(table, chunks, span.codes, span.shift, expected.target(),
                            expected.tally);
  }
  ASSERT_EQ(found.tally.special, expected.tally.special) << name_of(dtype);
  if (found.tally.special) return;
  const auto same = [](const auto& a, const auto& b) { return std::memcmp(a, b, sizeof(a)) == 0; };
  ASSERT_TRUE(same(found.high, expected.high)) << name_of(dtype);
  ASSERT_TRUE(same(found.low, expected.low)) << name_of(dtype);
  ASSERT_TRUE(same(found.tally.squares, expected.tally.squares)) << name_of(dtype);
  ASSERT_TRUE(same(found.tally.min_magnitude, expected.tally.min_magnitude)) << name_of(dtype);
  ASSERT_TRUE(same(found.tally.residual, expected.tally.residual)) << name_of(dtype);
}

TEST(SliceEncoding, CutsEveryCodeToItsIntegerAndMarksWhatIsLeft) {
  for (const Dtype dtype : kDtypes) {
    const cpu::SliceTable& table = cpu::slice_table(dtype);
    const float* values = cpu::code_values(dtype);
    for (int shift = 0; shift <= kMaxSpread; ++shift) {
      for (int code = 0; code < 256; ++code) {
        Span span;
        const int c = (code * 7 + shift) % (2 * kChunk);
        span.codes[c] = static_cast<std::uint8_t>(code);
        span.shift[c / kBlock] = static_cast<std::uint8_t>(shift);
        Slices slices;
        test::encode_two_slices(table, 2, span.codes, span.shift, slices.target(), slices.tally);
        const auto value = static_cast<double>(values[code]);
        ASSERT_EQ(slices.tally.special, !std::isfinite(value));
        if (slices.tally.special) continue;
        const double units = std::ldexp(value, -table.unit - shift);
        ASSERT_EQ(slices.integer(c), std::trunc(units)) << name_of(dtype) << " " << code;
        ASSERT_LT(std::abs(units), 32768.0);
        if (units != std::trunc(units)) {
          ASSERT_NE(slices.tally.residual[c / kChunk] >> c % kChunk & 1u, 0u);
        }
        const int magnitude = code & 0x7F;
        ASSERT_EQ(slices.tally.min_magnitude[c % kChunk], magnitude == 0 ? 255 : magnitude - 1);
        std::uint32_t others = 0;  // a zero counts 1
        for (const std::uint32_t sum : slices.tally.squares) others += sum;
        const double square = 65536.0 * (others - (2.0 * kChunk - 1));
        ASSERT_GT(square, units * units);
        ASSERT_LE(square, (std::abs(units) + 256) * (std::abs(units) + 256));
      }
    }
  }
}

TEST(SliceEncoding, FindsIntegersUnderASmallerScaleBySixBitsOfALowerMagnitude) {
  for (const Dtype dtype : kDtypes) {
    const cpu::SliceTable& table = cpu::slice_table(dtype);
    for (const cpu::ShiftedSlices& slices : table.shifted) {
      ASSERT_EQ(slices.residual_below, table.shifted[0].residual_below + slices.lowered[0]);
      for (int magnitude = 0; magnitude <= table.max_finite; ++magnitude) {
        const int at = std::max(magnitude - slices.lowered[0], 0);
        EXPECT_EQ(at < 64 ? 0 : table.high[at - 64], slices.high[magnitude]) << name_of(dtype);
        if (magnitude != 0 && magnitude < slices.residual_below) continue;
        const int low_at = at + table.low_offset - 64;
        EXPECT_EQ(low_at < 0 || low_at >= 64 ? 0 : table.low[low_at], slices.low[magnitude])
            << name_of(dtype) << " " << magnitude;
      }
    }
  }
}

TEST(SliceEncoding, GivesTheSameSlicesAndTalliesByVpermbAsInPlainCode) {
  if (!cpu::machine_has(cpu::Isa::amx)) GTEST_SKIP() << "this machine has no AMX, maybe no VPERMB";
  const Encode encode = cpu::kernels_of(cpu::Isa::amx).tiles->encode_two_slices;
  for (const Dtype dtype : kDtypes) {
    Span span;
    for (int shifts = 0; shifts < (kMaxSpread + 1) * (kMaxSpread + 1); ++shifts) {
      span.shift[0] = static_cast<std::uint8_t>(shifts % (kMaxSpread + 1));
      span.shift[1] = static_cast<std::uint8_t>(shifts / (kMaxSpread + 1));
      for (int code = 0; code < 256; ++code) {
        for (int c = 0; c < kChunk; ++c) {
          const bool all = code % 2 == 0;
          span.codes[c] = static_cast<std::uint8_t>(all ? code + c : c == code % kChunk ? code : 0);
        }
        expect_same(encode, dtype, span, 1);
        for (int c = 0; c < kChunk; ++c) {  // and without its specials
          if (!std::isfinite(cpu::code_values(dtype)[span.codes[c]])) span.codes[c] = 0;
        }
        expect_same(encode, dtype, span, 1);
      }
    }
  }
}

TEST(SliceEncoding, GivesTheSameOfWholeSpansByVpermb) {
  if (!cpu::machine_has(cpu::Isa::amx)) GTEST_SKIP() << "this machine has no AMX, maybe no VPERMB";
  const Encode encode = cpu::kernels_of(cpu::Isa::amx).tiles->encode_two_slices;
  std::mt19937 random(1);
  for (int round = 0; round < 4000; ++round) {
    const Dtype dtype = kDtypes[round % 4];
    Span span;
    const unsigned fill = random() % 4;
    for (std::uint8_t& code : span.codes) {
      const auto any = static_cast<std::uint8_t>(random());
      const bool keeps = fill == 0 || (fill == 1 ? (any & 0x40) != 0 : random() % 4 < fill);
      code = keeps ? any : 0;
      if (round % 9 != 0 && !std::isfinite(cpu::code_values(dtype)[code])) code = 0;
    }
    for (std::uint8_t& shift : span.shift)
      shift = static_cast<std::uint8_t>(random() % (kMaxSpread + 1));
    expect_same(encode, dtype, span, 1 + round % kSpanChunks);
  }
}

}  // namespace
}  // namespace mxo::slice_encoding_test
