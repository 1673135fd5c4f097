// How x became codes, by which scales: what was made of it before it was rounded, chance, other
// rules and other amaxes.
#include <limits>

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
float cut_to_f16(float v) { return bit_cast<float>(bit_cast<std::uint32_t>(v) & ~0x1FFFu); }
float f16(float v) { return decode(encode<kF16>(v, Overflow::saturate)); }
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
      {Dtype::e8m0, [](float v, float s, float) { return f16(v / s); },
       kRule + "x is rounded to f16 before the cast"},
      {Dtype::e8m0, [](float v, float s, float) { return cut_to_f16(v / s); },
       kRule + "x is cut to f16 before the cast"},
      {Dtype::e8m0,
       [](float v, float s, float) {
         return bit_cast<float>(bit_cast<std::uint32_t>(v / s) & ~0xFFFFu);
       },
       kRule + "x is cut to bf16 before the cast"},
      {Dtype::f32, [](float v, float s, float) { return f16(v) * (1.0f / s); }, "none"},
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

TEST(QuantiserCasts, AreOfTheScaleOfAnotherBlock) {
  struct Row {
    Index (*from)(Index s);  ///< of 6 rows of 4 blocks; beyond the ends each keeps its own
    const char* words;
  };
  const Row rows[] = {
      {[](Index s) { return s - 1; }, "the scale of the block before"},
      {[](Index s) { return s + 1; }, "the scale of the block after"},
      {[](Index s) { return s - 4; }, "the scale of the row before"},
      {[](Index s) { return s + 4; }, "the scale of the row after"},
      {[](Index) { return Index{0}; }, "the first scale"},
      {[](Index s) { return s % 4; }, "the scale of the first row"},
      {[](Index s) { return s / 4 * 4; }, "the scale of the first block of their row"},
      {[](Index s) { return s + 2; }, nullptr},
  };
  for (const Dtype type : {Dtype::e8m0, Dtype::f32}) {
    for (const Row& row : rows) {
      Quantised q(test::random_floats(Dtype::f32, {6, 128}, 5), 32, type);
      q.codes_come([&](Index i, Index s) {
        const Index from = row.from(s);
        return q.x(i) /
               Quantised::get(q.scales, from < 0 || from >= q.scales.elements() ? s : from);
      });
      EXPECT_EQ(q.words(),
                row.words == nullptr ? "none" : kRule + "codes are made with " + row.words);
    }
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

Quantised made(Dtype scales, Index rows = 6) {
  return Quantised(test::random_floats(Dtype::f32, {rows, 128}, 11), 32, scales);
}

const std::string kFollow =
    "codes.follow codes follow from the scales that came, and these are not the ones expected";

using Scale = std::function<float(const Quantised&, Index)>;
float own(const Quantised& q, Index s) { return Quantised::get(q.scales, s); }
/// The scale that another amax gives, under either rule.
float of_amax(const Quantised& q, float amax) {
  return q.scales.dtype() == Dtype::f32 ? amax / 448.0f : Quantised::ceil_power(amax);
}

struct Row {
  Scale scale;
  std::string words;
  Dtype type = Dtype::e8m0;
  Index rows = 6;
};

const std::string kPart = " rows 32 to 63 of scales: ";
const Row kRows[] = {
    {own, "none"},
    // Scales that no rule gives, and codes that are theirs.
    {[](const Quantised& q, Index s) { return own(q, s) * (s % 3 == 0 ? 4.0f : 0.5f); }, kFollow},
    {[](const Quantised& q, Index s) {
       return of_amax(q, std::max(q.amax(s / 2 * 2), q.amax(s / 2 * 2 + 1)));
     },
     "scale.amax scales: amax is that of two neighbouring blocks"},
    {[](const Quantised& q, Index s) {
       return of_amax(q, q.amax(s < 128 || s % 4 == 0 ? s : s - 1));
     },
     "scale.amax columns 1 to 3 of rows 32 to 63 of scales: amax is that of the block before",
     Dtype::f32, 64},
    {[](const Quantised& q, Index) {
       float most = 0.0f;
       for (Index s = 0; s < q.scales.elements(); ++s) most = std::max(most, q.amax(s));
       return of_amax(q, most);
     },
     "scale.amax scales: amax is that of the whole tensor", Dtype::f32},
    {[](const Quantised&, Index) { return 0x1p-7f; },
     "scale.one every scale is 2^-7, whatever amax is", Dtype::f32},
    {[](const Quantised&, Index) { return 0.0125f; },
     "scale.one every scale is 0.0125000002, whatever amax is", Dtype::f32},
    {[](const Quantised& q, Index s) { return s < 128 ? own(q, s) : 2.0f; },
     "scale.one" + kPart + "every scale is 2^1 (byte 128), whatever amax is", Dtype::e8m0, 64},
    {[](const Quantised& q, Index s) { return s < 128 ? own(q, s) : 1.0f; },
     "scale.one" + kPart + "every scale is 1 (byte 127), whatever amax is", Dtype::e8m0, 64},
    // Of which eight tell, and a positive number does.
    {[](const Quantised& q, Index s) { return s < 16 ? own(q, s) : 0.375f; },
     "scale.one rows 4 to 5 of scales: every scale is 0.375, whatever amax is", Dtype::f32},
    {[](const Quantised& q, Index s) { return s < 17 ? own(q, s) : 0.375f; }, kFollow, Dtype::f32},
    {[](const Quantised&, Index) { return -1.0f; }, kFollow, Dtype::f32},
};

TEST(QuantiserScales, AreOfAnotherRuleOrAmax) {
  for (const Row& row : kRows) {
    Quantised q = made(row.type, row.rows);
    q.scales_come([&](Index s) { return row.scale(q, s); });
    EXPECT_EQ(q.words(), row.words);
  }
  for (const float none : {0.0f, std::numeric_limits<float>::quiet_NaN()}) {
    Quantised q = made(Dtype::f32);
    q.scales_come([&](Index) { return none; }, false);
    EXPECT_EQ(q.words(), "none") << none;
  }
}

/// Of numbers of which the largest amax gives 1, too.
TEST(QuantiserScales, OfOneMayBeThatOfTheWholeTensor) {
  Tensor x = test::random_floats(Dtype::f32, {64, 128}, 11);
  x.as<float>()[7] = 448.0f;
  Quantised q(x, 32);
  const std::string words =
      "every scale is 1 (byte 127), whatever amax is; equivalently, amax is that of the whole "
      "tensor";
  q.scales_come([](Index) { return 1.0f; });
  EXPECT_EQ(q.words(), "scale.one " + words);
  q.scales_come([&](Index s) { return s < 128 ? own(q, s) : 1.0f; });
  EXPECT_EQ(q.words(), "scale.one" + kPart + words);
}

/// Twelve blocks with an amax of 1 to 12, of which the codes of some differ.
TEST(QuantiserScales, OfOneMagnitudeAreToldApart) {
  const auto said = [](const std::function<bool(Index)>& differs) {
    Tensor x(Dtype::f32, {1, 12 * 32});
    for (Index i = 0; i < x.elements(); ++i) x.as<float>()[i] = static_cast<float>(1 + i / 32);
    Quantised q(x, 32);
    for (Index s = 0; s < 12; ++s) {
      if (differs(s)) q.actual_bits(s * 32) = 0x11;
    }
    const std::vector<Output> outputs{make_output(q.call, "codes", q.codes, q.got_codes),
                                      make_output(q.call, "scales", q.scales, q.got_scales)};
    return magnitudes_seen(q.call, outputs);
  };
  const std::string exactly = "exactly the blocks with an amax of ";
  EXPECT_EQ(said([](Index s) { return s < 4; }), exactly + "4 and less differ");
  EXPECT_EQ(said([](Index s) { return s > 7; }), exactly + "9 and more differ");
  EXPECT_EQ(said([](Index s) { return s < 3; }), "") << "three are too few";
  EXPECT_EQ(said([](Index s) { return s < 4 || s == 7; }), "");
}

}  // namespace
}  // namespace mxo
