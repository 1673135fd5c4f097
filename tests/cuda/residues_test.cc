// Products that residues decide, of the cuda backend against those of cpu.
#include <cmath>
#include <random>

#include "formats/minifloat.h"
#include "tests/cuda/products.h"

namespace mxo::test {
namespace {

/// Blocks times powers of two, from those that a few moduli hold to more than all of them do; codes
/// of all reaches where scales are those of rows.
TEST_F(CudaProducts, OfSpreadScalesHaveTheBytesOfCpu) {
  std::mt19937 random(37);
  std::normal_distribution<float> normal;
  for (const Scales scales : kUsualScales) {
    for (const int reach : {0, 6, 14, 20, 28, 60}) {
      for (const Pass pass : {Pass::forward, Pass::wgrad}) {
        GemmSpec spec = spec_of(scales, pass, reach % 20 == 0 ? Dtype::f32 : Dtype::bf16,
                                {800, 0, 160}, 288, pass == Pass::forward ? 1120 : 320);
        spec.a = spec.b = reach % 4 == 0 ? Dtype::e5m2 : Dtype::e4m3;
        const auto power = [&] {
          return static_cast<int>(random() % static_cast<unsigned>(2 * reach + 1)) - reach;
        };
        const auto code = [&](Index line, Index c) -> std::uint32_t {
          const auto block = static_cast<unsigned>(line * 977 + c / 32) * 2654435761u >> 7;
          const int now = static_cast<int>(block % static_cast<unsigned>(2 * reach + 1)) - reach;
          const float x = normal(random);
          if (scales == Scales::none) return encode<kBF16>(std::ldexp(x, now)).bits;
          return spec.a == Dtype::e5m2 ? encode<kE5M2>(std::ldexp(x, 4)).bits
                                       : encode<kE4M3>(std::ldexp(x, 4)).bits;
        };
        GemmCase gemm(spec);
        fill(gemm, code, code);
        const auto scale = [&](Strided& of, Index at) {
          const auto field =
              static_cast<std::uint32_t>(127 + (scales == Scales::rowwise ? 0 : power()));
          const bool f32 = scales != Scales::mx;
          of.set_bits(at, f32 ? field << 23 | random() % (1u << 23) : field);
        };
        for (Index g = 0; g < 3 && scales != Scales::none; ++g) {
          for (Index c = 0; c < gemm.length(g); c += 32) {
            for (Index i = 0; i < gemm.lines_a(g); ++i) {
              scale(gemm.a_scales, gemm.place_a(g, i, c).scale);
            }
            for (Index j = 0; j < gemm.lines_b(); ++j) {
              scale(gemm.b_scales, gemm.place_b(g, j, c).scale);
            }
          }
        }
        EXPECT_EQ(differing(gemm, kExact), 0) << reach << ", " << describe(spec);
      }
    }
  }
}

/// Almost all residues by 255 are -127, in K-vectors longer than int32 adds up; that residues by
/// 256 are -128 shows nothing: what overflows there is a multiple of 256.
TEST_F(CudaProducts, OfResiduesOfOneSignHaveTheBytesOfCpu) {
  for (const Dtype out : {Dtype::bf16, Dtype::f32}) {
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      constexpr Index kLength = 1100 * 128 + 32;
      GemmSpec spec = spec_of(Scales::none, pass, out, {pass == Pass::forward ? 48 : kLength}, 48,
                              pass == Pass::forward ? kLength : 48);
      GemmCase gemm(spec);
      const auto code = [](Index line, Index c) -> std::uint32_t {
        const int power = c == line ? 38 : c == line + 48 ? 0 : 7;
        return static_cast<std::uint32_t>(127 - 20 + power) << 7;
      };
      fill(gemm, code, code);
      EXPECT_EQ(differing(gemm, kExact), 0) << describe(spec);
    }
  }
}

}  // namespace
}  // namespace mxo::test
