// Faults that few elements show: scale byte 255 as a number, and a sum that is nearly the exact
// one.
#include <cmath>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

constexpr Index kBlock = 5;  ///< of K, whose scale is byte 255

bool chosen(Index row) { return row % 40 == 3; }

/// A product with byte 255 in one block of every 40th row of x; scales of w are small.
Call with_nan_bytes(Backend& b) {
  Call call = mx_product(b, 7);
  const auto take = [&call](const char* name, const auto& of) {
    Tensor t = call.input(name);
    auto* byte = t.as<std::uint8_t>();
    for (Index i = 0; i < t.elements(); ++i) byte[i] = static_cast<std::uint8_t>(of(i, byte[i]));
    call.replace(name, std::move(t));
  };
  const Index blocks = call.input("x.scales").extent(1);
  take("x.scales",
       [&](Index i, int byte) { return chosen(i / blocks) && i % blocks == kBlock ? 255 : byte; });
  take("w.scales", [](Index, int byte) { return std::max(byte - 40, 2); });
  return call;
}

/// Half of every scale of x, byte 255 being 2^128, and twice the output.
Planted as_power(Backend& b) {
  Planted p = altered_as<std::uint8_t>(b, with_nan_bytes(b), {"x.scales"},
                                       [](Index i, const std::uint8_t* s) { return s[i] - 1; });
  p.actual.at("y") = times(p.actual.at("y"), 2.0f);
  return p;
}

/// Rows with byte 255 are infinite, with the sign of what that block alone gives.
Planted as_infinity(Backend& b) {
  const Call call = with_nan_bytes(b);
  Call alone = call;
  Tensor codes = call.input("x.codes");
  Tensor scales = call.input("x.scales");
  for (Index r = 0; r < codes.extent(0); ++r) {
    if (!chosen(r)) continue;
    scales.as<std::uint8_t>()[r * scales.extent(1) + kBlock] = 127;
    for (Index k = 0; k < codes.extent(1); ++k) {
      if (k / 32 != kBlock) codes.as<std::uint8_t>()[r * codes.extent(1) + k] = 0;
    }
  }
  alone.replace("x.codes", std::move(codes));
  alone.replace("x.scales", std::move(scales));
  Planted p = planted(b, call, alone);
  Tensor& y = p.actual.at("y");
  y = mapped(y, [n = y.extent(1)](Index i, float v) {
    return chosen(i / n) ? std::copysign(HUGE_VALF, v) : v;
  });
  return p;
}

const PlantedFault kFaults[] = {
    {"scale byte 255 of x is 2^128", "x.scales=byte_255", "2^128", as_power},
    {"scale byte 255 of x is infinity", "x.scales=byte_255_infinite", "infinity", as_infinity},
    {"a sum that few elements show", "sum=", "h200_wgmma_fast",
     [](Backend& b) {
       const Call call = mx_product(b, 7, {{500, 1024}, 1024, 2048, 256});
       return with_setting(b, call, "sum", "h200_wgmma_fast");
     }},
};

TEST(PlantedInFewElements, AreNamed) { expect_named(kFaults); }

}  // namespace
}  // namespace mxo
