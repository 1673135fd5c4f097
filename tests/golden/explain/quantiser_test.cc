// How x became codes, by which scales: what was made of it before it was rounded, and which blocks
// differ.
#include <gtest/gtest.h>

#include <algorithm>

#include "formats/rounding.h"
#include "golden/explain/find/quantiser/quantiser.h"
#include "tests/support/random_tensors.h"

namespace mxo::quantiser_test {
namespace {

std::uint8_t nearest_code(float v) { return encode<kE4M3>(v, Overflow::saturate).bits; }

std::uint8_t truncated_code(float v) {
  return encode_rounded<kE4M3>(v, Rounding::zero, Overflow::saturate).bits;
}

/// x in blocks of a row, RCEIL or amax / 448.  What came is what is expected until a test says
/// otherwise.
struct Quantised {
  Call call{"quantize", {}, {}};
  Index columns;
  Index block;
  Tensor codes, scales;
  Tensor got_codes, got_scales;

  Quantised(const Tensor& x, Index of_block, Dtype of_scales = Dtype::e8m0)
      : columns(x.extent(1)),
        block(of_block),
        codes(Dtype::e4m3, x.shape()),
        scales(of_scales, {x.extent(0), ceil_div(columns, block)}) {
    call.replace("x", x);
    most_.resize(static_cast<std::size_t>(scales.elements()));
    for (Index i = 0; i < codes.elements(); ++i) {
      float& most = most_[static_cast<std::size_t>(scale_of(i))];
      most = std::max(most, std::fabs(this->x(i)));
    }
    for (Index s = 0; s < scales.elements(); ++s) {
      const float power = std::exp2(std::ceil(std::log2(amax(s) / 448.0f)));  // RCEIL
      put(scales, s, of_scales == Dtype::e8m0 ? power : amax(s) / 448.0f);
    }
    got_scales = scales;
    codes_come([&](Index i, Index s) { return this->x(i) * (1.0f / get(scales, s)); });
    codes = got_codes;
  }

  Index scale_of(Index i) const {
    return i / columns * ceil_div(columns, block) + i % columns / block;
  }
  float x(Index i) const { return call.input("x").as<float>()[i]; }
  float amax(Index s) const { return most_[static_cast<std::size_t>(s)]; }
  static void put(Tensor& t, Index s, float scale) {
    if (size_of(t.dtype()) == 1) {
      const int byte = std::isfinite(scale) ? std::ilogb(scale) + 127 : 255;
      t.as<std::uint8_t>()[s] = static_cast<std::uint8_t>(byte);
    } else {
      t.as<float>()[s] = scale;
    }
  }
  static float get(const Tensor& t, Index s) {
    return size_of(t.dtype()) == 1 ? std::ldexp(1.0f, t.as<std::uint8_t>()[s] - 127)
                                   : t.as<float>()[s];
  }
  std::uint8_t& actual_bits(Index i) { return got_codes.as<std::uint8_t>()[i]; }

  /// Codes that come as code(value(i, scale)).
  template <typename Value>
  void codes_come(Value value, std::uint8_t (*code)(float) = nearest_code) {
    got_codes = codes;
    for (Index i = 0; i < codes.elements(); ++i) actual_bits(i) = code(value(i, scale_of(i)));
  }

  std::string words() const {
    std::vector<Output> outputs{make_output(call, "codes", codes, got_codes),
                                make_output(call, "scales", scales, got_scales)};
    std::string text;
    for (const Claim& c : recover_quantiser(call, outputs))
      text += (text.empty() ? "" : " | ") + c.id + " " + c.sentence;
    return text.empty() ? "none" : text;
  }

 private:
  std::vector<float> most_;
};

const std::string kRule = "codes.rule codes: ";

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
       kRule + "x is multiplied by the stored number rather than by its inverse"},
      {Dtype::f32, [](float v, float s, float) { return v * above(1.0f / s); },
       kRule + "x is multiplied by " + ulp + "more than 1 / scale"},
      {Dtype::f32, [](float v, float s, float) { return v * below(1.0f / s); },
       kRule + "x is multiplied by " + ulp + "less than 1 / scale"},
      {Dtype::f32, [](float v, float s, float) { return bf16(v) * (1.0f / s); },
       kRule + "x is rounded to bf16 before the cast"},
      {Dtype::e8m0, [](float v, float s, float) { return f16(v / s); },
       kRule + "x is rounded to f16 before the cast"},
      {Dtype::e8m0, [](float v, float s, float) { return cut_to_f16(v / s); },
       kRule + "x is truncated to f16 before the cast"},
      {Dtype::e8m0,
       [](float v, float s, float) {
         return bit_cast<float>(bit_cast<std::uint32_t>(v / s) & ~0xFFFFu);
       },
       kRule + "x is truncated to bf16 before the cast"},
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

/// Twelve blocks with an amax of 1 to 12, of which the codes of some differ.
TEST(QuantiserScales, OfOneMagnitudeAreToldApart) {
  const auto said = [](const std::function<bool(Index)>& differs) {
    Tensor x(Dtype::f32, {1, 12 * 32});
    for (Index i = 0; i < x.elements(); ++i) x.as<float>()[i] = static_cast<float>(1 + i / 32);
    Quantised q(x, 32);
    for (Index s = 0; s < 12; ++s)
      if (differs(s)) q.actual_bits(s * 32) = 0x11;
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
}  // namespace mxo::quantiser_test
