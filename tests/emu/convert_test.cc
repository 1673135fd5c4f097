// Conversions and their roundings: every code, every 16-bit float, any stride.
#include <gtest/gtest.h>

#include "formats/rounding.h"
#include "ops/convert.h"
#include "tests/support/contestants.h"
#include "tests/support/products.h"
#include "tests/support/strided.h"

namespace mxo::test::convert_test {
namespace {

constexpr Dtype kFormats[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz,
                              Dtype::e8m0};

std::vector<std::vector<std::byte>> encoded(Backend& backend, const Operand& x,
                                            const std::vector<Index>& shape, const Lie& lie) {
  std::vector<std::vector<std::byte>> all;
  for (const Dtype format : kFormats) {
    for (const Overflow overflow : {Overflow::saturate, Overflow::nonfinite}) {
      for (const auto& [nan, rounding] : {std::pair{NanSign::positive, E8M0Rounding::up},
                                          {NanSign::of_operand, E8M0Rounding::nearest},
                                          {NanSign::of_operand, E8M0Rounding::zero}}) {
        Strided codes(format, shape, lie);
        encode(backend, {x, codes.result(), overflow, nan, rounding});
        all.push_back(codes.bytes());
      }
    }
  }
  return all;
}

void expect_references_codes(const Operand& x, const std::vector<Index>& shape, const Lie& lie) {
  const auto want = encoded(*make_reference_backend(), x, shape, lie);
  for (const auto& contestant : test::contestants())
    EXPECT_EQ(encoded(*contestant.make(), x, shape, lie), want)
        << contestant.name() << " " << lie.name << " " << describe(x);
}

TEST(Convert, EveryBf16AndF16PatternGivesTheReferencesCodes) {
  Tensor x(Dtype::u16, {65536});
  for (Index i = 0; i < 65536; ++i) x.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i);
  for (const Dtype input : {Dtype::bf16, Dtype::f16}) {
    x.reinterpret_as(input);
    expect_references_codes(x.operand(), {65536}, {"contiguous"});
  }
}

TEST(Convert, ANegativeNanOf16BitsKeepsItsSignIfAsked) {
  Tensor x(Dtype::bf16, {2});
  x.as<std::uint16_t>()[0] = 0xFFC0;
  x.as<std::uint16_t>()[1] = 0x7FC0;
  Tensor codes(Dtype::e4m3, {2});
  encode(*make_reference_backend(),
         {x.operand(), codes.result(), Overflow::saturate, NanSign::of_operand});
  EXPECT_EQ(codes.as<std::uint8_t>()[0], 0xFF);
  EXPECT_EQ(codes.as<std::uint8_t>()[1], 0x7F);
}

// Both sides of every rounding boundary: the 2^17 patterns around each change of the upper bits.
TEST(Convert, F32PatternsAroundEveryStepGiveTheReferencesCodes) {
  Tensor x(Dtype::f32, {1 << 18});
  auto* word = x.as<std::uint32_t>();
  for (std::uint32_t i = 0; i < 1u << 18; ++i)
    word[i] = (i >> 2 << 16) + (i % 4 == 0 ? 0x7FFFu : i % 4 == 1 ? 0x8000u : i % 4 == 2 ? 1u : 0u);
  expect_references_codes(x.operand(), x.shape(), {"contiguous"});
}

TEST(Convert, AnyStridesGiveTheReferencesCodesAndValues) {
  for (const std::vector<Index>& shape :
       {std::vector<Index>{0}, {1}, {5000}, {3, 0, 4}, {33, 65}, {2, 3, 17, 41}}) {
    for (const Lie& lie : test::lies()) {
      Strided x(Dtype::f32, shape, lie);
      fill(x, Fill::anything, 3);
      expect_references_codes(x.operand(), shape, lie);
    }
  }
}

TEST(Convert, EveryCodeOfEveryFormatDecodesToTheReferencesBits) {
  Tensor codes(Dtype::u8, {256});
  for (Index i = 0; i < 256; ++i) codes.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  const auto decoded = [&](Backend& backend) {
    Strided x(Dtype::f32, {256}, {"every_third", 3, 1, 1});
    decode(backend, {codes.operand(), x.result()});
    return x.bytes();
  };
  const auto reference = make_reference_backend();
  for (const Dtype format : kFormats) {
    codes.reinterpret_as(format);
    for (const auto& contestant : test::contestants())
      EXPECT_EQ(decoded(*contestant.make()), decoded(*reference))
          << contestant.name() << " " << name_of(format);
  }
}

/// Every finite value of a format, ascending.
template <FormatSpec S>
std::vector<std::pair<double, int>> line() {
  std::vector<std::pair<double, int>> values;
  for (int code = 0; code < 256; ++code) {
    const Minifloat<S> c{static_cast<std::uint8_t>(code)};
    if (is_nan(c) || is_infinite(c) || code == 0x80) continue;
    values.emplace_back(static_cast<double>(decode(c)), code);
  }
  std::sort(values.begin(), values.end());
  return values;
}

/// The definition: the values below and above v, and which of them.
template <FormatSpec S>
int rounded(const std::vector<std::pair<double, int>>& line, float v, Rounding how) {
  const double x = static_cast<double>(v);
  if (x <= line.front().first) return line.front().second;
  if (x >= line.back().first) return line.back().second;
  const auto above = std::upper_bound(line.begin(), line.end(), std::pair{x, 1000});
  const auto below = above - 1;
  const auto signed_zero = [&](int code) {
    return code == 0 && std::signbit(v) && S.special != Special::nan_minus_0 ? 0x80 : code;
  };
  if (below->first == x) return signed_zero(below->second);
  const double to_below = x - below->first;
  const double to_above = above->first - x;
  const bool outward_is_above = x > 0;
  bool up = to_above < to_below;
  if (how == Rounding::even && to_above == to_below) up = above->second % 2 == 0;
  if (how == Rounding::ties_away && to_above == to_below) up = outward_is_above;
  if (how == Rounding::ties_zero && to_above == to_below) up = !outward_is_above;
  if (how == Rounding::zero) up = !outward_is_above;
  if (how == Rounding::away) up = outward_is_above;
  if (how == Rounding::down) up = false;
  if (how == Rounding::up) up = true;
  if (how == Rounding::odd) up = above->second % 2 != 0;
  return signed_zero(up ? above->second : below->second);
}

constexpr Rounding kAll[] = {Rounding::even, Rounding::ties_away, Rounding::ties_zero,
                             Rounding::zero, Rounding::away,      Rounding::down,
                             Rounding::up,   Rounding::odd};

/// Every bf16, and every value and middle with the floats beside it: between them a rounding does
/// not change.
template <FormatSpec S>
std::vector<float> inputs() {
  std::vector<float> all;
  for (std::uint32_t word = 0; word < 0x10000u; ++word)
    if ((word & 0x7FFFu) <= 0x7F80u) all.push_back(bit_cast<float>(word << 16));
  const auto values = line<S>();
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    for (const double edge : {values[i].first, 0.5 * (values[i].first + values[i + 1].first)}) {
      const auto v = static_cast<float>(edge);
      for (const float to : {-INFINITY, INFINITY}) all.push_back(std::nextafter(v, to));
      all.push_back(v);
    }
  }
  for (const float tiny : {0x1p-149f, 0x1p-127f, 0.0f}) {
    all.push_back(tiny);
    all.push_back(-tiny);
  }
  return all;
}

