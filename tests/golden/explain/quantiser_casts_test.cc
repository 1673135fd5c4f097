// What x became before it was rounded to codes, where the codes tell.
#include "tests/golden/quantised.h"

#include <array>

namespace mxo {
namespace {

/// x of 16 rows of 4 blocks of 32, whose amax are `amax(s)`, and whose quotients by `unit(amax)`
/// lie at ties between two codes, or a few units in the last place beside them.
template <typename Unit>
Tensor near_ties(Unit unit) {
  Tensor x(Dtype::f32, {16, 128});
  test::Random random(3);
  for (Index s = 0; s < 64; ++s) {
    const float most = 448.0f + static_cast<float>(random.word() % 448000) / 1000.0f;
    const float scale = unit(most);
    for (Index i = s * 32; i < s * 32 + 32; ++i) {
      const auto eighths = static_cast<float>(17 + 2 * (random.word() % 7));
      float v = std::ldexp(eighths * scale, static_cast<int>(random.word() % 9) - 4);
      const int steps = static_cast<int>(random.word() % 7) - 3;
      for (int k = 0; k < std::abs(steps); ++k) v = std::nextafter(v, steps < 0 ? 0.0f : 1e9f);
      x.as<float>()[i] = i % 2 == 0 ? v : -v;
    }
    x.as<float>()[s * 32] = most;
  }
  return x;
}

float bf16(float v) { return decode(encode<kBF16>(v)); }

using Number = float (*)(float x, float scale, float amax);

/// What is said of codes of x that was turned by `number`, scales being f32 or bytes.
std::string cast(Number number, Dtype scales) {
  Quantised q(near_ties([](float a) { return a / 448.0f; }), 32, scales);
  q.codes_come(
      [&](Index i, Index s) { return number(q.x(i), Quantised::get(q.scales, s), q.amax(s)); });
  return q.words();
}

const std::string kRule = "codes.rule codes: ";

TEST(QuantiserCasts, AreOfXAndAnF32Scale) {
  const auto of = [](Number number) { return cast(number, Dtype::f32); };
  EXPECT_EQ(of([](float v, float s, float) { return v * (1.0f / s); }), "none") << "as expected";
  EXPECT_EQ(of([](float v, float s, float) { return v / s; }),
            kRule + "x is divided by the stored scale rather than multiplied");
  EXPECT_EQ(of([](float v, float s, float) { return v * s; }),
            kRule + "x is multiplied by the stored number, which is no scale but its inverse");
  EXPECT_EQ(of([](float v, float s, float) { return v * std::nextafter(1.0f / s, 9.0f); }),
            kRule + "x is multiplied by one unit in the last place more than 1 / scale");
  EXPECT_EQ(of([](float v, float s, float) { return v * std::nextafter(1.0f / s, 0.0f); }),
            kRule + "x is multiplied by one unit in the last place less than 1 / scale");
  EXPECT_EQ(of([](float v, float s, float) { return bf16(v) * (1.0f / s); }),
            kRule + "x is rounded to bf16 before the cast");
}

TEST(QuantiserCasts, AreOfXAndAByte) {
  const auto of = [](Number number) { return cast(number, Dtype::e8m0); };
  EXPECT_EQ(of([](float v, float s, float) { return v / s; }), "none") << "as expected";
  EXPECT_EQ(of([](float v, float s, float) { return bf16(v) / s; }),
            kRule + "x is rounded to bf16 before the cast");
  Quantised ties(near_ties(Quantised::ceil_power), 32);
  ties.codes_come([&](Index i, Index s) {
    return ties.x(i) * std::nextafter(1.0f / Quantised::get(ties.scales, s), 9.0f);
  });
  EXPECT_EQ(ties.words(), "none") << "a power of two has no such neighbour";
}

TEST(QuantiserCasts, AreOfAmaxBeforeItsScaleWasRounded) {
  const std::string made = kRule + "codes are made with ";
  const std::string before = ", before the scale was rounded";
  const auto of = [](Number number) { return cast(number, Dtype::e8m0); };
  EXPECT_EQ(of([](float v, float, float a) { return v * (448.0f / a); }),
            made + "max / amax" + before);
  EXPECT_EQ(of([](float v, float, float a) { return v * (1.0f / (a / 448.0f)); }),
            made + "1 / fl(amax / max)" + before);
  EXPECT_EQ(of([](float v, float, float a) { return v * (448.0f * (1.0f / a)); }),
            made + "max * fl(1 / amax)" + before);
  EXPECT_EQ(of([](float v, float, float a) { return v * std::nextafter(448.0f / a, 9.0f); }),
            made + "one unit in the last place more than max / amax");
  EXPECT_EQ(
      of([](float v, float, float a) { return v * std::nextafter(448.0f * (1.0f / a), 9.0f); }),
      made + "one unit in the last place more than max * fl(1 / amax)");
}

/// Codes made with the scale of another block; those at the ends keep their own.
std::string neighbour(Index by, Dtype type, bool tiled = false) {
  Quantised q(test::random_floats(Dtype::f32, {6, 128}, 5), 32, type);
  const Index n = q.scales.elements();
  q.codes_come([&](Index i, Index s) {
    const Index from = s + by;
    return q.x(i) / Quantised::get(q.scales, from < 0 || from >= n ? s : from);
  });
  if (tiled) {
    Tensor in_tiles(type, {static_cast<Index>(blocked_bytes(6, 4))});
    for (Index s = 0; s < n; ++s) {
      Quantised::put(in_tiles, static_cast<Index>(blocked_offset(s / 4, s % 4, 1)),
                     Quantised::get(q.scales, s));
    }
    q.scales = q.came_scales = in_tiles;
    q.call.set.set("scale_layout", "blocked");
  }
  return q.words();
}

TEST(QuantiserCasts, AreOfTheScaleOfANeighbour) {
  const std::string made = kRule + "codes are made with the scale of the ";
  for (const Dtype type : {Dtype::e8m0, Dtype::f32}) {
    EXPECT_EQ(neighbour(-1, type), made + "block before");
    EXPECT_EQ(neighbour(1, type), made + "block after");
    EXPECT_EQ(neighbour(-4, type), made + "row before");
    EXPECT_EQ(neighbour(4, type), made + "row after");
    EXPECT_EQ(neighbour(2, type), "none");
    EXPECT_EQ(neighbour(0, type), "none");
  }
  EXPECT_EQ(neighbour(0, Dtype::e8m0, true), "none") << "as expected";
  EXPECT_EQ(neighbour(1, Dtype::e8m0, true), "none") << "a tile has no such order";
}

TEST(QuantiserCasts, MayHaveARoundingToo) {
  Quantised q(near_ties([](float a) { return a / 448.0f; }), 32);
  for (Index i = 0; i < q.codes.elements(); ++i) {
    const float v = bf16(q.x(i)) / Quantised::get(q.scales, q.scale_of(i));
    q.came_codes.as<std::uint8_t>()[i] = truncated_code(v);
  }
  EXPECT_EQ(q.words(), kRule +
                           "x is rounded to bf16 before the cast; codes are rounded toward "
                           "zero (truncated)");
}

}  // namespace
}  // namespace mxo
