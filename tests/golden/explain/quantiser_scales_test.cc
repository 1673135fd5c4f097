// Scales by another rule or amax, and codes that follow from them.
#include <cmath>
#include <limits>

#include "tests/golden/quantised.h"

namespace mxo {
namespace {

float floor_power(float a) { return std::exp2(std::floor(std::log2(a)) - 8.0f); }

Quantised made(Dtype scales, Index rows = 6) {
  return Quantised(test::random_floats(Dtype::f32, {rows, 128}, 11), 32, scales);
}

const std::string kFloor =
    "scale.rule scales: the scale is 2^(floor(log2 amax) - 8): FLOOR: the rule of microxcaling";

TEST(QuantiserScales, AreOfAnotherRule) {
  Quantised bytes = made(Dtype::e8m0);
  EXPECT_EQ(bytes.words(), "none");
  bytes.scales_come([&](Index s) { return floor_power(bytes.amax(s)); });
  EXPECT_EQ(bytes.words(), kFloor);
  Quantised numbers = made(Dtype::f32);
  numbers.scales_come([&](Index s) { return numbers.amax(s) / 240.0f; });
  EXPECT_EQ(numbers.words(), "scale.rule scales: the stored scale is amax / max with max 240");
}

TEST(QuantiserScales, CountTheCodesThatFollow) {
  Quantised q = made(Dtype::e8m0);
  q.scales_come([&](Index s) { return floor_power(q.amax(s)); });
  Index scales = 0;
  Index codes = 0;
  for (Index s = 0; s < q.scales.elements(); ++s) {
    scales += bits_at(q.scales, s) != bits_at(q.came_scales, s);
  }
  for (Index i = 0; i < q.codes.elements(); ++i) {
    codes += bits_at(q.codes, i) != bits_at(q.came_codes, i);
  }
  const std::vector<Claim> both = q.claims();
  ASSERT_EQ(both.size(), 1u);
  EXPECT_EQ(both[0].elements, static_cast<double>(scales + codes));
  EXPECT_EQ(both[0].where.tensor, "scales, codes");
  // Codes that are those of the scales expected.
  q.came_codes = q.codes;
  const std::vector<Claim> alone = q.claims();
  ASSERT_GE(alone.size(), 1u);
  EXPECT_EQ(alone[0].elements, static_cast<double>(scales));
  EXPECT_EQ(alone[0].where.tensor, "scales");
}

TEST(QuantiserScales, MayComeWithCodesOfAnotherRule) {
  Quantised q = made(Dtype::e8m0);
  q.scales_come([&](Index s) { return floor_power(q.amax(s)); });
  for (Index i = 0; i < q.codes.elements(); ++i) {
    const float v = q.x(i) / Quantised::get(q.came_scales, q.scale_of(i));
    q.came_codes.as<std::uint8_t>()[i] = truncated_code(v);
  }
  EXPECT_EQ(q.words(), kFloor + " | codes.rule codes: codes are rounded toward zero (truncated)");
}

/// Scales that no rule gives, and codes that are theirs.
TEST(QuantiserScales, ThatNobodyExplainsAreWhatIsWrong) {
  Quantised q = made(Dtype::e8m0);
  q.scales_come([&](Index s) {
    return Quantised::get(q.scales, s) * (s % 3 == 0 ? 4.0f : s % 3 == 1 ? 0.5f : 1.0f);
  });
  EXPECT_EQ(q.words(),
            "codes.follow codes follow from the scales that came, and these are not the ones "
            "expected");
  // The rule may be known and the codes, too, where only one of the two is wrong.
  Quantised codes = made(Dtype::e8m0);
  codes.codes_come([&](Index i, Index s) { return codes.own(i, s) * (s % 2 == 0 ? 2.0f : 1.0f); });
  EXPECT_EQ(codes.words(), "none");
}

TEST(QuantiserScales, AreOfAnotherAmax) {
  for (const Dtype type : {Dtype::e8m0, Dtype::f32}) {
    Quantised q = made(type);
    const auto of = [&](float a) {
      return type == Dtype::f32 ? a / 448.0f : Quantised::ceil_power(a);
    };
    q.scales_come([&](Index s) { return of(q.amax(s % 4 == 0 ? s : s - 1)); });
    EXPECT_EQ(q.words(), "scale.amax scales: amax is that of the block before");
    q.scales_come([&](Index s) { return of(std::max(q.amax(s / 2 * 2), q.amax(s / 2 * 2 + 1))); });
    EXPECT_EQ(q.words(), "scale.amax scales: amax is that of two neighbouring blocks");
    // A part of the rows, too.
    Quantised part = made(type, 64);
    part.scales_come([&](Index s) { return of(part.amax(s < 128 || s % 4 == 0 ? s : s - 1)); });
    EXPECT_TRUE(part.words().starts_with("scale.amax columns 1 to 3 of rows 32 to "));
    EXPECT_TRUE(part.words().ends_with("to 63 of scales: amax is that of the block before"));
  }
}

TEST(QuantiserScales, AreAllOne) {
  for (const Dtype type : {Dtype::e8m0, Dtype::f32}) {
    Quantised q = made(type);
    q.scales_come([](Index) { return 1.0f; });
    const std::string byte = type == Dtype::e8m0 ? " (byte 127)" : "";
    EXPECT_EQ(q.words(), "scale.one every scale is 1" + byte + ", whatever amax is");
    // No rule is known of what is expected.
    Quantised odd = made(type);
    for (Index s = 0; s < odd.scales.elements(); ++s) {
      Quantised::put(odd.scales, s, s % 2 == 0 ? 0x1p-3f : 0x1p-9f);
    }
    odd.encode_all(odd.codes, [&](Index i, Index s) { return odd.own(i, s); });
    odd.scales_come([](Index) { return 2.0f; });
    EXPECT_EQ(odd.words(), "scale.one every scale is 2^1" +
                               std::string(type == Dtype::e8m0 ? " (byte 128)" : "") +
                               ", whatever amax is");
  }
}

TEST(QuantiserScales, AreOneWhereThatIsAPositiveNumberOfMany) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto of = [](Index rows, float one, Index right) {
    Quantised q = made(Dtype::f32, rows);
    q.scales_come([&](Index s) { return s < right ? Quantised::get(q.scales, s) : one; }, false);
    return q.words().substr(0, 33);
  };
  EXPECT_EQ(of(2, 0.0125f, 0), "scale.one every scale is 0.012500");
  for (const float none : {0.0f, -1.0f, kInf, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_EQ(of(6, none, 0), "none") << none;
  EXPECT_EQ(of(6, 0.375f, 16), "scale.one rows 4 to 5 of scales: ");
  EXPECT_EQ(of(6, 0.375f, 17), "none") << "seven";
}

/// The last rows have a scale of 1, or of 2: with and without an amax that gives it.
TEST(QuantiserScales, AreOneInAPart) {
  const auto of = [](float scale, bool of_whole) {
    Quantised q = [&] {
      Tensor x = test::random_floats(Dtype::f32, {64, 128}, 11);
      if (of_whole) x.as<float>()[7] = 448.0f;
      return Quantised(x, 32);
    }();
    q.scales_come([&](Index s) { return s < 128 ? Quantised::get(q.scales, s) : scale; });
    return q.words();
  };
  const std::string rows = "scale.one rows 32 to 63 of scales: every scale is ";
  EXPECT_EQ(of(1.0f, false), rows + "1 (byte 127), whatever amax is");
  EXPECT_EQ(of(1.0f, true), rows +
                                "1 (byte 127), whatever amax is; as well if amax is that of the "
                                "whole tensor");
  EXPECT_EQ(of(2.0f, false), rows + "2^1 (byte 128), whatever amax is");
}

/// A rule says nothing of blocks of zeros: their scales have to be those expected.
TEST(QuantiserScales, OfZerosAreKept) {
  Tensor x = test::random_floats(Dtype::f32, {6, 128}, 11);
  std::fill_n(x.as<float>() + 32, 32, 0.0f);
  for (const std::uint8_t byte : {std::uint8_t{0}, std::uint8_t{3}}) {
    Quantised q(x, 32);
    q.scales.as<std::uint8_t>()[1] = 0;
    q.scales_come([&](Index s) { return s == 1 ? 0x1p-127f : floor_power(q.amax(s)); });
    q.came_scales.as<std::uint8_t>()[1] = byte;
    const std::string words = q.words();
    EXPECT_EQ(words.starts_with("scale.rule scales: "), byte == 0) << words;
  }
}

/// Bytes from 0, which smaller scales become, to 254.
TEST(QuantiserScales, ReachTheEndsOfBytes) {
  Tensor x = test::random_floats(Dtype::f32, {6, 128}, 11);
  std::fill_n(x.as<float>(), 32, 0x1p-125f);
  std::fill_n(x.as<float>() + 32, 32, 0x1p-120f);
  std::fill_n(x.as<float>() + 64, 32, 0x1.8p127f);
  for (const int less : {8, 0}) {
    Quantised q(x, 32);
    for (Index s = 0; s < q.scales.elements(); ++s) {
      const int byte = std::max(0, std::ilogb(q.amax(s)) - less + 127);
      q.scales.as<std::uint8_t>()[s] = 100;
      q.came_scales.as<std::uint8_t>()[s] = static_cast<std::uint8_t>(byte);
    }
    EXPECT_TRUE(q.words().starts_with("scale.rule scales: the scale is 2^(floor(log2 amax)"))
        << q.words();
  }
}

TEST(QuantiserScales, AreExplainedWhereSomethingIsLeft) {
  Quantised q = made(Dtype::e8m0);
  q.scales_come([&](Index s) { return floor_power(q.amax(s)); });
  const auto of = [&](const char* codes, const char* scales, bool codes_left, bool scales_left) {
    std::vector<Output> outputs{make_output(q.call, codes, q.codes, q.came_codes),
                                make_output(q.call, scales, q.scales, q.came_scales)};
    for (Index i = 0; i < q.codes.elements() && !codes_left; ++i) outputs[0].settle(i);
    for (Index s = 0; s < q.scales.elements() && !scales_left; ++s) outputs[1].settle(s);
    std::string text;
    for (const Claim& c : recover_quantiser(q.call, outputs)) text += c.id + " ";
    EXPECT_TRUE(text.empty() || outputs[0].left + outputs[1].left == 0);
    return text;
  };
  EXPECT_EQ(of("codes", "scales", true, true), "scale.rule ");
  EXPECT_EQ(of("codes", "scales", false, true), "scale.rule ");
  EXPECT_EQ(of("codes", "scales", true, false), "codes.follow ");
  EXPECT_EQ(of("codes", "scales", false, false), "");
  EXPECT_EQ(of("y.codes", "scales", true, true), "");
  EXPECT_EQ(of("codes", "y.scales", true, true), "");
  q.call.set.set("format", "bf16");
  EXPECT_EQ(of("codes", "scales", true, true), "") << "no codes of eight bits";
  q.call.set.set("format", "e4m3");
  q.call.op = "dequantize";
  EXPECT_EQ(of("codes", "scales", true, true), "") << "no quantiser";
}

}  // namespace
}  // namespace mxo
