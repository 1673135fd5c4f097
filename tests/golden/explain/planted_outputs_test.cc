// Faults of sums and of what is done with them before a product is written: each has to be named.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

void scale_by(Tensor& y, Index i, float factor) {
  BF16& element = y.as<BF16>()[i];
  element = encode<kBF16>(factor * decode(element));
}

/// Rows 64 to 127, columns 64 to 127 of y hold `bits`.
Planted filled(Backend& b, const Call& call, std::uint16_t bits) {
  return spoiled(b, call, [bits](NamedTensors& out) {
    for (Index r = 64; r < 128; ++r)
      std::fill_n(out.at("y").as<std::uint16_t>() + r * 192 + 64, 64, bits);
  });
}

const PlantedFault kFaults[] = {
    {"the last N tile is never written", "never_written", "columns 128 to 191",
     [](Backend& b) {
       return spoiled(b, mx_product(b, 7), [](NamedTensors& out) {
         Tensor& y = out.at("y");
         for (Index r = 0; r < y.extent(0); ++r) std::memset(row_of(y, r) + 256, 0, 128);
       });
     }},
    {"one value fills a tile", "constant.fill", "or one value for all of them",
     [](Backend& b) { return filled(b, mx_product(b, 7), 0x3F3F); }},
    {"a tile overflows", "constant.infinite",
     "hold 0x7F80: overflow, a division by zero, or the fill of the buffer",
     [](Backend& b) { return filled(b, mx_product(b, 7), 0x7F80); }},
    {"a tile saturates", "constant.largest", "saturated, or the fill of the buffer",
     [](Backend& b) { return filled(b, mx_product(b, 7), 0x7F7F); }},
    {"accumulators of the tile before are not cleared", "rows.added", "rows 64 to 127",
     [](Backend& b) {
       const Call call = mx_product(b, 7);
       return spoiled(b, call, [&](NamedTensors& out) {
         const Tensor wide = in_f32(b, call);
         const float* y = wide.as<float>();
         for (Index i = 64 * 192; i < 128 * 192; ++i) {
           out.at("y").as<BF16>()[i] = encode<kBF16>(y[i] + y[i - 64 * 192]);
         }
       });
     }},
    {"the output is f16", "out=as_f16", "written as f16 and read as bf16",
     [](Backend& b) {
       const Call call = mx_product(b, 7);
       return spoiled(b, call, [&](NamedTensors& out) {
         const Tensor wide = in_f32(b, call);
         for (Index i = 0; i < wide.elements(); ++i)
           out.at("y").as<std::uint16_t>()[i] =
               encode<kF16>(wide.as<float>()[i], Overflow::nonfinite).bits;
       });
     }},
    {"the result is added to itself", "value.power_of_2", "2^1",
     [](Backend& b) {
       return spoiled(b, mx_product(b, 7),
                      [](NamedTensors& out) { out.at("y") = times(out.at("y"), 2.0f); });
     }},
    {"one group comes out twice as large", "value.power_of_2", "group 1 of y",
     [](Backend& b) {
       return spoiled(b, mx_product(b, 7), [](NamedTensors& out) {
         for (Index i = 70 * 192; i < 121 * 192; ++i) scale_by(out.at("y"), i, 2.0f);
       });
     }},
    {"odd columns come out halved", "value.power_of_2", "every 2nd column from 1",
     [](Backend& b) {
       return spoiled(b, mx_product(b, 7), [](NamedTensors& out) {
         for (Index i = 1; i < out.at("y").elements(); i += 2) scale_by(out.at("y"), i, 0.5f);
       });
     }},
    {"every row has a factor of its own", "value.power_of_2", "every row is multiplied",
     [](Backend& b) {
       return spoiled(b, mx_product(b, 7), [](NamedTensors& out) {
         for (Index i = 0; i < out.at("y").elements(); ++i) {
           scale_by(out.at("y"), i, std::ldexp(1.0f, static_cast<int>(i / 192 * 7 % 11) - 5));
         }
       });
     }},
    {"ReLU is fused", "value.relu", "negative values",
     [](Backend& b) {
       return spoiled(b, mx_product(b, 7), [](NamedTensors& out) {
         for (Index i = 0; i < out.at("y").elements(); ++i) {
           BF16& y = out.at("y").as<BF16>()[i];
           if (decode(y) < 0.0f) y = BF16{};
         }
       });
     }},
    {"partial sums of 128 are kept in bf16", "sum=bf16", "bf16",
     [](Backend& b) {
       const Call call = mx_product(b, 7);
       return spoiled(b, call, [&](NamedTensors& out) {
         std::vector<float> sums(static_cast<std::size_t>(out.at("y").elements()));
         for (Index part = 0; part < 4; ++part) {
           Call one = call;
           Tensor x = call.input("x.codes");
           for (Index i = 0; i < x.elements(); ++i) {
             if (i % 512 / 128 != part) x.as<std::uint8_t>()[i] = 0;
           }
           one.replace("x.codes", std::move(x));
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
       const Call call = mx_product(b, 7);
       return spoiled(b, call, [&](NamedTensors& out) {
         const Tensor wide = in_f32(b, call);
         for (Index i = 0; i < wide.elements(); ++i)
           out.at("y").as<std::uint16_t>()[i] =
               static_cast<std::uint16_t>(wide.as<std::uint32_t>()[i] >> 16);
       });
     }},
};

TEST(PlantedInOutputs, AreNamed) { expect_named(kFaults); }

}  // namespace
}  // namespace mxo
