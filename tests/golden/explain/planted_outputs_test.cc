// Faults of sums and of what is done with them before a product is written: each has to be named.
#include <cmath>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

/// y times by(i), as floats that are rounded once.
Planted multiplied(Backend& b, float (*by)(Index)) {
  return spoiled(b, mx_product(b, 7), [by](NamedTensors& out) {
    out.at("y") = mapped(out.at("y"), [by](Index i, float v) { return by(i) * v; });
  });
}

/// y as of(f32 sums, element).
template <typename T>
Planted made_of_sums(Backend& b, T (*of)(const float* sums, Index i)) {
  const Call call = mx_product(b, 7);
  return spoiled(b, call, [&](NamedTensors& out) {
    const Tensor wide = in_f32(b, call);
    Tensor& y = out.at("y");
    for (Index i = 0; i < y.elements(); ++i) y.as<T>()[i] = of(wide.as<float>(), i);
  });
}

/// Rows 64 to 127, columns 64 to 127 of y hold `bits`.
Planted filled(Backend& b, const Call& call, std::uint16_t bits) {
  return spoiled(b, call, [bits](NamedTensors& out) {
    for (Index r = 64; r < 128; ++r)
      std::fill_n(out.at("y").as<std::uint16_t>() + r * 192 + 64, 64, bits);
  });
}

Call mx(Backend& b) { return mx_product(b, 7); }

const PlantedFault kFaults[] = {
    {"the last N tile is never written", "never_written", "columns 128 to 191",
     spoils(mx,
            [](NamedTensors& out) {
              Tensor& y = out.at("y");
              for (Index r = 0; r < y.extent(0); ++r) std::memset(row_of(y, r) + 256, 0, 128);
            })},
    {"one value fills a tile", "constant.fill", "or one value for all of them",
     [](Backend& b) { return filled(b, mx_product(b, 7), 0x3F3F); }},
    {"a tile overflows", "constant.infinite",
     "hold 0x7F80: overflow, a division by zero, or the fill of the buffer",
     [](Backend& b) { return filled(b, mx_product(b, 7), 0x7F80); }},
    {"a tile saturates", "constant.largest", "saturated, or the fill of the buffer",
     [](Backend& b) { return filled(b, mx_product(b, 7), 0x7F7F); }},
    {"accumulators of the tile before are not cleared", "rows.added", "rows 64 to 127",
     [](Backend& b) {
       return made_of_sums<BF16>(b, [](const float* y, Index i) {
         const bool second = i / 192 / 64 == 1;
         return encode<kBF16>(second ? y[i] + y[i - 64 * 192] : y[i]);
       });
     }},
    {"the output is f16", "out=as_f16", "written as f16 and read as bf16",
     [](Backend& b) {
       return made_of_sums<F16>(
           b, [](const float* y, Index i) { return encode<kF16>(y[i], Overflow::nonfinite); });
     }},
    {"the result is added to itself", "value.power_of_2", "2^1",
     planted_by(multiplied, [](Index) { return 2.0f; })},
    {"one group comes out twice as large", "value.power_of_2", "group 1 of y",
     planted_by(multiplied, [](Index i) { return i / 192 >= 70 && i / 192 < 121 ? 2.0f : 1.0f; })},
    {"odd columns come out halved", "value.power_of_2", "every 2nd column from 1",
     planted_by(multiplied, [](Index i) { return i % 2 == 1 ? 0.5f : 1.0f; })},
    {"every row has a factor of its own", "value.power_of_2", "every row is multiplied",
     planted_by(multiplied,
                [](Index i) { return std::ldexp(1.0f, static_cast<int>(i / 192 * 7 % 11) - 5); })},
    {"ReLU is fused", "value.relu", "negative values",
     spoils(mx,
            [](NamedTensors& out) {
              out.at("y") = mapped(out.at("y"), [](Index, float v) { return v < 0.0f ? 0.0f : v; });
            })},
    {"partial sums of 128 are kept in bf16", "sum=bf16", "bf16",
     [](Backend& b) {
       const Call call = mx_product(b, 7);
       return spoiled(b, call, [&](NamedTensors& out) {
         std::vector<float> sums(static_cast<std::size_t>(out.at("y").elements()));
         for (Index part = 0; part < 4; ++part) {
           Call one = call;
           const auto* codes = call.input("x.codes").as<std::uint8_t>();
           one.replace("x.codes",
                       filled<std::uint8_t>(Dtype::u8, call.input("x.codes").shape(), [=](Index i) {
                         return i % 512 / 128 == part ? codes[i] : 0;
                       }));
           const Tensor wide = in_f32(b, one);
           for (std::size_t i = 0; i < sums.size(); ++i)
             sums[i] = decode(encode<kBF16>(sums[i] + wide.as<float>()[i]));
         }
         for (std::size_t i = 0; i < sums.size(); ++i)
           out.at("y").as<BF16>()[i] = encode<kBF16>(sums[i]);
       });
     }},
    {"the sum is cut to bf16", "out=truncated", "truncated",
     [](Backend& b) {
       return made_of_sums<std::uint16_t>(b, [](const float* y, Index i) {
         return static_cast<std::uint16_t>(bit_cast<std::uint32_t>(y[i]) >> 16);
       });
     }},
};

TEST(PlantedInOutputs, AreNamed) { expect_named(kFaults); }

}  // namespace
}  // namespace mxo
