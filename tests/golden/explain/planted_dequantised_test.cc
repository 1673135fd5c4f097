// Dequantised tensors: scales of other sizes, types and places; codes and scale bytes that are read
// as other numbers.
#include <cmath>
#include <limits>
#include <set>

#include "golden/explain/find/quantiser/quantiser.h"
#include "tests/golden/planted.h"

namespace mxo::planted_dequantised_test {
namespace {

constexpr Index kRows = 96;

/// Codes and scales of e8m0, or of f32 for every 128.
Call dequantised(Backend& b, bool numbers) {
  Call call = quantize_call(numbers ? "1x128" : "1x32");
  if (numbers) call.set.set("power_of_2", "none");
  return of("dequantize", run_call(b, call));
}

Planted with_bytes(Backend& b, int by) {
  return altered_as<std::uint8_t>(b, dequantised(b, false), {"scales"},
                                  [by](Index i, const std::uint8_t* s) { return s[i] + by; });
}

Planted with_numbers(Backend& b, float (*of)(float)) {
  return altered_as<float>(b, dequantised(b, true), {"scales"},
                           [of](Index i, const float* s) { return of(s[i]); });
}

/// Scale (r, c) is that of (row, column) given; of 16 columns.
Planted taken(Backend& b, Index (*from)(Index r, Index c)) {
  return altered(b, dequantised(b, false), {"scales"}, [from](Tensor& t, const Tensor& given) {
    runs_from(t, given, 1, [from](Index i) { return from(i / 16, i % 16); });
  });
}

Planted flushed(Backend& b, int kept) {
  return altered_as<std::uint8_t>(
      b, dequantised(b, false), {"codes"},
      [kept](Index i, const std::uint8_t* c) { return (c[i] & 0x7F) < 8 ? c[i] & kept : c[i]; });
}

const PlantedFault kFaults[] = {
    {"every byte is one too low", "scales=halved", "half of what it is",
     planted_by(with_bytes, -1)},
    {"every byte is one too high", "scales=doubled", "twice what it is", planted_by(with_bytes, 1)},
    {"scales are rounded to bf16", "scales=bf16", "rounded to bf16 first",
     planted_by(with_numbers, [](float s) { return decode(encode<kBF16>(s)); })},
    {"scales are truncated to bf16", "scales=bf16_cut", "truncated to bf16",
     planted_by(with_numbers,
                [](float s) { return bit_cast<float>(bit_cast<std::uint32_t>(s) & 0xFFFF0000u); })},
    {"scales are rounded to f16", "scales=f16", "rounded to f16 first",
     planted_by(with_numbers,
                [](float s) { return decode(encode<kF16>(s, Overflow::nonfinite)); })},
    {"scales are rounded to powers of two", "scales=nearest", "to the nearest power of two",
     planted_by(with_numbers, [](float s) { return std::exp2(std::round(std::log2(s))); })},
    {"scales are truncated to powers of two", "scales=down", "truncated to powers of two",
     planted_by(with_numbers, [](float s) { return std::ldexp(1.0f, std::ilogb(s)); })},
    {"scales are rounded up to powers of two", "scales=up", "rounded up to powers of two",
     planted_by(with_numbers, [](float s) { return std::ldexp(1.0f, std::ilogb(s) + 1); })},
    {"scales of the block before, the first its own", "scales=source", "those of 1 block before",
     planted_by(taken, [](Index r, Index c) { return r * 16 + std::max<Index>(c - 1, 0); })},
    {"scales of the row after, the last its own", "scales=source", "those of 1 row after",
     planted_by(taken, [](Index r, Index c) { return std::min(r + 1, kRows - 1) * 16 + c; })},
    {"scales one place late in memory", "scales=source", "one before theirs in memory",
     planted_by(taken, [](Index r, Index c) { return std::max<Index>(r * 16 + c - 1, 0); })},
    {"scales of a row for two", "scales=row_function", "row i takes the scales of row i / 2",
     planted_by(taken, [](Index r, Index c) { return r / 2 * 16 + c; })},
    {"scales of the first of four rows", "scales=row_function", "of row i - i modulo 4",
     planted_by(taken, [](Index r, Index c) { return r / 4 * 64 + c; })},
    {"scales of the first half of rows for all", "scales=source",
     "those of 48 rows before, in scale rows 48 to 95",
     planted_by(taken, [](Index r, Index c) { return r % 48 * 16 + c; })},
    {"the scale of the tensor is left out", "output.operand", "as they are, without the scale",
     elements_as<float>(
         [](Backend& b) { return of("dequantize", run_call(b, quantize_call("RxK"))); }, {"scales"},
         [](Index, const float*) { return 1.0f; })},
    {"subnormal codes are flushed", "codes=flushed", "subnormal codes are read as zero",
     planted_by(flushed, 0x80)},
    {"subnormal codes are flushed to +0", "codes=flushed", "without their signs",
     planted_by(flushed, 0)},
};

TEST(PlantedInDequantised, AreNamed) { expect_named(kFaults); }

/// x that came with of(bits, element) of what is expected.
PlantsFault came(std::uint16_t (*of)(std::uint16_t, Index)) {
  return spoils([](Backend& b) { return dequantised(b, false); },
                [of](NamedTensors& out) {
                  auto* x = out.at("x").as<std::uint16_t>();
                  for (Index i = 0; i < kRows * 512; ++i) x[i] = of(x[i], i);
                });
}

const PlantedFault kNearMisses[] = {
    {"one in ten is a step larger", "value.factor", "", came([](std::uint16_t v, Index i) {
       return static_cast<std::uint16_t>(v + (i * 7919 % 1009 < 100 ? 1 : 0));
     })},
    {"half of it, without signs from a row on", "value.factor", "",
     came([](std::uint16_t v, Index i) {
       const auto half = static_cast<std::uint16_t>((v & 0x7FFF) == 0 ? v : v - 0x80);
       return static_cast<std::uint16_t>(i < 48 * 512 ? half : half & 0x7FFF);
     })},
    {"both blocks of a row take the larger scale", "scales=reversed", "",
     [](Backend& b) {
       Call call =
           of_x("quantize", random_floats({96, 256}, 7), "block=1x128 scale=f32 power_of_2=none");
       return altered_as<float>(b, of("dequantize", run_call(b, call)), {"scales"},
                                [](Index i, const float* s) { return std::max(s[i], s[i ^ 1]); });
     }},
    {"exponents to nearest, and one less", "rounding=", "",
     [](Backend& b) {
       return spoiled(b,
                      of_x("encode", scaled_floats({1024}, 7, [](Index i) { return i * 7 % 40; }),
                           "format=e8m0"),
                      [](NamedTensors& out) {
                        for (Index i = 0; i < 1024; ++i) --out.at("codes").as<std::uint8_t>()[i];
                      });
     }},
    {"a group's tiles are zero", "rows.", "",
     [](Backend& b) {
       const Call call = of(
           "swizzle_scales",
           {{"scales",
             filled<std::uint8_t>(Dtype::u8, {300, 8}, [](Index i) { return i * 31 % 23 + 110; })},
            {"group_ends",
             filled<std::int32_t>(Dtype::i32, {3}, [](Index i) { return i * 100 + 100; })}},
           "layout=m_groups");
       return spoiled(b, call, [](NamedTensors& out) {
         Tensor& t = out.at("blocked");
         std::memset(t.data() + 2048, 0, t.bytes() - 2048);
       });
     }},
};

TEST(PlantedInDequantised, NearMissesAreNot) { expect_not_named(kNearMisses); }

/// Codes of every byte that is a number, scales of seven sizes, and x as they make it.
Call every_code(const char* format) {
  Tensor codes(Dtype::u8, {56, 256});
  for (Index i = 0; i < codes.elements(); ++i)
    codes.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 37 % 256);
  Tensor scales(Dtype::e8m0, {56, 8});
  for (Index s = 0; s < scales.elements(); ++s)
    scales.as<std::uint8_t>()[s] = static_cast<std::uint8_t>(120 + s * 5 % 7);
  return of("dequantize", {{"codes", std::move(codes)}, {"scales", std::move(scales)}},
            {{"format", format}, {"out", "f32"}});
}

/// The sentence where elements hold value(code, scale byte) times the scale; NaN: as they are.
template <typename Value>
std::string said(const char* format, Value value) {
  const auto b = make_cpu_backend();
  const Call call = every_code(format);
  const Planted p = spoiled(*b, call, [&](NamedTensors& out) {
    const auto* codes = call.input("codes").as<std::uint8_t>();
    const auto* scales = call.input("scales").as<std::uint8_t>();
    float* x = out.at("x").as<float>();
    for (Index i = 0; i < out.at("x").elements(); ++i) {
      const int byte = scales[i / 32];
      const float v = value(codes[i], byte, i);
      if (v != 1e9f) x[i] = v * std::ldexp(1.0f, byte - 127);
    }
  });
  return explain(*b, p.call, p.expected, p.actual).sentence();
}

constexpr float kAsIs = 1e9f;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(ByValue, CodesAreReadAsOtherNumbers) {
  EXPECT_EQ(said("e4m3", [](int c, int, Index) { return c == 0x80 ? kNaN : kAsIs; }),
            "explained: code 80 is read as NaN rather than -0");
  EXPECT_EQ(said("e4m3fnuz", [](int c, int, Index) { return c == 0x80 ? -0.0f : kAsIs; }),
            "explained: code 80 is read as -0 rather than NaN");
  EXPECT_EQ(
      said("e4m3", [](int c, int,
                      Index) { return (c & 0x7F) == 0x7F ? (c < 128 ? 480.0f : -480.0f) : kAsIs; }),
      "explained: codes are misread: 7F as 480 rather than NaN, FF as -480 rather "
      "than NaN");
  EXPECT_EQ(said("e4m3",
                 [](int c, int, Index) {
                   const int m = c & 0x7F;
                   if (m == 0 || m > 7) return kAsIs;
                   return (c < 128 ? 1.0f : -1.0f) *
                          std::ldexp(1.0f + 0.125f * static_cast<float>(m), -7);
                 }),
            "explained: subnormal codes are read by the formula of normal ones, 1.m of the lowest "
            "exponent");
}

TEST(ByValue, ScaleBytesAreReadAsNaN) {
  EXPECT_EQ(said("e4m3", [](int, int byte, Index) { return byte == 124 ? kNaN : kAsIs; }),
            "explained: scale byte 124 is read as NaN rather than 0.125");
}

TEST(ByValue, ScaleBytesOfAProductAreReadAsNaN) {
  const auto b = make_cpu_backend();
  const Call call = mx_product(*b, 5, {{16, 24, 40}, 40, 32, 64});
  // A byte of a few rows.
  const Tensor& scales = call.input("x.scales");
  const Index columns = scales.extent(1);
  std::map<int, std::set<Index>> rows;
  for (Index i = 0; i < scales.elements(); ++i)
    rows[scales.as<std::uint8_t>()[i]].insert(i / columns);
  const auto few = std::find_if(rows.begin(), rows.end(), [](const auto& at) {
    return at.second.size() > 1 && at.second.size() < 20;
  });
  ASSERT_NE(few, rows.end());
  const int byte = few->first;
  const Planted p = altered(*b, call, {"x.scales"}, [&](Tensor& t, const Tensor&) {
    for (Index i = 0; i < t.elements(); ++i)
      if (t.as<std::uint8_t>()[i] == byte) t.as<std::uint8_t>()[i] = 0xFF;
  });
  const Explanation e = explain(*b, p.call, p.expected, p.actual);
  ASSERT_FALSE(e.causes.empty());
  const std::string words = "scale byte " + std::to_string(byte) + " of x is read as NaN";
  EXPECT_TRUE(e.causes[0].sentence.starts_with(words)) << e.sentence();
}

}  // namespace
}  // namespace mxo::planted_dequantised_test
