// Dequantised tensors that show no scale, or one that is only nearly another.
#include <algorithm>
#include <array>
#include <limits>

#include "tests/golden/dequantised.h"

namespace mxo {
namespace {

const std::string kLeftOut = "scales=left_out: the scales are left out";

/// Eight blocks of 2 x 3 whose scales are left out.
Dequantised left_out(Dtype out = Dtype::f32) {
  Dequantised c(irregular(2, 4), 3, 11, out);
  c.fill(c.actual, [](Index, Index) { return 1.0; });
  return c;
}

TEST(DequantisedLimits, AreOfCallsWithScalesInRows) {
  const auto without = [](const std::function<void(Dequantised&)>& edit) {
    Dequantised c = left_out();
    edit(c);
    return c.shown().empty();
  };
  EXPECT_EQ(left_out().words(), kLeftOut);
  EXPECT_TRUE(without([](Dequantised& c) { c.call.op = "dequantize_mx"; }));
  EXPECT_TRUE(without([](Dequantised& c) { c.call.inputs.erase("codes"); }));
  EXPECT_TRUE(without([](Dequantised& c) { c.call.inputs.erase("scales"); }));
  EXPECT_TRUE(without([](Dequantised& c) { c.call.set.set("scale_layout", "blocked"); }));
  EXPECT_FALSE(without([](Dequantised& c) { c.call.set.set("scale_layout", "row_major"); }));
  EXPECT_TRUE(without([](Dequantised& c) { c.call.set.set("transpose", "true"); }));
  EXPECT_FALSE(without([](Dequantised& c) { c.call.set.set("transpose", "false"); }));
  Tensor ends(Dtype::i32, {1});
  ends.as<std::int32_t>()[0] = 3;
  EXPECT_TRUE(without([&](Dequantised& c) { c.call.replace("group_ends", ends); }));
}

TEST(DequantisedLimits, AreOfMatricesThatFit) {
  const auto with = [](const char* name, Dtype dtype, std::vector<Index> shape) {
    Dequantised c = left_out();
    Tensor other(dtype, std::move(shape));
    const Tensor given = c.call.input(name);
    std::copy_n(given.data(), std::min(given.bytes(), other.bytes()), other.data());
    c.call.replace(name, std::move(other));
    return !c.shown().empty();
  };
  EXPECT_TRUE(with("codes", Dtype::u8, {3, 11}));
  EXPECT_FALSE(with("codes", Dtype::u8, {33})) << "rank";
  EXPECT_FALSE(with("codes", Dtype::u8, {1, 3, 11})) << "rank";
  EXPECT_FALSE(with("codes", Dtype::u16, {3, 11})) << "no bytes";
  EXPECT_FALSE(with("codes", Dtype::u8, {3, 12}));
  EXPECT_FALSE(with("codes", Dtype::u8, {2, 11}));
  EXPECT_TRUE(with("scales", Dtype::f32, {2, 4}));
  EXPECT_FALSE(with("scales", Dtype::f32, {8}));
  EXPECT_FALSE(with("scales", Dtype::f32, {1, 2, 4}));
  EXPECT_FALSE(with("scales", Dtype::f32, {0, 4}));
  EXPECT_FALSE(with("scales", Dtype::f32, {2, 0}));
  EXPECT_FALSE(with("scales", Dtype::f32, {2, 7})) << "11 columns are 7 blocks of no width";
  EXPECT_FALSE(with("scales", Dtype::f32, {5, 4})) << "more than the rows";
  Dequantised none(irregular(1, 1), 1, 1);
  none.call.replace("codes", Tensor(Dtype::u8, {0, 4}));
  none.expected = Tensor(Dtype::f32, {0, 4});
  none.actual = none.expected;
  EXPECT_TRUE(none.shown().empty());
}

/// Scales of 1/2, where the first code is 1, so that it shows its scale exactly.
std::string nearly(double scale, Dtype out) {
  Dequantised c({{0.5, 0.5, 0.5, 0.5}}, 1, 4, out);
  Tensor codes(Dtype::u8, {1, 4});
  std::fill_n(codes.as<std::uint8_t>(), 4, std::uint8_t{0x38});
  c.call.replace("codes", std::move(codes));
  c.fill(c.expected, [](Index, Index) { return 0.5; });
  c.fill(c.actual, [=](Index, Index) { return scale; });
  const auto list = c.shown();
  return list.empty() ? "none" : list[0].name;
}

TEST(DequantisedLimits, AllowForOneRounding) {
  EXPECT_EQ(nearly(1.0 + 0x1p-7, Dtype::bf16), "scales=left_out");
  EXPECT_EQ(nearly(1.0 + 0x1p-6, Dtype::bf16), "none");
  EXPECT_EQ(nearly(1.0 + 0x1p-20, Dtype::f32), "scales=left_out");
  EXPECT_EQ(nearly(1.0 + 0x1p-19, Dtype::f32), "none");
  EXPECT_EQ(nearly(1.0 - 0x1p-20, Dtype::f32), "scales=left_out");
  EXPECT_EQ(nearly(1.0 - 0x1p-19, Dtype::f32), "none");
  EXPECT_EQ(left_out(Dtype::bf16).words(), kLeftOut);
}

/// What is only rounded otherwise takes the scale of no other block.
TEST(DequantisedLimits, DifferInMoreThanRoundings) {
  const auto rounded = [](Index rows, Index columns) {
    Dequantised c(irregular(rows, columns), rows, columns * 4);
    for (Index i = 0; i < c.actual.elements(); ++i) c.actual.as<std::uint32_t>()[i] ^= 1;
    return c.words();
  };
  EXPECT_EQ(rounded(8, 1), "none");
  EXPECT_EQ(rounded(1, 8), "none");
  EXPECT_EQ(rounded(5, 8), "none");
}

TEST(DequantisedLimits, TellNothingOfCodesThatAreNoNumbers) {
  const auto with = [](std::uint8_t code, const char* format, float came) {
    Dequantised c = left_out();
    if (format != nullptr) c.call.set.set("format", format);
    Tensor codes = c.call.input("codes");
    if (format != nullptr)
      std::fill_n(codes.as<std::uint8_t>(), codes.elements(), std::uint8_t{0x3C});
    codes.as<std::uint8_t>()[0] = code;
    c.call.replace("codes", std::move(codes));
    if (format != nullptr) {
      for (Index i = 0; i < c.actual.elements(); ++i) {
        c.expected.as<float>()[i] = 2.0f;
        c.actual.as<float>()[i] = 1.0f;
      }
    }
    c.actual.as<float>()[0] = came;
    return c.shown().size() == 1;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(with(0x7F, nullptr, nan));
  EXPECT_TRUE(with(0x7F, nullptr, 7.0f)) << "NaN is not the loudest";
  EXPECT_TRUE(with(0x7C, "e5m2", 7.0f)) << "nor is infinity";
  EXPECT_FALSE(with(0x7B, "e5m2", 7.0f));
  EXPECT_TRUE(with(0x00, nullptr, 7.0f)) << "nor zero";
}

/// The loudest code of a block comes first and last, in rows 0 and 1; another stands between.
std::vector<Hypothesis> loudest(float first, float between, float last) {
  Dequantised c = left_out();
  Tensor codes = c.call.input("codes");
  auto* code = codes.as<std::uint8_t>();
  code[0] = code[1] = code[2] = code[11] = code[12] = code[13] = 0x30;
  code[0] = 0xC0;  // -2
  code[13] = 0x40;
  c.call.replace("codes", std::move(codes));
  c.fill(c.actual, [](Index, Index) { return 1.0; });
  c.actual.as<float>()[0] = first;
  c.actual.as<float>()[1] = between;
  c.actual.as<float>()[13] = last;
  return c.shown();
}

TEST(DequantisedLimits, AreThoseOfTheLoudestCode) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(loudest(-2, 0.5f, 2).size(), 1u);
  EXPECT_EQ(loudest(-2, 7, 2).size(), 1u) << "quieter";
  EXPECT_EQ(loudest(-2, 0.5f, 7).size(), 1u) << "as loud, but later";
  EXPECT_EQ(loudest(-7, 0.5f, 2).size(), 0u);
  EXPECT_EQ(loudest(2, 0.5f, 2).size(), 0u) << "another sign";
  for (const float lost : {nan, infinite, 0.0f}) EXPECT_EQ(loudest(lost, 0.5f, 2).size(), 0u);
}

/// Blocks that came as expected may show nothing, and are held to what they show.
TEST(DequantisedLimits, SpareBlocksThatShowNothing) {
  enum class Second { as_expected, zeros, infinite };
  const auto of = [](Second second) {
    Dequantised c(irregular(2, 4), 2, 16);
    Tensor codes = c.call.input("codes");
    if (second == Second::zeros) std::fill_n(codes.as<std::uint8_t>() + 4, 4, std::uint8_t{0});
    if (second == Second::infinite) codes.as<std::uint8_t>()[5] = 0x48;  // 4
    c.call.replace("codes", std::move(codes));
    Tensor scales = c.call.input("scales");
    if (second == Second::infinite) scales.as<float>()[1] = 0x1.8p127f;
    c.call.replace("scales", scales);
    const auto own = [&](Index r, Index k) { return scale_value(scales, r * 4 + k); };
    c.fill(c.expected, own);
    c.fill(c.actual, [&](Index r, Index k) { return r == 0 && k == 1 ? own(r, k) : 1.0; });
    return c.shown().size();
  };
  EXPECT_EQ(of(Second::zeros), 1u);
  EXPECT_EQ(of(Second::infinite), 1u);
  EXPECT_EQ(of(Second::as_expected), 0u) << "it would have to be alike";
}

/// e8m0 reaches from 2^-127 to 2^127.
TEST(DequantisedLimits, AreOfScalesThatBytesHave) {
  const auto of = [](int exponent, double by) {
    const double scale = std::ldexp(1.0, exponent);
    Dequantised c({{scale, scale, scale, scale}}, 1, 16);
    c.as_e8m0();
    const auto bytes = std::array<std::uint8_t, 4>{0x30, 0xB0, 0x28, 0x2C};
    Tensor codes(Dtype::u8, {1, 16});
    for (Index i = 0; i < 16; ++i)
      codes.as<std::uint8_t>()[i] = bytes[static_cast<std::size_t>(i % 4)];
    c.call.replace("codes", std::move(codes));
    c.fill(c.expected, [=](Index, Index) { return scale; });
    c.fill(c.actual, [=](Index, Index) { return scale * by; });
    const auto list = c.shown();
    if (list.size() != 1) return -1;
    Call altered = c.call;
    if (!list[0].alter(altered)) return -2;
    return static_cast<int>(altered.input("scales").as<std::uint8_t>()[3]);
  };
  EXPECT_EQ(of(3, 2.0), 131);
  EXPECT_EQ(of(126, 2.0), 254);
  EXPECT_EQ(of(127, 2.0), -2);
  EXPECT_EQ(of(-126, 0.5), 0);
  EXPECT_EQ(of(-127, 0.5), -2);
}

/// Moves of more than 2^20 scales are not looked for.
TEST(DequantisedLimits, AreFoundInAsManyScales) {
  const auto of = [](Index rows) {
    const Scales given = irregular(rows, 1024);
    Dequantised c(given, rows, 1024);
    c.fill(c.actual, [&](Index r, Index k) { return Dequantised::at(given, (r + 1) % rows, k); });
    return c.shown().size();
  };
  EXPECT_EQ(of(1024), 1u);
  EXPECT_EQ(of(1025), 0u);
}

}  // namespace
}  // namespace mxo
