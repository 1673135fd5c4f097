// Products of codes under e8m0 scales, of few blocks and of one span, by tables of tiles against
// the definition.
#include <random>

#include "tests/support/tile_tables.h"

namespace mxo::gemm_codes_test {
namespace {

/// Codes under e8m0 scales, K-vectors of one span.
struct Codes {
  Tensor codes, scales;
  Codes(Dtype dtype, Index lines, Index depth, int centre, int spread, std::mt19937& random,
        const std::function<double()>& draw)
      : codes(dtype, {lines, depth}), scales(Dtype::e8m0, {lines, depth / kMxBlock}) {
    const bool wide = dtype == Dtype::e5m2 || dtype == Dtype::e5m2fnuz;
    const double range = wide ? 128 : dtype == Dtype::e4m3fnuz ? 0.5 : 1;
    visit_minifloat8(dtype, [&](auto tag) {
      using Code = typename decltype(tag)::type;
      for (Index i = 0; i < codes.elements(); ++i)
        codes.as<std::uint8_t>()[i] =
            encode<Code::spec>(static_cast<float>(draw() * range), Overflow::saturate).bits;
    });
    for (Index i = 0; i < scales.elements(); ++i) {
      const int above = static_cast<int>(random() % static_cast<unsigned>(spread + 1));
      scales.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(centre + above);
    }
  }
  /// Of E4M3 under scales of 1: element(line, place).
  template <typename Element>
  Codes(Index lines, Index depth, const Element& element)
      : codes(Dtype::e4m3, {lines, depth}), scales(Dtype::e8m0, {lines, depth / kMxBlock}) {
    for (Index i = 0; i < codes.elements(); ++i) {
      const auto value = static_cast<float>(element(i / depth, i % depth));
      codes.as<E4M3>()[i] = encode<kE4M3>(value, Overflow::saturate);
    }
    std::fill_n(scales.as<std::uint8_t>(), scales.elements(), std::uint8_t{127});
  }
};

class GemmCodes : public test::TileTables {
 protected:
  void expect_same(const Codes& x, const Codes& w) {
    expect_same_codes(x.codes, x.scales, w.codes, w.scales);
  }
  void expect_same_across(const Codes& dy, const Codes& x) {
    expect_same_codes_across(dy.codes, dy.scales, x.codes, x.scales);
  }
};

TEST_P(GemmCodes, RoundSumsOfCodesWhoseDepthIsOneSpan) {
  std::mt19937 random(6);
  std::normal_distribution<double> normal;
  const std::function<double()> draws[] = {
      [&] { return 145 * normal(random); },  // as quantised blocks are
      [&] { return 60 * normal(random) * normal(random) * normal(random); },    // more residuals
      [&] { return static_cast<double>(static_cast<int>(random() % 5) - 2); },  // zeros and ties
      [&] { return random() % 64 == 0   ? 448.0
                   : random() % 16 == 0 ? 0x1.8p-9
                                        : 0.0; },
      [&] { return random() % 2048 == 0 ? NAN : 100 * normal(random); },
  };
  const Dtype dtypes[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz};
  const Index depths[] = {32, 96, 160, 192, 224, 480, 512, 544};
  int turn = 0;
  for (const auto& draw : draws) {
    for (const int spread : {0, 1, 5, 6}) {
      for (const int centre : {2, 70, 77, 127, 150, 170, 230}) {  // units within and out of range
        const Index depth = depths[turn % 8];
        const Codes x(dtypes[turn % 4], 20, depth, centre, spread, random, draw);
        const Codes w(dtypes[turn / 4 % 4], 36, depth, 124 + turn % 5, spread / 2, random, draw);
        if (turn / 3 % 2 == 0) {
          expect_same(x, w);
        } else {
          expect_same_across(x, w);
        }
        ++turn;
      }
    }
  }
}

TEST_P(GemmCodes, RoundSumsBesideATieByWhatLiesFarBelowTheirLastBitInF32) {
  // 2^16 + odd 2^9 + 2^8 + tail 2^-12: a tie of bf16 but for a tail that f32 would lose.
  const Codes x(24, 32, [](Index row, Index place) {
    const double sign = row % 2 == 0 ? 1 : -1;
    const double odd = row / 2 % 2 == 0 ? 0 : 1;
    const double tail = static_cast<double>(row / 4 % 3 - 1) * 0x1p-6;
    const double elements[] = {sign * 256, sign * 16, sign * 32 * odd, tail, 0.0};
    return elements[std::min<Index>(place, 4)];
  });
  const Codes w(40, 32, [](Index row, Index place) {
    const double tail = row % 2 == 0 ? 0x1p-6 : -0x1p-6;
    const double elements[] = {256.0, 16.0, 16.0, tail, 0.0};
    return elements[std::min<Index>(place, 4)];
  });
  expect_same(x, w);
  expect_same_across(x, w);
}

TEST_P(GemmCodes, RoundSumsOfFewBlocksBesideATieByWhatLiesInOtherBlocks) {
  // The same in pieces: the tie from two blocks, the tail that f32 loses from a third, or two tails
  // that cancel.
  const auto element = [](Index line, Index place, bool of_x) {
    const double tail = static_cast<double>(line % 3 - 1) * 0x1p-6;
    if (place == 0) return 256.0;
    if (place == 40) return line / 3 % 2 == 0 || of_x ? 16.0 : -16.0;
    if (place == 41) return !of_x ? 16.0 : line / 3 % 2 == 0 ? 32.0 : 0.0;
    if (place == 80) return of_x ? tail : 0x1p-6;
    if (place == 130) return of_x ? 0x1p-6 : tail;
    return 0.0;
  };
  const Codes x(24, 192, [&](Index line, Index place) { return element(line, place, true); });
  const Codes w(40, 192, [&](Index line, Index place) { return element(line, place, false); });
  expect_same_across(x, w);
}

TEST_P(GemmCodes, RoundSumsOfOneBlockBesideATieByWhatAGreaterPartialSumHasCut) {
  // Products in even places: X, a small one, -X and the residual of a tie.  In f32 X and the small
  // one lose what would decide.  Either factor of the small one is small, or one of them alone.
  const std::vector<double> factors[] = {
      {448, 0.5625, -448, 16, 0.6875},
      {448, 0.5625, 448, 16, 1},  // 257 + 2^-8
      {448, 2.25, -448, 16, 4},
      {448, 0.28125, 448, 16, 0.09375},  // 257 + 2^-7
  };
  for (int i = 0; i < 4; i += 2) {
    for (const double sign : {1.0, -1.0}) {
      const auto codes = [&](Index lines, const std::vector<double>& of, double by) {
        return Codes(lines, 32, [&](Index, Index place) {
          return place % 2 == 0 && place < 10 ? by * of[static_cast<std::size_t>(place / 2)] : 0.0;
        });
      };
      const Codes x = codes(33, factors[i], sign);
      const Codes w = codes(49, factors[i + 1], 1.0);
      expect_same_across(x, w);
      expect_same_across(w, x);
    }
  }
}

TEST_P(GemmCodes, RoundSumsOfBlocksWhoseAdditionInF32CutsWhatDecides) {
  // Each block is exact.  2 * 5 * 448^2 takes 2^-4 from what the third adds, +-(5 + 2^-4); two more
  // take the large sums back, and the last makes a tie of what is left: 257 beside 256, or 259
  // beside 260.
  for (const double sign : {1.0, -1.0}) {
    const double last[] = {sign > 0 ? 15.0 : 16.0, sign > 0 ? 3.0 : 2.0};
    const auto element = [&](Index place, bool of_x) {
      const Index block = place / 32;
      const Index at = place % 32;
      if (block == 2) return at > 0 ? 0.0 : of_x ? 2.25 : sign * 2.25;
      if (block == 5) return at > 1 ? 0.0 : !of_x ? last[at] : at == 0 ? 16.0 : 4.0;
      return at >= 5 ? 0.0 : block >= 3 && of_x ? -448.0 : 448.0;
    };
    const Codes x(16, 192, [&](Index, Index place) { return element(place, true); });
    const Codes w(32, 192, [&](Index, Index place) { return element(place, false); });
    expect_same_across(x, w);
  }
}

TEST_P(GemmCodes, RoundSumsOfFewBlocksOfLargeAndSmallElements) {
  std::mt19937 random(11);
  const std::function<double()> draws[] = {
      [&] {  // as many at either end of a format
        const double sign = random() % 2 == 0 ? 1 : -1;
        const auto magnitude = static_cast<double>(random() % 15 + 1);
        return sign * magnitude * (random() % 2 == 0 ? 0x1p-9 : 16.0);
      },
      [&] {  // powers of two: sums cancel, and ties are met
        const int exponent = static_cast<int>(random() % 17) - 8;
        return (random() % 2 == 0 ? 1 : -1) * std::exp2(exponent);
      },
      [&] { return random() % 9 == 0   ? 0x1p-9
                   : random() % 5 == 0 ? -448.0
                                       : 0.0; },
  };
  const Dtype dtypes[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz};
  int turn = 0;
  for (const auto& of_x : draws) {
    for (const auto& of_w : draws) {
      for (const int spread : {0, 9, 40}) {  // blocks as far apart as tiles take them, and farther
        const Index depth = 32 * (1 + turn % 6);
        const int centres[] = {105, 66, 188};  // results bf16 holds, does not, and overflows
        const int centre = centres[turn / 2 % 3];
        const Codes x(dtypes[turn % 4], 33, depth, centre, spread, random, of_x);
        const Codes w(dtypes[turn / 4 % 4], 49, depth, centre, spread, random, of_w);
        expect_same_across(x, w);
        ++turn;
      }
    }
  }
}

TEST_P(GemmCodes, RoundLongSumsOfLowBytesThatF32DoesNotHold) {
  // Integers below 256 of 2^-6 each: products add up to 2^24 + 2^16, a tie of bf16, and one more.
  const auto factor = [](Index place) {
    return place < 292 ? 240 : place == 292 ? 96 : place == 293 ? 32 : place == 294 ? 1 : 0;
  };
  for (const Index depth : {Index{320}, Index{512}}) {
    const Codes x(24, depth, [&](Index line, Index at) {
      const Index place = (at + line * 37) % depth;
      return factor(place) * (line % 3 == 1 ? -0x1p-6 : 0x1p-6);
    });
    const Codes w(40, depth, [&](Index line, Index at) {
      const Index place = (at + line % 24 * 37) % depth;
      const int product = place == 292 ? 240 : place == 293 ? 16 : factor(place);
      return product * (place == 294 && line % 2 == 1 ? -0x1p-6 : 0x1p-6);
    });
    expect_same(x, w);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, GemmCodes, test::tile_tables(), test::name_of_table);

}  // namespace
}  // namespace mxo::gemm_codes_test
