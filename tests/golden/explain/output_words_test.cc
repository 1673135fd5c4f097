// Values that are a known function of what is expected, by their words of bits; parts of an output
// that nobody wrote.
#include <bit>
#include <cmath>
#include <limits>

#include "golden/explain/case/product.h"
#include "golden/explain/find/output/recover.h"
#include "golden/museum/operands.h"
#include "tests/golden/differing.h"

namespace mxo::output_words_test {
namespace {

using Bits = std::vector<std::uint64_t>;

/// Elements of any type by their bits.
Tensor of_bits(Dtype dtype, std::vector<Index> shape, const Bits& bits) {
  Tensor t(dtype, std::move(shape));
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    std::memcpy(t.data() + i * size, &bits[i], size);  // the low bytes
  }
  return t;
}

/// Numbers from 1 to 2 of either sign, no pattern in their bits.
std::vector<float> some_numbers(std::size_t n) {
  std::vector<float> values;
  for (std::size_t i = 1; i <= n; ++i) {
    const auto f = static_cast<double>(static_cast<std::uint32_t>(i) * 2654435761u) * 0x1p-32;
    values.push_back(static_cast<float>((1.0 + f) * (i % 3 == 0 ? -1.0 : 1.0)));
  }
  return values;
}

/// Each of some numbers as from(number).
std::vector<float> each_of(std::vector<float> values, const std::function<double(double)>& f) {
  for (float& v : values) v = static_cast<float>(f(v));
  return values;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// "id: sentence" where words of bits came as others, in rows of so many.
std::string of_words(Dtype dtype, const Bits& want, const Bits& actual, Index columns = 0) {
  const auto n = static_cast<Index>(want.size());
  const std::vector<Index> shape{columns == 0 ? 1 : n / columns, columns == 0 ? n : columns};
  Differing got(of_bits(dtype, shape, want), of_bits(dtype, shape, actual));
  return said(got.output, recover_mapped);
}

std::string of_floats(const std::vector<float>& want, const std::function<double(double)>& f) {
  Bits from;
  Bits to;
  for (const float v : want) from.push_back(std::bit_cast<std::uint32_t>(v));
  for (const float v : each_of(want, f)) to.push_back(std::bit_cast<std::uint32_t>(v));
  return of_words(Dtype::f32, from, to);
}

std::vector<float> with(std::vector<float> values, const std::vector<float>& more) {
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

TEST(OutputWords, AreAKnownFunction) {
  const auto nan = static_cast<float>(kNan);
  const auto cut = [](int bits) {
    return [=](double v) { return std::ldexp(std::trunc(std::ldexp(v, bits)), -bits); };
  };
  const auto rounded = [](double v) { return std::ldexp(std::nearbyint(std::ldexp(v, 7)), -7); };
  const auto clamp = [](double v) { return v > 4.5 ? 4.5 : v < -4.5 ? -4.5 : v; };
  const auto above = [](double v) { return v > 4.5 ? 4.5 : v; };
  const std::vector<float> far{10, 11, 12, 13, 14, 15, 16, 17, 1, -1};
  const std::vector<float> negative{-1, -2, -3, -4, -5, -6, -7, -8};
  const std::string clamped = "value.clamped: y: values are clamped ";
  struct Function {
    std::vector<float> want;
    std::function<double(double)> f;
    std::string said;
  };
  for (const Function& row : std::vector<Function>{
           {{-0.0f, 1.0f, -1.0f, -0.0f},
            [](double v) { return v == 0.0 ? 0.0 : v; },
            "value.minus_zero: y: negative zeros lose their sign"},
           {{nan, 1.0f, -2.0f, nan},
            [](double v) { return std::isnan(v) ? 0.0 : v; },
            "value.nan_zero: y: where NaN is expected, zero came"},
           {with(negative, {1, 3, -nan}), [](double v) { return v < 0.0 ? 0.0 : v; },
            "value.relu: y: negative values are written as zero (ReLU)"},
           {some_numbers(8), [](double v) { return 1.0f / static_cast<float>(v); },
            "value.reciprocal: y: values are 1 over what is expected"},
           {some_numbers(7), [](double v) { return 1.0f / static_cast<float>(v); }, ""},
           {{-1.1f, 2.3f, -3.3f},
            [](double v) { return std::abs(v); },
            "value.sign_lost: y: signs are lost"},
           {some_numbers(8), [](double v) { return -v; },
            "value.negated: y: every value is negated"},
           {with(far, {-20, 2}), clamp, clamped + "at 4.5"},
           {with(far, {-20, nan}), above, clamped + "above at 4.5, and not on the other side"},
           {each_of(with(far, {-20, 2}), [](double v) { return -v; }),
            [](double v) { return v < -4.5 ? -4.5 : v; },
            clamped + "below at -4.5, and not on the other side"},
           {{1.5f, 2.5f}, [](double) { return 0.0; }, ""},
           {with(some_numbers(8), {nan, 0.0f, -0.0f, 0x1p-125f}), [](double v) { return v / 2; },
            "value.power_of_2: y: every value is multiplied by 2^-1"},
           {with(some_numbers(8), {0x1p-126f}), [](double v) { return v / 2; }, ""},  // subnormal
           {{1.3f, 2.7f, 5.1f, 10.3f, 20.7f, 40.9f, 90.1f, 170.3f, 0x1p-126f},
            [](double v) { return v == 0x1p-126 ? 0.0 : v / 2; },
            ""},  // flushed
           {{1.3f, 2.7f, 5.1f, 10.3f, 20.7f, 40.9f, 90.1f, 170.3f, 300.7f},
            [](double v) { return std::exp2(std::ilogb(v)); },
            ""},  // no fraction is left
           {with(far, {-2, -nan}),
            [](double v) { return std::isnan(v) ? -4.5
                                  : v > 4.5     ? 4.5
                                                : v; }, clamped + "at 4.5"},
           {some_numbers(8), [](double v) { return v * 0x1p20; },
            "value.power_of_2: y: every value is multiplied by 2^20"},
           {some_numbers(7), [](double v) { return v * 2; }, ""},
           {some_numbers(9), [](double v) { return v * 3; }, ""},
           {some_numbers(10), [](double v) { return v < 0 ? 2 * v : 4 * v; }, ""},
           {some_numbers(24), cut(7),
            "value.truncated: y: values are truncated to 7 fraction bits"},
           {some_numbers(24), cut(22),
            "value.truncated: y: values are truncated to 22 fraction bits"},
           {with(some_numbers(24), {1.00390625f, 1.01171875f}), rounded,
            "value.rounded: y: values are rounded to 7 fraction bits on the way"},
           {some_numbers(7), cut(7), ""}}) {
    EXPECT_EQ(of_floats(row.want, row.f), row.said);
  }
  const std::string flushed = "value.subnormals_flushed: y: subnormal values are flushed to zero";
  const std::string zero = "value.subnormals_zero: y: subnormal values are flushed to +0";
  for (const auto& [dtype, fraction] : {std::pair{Dtype::f64, 52},
                                        {Dtype::f32, 23},
                                        {Dtype::bf16, 7},
                                        {Dtype::f16, 10},
                                        {Dtype::e4m3, 3},
                                        {Dtype::e5m2, 2},
                                        {Dtype::e4m3fnuz, 3},
                                        {Dtype::e5m2fnuz, 2}}) {
    const std::uint64_t one = std::uint64_t{1} << fraction;
    const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(dtype) - 1);
    EXPECT_EQ(of_words(dtype, {one, 1, one - 1, one + 1}, {one, 0, 0, one + 1}), flushed);
    EXPECT_EQ(of_words(dtype, {sign | 1, 1, sign | one}, {0, 0, sign | one}), zero);
  }
  EXPECT_EQ(of_words(Dtype::f32, {0xBF812345, 0xC0012345, 0x7FC00000},
                     {0x3F812345, 0x40012345, 0xFFC00001}),
            "value.sign_lost: y: signs are lost")
      << "beside any NaN";
  EXPECT_EQ(of_words(Dtype::f32, {0x80000001, 1, 0x3F800000}, {0x80000000, 0, 0x3F800000}),
            flushed);
}

TEST(OutputWords, AreTheSameWordsWithOtherBits) {
  const Bits bytes{0x12, 0x34, 0xF0, 0x07, 0x9A, 0x5C, 0x61, 0x2E};
  const auto each = [](Bits words, const std::function<std::uint64_t(std::uint64_t)>& f) {
    for (std::uint64_t& w : words) w = f(w);
    return words;
  };
  const auto flip = [](std::uint64_t mask) { return [=](std::uint64_t w) { return w ^ mask; }; };
  const auto nibbles = [](std::uint64_t w) { return w % 16 * 16 + w / 16; };
  const Bits seven(bytes.begin(), bytes.end() - 1);
  EXPECT_EQ(of_words(Dtype::e4m3, bytes, each(bytes, nibbles)),
            "value.nibbles: y: the nibbles of every byte are exchanged");
  EXPECT_EQ(of_words(Dtype::u8, seven, each(seven, nibbles)), "");
  for (const Dtype dtype : {Dtype::u16, Dtype::bf16, Dtype::i32, Dtype::f32, Dtype::i64}) {
    Bits words;
    Bits turned;
    for (std::uint64_t w = 1; w < 9; ++w) {
      words.push_back(w * 0x9E3779B97F4A7C15);
      std::uint64_t& to = turned.emplace_back();
      for (std::size_t b = 0; b < size_of(dtype); ++b)
        to = to << 8 | (words.back() >> (8 * b) & 255);
    }
    EXPECT_EQ(of_words(dtype, words, turned),
              "value.bytes: y: the bytes of every element are exchanged");
  }
  EXPECT_EQ(of_words(Dtype::u16, bytes, each(bytes, flip(0x24))),
            "bits.flipped: y: the same bits are flipped everywhere");
  EXPECT_EQ(of_words(Dtype::u16, seven, each(seven, flip(0x24))), "");
  const std::string high = "value.offset: y: every number is 3 too high";
  EXPECT_EQ(of_words(Dtype::i32, {5, 9, 12}, {8, 12, 15}), high);
  EXPECT_EQ(
      of_words(Dtype::i32, {5, 6, 17, 18, 70, 81, 92, 113}, {8, 9, 20, 21, 73, 97, 220, 520}, 4),
      "value.offset: row 0 of y: every number is 3 too high");
  EXPECT_EQ(
      of_words(Dtype::i32, {5, 6, 17, 18, 70, 81, 92, 113}, {8, 9, 20, 21, 777, 97, 220, 520}, 4),
      "")
      << "half agree";
  EXPECT_EQ(of_words(Dtype::e8m0, {120, 130, 127, 99}, {118, 128, 125, 97}),
            "scale.exponent: y: every scale byte is 2 too low");
  EXPECT_EQ(of_words(Dtype::u8, {5, 13, 21, 40}, {13, 5, 21, 40}),
            "row.reordered: values change places within their rows in elements 0 to 1 of y");
}

/// Bits that are neither zeros nor NaN in any type, no two neighbours alike.
Tensor of_no_fill(Dtype dtype, std::vector<Index> shape) {
  Tensor t(dtype, std::move(shape));
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < t.bytes() / size; ++i)
    std::memset(t.data() + i * size, static_cast<int>(0x21 + i % 5), size);
  return t;
}

/// `n` elements from `first` on that hold these bits.
struct Filled {
  Index first;
  Index n;
  std::uint64_t bits = 0;
};

Tensor with_fills(Tensor t, const std::vector<Filled>& fills) {
  const std::size_t size = size_of(t.dtype());
  for (const Filled& f : fills) {
    for (Index i = 0; i < f.n; ++i)
      std::memcpy(t.data() + static_cast<std::size_t>(f.first + i) * size, &f.bits, size);
  }
  return t;
}

std::string of_fills(const Tensor& want, const std::vector<Filled>& fills,
                     const std::string& name = "y") {
  Differing got(want, with_fills(want, fills), {"any", {}, {}}, name);
  return said(got.output, recover_unwritten);
}

std::string zeros(const std::string& place) {
  return "never_written.zero: " + place + " zeros: never written, cleared, or computed so";
}

TEST(OutputUnwritten, FillsAreNamedByTheirBits) {
  const std::string nan = "nan: row 2 of y holds NaN: never written, or computed so";
  const std::string no_sign =
      "zero: row 2 of y holds zeros: never written, cleared, or computed so";
  const std::string infinite = ": overflow, a division by zero, or the fill of the buffer";
  const std::string largest = ": the largest number, saturated, or the fill of the buffer";
  const std::string other = ": the fill of the buffer, never written, or one value for all of them";
  struct Row {
    Dtype dtype;
    std::uint64_t bits;
    std::string id;
    std::string words;  ///< after the bits; empty: `id` is all
  };
  for (const Row& row : std::vector<Row>{{Dtype::f32, 0x7FC00000, "never_written." + nan, ""},
                                         {Dtype::e4m3, 0x7F, "never_written." + nan, ""},
                                         {Dtype::bf16, 0x7F80, "infinite", infinite},
                                         {Dtype::f32, 0xFF800000, "infinite", infinite},
                                         {Dtype::e5m2, 0x7C, "infinite", infinite},
                                         {Dtype::bf16, 0x7F7F, "largest", largest},
                                         {Dtype::e4m3, 0x7E, "largest", largest},
                                         {Dtype::e4m3, 0x7D, "fill", other},
                                         {Dtype::bf16, 0x8000, "never_written." + no_sign, ""},
                                         {Dtype::i64, 0xFEDCBA9876543210u, "fill", other}}) {
    char bits[32];
    std::snprintf(bits, sizeof bits, "0x%0*llX", static_cast<int>(2 * size_of(row.dtype)),
                  static_cast<unsigned long long>(row.bits));
    const std::string constant = "constant." + row.id + ": row 2 of y holds " + bits + row.words;
    EXPECT_EQ(of_fills(of_no_fill(row.dtype, {4, 16}), {{32, 16, row.bits}}),
              row.words.empty() ? row.id : constant);
  }
  EXPECT_EQ(of_fills(of_no_fill(Dtype::f32, {8, 4}), {{8, 8, 0x3E800000}}),
            "constant.fill: rows 2 to 3 of y hold 1 / 4, as equal shares are");
  const Tensor rows = of_no_fill(Dtype::bf16, {4, 8});
  EXPECT_EQ(of_fills(rows, {{16, 4, 0x7FC0}, {20, 4, 0xFFFF}}), "never_written." + nan);
  EXPECT_EQ(of_fills(rows, {{8, 16}}), zeros("rows 1 to 2 of y hold"));
  const Tensor scales = of_no_fill(Dtype::e8m0, {4, 16});
  EXPECT_EQ(of_fills(scales, {{32, 16, 0x7F}}, "x.scales"), "") << "scales are alike";
  EXPECT_NE(of_fills(scales, {{32, 16, 0xFF}}, "x.scales"), "");
}

TEST(OutputUnwritten, BytesOfSomethingElseAreOfEverySize) {
  const Tensor want = random_bf16({8, 64}, 7);
  const auto rows_as = [&](auto of) {
    Tensor got = want;
    for (Index i = 256; i < 512; ++i) got.as<std::uint16_t>()[i] = of(i);
    Differing wrong(want, got, {"any", {}, {}}, "y");
    return said(wrong.output, recover_wild);
  };
  EXPECT_EQ(rows_as([](Index i) { return static_cast<std::uint16_t>(i * 40503); }),
            "never_written.other: 256 elements in rows 4 to 7 of y hold numbers of every size: "
            "never written, or bytes of something else");
  // Scales that are far off are of one size in a row.
  EXPECT_EQ(rows_as([&](Index i) {
              const float v = std::ldexp(wide_value(want, i), i / 64 % 2 == 0 ? 60 : -60);
              return encode<kBF16>(v).bits;
            }),
            "");
}

}  // namespace
}  // namespace mxo::output_words_test
