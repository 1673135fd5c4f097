// How x became codes: what was made of it before it was rounded, and chance.
#include "tests/golden/quantised.h"

namespace mxo {
namespace {

const std::string kRule = "codes.rule codes: ";

// ---- Casts.

/// x of 16 rows of 4 blocks of 32 whose quotients by amax / 448 lie at ties between two codes, or a
/// few units in the last place beside them.
Tensor near_ties() {
  Tensor x(Dtype::f32, {16, 128});
  test::Random random(3);
  for (Index s = 0; s < 64; ++s) {
    const float most = 448.0f + static_cast<float>(random.word() % 448000) / 1000.0f;
    for (Index i = s * 32; i < s * 32 + 32; ++i) {
      const auto eighths = static_cast<float>(17 + 2 * (random.word() % 7));
      float v = std::ldexp(eighths * (most / 448.0f), static_cast<int>(random.word() % 9) - 4);
      const int steps = static_cast<int>(random.word() % 7) - 3;
      for (int k = 0; k < std::abs(steps); ++k) v = std::nextafter(v, steps < 0 ? 0.0f : 1e9f);
      x.as<float>()[i] = i % 2 == 0 ? v : -v;
    }
    x.as<float>()[s * 32] = most;
  }
  return x;
}

float bf16(float v) { return decode(encode<kBF16>(v)); }
float above(float v) { return std::nextafter(v, 1e9f); }
float below(float v) { return std::nextafter(v, 0.0f); }

TEST(QuantiserCasts, AreToldByTheirCodes) {
  struct Row {
    Dtype scales;
    float (*value)(float x, float scale, float amax);
    std::string words;
  };
  const std::string made = kRule + "codes are made with ";
  const std::string ulp = "one unit in the last place ";
  const Row rows[] = {
      {Dtype::f32, [](float v, float s, float) { return v * (1.0f / s); }, "none"},
      {Dtype::f32, [](float v, float s, float) { return v / s; },
       kRule + "x is divided by the stored scale rather than multiplied"},
      {Dtype::f32, [](float v, float s, float) { return v * s; },
       kRule + "x is multiplied by the stored number, which is no scale but its inverse"},
      {Dtype::f32, [](float v, float s, float) { return v * above(1.0f / s); },
       kRule + "x is multiplied by " + ulp + "more than 1 / scale"},
      {Dtype::f32, [](float v, float s, float) { return v * below(1.0f / s); },
       kRule + "x is multiplied by " + ulp + "less than 1 / scale"},
      {Dtype::f32, [](float v, float s, float) { return bf16(v) * (1.0f / s); },
       kRule + "x is rounded to bf16 before the cast"},
      {Dtype::e8m0, [](float v, float s, float) { return v / s; }, "none"},
      {Dtype::e8m0, [](float v, float s, float) { return bf16(v) / s; },
       kRule + "x is rounded to bf16 before the cast"},
      {Dtype::e8m0, [](float v, float, float a) { return v * (448.0f / a); },
       made + "max / amax, before the scale was rounded"},
      {Dtype::e8m0, [](float v, float, float a) { return v * (1.0f / (a / 448.0f)); },
       made + "1 / fl(amax / max), before the scale was rounded"},
      {Dtype::e8m0, [](float v, float, float a) { return v * (448.0f * (1.0f / a)); },
       made + "max * fl(1 / amax), before the scale was rounded"},
      {Dtype::e8m0, [](float v, float, float a) { return v * above(448.0f / a); },
       made + ulp + "more than max / amax"},
      {Dtype::e8m0, [](float v, float, float a) { return v * above(448.0f * (1.0f / a)); },
       made + ulp + "more than max * fl(1 / amax)"},
  };
  for (const Row& row : rows) {
    Quantised q(near_ties(), 32, row.scales);
    q.codes_come([&](Index i, Index s) {
      return row.value(q.x(i), Quantised::get(q.scales, s), q.amax(s));
    });
    EXPECT_EQ(q.words(), row.words);
  }
  Quantised both(near_ties(), 32);
  both.codes_come(
      [&](Index i, Index s) { return bf16(both.x(i)) / Quantised::get(both.scales, s); },
      truncated_code);
  EXPECT_EQ(both.words(), kRule +
                              "x is rounded to bf16 before the cast; codes are rounded toward zero "
                              "(truncated)");
}

/// Codes made with the scale of another block; those at the ends keep their own.
std::string neighbour(Index by, Dtype type) {
  Quantised q(test::random_floats(Dtype::f32, {6, 128}, 5), 32, type);
  const Index n = q.scales.elements();
  q.codes_come([&](Index i, Index s) {
    const Index from = s + by;
    return q.x(i) / Quantised::get(q.scales, from < 0 || from >= n ? s : from);
  });
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
  }
}

/// x as given, in one row and with a scale of 1 for every 32.
Quantised unscaled(const std::vector<float>& values) {
  Tensor x(Dtype::f32, {1, static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), x.as<float>());
  Quantised q(x, 32);
  q.scales_come([](Index) { return 1.0f; });
  q.scales = q.got_scales;
  q.codes = q.got_codes;
  return q;
}

/// 40 rows past the last group: is not compared them.
TEST(QuantiserCodes, PastTheLastGroupSayNothing) {
  Quantised q(test::random_floats(Dtype::f32, {160, 64}, 2), 64, Dtype::f32);
  q.call.replace("group_ends", test::group_ends_of({120}));
  q.scales = Tensor(Dtype::f32, {1, 1});
  q.scales.as<float>()[0] = 0.25f;
  q.got_scales = q.scales;
  const auto own = [&](Index i, Index) { return q.x(i) * 4.0f; };
  q.codes_come(own);
  q.codes = q.got_codes;
  q.codes_come(own, truncated_code);
  for (Index i = 120 * 64; i < q.codes.elements(); ++i) q.actual_bits(i) = 0x7F;
  EXPECT_EQ(q.words().substr(0, 10), "codes.rule");
}

// ---- Chance.

const std::string kRandom =
    "codes.random codes: codes are rounded at random (stochastic rounding): each to one of the "
    "two neighbours of its value, the nearer as often as it is nearer";

/// 8 to 15 and a share of 1/16, 3/16, ... 15/16, `n` of each share, of which `up(share)` are
/// rounded up; and one value with the code given.
std::string at_random(Index n, const std::function<Index(int)>& up, float value = 8.0f,
                      std::uint8_t code = 0x50) {
  std::vector<float> list{value};
  std::vector<std::uint8_t> codes{code};
  for (int bin = 0; bin < 8; ++bin) {
    const float share = (static_cast<float>(bin) + 0.5f) / 8.0f;
    for (Index i = 0; i < n; ++i) {
      list.push_back((i % 2 == 0 ? 1.0f : -1.0f) * (8.0f + static_cast<float>(i % 7) + share));
      codes.push_back(static_cast<std::uint8_t>(truncated_code(list.back()) + (i < up(bin))));
    }
  }
  Quantised q = unscaled(list);
  std::copy(codes.begin(), codes.end(), q.got_codes.as<std::uint8_t>());
  return q.words();
}

TEST(QuantiserCodes, AreRoundedAtRandom) {
  const auto fair = [](Index n) { return [n](int bin) { return n * (2 * bin + 1) / 16; }; };
  EXPECT_EQ(at_random(64, fair(64)), kRandom);
  EXPECT_EQ(at_random(15, fair(15)), "none") << "too few of a share";
  // Of 48 with a share of 7/16, 21 are due, within 4.5 times the standard deviation and one.
  const auto one_bin = [](Index up) {
    return at_random(48, [=](int bin) { return bin == 3 ? up : 48 * (2 * bin + 1) / 16; });
  };
  EXPECT_EQ(one_bin(37), kRandom);
  EXPECT_EQ(one_bin(38), "none");
  EXPECT_EQ(one_bin(4), "none");
  const auto with = [&](float value, std::uint8_t code) {
    return at_random(64, fair(64), value, code);
  };
  EXPECT_EQ(with(16.0f, 0x58), kRandom) << "a number that has a code keeps it";
  EXPECT_EQ(with(16.0f, 0x59), "none");
  EXPECT_EQ(with(500.0f, 0x7E), kRandom) << "the largest has one neighbour";
  EXPECT_EQ(with(500.0f, 0x7D), "none");
  EXPECT_EQ(with(17.0f, 0x59), kRandom);
  EXPECT_EQ(with(17.0f, 0x5A), "none");
  EXPECT_EQ(with(17.0f, 0x57), "none");
}

}  // namespace
}  // namespace mxo
