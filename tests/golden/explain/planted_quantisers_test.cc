// Faults of quantisers that are in no museum: each has to be named.
#include <cmath>

#include "tests/golden/planted.h"

namespace mxo::planted_quantisers_test {
namespace {

float largest_of(const Call& call, Index from, Index n) {
  float most = 0.0f;
  for (Index i = from; i < from + n; ++i)
    most = std::max(most, std::fabs(call.input("x").as<float>()[i]));
  return most;
}

std::uint8_t e4m3_of(float v) { return encode<kE4M3>(v, Overflow::saturate).bits; }

/// Scales and codes of blocks of 32 by the amax that each has of its own.
Planted of_amax(Backend& b, const Call& call,
                const std::function<float(const Call&, Index block)>& amax) {
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index s = 0; s < out.at("scales").elements(); ++s) {
      const double most = amax(call, s);
      const int byte = static_cast<int>(std::ceil(std::log2(most / 448.0)));
      out.at("scales").as<std::uint8_t>()[s] = static_cast<std::uint8_t>(byte + 127);
      for (Index i = s * 32; i < s * 32 + 32; ++i)
        out.at("codes").as<std::uint8_t>()[i] =
            e4m3_of(std::ldexp(call.input("x").as<float>()[i], -byte));
    }
  });
}

struct Amax {
  const char* id;
  const char* words;
  float (*of)(const Call& call, Index block);  ///< of x [96, 512]: 16 blocks in a row
};

const Amax kAmaxes[] = {
    {"scale.amax", "whatever is negative",
     [](const Call& call, Index s) {
       const float* x = call.input("x").as<float>() + s * 32;
       return std::max(0.0f, *std::max_element(x, x + 32));
     }},
    {"scale.amax", "block before",
     [](const Call& call, Index s) { return largest_of(call, (s % 16 > 0 ? s - 1 : s) * 32, 32); }},
    {"scale.amax", "its block and, for every second one from 1, the one before",
     [](const Call& call, Index s) {
       return largest_of(call, (s - s % 2) * 32, s % 2 == 1 ? 64 : 32);
     }},
    {"scale.amax", "its block and, for every second one from 0, the one after",
     [](const Call& call, Index s) { return largest_of(call, s * 32, s % 2 == 0 ? 64 : 32); }},
    {"scale.amax", "whole row",
     [](const Call& call, Index s) { return largest_of(call, s / 16 * 512, 512); }},
    {"scale.one", "equivalently, amax is that of the whole tensor",
     [](const Call& call, Index) { return largest_of(call, 0, 96 * 512); }},
    {"scale.amax", "all before it in the row, not begun anew",
     [](const Call& call, Index s) { return largest_of(call, s / 16 * 512, (s % 16 + 1) * 32); }},
    {"scale.amax", "all before it in the tensor, not begun anew",
     [](const Call& call, Index s) { return largest_of(call, 0, (s + 1) * 32); }},
    {"scale.amax", "two neighbouring rows of blocks",
     [](const Call& call, Index s) {
       const Index pair = s / 32 * 32 + s % 16;
       return std::max(largest_of(call, pair * 32, 32), largest_of(call, (pair + 16) * 32, 32));
     }},
    {"scale.amax", "first half",
     [](const Call& call, Index s) { return largest_of(call, s * 32, 16); }},
    {"scale.amax", "second half",
     [](const Call& call, Index s) { return largest_of(call, s * 32 + 16, 16); }},
    {"scale.amax", "block after",
     [](const Call& call, Index s) {
       return largest_of(call, (s % 16 < 15 ? s + 1 : s) * 32, 32);
     }},
    {"scale.amax", "same block of the row before",
     [](const Call& call, Index s) { return largest_of(call, (s > 15 ? s - 16 : s) * 32, 32); }},
    {"scale.amax", "same block of the row after",
     [](const Call& call, Index s) {
       return largest_of(call, (s < 95 * 16 ? s + 16 : s) * 32, 32);
     }},
    {"scale.amax", "its block without the last element",
     [](const Call& call, Index s) { return largest_of(call, s * 32, 31); }},
    {"scale.seen", "those of an amax of the last 31 of the 32 columns of its block",
     [](const Call& call, Index s) { return largest_of(call, s * 32 + 1, 31); }},
    {"scale.amax", "the first element of its block",
     [](const Call& call, Index s) { return largest_of(call, s * 32, 1); }},
    {"scale.amax", "four neighbouring blocks",
     [](const Call& call, Index s) { return largest_of(call, s / 4 * 128, 128); }},
    {"scale.amax", "its column in all rows of blocks",
     [](const Call& call, Index s) {
       float most = 0.0f;
       for (Index r = 0; r < 96; ++r)
         most = std::max(most, largest_of(call, (r * 16 + s % 16) * 32, 32));
       return most;
     }},
};