template <FormatSpec S>
void expect_definition() {
  const auto values = line<S>();
  for (const Rounding how : kAll) {
    int wrong = 0;
    for (const float x : inputs<S>()) {
      const int want = rounded<S>(values, x, how);
      wrong += encode_rounded<S>(x, how, Overflow::saturate).bits != want;
    }
    EXPECT_EQ(wrong, 0) << kRoundingNames[static_cast<int>(how)];
  }
}

TEST(ElementRounding, TakesTheNeighbourOfItsDefinition) {
  expect_definition<kE4M3>();
  expect_definition<kE5M2>();
  expect_definition<kE4M3Fnuz>();
  expect_definition<kE5M2Fnuz>();
}

TEST(ElementRounding, NanAndInfinityAreThoseOfEncode) {
  for (const Rounding how : kAll) {
    EXPECT_EQ((encode_rounded<kE4M3>(NAN, how, Overflow::saturate).bits), 0x7F);
    EXPECT_EQ((encode_rounded<kE4M3>(-INFINITY, how, Overflow::saturate).bits), 0xFE);
    EXPECT_EQ((encode_rounded<kE5M2>(INFINITY, how, Overflow::nonfinite).bits), 0x7C);
    EXPECT_EQ((encode_rounded<kE4M3Fnuz>(NAN, how, Overflow::saturate).bits), 0x80);
  }
}

TEST(ElementRounding, EveryBackendRoundsQuantisedElementsSo) {
  // One block of 448 and 31 values: the scale is 1.
  Tensor x(Dtype::f32, {256, 32});
  for (Index r = 0; r < 256; ++r) {
    for (Index k = 0; k < 32; ++k) {
      const std::uint32_t word = static_cast<std::uint32_t>(r * 32 + k) * 0x9E3779B9u;
      const float v = bit_cast<float>((word & 0x87FFFFFFu) | 0x38000000u);
      x.as<float>()[r * 32 + k] = k == 0 ? 448.0f : v;
    }
  }
  NamedTensors in{{"x", x}};
  const auto values = line<kE4M3>();
  for (const Rounding how : kAll) {
    const std::string name = kRoundingNames[static_cast<int>(how)];
    for (const std::string& backend : every_backend()) {
      for (const std::string block : {"1x32", "1xK"}) {
        const NamedTensors out =
            call_operator(*make_backend(backend, 2), "quantize", in,
                          settings({"rounding=" + name, "block=" + block, "scale=e8m0"}));
        int wrong = 0;
        for (Index i = 0; i < x.elements(); ++i) {
          const float v = x.as<float>()[i];
          wrong += out.at("codes").as<std::uint8_t>()[i] != rounded<kE4M3>(values, v, how);
        }
        EXPECT_EQ(wrong, 0) << name << " " << backend << " " << block;
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test::convert_test
