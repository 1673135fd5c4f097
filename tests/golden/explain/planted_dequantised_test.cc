// Dequantised tensors: scales of other sizes, types and places, codes that are flushed.
#include <algorithm>
#include <cmath>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

constexpr Index kRows = 96;
constexpr Index kColumns = 512;

/// Codes and scales of e8m0, or of f32 for every 128.
Call dequantised(Backend& b, bool numbers) {
  NamedTensors in;
  in.emplace("x", random_floats({kRows, kColumns}, 7));
  const Parameters set =
      numbers ? with({{"block", "1x128"}, {"power_of_2", "none"}}) : with({{"block", "1x32"}});
  return make_call("dequantize", run_call(b, make_call("quantize", in, set)), {});
}

Planted with_bytes(Backend& b, int by) {
  return altered(b, dequantised(b, false), {"scales"}, [by](Tensor& t, const Tensor&) {
    for (Index i = 0; i < t.elements(); ++i) {
      t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(t.as<std::uint8_t>()[i] + by);
    }
  });
}

Planted with_numbers(Backend& b, float (*of)(float)) {
  return altered(b, dequantised(b, true), {"scales"}, [of](Tensor& t, const Tensor&) {
    for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = of(t.as<float>()[i]);
  });
}

/// Scale (r, c) is that of (row, column) given; of 16 columns.
Planted taken(Backend& b, Index (*from)(Index r, Index c)) {
  return altered(b, dequantised(b, false), {"scales"}, [from](Tensor& t, const Tensor& given) {
    for (Index i = 0; i < t.elements(); ++i) {
      t.as<std::uint8_t>()[i] = given.as<std::uint8_t>()[from(i / 16, i % 16)];
    }
  });
}

Planted flushed(Backend& b, std::uint8_t kept) {
  return altered(b, dequantised(b, false), {"codes"}, [kept](Tensor& t, const Tensor&) {
    for (Index i = 0; i < t.elements(); ++i) {
      std::uint8_t& code = t.as<std::uint8_t>()[i];
      if ((code & 0x7F) < 8) code &= kept;
    }
  });
}

const PlantedFault kFaults[] = {
    {"every byte is one too low", "scales=halved", "half of what it is",
     [](Backend& b) { return with_bytes(b, -1); }},
    {"every byte is one too high", "scales=doubled", "twice what it is",
     [](Backend& b) { return with_bytes(b, 1); }},
    {"scales are rounded to bf16", "scales=bf16", "rounded to bf16 first",
     [](Backend& b) { return with_numbers(b, [](float s) { return decode(encode<kBF16>(s)); }); }},
    {"scales are cut to bf16", "scales=bf16_cut", "toward zero",
     [](Backend& b) {
       return with_numbers(
           b, [](float s) { return bit_cast<float>(bit_cast<std::uint32_t>(s) & 0xFFFF0000u); });
     }},
    {"scales are rounded to f16", "scales=f16", "rounded to f16 first",
     [](Backend& b) {
       return with_numbers(b, [](float s) { return decode(encode<kF16>(s, Overflow::nonfinite)); });
     }},
    {"scales are rounded to powers of two", "scales=nearest", "to the nearest power of two",
     [](Backend& b) {
       return with_numbers(b, [](float s) { return std::exp2(std::round(std::log2(s))); });
     }},
    {"scales are cut to powers of two", "scales=down", "cut to powers of two",
     [](Backend& b) {
       return with_numbers(b, [](float s) { return std::ldexp(1.0f, std::ilogb(s)); });
     }},
    {"scales are rounded up to powers of two", "scales=up", "rounded up to powers of two",
     [](Backend& b) {
       return with_numbers(b, [](float s) { return std::ldexp(1.0f, std::ilogb(s) + 1); });
     }},
    {"scales of the block before, the first its own", "scales=source", "those of 1 block before",
     [](Backend& b) {
       return taken(b, [](Index r, Index c) { return r * 16 + std::max<Index>(c - 1, 0); });
     }},
    {"scales of the row after, the last its own", "scales=source", "those of 1 row after",
     [](Backend& b) {
       return taken(b, [](Index r, Index c) { return std::min(r + 1, kRows - 1) * 16 + c; });
     }},
    {"scales one place late in memory", "scales=source", "one before theirs in memory",
     [](Backend& b) {
       return taken(b, [](Index r, Index c) { return std::max<Index>(r * 16 + c - 1, 0); });
     }},
    {"subnormal codes are flushed", "codes=flushed", "subnormal codes are read as zero",
     [](Backend& b) { return flushed(b, 0x80); }},
    {"subnormal codes are flushed to +0", "codes=flushed", "without their signs",
     [](Backend& b) { return flushed(b, 0); }},
};

TEST(PlantedInDequantised, AreNamed) { expect_named(kFaults); }

}  // namespace
}  // namespace mxo
