// Faults of quantisers that are in no museum: each has to be named.
#include <algorithm>
#include <cmath>

#include "tests/golden/planted.h"
#include "tests/support/random_tensors.h"

namespace mxo {
namespace {

/// Codes and scales of x whose blocks took their amax elsewhere: `made` has the amax of each block.
Planted of_amax(Backend& b, const Call& call, const std::function<float(Index)>& amax) {
  return spoiled(b, call, [&](NamedTensors& out) {
    const float* x = call.input("x").as<float>();
    for (Index s = 0; s < out.at("scales").elements(); ++s) {
      const int byte = static_cast<int>(std::ceil(std::log2(static_cast<double>(amax(s)) / 448.0)));
      out.at("scales").as<std::uint8_t>()[s] = static_cast<std::uint8_t>(byte + 127);
      for (Index i = s * 32; i < s * 32 + 32; ++i) {
        out.at("codes").as<std::uint8_t>()[i] =
            encode<kE4M3>(std::ldexp(x[i], -byte), Overflow::saturate).bits;
      }
    }
  });
}

float largest_of(const Call& call, Index from, Index n) {
  float most = 0.0f;
  for (Index i = from; i < from + n; ++i)
    most = std::max(most, std::fabs(call.input("x").as<float>()[i]));
  return most;
}

const PlantedFault kFaults[] = {
    {"amax without absolute values", "scale.amax", "whatever is negative",
     [](Backend& b) {
       const Call call = quantize_call("1x32");
       return of_amax(b, call, [&](Index s) {
         float most = 0.0f;
         for (Index i = s * 32; i < s * 32 + 32; ++i)
           most = std::max(most, call.input("x").as<float>()[i]);
         return most;
       });
     }},
    {"amax of the block before", "scale.amax", "block before",
     [](Backend& b) {
       const Call call = quantize_call("1x32");
       return of_amax(b, call,
                      [&](Index s) { return largest_of(call, (s % 16 > 0 ? s - 1 : s) * 32, 32); });
     }},
    {"one amax for the whole row", "scale.amax", "whole row",
     [](Backend& b) {
       const Call call = quantize_call("1x32");
       return of_amax(b, call, [&](Index s) { return largest_of(call, s / 16 * 512, 512); });
     }},
    {"one amax for the whole tensor, which gives 1", "scale.one",
     "as well if amax is that of the whole tensor",
     [](Backend& b) {
       const Call call = quantize_call("1x32");
       return of_amax(b, call, [&](Index) { return largest_of(call, 0, 96 * 512); });
     }},
    {"a maximum that is not begun anew with a block", "scale.amax",
     "all before it in the row, not begun anew",
     [](Backend& b) {
       const Call call = quantize_call("1x32");
       return of_amax(b, call,
                      [&](Index s) { return largest_of(call, s / 16 * 512, (s % 16 + 1) * 32); });
     }},
    {"a maximum that is not begun anew with a row", "scale.amax",
     "all before it in the tensor, not begun anew",
     [](Backend& b) {
       const Call call = quantize_call("1x32");
       return of_amax(b, call, [&](Index s) { return largest_of(call, 0, (s + 1) * 32); });
     }},
    {"one amax for two rows", "scale.amax", "two neighbouring rows of blocks",
     [](Backend& b) {
       const Call call = quantize_call("1x32");
       return of_amax(b, call, [&](Index s) {
         const Index pair = s / 32 * 32 + s % 16;
         return std::max(largest_of(call, pair * 32, 32), largest_of(call, (pair + 16) * 32, 32));
       });
     }},
    {"amax of half the block", "scale.amax", "first half",
     [](Backend& b) {
       const Call call = quantize_call("1x32");
       return of_amax(b, call, [&](Index s) { return largest_of(call, s * 32, 16); });
     }},
    {"FLOOR for RCEIL", "scale.rule", "FLOOR",
     [](Backend& b) { return with_setting(b, quantize_call("1x32"), "scale_mode", "floor"); }},
    {"CEIL for RCEIL", "scale.rule", "CEIL",
     [](Backend& b) { return with_setting(b, quantize_call("1x32"), "scale_mode", "ceil"); }},
    {"FLOOR for RCEIL, scales in tiles", "scale.rule", "FLOOR",
     [](Backend& b) {
       Call call = quantize_call("1x32");
       call.set.set("scale_layout", "blocked");
       return with_setting(b, call, "scale_mode", "floor");
     }},
    {"FLOOR for RCEIL, blocks down", "scale.rule", "FLOOR",
     [](Backend& b) { return with_setting(b, quantize_call("32x1"), "scale_mode", "floor"); }},
    {"codes made with the scale of the block before", "codes.rule", "block before",
     [](Backend& b) {
       const Call call = quantize_call("1x32");
       return spoiled(b, call, [&](NamedTensors& out) {
         const float* x = call.input("x").as<float>();
         for (Index i = 0; i < out.at("codes").elements(); ++i) {
           const Index s = i / 32 > 0 ? i / 32 - 1 : 0;
           const int byte = out.at("scales").as<std::uint8_t>()[s];
           out.at("codes").as<std::uint8_t>()[i] =
               encode<kE4M3>(std::ldexp(x[i], 127 - byte), Overflow::saturate).bits;
         }
       });
     }},
    {"codes rounded up", "codes.rule", "up, toward",
     [](Backend& b) {
       const Call call = quantize_call("1x32");
       return spoiled(b, call, [&](NamedTensors& out) {
         const float* x = call.input("x").as<float>();
         for (Index i = 0; i < out.at("codes").elements(); ++i) {
           auto& c = out.at("codes").as<std::uint8_t>()[i];
           const float v = std::ldexp(x[i], 127 - out.at("scales").as<std::uint8_t>()[i / 32]);
           if (decode(E4M3{c}) < v) {
             c = static_cast<std::uint8_t>(c == 0x80 ? 0 : (c & 0x80) != 0 ? c - 1 : c + 1);
           }
         }
       });
     }},
    {"1 / 448 multiplied instead of divided", "scale.rule", "fl(1 / max)",
     [](Backend& b) {
       const Call call = quantize_call("1x128");
       return spoiled(b, call, [&](NamedTensors& out) {
         const float* x = call.input("x").as<float>();
         for (Index s = 0; s < out.at("scales").elements(); ++s) {
           const float scale = largest_of(call, s * 128, 128) * (1.0f / 448.0f);
           out.at("scales").as<float>()[s] = scale;
           for (Index i = s * 128; i < s * 128 + 128; ++i) {
             out.at("codes").as<std::uint8_t>()[i] =
                 encode<kE4M3>(x[i] * (1.0f / scale), Overflow::saturate).bits;
           }
         }
       });
     }},
    {"240 for 448", "scale.rule", "max 240",
     [](Backend& b) {
       const Call call = quantize_call("1x128");
       return spoiled(b, call, [&](NamedTensors& out) {
         const float* x = call.input("x").as<float>();
         for (Index s = 0; s < out.at("scales").elements(); ++s) {
           const float scale = largest_of(call, s * 128, 128) / 240.0f;
           out.at("scales").as<float>()[s] = scale;
           for (Index i = s * 128; i < s * 128 + 128; ++i) {
             out.at("codes").as<std::uint8_t>()[i] =
                 encode<kE4M3>(x[i] * (1.0f / scale), Overflow::saturate).bits;
           }
         }
       });
     }},
};

class PlantedInQuantisers : public testing::TestWithParam<std::size_t> {};

TEST_P(PlantedInQuantisers, AreNamed) { expect_named(kFaults[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Faults, PlantedInQuantisers,
                         testing::Range(std::size_t{0}, std::size(kFaults)));

/// Scales have few values: rows of sixteen of them are alike by chance.
TEST(PlantedScalesOfFewValues, AreNotTakenForOtherRows) {
  const auto backend = make_cpu_backend();
  NamedTensors in;
  test::Random random(7);
  Tensor x(Dtype::f32, {512, 512});
  for (Index i = 0; i < x.elements(); ++i) x.as<float>()[i] = random.value(0);
  in.emplace("x", std::move(x));
  const Call call = make_call("quantize", in, with({{"block", "1x32"}}));
  const Planted p = of_amax(*backend, call, [&](Index s) {
    const Index other = s / 16 * 7 % 512 * 16 + s % 16;
    return std::max(largest_of(call, s * 32, 32), largest_of(call, other * 32, 32));
  });
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  for (const Cause& c : e.causes) EXPECT_FALSE(c.id.starts_with("rows.")) << e.sentence();
}

}  // namespace
}  // namespace mxo
