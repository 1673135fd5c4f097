// Products that four slices decide, of the cuda backend against those of cpu.
#include <cmath>
#include <utility>

#include "tests/cuda/products.h"

namespace mxo::test {
namespace {

/// Bits of bf16: a sign, seven or fewer bits, the greatest at `place` of a K-vector's integers
/// whose greatest element is top().
std::uint32_t at_place(std::uint32_t bits, int place) {
  return (bits & 0x807Eu) | static_cast<std::uint32_t>(99 + place) << 7;
}
constexpr std::uint32_t kTop = (99u + 30) << 7;

/// Outliers, one element in `every` times 2^`power`; mx codes are of e5m2, which have the reach.
/// Into f32 residues decide them.
TEST_F(CudaProducts, OfOutliersHaveTheBytesOfCpu) {
  const struct {
    Scales scales;
    int every, power;
  } rows[] = {{Scales::none, 500, 10},
              {Scales::none, 32, 15},
              {Scales::mx, 100, 12},
              {Scales::none, 60, 19},
              {Scales::mx, 32, 15}};
  std::mt19937 random(29);
  std::normal_distribution<float> normal;
  for (const auto& row : rows) {
    for (const auto& [pass, out] :
         {std::pair{Pass::forward, Dtype::bf16}, std::pair{Pass::wgrad, Dtype::bf16},
          std::pair{Pass::forward, Dtype::f32}, std::pair{Pass::wgrad, Dtype::f32}}) {
      GemmSpec spec =
          spec_of(row.scales, pass, out, {800, 0, 160}, 288, pass == Pass::forward ? 1120 : 320);
      spec.a = spec.b = Dtype::e5m2;
      const auto code = [&](Index, Index) -> std::uint32_t {
        const bool outlier = random() % static_cast<unsigned>(row.every) == 0;
        const float x = std::ldexp(normal(random), outlier ? row.power : 0);
        return row.scales == Scales::mx ? encode<kE5M2>(std::ldexp(x, -4)).bits
                                        : encode<kBF16>(x).bits;
      };
      GemmCase gemm(spec);
      fill(gemm, code, code);
      EXPECT_EQ(differing(gemm, kExact), 0) << row.every << ", " << describe(spec);
    }
  }
}

/// Lines whose products are only what the kernel leaves to its bound, few enough that all may be in
/// doubt: of lowest slices; of residuals; of what the carries round; on both ends of the powers of
/// two that it takes; of one sign, as long as sums of int32 allow, and longer.
TEST_F(CudaProducts, OfBoundsOfFourSlicesHaveTheBytesOfCpu) {
  enum class Kind { lowest, residuals, carries, least, greatest, longest, longer };
  for (const Kind kind : {Kind::lowest, Kind::residuals, Kind::carries, Kind::least, Kind::greatest,
                          Kind::longest, Kind::longer}) {
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      std::mt19937_64 random(31);
      const Index length = kind == Kind::longest ? 32512 : kind == Kind::longer ? 32513 : 704;
      GemmSpec spec =
          spec_of(Scales::none, pass, Dtype::bf16, {pass == Pass::forward ? 16 : length}, 16,
                  pass == Pass::forward ? length : 16);
      GemmCase gemm(spec);
      // Of a: the last line of four is beyond the end.
      const auto moved = [&](std::uint32_t code, Index line) {
        const int over = line % 4 == 3 ? 1 : 0;
        return code +
               (static_cast<std::uint32_t>(kind == Kind::least ? -48 - over : 72 + over) << 7);
      };
      const auto either = [&](Index line, Index c, bool first) -> std::uint32_t {
        const auto word = static_cast<std::uint32_t>(random());
        if (kind == Kind::least || kind == Kind::greatest) {
          const int small = 5 + static_cast<int>(word >> 16) % 10;
          const std::uint32_t code = at_place(word, c % 64 == 0 ? 30 : small);
          return first ? moved(code, line) : code;
        }
        if (c == (first ? 0 : 1)) return kTop;
        if (c < 2) return 0;
        switch (kind) {
          case Kind::lowest:
            return at_place(word, first ? 6 : 14) & (line % 3 == 0 ? 0xFFFFu : 0x7FFFu);
          case Kind::residuals:
            if (c >= 8) return first ? at_place(word, 6) : 0;
            return at_place(word & 0x7FFFu, first ? -2 : 29);
          case Kind::carries: return first && c < 100 ? at_place(word, 6) : at_place(word, 14);
          default: return c % 7 == 0 ? at_place(word & 0x7FFFu, 6) : kTop | 0x7Eu;
        }
      };
      fill(
          gemm, [&](Index line, Index c) { return either(line, c, true); },
          [&](Index line, Index c) { return either(line, c, false); });
      EXPECT_EQ(differing(gemm, kExact), 0) << static_cast<int>(kind) << ", " << describe(spec);
    }
  }
}

}  // namespace
}  // namespace mxo::test