TEST(PlantedAmaxes, AreNamed) {
  for (const Amax& row : kAmaxes)
    expect_named({row.words, row.id, row.words,
                  [&](Backend& b) { return of_amax(b, quantize_call("1x32"), row.of); }});
}

/// FLOOR, of an amax in bf16: one step more where that is the next power of two, in few blocks.
Planted floor_of_bf16(Backend& b) {
  Call call = quantize_call("1x32");
  call.set.set("scale_mode", "floor");
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index s = 0; s < out.at("scales").elements(); ++s) {
      const int by = std::ilogb(decode(encode<kBF16>(largest_of(call, s * 32, 32)))) - 8;
      out.at("scales").as<std::uint8_t>()[s] = static_cast<std::uint8_t>(127 + by);
      for (Index i = s * 32; i < s * 32 + 32; ++i)
        out.at("codes").as<std::uint8_t>()[i] =
            e4m3_of(std::ldexp(call.input("x").as<float>()[i], -by));
    }
  });
}

/// Three blocks whose amax is 448 and twice and half that take twice their scale, and halve their
/// codes.
Planted powers_raised(Backend& b) {
  Call call = quantize_call("1x128");
  for (const auto& [key, value] :
       {std::pair{"scale", "f32"}, {"rule", "vllm"}, {"power_of_2", "up"}})
    call.set.set(key, value);
  Tensor x = call.input("x");
  for (const Index s : {5, 70, 301}) x.as<float>()[s * 128 + s % 128] = s == 70 ? 896 : 224;
  call.replace("x", std::move(x));
  return spoiled(b, call, [&](NamedTensors& out) {
    for (const Index s : {5, 70, 301}) {
      float& scale = out.at("scales").as<float>()[s];
      scale *= 2;
      for (Index i = s * 128; i < s * 128 + 128; ++i)
        out.at("codes").as<std::uint8_t>()[i] = e4m3_of(call.input("x").as<float>()[i] / scale);
    }
  });
}

Planted other_mode(Backend& b, const char* mode, const char* layout) {
  Call call = quantize_call("1x32");
  if (layout != nullptr) call.set.set("scale_layout", layout);
  return with_setting(b, call, "scale_mode", mode);
}

/// Codes under a scale of 1 whose values above `from` are NaN; what rounds beyond 448 is it anyway.
Planted nan_above(Backend& b, float from) {
  const Call call = of("quantize",
                       {{"x", times(random_floats({96, 512}, 7), 200.0f)},
                        {"given", filled<float>(Dtype::f32, {96, 4}, [](Index) { return 1.0f; })}},
                       "block=1x128 scale=f32 rule=te overflow=nonfinite");
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index i = 0; i < call.input("x").elements(); ++i)
      if (std::fabs(call.input("x").as<float>()[i]) > from)
        out.at("codes").as<std::uint8_t>()[i] |= 0x7F;
  });
}

/// A gate in one pass with this x in place of its own.
Planted other_x(Backend& b, float (*of)(Index column, float v)) {
  Call call = of_x("swiglu_quantize", random_bf16({96, 512}, 7), "alpha=1.702 up_offset=1");
  Call wrong = call;
  wrong.replace("x", mapped(call.input("x"), [of](Index i, float v) { return of(i % 512, v); }));
  return planted(b, call, wrong);
}

