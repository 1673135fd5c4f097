// Products that three slices decide, of the cuda backend against those of cpu.
#include <cmath>
#include <future>

#include "tests/cuda/products.h"

namespace mxo::test {
namespace {

constexpr std::pair<Pass, Dtype> kCases[] = {{Pass::forward, Dtype::bf16},
                                             {Pass::wgrad, Dtype::bf16},
                                             {Pass::forward, Dtype::f32},
                                             {Pass::wgrad, Dtype::f32}};

/// Lines of three slices: the first 128 with up to 25 lowest slices, which lists hold, the others
/// with up to 600; elements that three slices do not hold, more than lists hold, a greatest
/// significand of 255, few bits and ties, zeros, NaN and infinity.
TEST_F(CudaProducts, OfManyLowestSlicesHaveTheBytesOfCpu) {
  std::mt19937_64 random(13);
  for (const auto& [pass, out] : kCases) {
    GemmSpec spec = spec_of(Scales::none, pass, out, {700, 410}, 320, 1200);
    GemmCase gemm(spec);
    const auto code_of = [&](Index line, Index c) -> std::uint32_t {
      const auto bits = static_cast<std::uint32_t>(random());
      const auto code = [&](std::uint32_t exponent) { return (bits & 0x807Fu) | exponent << 7; };
      if (line == 300) return 0;
      if (line == 301 && c == 9) return 0x7FC0;
      if (line == 302 && c == 9) return 0xFF80;
      if (line % 3 == 1 && c == 5) return 0x40FF;
      if (line >= 64 && line < 72) return (bits & 0x8040u) | 127u << 7;
      if (c % 307 == line % 307) return code(100);
      if (line >= 200 && line % 2 == 0 && c % 3 != 2) return code(105) & 0x7FFFu;
      const Index lows = line < 128 ? line % 26 : line * 7 % 601;
      return (c * 7 + line) % 601 < lows / 2 ? code(120 - (bits >> 16) % 8)
                                             : code(129 - (bits >> 16) % 4);
    };
    fill(gemm, code_of, code_of);
    EXPECT_EQ(differing(gemm, kExact), 0) << describe(spec);
  }
}

/// Lines of three slices without lowest slices; of a alone, which has nothing else, so many that
/// tiles take their products; of less than a quantum alone.  Few enough outputs that all may be in
/// doubt.
TEST_F(CudaProducts, OfLowestSlicesAloneHaveTheBytesOfCpu) {
  enum class Kind { none, lowest, residuals };
  for (const Kind kind : {Kind::none, Kind::lowest, Kind::residuals}) {
    for (const auto& [pass, out] : kCases) {
      std::mt19937_64 random(17);
      const Index lines = kind == Kind::none ? 1000 : 16;
      GemmSpec spec = spec_of(Scales::none, pass, out, {pass == Pass::forward ? lines : 704}, lines,
                              pass == Pass::forward ? 704 : lines);
      GemmCase gemm(spec);
      const auto code = [&](std::uint32_t exponent, std::uint32_t binades) {
        const auto bits = static_cast<std::uint32_t>(random());
        return (bits & 0x807Eu) | (exponent - (bits >> 16) % binades) << 7;
      };
      const auto large = [&](Index, Index) { return code(129, 4); };
      if (kind == Kind::none) {
        fill(gemm, large, large);
      } else {
        fill(
            gemm,
            [&](Index line, Index c) -> std::uint32_t {
              if (c == 0) return 129u << 7;
              if (kind == Kind::residuals) return code(106, 3);
              return c < 470 + 10 * line ? code(113, 1) : 0;
            },
            [&](Index, Index c) -> std::uint32_t { return c == 0 ? 0 : code(129, 4); });
      }
      EXPECT_EQ(differing(gemm, kExact), 0) << static_cast<int>(kind) << ", " << describe(spec);
    }
  }
}

/// One function of the card is shared by all threads, each with a backend of its own.
TEST_F(CudaProducts, OfThreadsThatDifferInDepthHaveTheBytesOfCpu) {
  const auto wrong = [&](Index depth) {
    const auto own = make_backend("cuda");
    GemmCase gemm(spec_of(Scales::none, Pass::forward, Dtype::bf16, {256}, 256, depth));
    const std::vector<std::byte> expected = gemm.run(*cpu, kExact);
    int count = 0;
    for (int i = 0; i < 300; ++i) count += gemm.run(*own, kExact) != expected ? 1 : 0;
    return count;
  };
  auto other = std::async(std::launch::async, wrong, 192);
  EXPECT_EQ(wrong(4096), 0);
  EXPECT_EQ(other.get(), 0);
}

/// What SwiGLU makes, silu(g) u of normal g and u: of a, of both, along lines that lists hold and
/// that they do not.
TEST_F(CudaProducts, OfSwigluHaveTheBytesOfCpu) {
  std::mt19937 random(19);
  std::normal_distribution<float> normal;
  for (const Scales scales : {Scales::mx, Scales::none}) {
    for (const auto& [pass, out] : kCases) {
      for (const bool both : {false, true}) {
        GemmSpec spec =
            spec_of(scales, pass, out, {1312, 0, 160}, 288, pass == Pass::forward ? 2048 : 320);
        const auto code = [&](bool gated) -> std::uint32_t {
          const float gate = 1.7f * normal(random);
          const float x = normal(random) * (gated ? 1.7f * gate / (1 + std::exp(-gate)) : 1.0f);
          return scales == Scales::mx ? encode<kE4M3>(x * 16).bits : encode<kBF16>(x).bits;
        };
        GemmCase gemm(spec);
        fill(
            gemm, [&](Index, Index) { return code(true); },
            [&](Index, Index) { return code(both); });
        EXPECT_EQ(differing(gemm, kExact), 0) << both << ", " << describe(spec);
      }
    }
  }
}

/// A tie of 2^74 and 2^66 times ones, and an element of the least magnitude that is not 0 beside
/// it: which way, only that says.  Few enough outputs that all may be in doubt.
TEST_F(CudaProducts, OfFarElementsHaveTheBytesOfCpu) {
  for (const auto& [pass, out] : kCases) {
    GemmSpec spec = spec_of(Scales::none, pass, out, {pass == Pass::forward ? 16 : 416}, 16,
                            pass == Pass::forward ? 416 : 16);
    GemmCase gemm(spec);
    const auto line = [](Index i, Index c) -> std::uint32_t {
      if (c == 1) return (127 + 74) << 7;
      if (c == 300) return (127 + 66) << 7;
      return c != 401 || i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 0x8001;
    };
    fill(gemm, line, [](Index, Index) { return 127u << 7; });
    EXPECT_EQ(differing(gemm, kExact), 0) << describe(spec);
  }
}

/// Lines into f32: of up to as many residuals as are added, and of more; ties that one of them
/// breaks, by more than a quantum and by less, that an element far below two others does, which
/// cancel, and that nothing does; results beyond both ends of f32; one sign, as long as sums of
/// int32 allow, and longer.
TEST_F(CudaProducts, OfNineProductsHaveTheBytesOfCpu) {
  enum class Kind { residuals, ties, range, longest, longer };
  for (const Kind kind : {Kind::residuals, Kind::ties, Kind::range, Kind::longest, Kind::longer}) {
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      std::mt19937_64 random(23);
      const bool is_long = kind == Kind::longest || kind == Kind::longer;
      const Index length = kind == Kind::longest ? 43520 : kind == Kind::longer ? 43521 : 416;
      const Index lines = is_long ? 8 : 296;
      GemmSpec spec =
          spec_of(Scales::none, pass, Dtype::f32, {pass == Pass::forward ? lines : length},
                  is_long ? 8 : 40, pass == Pass::forward ? length : lines);
      GemmCase gemm(spec);
      fill(
          gemm,
          [&](Index line, Index c) -> std::uint32_t {
            const auto bits = static_cast<std::uint32_t>(random());
            const auto code = [&](Index e) {
              return (bits & 0x807Fu) | static_cast<std::uint32_t>(e) << 7;
            };
            const std::uint32_t sign = line % 3 == 1 ? 0u : 0x8000u;
            const bool far = line >= 256;  // another tile
            switch (kind) {
              case Kind::residuals: return code(c > 0 && c <= line / 2 ? 106 : 129 - c % 3);
              case Kind::ties:
                switch (c) {
                  case 300: return 103u << 7;
                  case 401: return far || line % 3 == 0 ? 0u : sign | 97u << 7;
                  case 404: return 127u << 7;
                  case 405: return far ? 67u << 7 : 0u;
                  case 406: return far ? sign | 8u : 0u;
                  case 407: return far ? 0x8000u | 67u << 7 : 0u;
                  default: return 0u;
                }
              case Kind::range: return code(127 - 60 + line % 121 - c % 4);
              default: return c % 5 == 0 ? 0x42FEu : 0x3FFFu - (bits >> 16) % 1024;
            }
          },
          [&](Index line, Index c) -> std::uint32_t {
            const auto bits = static_cast<std::uint32_t>(random());
            if (kind == Kind::ties) return (c == 401 && line % 2 != 0 ? 111u : 127u) << 7;
            if (is_long) return c % 7 == 0 ? 0x42FEu : 0x3FFFu - (bits >> 16) % 1024;
            const bool left = kind == Kind::residuals && c % 97 == line;
            const Index exponent = kind == Kind::range ? 127 - 60 + line * 3 : left ? 103 : 127;
            return (bits & 0x807Fu) | static_cast<std::uint32_t>(exponent - c % 4) << 7;
          });
      EXPECT_EQ(differing(gemm, kExact), 0) << static_cast<int>(kind) << ", " << describe(spec);
    }
  }
}

}  // namespace
}  // namespace mxo::test