const PlantedFault kFaults[] = {
    {"overflow begins above 448, before rounding", "codes.rule",
     "all above 448 becomes NaN or infinity, though up to 464 it rounds to 448",
     planted_by(nan_above, 448.0f)},
    {"a limit of 0 where none is asked", "limit=0", "the limit is 0",
     [](Backend& b) {
       return other_x(b, [](Index c, float v) { return c < 256 ? std::fmin(v, 0.0f) : 0.0f; });
     }},
    {"FLOOR for RCEIL", "scale.rule", "FLOOR", planted_by(other_mode, "floor", nullptr)},
    {"CEIL for RCEIL", "scale.rule", "CEIL", planted_by(other_mode, "ceil", nullptr)},
    {"FLOOR for RCEIL, scales in tiles", "scale.rule", "FLOOR",
     planted_by(other_mode, "floor", "blocked")},
    {"an amax in bf16, told by few blocks", "scale.rule", "FLOOR, of an amax rounded to bf16",
     floor_of_bf16},
    {"powers of two raised, in three blocks", "scale.rule", "powers of two as well", powers_raised},
    {"FLOOR of a gate in one pass", "scale.rule|scale_mode=floor", "FLOOR",
     [](Backend& b) {
       return with_setting(b, of_x("swiglu_quantize", random_bf16({96, 512}, 7)), "scale_mode",
                           "floor");
     }},
    {"codes too large are NaN", "codes.rule", "is not clamped: it becomes NaN or infinity",
     [](Backend& b) {
       const Call call = quantize_call("1x32");
       return spoiled(b, call, [&](NamedTensors& out) {
         for (Index s = 0; s < out.at("scales").elements(); ++s) {
           const int by = std::ilogb(largest_of(call, s * 32, 32)) - 8;
           out.at("scales").as<std::uint8_t>()[s] = static_cast<std::uint8_t>(127 + by);
           for (Index i = s * 32; i < s * 32 + 32; ++i) {
             const float v = std::ldexp(call.input("x").as<float>()[i], -by);
             out.at("codes").as<std::uint8_t>()[i] = encode<kE4M3>(v, Overflow::nonfinite).bits;
           }
         }
       });
     }},
    {"every expert takes the scale of the first", "scale.seen",
     "all of experts 1 to 3 of scales hold what is expected in all of expert 0",
     [](Backend& b) {
       Tensor x = random_floats({4, 32, 64}, 7);
       const float most[] = {448, 1000, 1700, 700};
       for (Index g = 0; g < 4; ++g) x.as<float>()[2048 * g + 5] = most[g];
       const Call call = of_x("quantize", x, "block=RxK scale=f32 rule=te");
       Call wrong = call;
       wrong.replace("given", filled<float>(Dtype::f32, {4, 1, 1}, [](Index) { return 1.0f; }));
       return planted(b, call, wrong);
     }},
    {"amax is the largest value of the tensor, without its magnitude", "scale.seen",
     "beside 12 larger elements of its block, in rows 0 to 2, all negative",
     [](Backend& b) {
       Tensor x = random_floats({96, 512}, 7);
       for (Index i = 0; i < 12; ++i) x.as<float>()[300 + 97 * i] = -1000;
       x.as<float>()[40000] = 700;
       const Call call = of_x("quantize", x, "block=RxK scale=f32 rule=te");
       Call wrong = call;
       wrong.replace("x", mapped(x, [](Index, float v) { return std::fmax(v, -700.0f); }));
       return planted(b, call, wrong);
     }},
};

TEST(PlantedInQuantisers, AreNamed) { expect_named(kFaults); }

/// Of a fused gate: the scales that a part of x gives by itself.
struct PartOfGate {
  const char* id;
  const char* words;
  double (*of)(double a, double up);
};

const PartOfGate kParts[] = {
    {"scales=silu", "those of silu of the gate alone",
     [](double a, double) { return a / (1 + std::exp(-a)); }},
    {"scales=gate", "those of the gate alone", [](double a, double) { return a; }},
    {"scales=up", "those of up alone", [](double, double up) { return up; }},
};

class PlantedInFusedGates : public testing::TestWithParam<PartOfGate> {};
INSTANTIATE_TEST_SUITE_P(All, PlantedInFusedGates, testing::ValuesIn(kParts));
TEST_P(PlantedInFusedGates, AreNamed) {
  const PartOfGate& row = GetParam();
  expect_named({row.words, row.id, row.words, [&](Backend& b) {
                  const Call call = of_x("swiglu_quantize", random_bf16({96, 512}, 7));
                  const auto part = filled<float>(Dtype::f32, {96, 256}, [&](Index i) {
                    const Index gate = i / 256 * 512 + i % 256;
                    return row.of(value_of(call.input("x"), gate),
                                  value_of(call.input("x"), gate + 256));
                  });
                  return spoiled(b, call, [&](NamedTensors& out) {
                    out.at("scales") = run_call(b, of_x("quantize", part)).at("scales");
                  });
                }});
}

const PlantedFault kNearMisses[] = {
    {"overflow begins between 448 and 464", "codes.rule", "", planted_by(nan_above, 456.0f)},
    {"other values that share one scale", "scale.one", "",
     [](Backend& b) {
       return other_x(b, [](Index c, float v) {
         return c < 256 ? (c % 8 == 0 ? 4.0f : std::fmin(v * 0.25f, 1.0f)) : 1.0f;
       });
     }},
    {"scales have few values: rows of sixteen are alike by chance", "rows.", "",
     [](Backend& b) {
       return of_amax(b, of_x("quantize", random_floats({512, 512}, 7), "block=1x32"),
                      [](const Call& call, Index s) {
                        const Index other = s / 16 * 7 % 512 * 16 + s % 16;
                        return std::max(largest_of(call, s * 32, 32),
                                        largest_of(call, other * 32, 32));
                      });
     }},
    {"codes of some rows by scales of the row before; those are right", "rule=|scale_mode=", "",
     [](Backend& b) {
       const Call call = of_x("quantize", random_floats({256, 512}, 7), "block=1x32");
       return spoiled(b, call, [&](NamedTensors& out) {
         for (Index i = 32 * 512; i < 64 * 512; ++i) {
           const int byte = out.at("scales").as<std::uint8_t>()[i / 32 - 16];
           out.at("codes").as<std::uint8_t>()[i] =
               e4m3_of(std::ldexp(call.input("x").as<float>()[i], 127 - byte));
         }
       });
     }},
};

TEST(PlantedInQuantisers, NearMissesAreNot) { expect_not_named(kNearMisses); }

}  // namespace
}  // namespace mxo::planted_quantisers_test
