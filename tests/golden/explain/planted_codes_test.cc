// Faults of quantisers in a part of an output, and at another stage than a rule says: each has to
// be named as what it is, and nothing else.
#include <cmath>

#include "formats/rounding.h"
#include "tests/golden/planted.h"

namespace mxo::planted_codes_test {
namespace {

constexpr Index kRows = 96;
constexpr Index kK = 512;

Call bytes() { return quantize_call("1x32"); }
Call numbers() {
  Call call = quantize_call("1x128");
  call.set.set("power_of_2", "none");
  return call;
}
/// Values of which many are below the normal codes.
Call quiet() {
  return of_x("quantize", scaled_floats({kRows, kK}, 7, [](Index i) { return -(i * 7 % 13); }),
              "block=1x32");
}

Call quiet_transposed() {
  Call call = quiet();
  call.set.set("block", "32x1");
  call.set.set("transpose", "true");
  return call;
}

Call with_nan() {
  return of_x("quantize",
              mapped(random_floats({kRows, kK}, 7),
                     [](Index i, float v) { return i % 9001 == 77 ? NAN : v; }),
              "block=1x32");
}

/// Codes that are of(value, element): of e8m0 scales of 32 columns of the codes.
template <typename Of>
PlantsFault codes_of(Call (*make)(), const Of& of) {
  return [=](Backend& b) {
    const Call call = make();
    const bool turned = call.set.flag("transpose", false);
    return spoiled(b, call, [&](NamedTensors& out) {
      for (Index i = 0; i < kRows * kK; ++i) {
        const int byte = out.at("scales").as<std::uint8_t>()[i / 32];
        std::uint8_t& code = out.at("codes").as<std::uint8_t>()[i];
        const Index at = turned ? i % kRows * kK + i / kRows : i;
        code = of(std::ldexp(call.input("x").as<float>()[at], 127 - byte), i, code);
      }
    });
  };
}

/// Scale s is of(scales, s); codes are right.
template <typename T, typename Of>
PlantsFault scales_of(Call (*make)(), const Of& of) {
  return spoils([make](Backend&) { return make(); },
                [of](NamedTensors& out) {
                  Tensor& t = out.at("scales");
                  const Tensor given = t;
                  for (Index s = 0; s < t.elements(); ++s)
                    t.as<T>()[s] = static_cast<T>(of(given.as<T>(), s));
                });
}

std::uint8_t nearest(float v) { return encode<kE4M3>(v, Overflow::saturate).bits; }
std::uint8_t cut(float v) {
  return encode_rounded<kE4M3>(v, Rounding::zero, Overflow::saturate).bits;
}

float by_bf16(float v) { return decode(encode<kBF16>(v)); }

/// Codes of value(x, scale), of f32 scales of 128 columns.
PlantsFault codes_of_numbers(float (*value)(float x, float scale)) {
  return spoils([](Backend&) { return numbers(); },
                [value](NamedTensors& out) {
                  const Call call = numbers();
                  for (Index i = 0; i < kRows * kK; ++i) {
                    const float s = out.at("scales").as<float>()[i / 128];
                    out.at("codes").as<std::uint8_t>()[i] =
                        nearest(value(call.input("x").as<float>()[i], s));
                  }
                });
}

/// What torchao stores for a block of zeros.
float scale_of_zeros() { return 1.0f / static_cast<float>(448.0 / 1e-12); }

Call with_zero_rows() {
  Call call = bytes();
  call.replace("x", mapped(call.input("x"), [](Index i, float v) {
                 return i / kK == 33 || i == 7 * kK ? 0.0f : i / 32 % 40 == 0 ? 0.0f : v;
               }));
  return call;
}

const PlantedFault kFaults[] = {
    {"codes of e4m3fnuz", "codes.format", "the codes are e4m3fnuz rather than e4m3",
     codes_of(bytes, [](float v, Index,
                        std::uint8_t) { return encode<kE4M3Fnuz>(v, Overflow::saturate).bits; })},
    {"values are flushed before they are rounded", "codes.rule", "before they are rounded",
     codes_of(quiet, [](float v, Index,
                        std::uint8_t c) { return std::fabs(v) < 0x1p-6f ? std::uint8_t{0} : c; })},
    {"subnormals count 2^-6, transposed", "codes.rule",
     "codes: subnormal codes are counted in steps of 2^-6 rather than 2^-9",
     codes_of(quiet_transposed,
              [](float v, Index, std::uint8_t c) {
                if (std::fabs(v) >= 0x1p-6f) return c;
                const int one = std::fabs(v) > 0x1p-7f ? 1 : 0;
                return static_cast<std::uint8_t>((c & 0x80) + one);
              })},
    {"codes are cut, transposed", "codes.rule", "codes: codes are rounded toward zero",
     codes_of(quiet_transposed, [](float v, Index, std::uint8_t) { return cut(v); })},
    {"codes are cut from a row on", "codes.rule",
     "rows 40 to 95 of codes: codes are rounded toward",
     codes_of(bytes, [](float v, Index i, std::uint8_t c) { return i / kK < 40 ? c : cut(v); })},
    {"codes are cut in every second column", "codes.rule", "2nd column from 1 of codes: codes are",
     codes_of(bytes, [](float v, Index i, std::uint8_t c) { return i % 2 == 0 ? c : cut(v); })},
    {"codes of odd rows by scales of even ones", "codes.rule",
     "every 2nd row from 1 of codes: codes are made with the scale of the row before",
     [](Backend& b) {
       return spoiled(b, bytes(), [](NamedTensors& out) {
         const Call call = bytes();
         for (Index i = 0; i < kRows * kK; ++i) {
           if (i / kK % 2 == 0) continue;
           const int byte = out.at("scales").as<std::uint8_t>()[i / 32 - kK / 32];
           out.at("codes").as<std::uint8_t>()[i] =
               nearest(std::ldexp(call.input("x").as<float>()[i], 127 - byte));
         }
       });
     }},
    {"scales are cut at one", "scale.bound", "scales are at most 2^-9 (byte 118)",
     scales_of<std::uint8_t>(
         bytes, [](const std::uint8_t* s, Index i) { return std::min<int>(s[i], 118); })},
    {"scale bytes without their bias", "scale.exponent", "every scale byte is 127 too low",
     scales_of<std::uint8_t>(bytes, [](const std::uint8_t* s, Index i) { return s[i] - 127; })},
    {"every second tile is transposed", "order.tiles", "384 tiles of 8 x 8 are transposed",
     spoils([](Backend&) { return bytes(); },
            [](NamedTensors& out) {
              Tensor& t = out.at("codes");
              const Tensor given = t;
              runs_from(t, given, 1, [](Index i) {
                const Index r = i / kK;
                const Index c = i % kK;
                if ((r / 8 + c / 8) % 2 == 0) return i;
                return (r / 8 * 8 + c % 8) * kK + c / 8 * 8 + r % 8;
              });
            })},
    {"scales are negated", "value.negated", "every value is negated",
     scales_of<float>(numbers, [](const float* s, Index i) { return -s[i]; })},
    {"scales are stored in bf16", "value.rounded", "7 fraction bits",
     scales_of<float>(numbers,
                      [](const float* s, Index i) { return decode(encode<kBF16>(s[i])); })},
    {"codes are made with scales in bf16", "codes.rule", "rounded to bf16, which it is not",
     codes_of_numbers([](float v, float s) { return v / by_bf16(s); })},
    {"scaled values are rounded to bf16", "codes.rule", "x is scaled and rounded to bf16 before",
     codes_of_numbers([](float v, float s) { return by_bf16(v * (1.0f / s)); })},
    {"values are rounded to bf16 and scaled", "codes.rule|x=bf16", "x is rounded to bf16",
     codes_of_numbers([](float v, float s) { return by_bf16(v) * (1.0f / s); })},
    {"scales of zeros over those of ten rows", "scale.of_zeros", "hold the scale of zeros",
     scales_of<float>(numbers,
                      [](const float* s, Index i) {
                        return i / 4 < 10 && i % 4 > 0 ? scale_of_zeros() : s[i];
                      })},
    {"scaled values are whole numbers", "codes.rule", "x is scaled and rounded to a whole number",
     codes_of_numbers([](float v, float s) { return std::rint(v * (1.0f / s)); })},
    {"amax is that of each element", "value.largest", "the amax of the element alone",
     codes_of_numbers([](float v, float) { return v * (448.0f / std::fabs(v)); })},
    {"codes of scales a constant factor apart", "codes.factor",
     "codes are those of scales that are 0.786 times the stored ones",
     codes_of_numbers([](float v, float s) { return v / (0.7864f * s); })},
    {"x under one scale is not scaled", "codes.part", "codes are those of x itself",
     [](Backend& b) {
       const Call call = of_x("quantize", times(random_floats({64, 256}, 7), 0.1f),
                              "block=RxK scale=f32 overflow=saturate");
       return spoiled(b, call, [&](NamedTensors& out) {
         for (Index i = 0; i < 64 * 256; ++i)
           out.at("codes").as<std::uint8_t>()[i] = nearest(call.input("x").as<float>()[i]);
       });
     }},
    {"scales of a row for two", "rows.function", "row i of scales holds row i / 2",
     scales_of<std::uint8_t>(
         bytes, [](const std::uint8_t* s, Index i) { return s[i / 32 * 16 + i % 16]; })},
    {"scales of a column for two", "columns.function", "column i of scales holds column i / 2",
     scales_of<std::uint8_t>(
         bytes, [](const std::uint8_t* s, Index i) { return s[i / 16 * 16 + i % 16 / 2]; })},
    {"x is read transposed for codes alone", "x=transposed",
     "for codes alone: scales are as expected",
     [](Backend& b) {
       const Call call = of_x("quantize", random_floats({128, 256}, 7),
                              "block=32x1 transpose=true");
       Tensor codes =
           run_call(b, of_x("quantize", random_floats({128, 256}, 7), "block=1x32"))
               .at("codes");
       return spoiled(b, call, [&](NamedTensors& out) {
         std::memcpy(out.at("codes").data(), codes.data(), codes.bytes());
       });
     }},
    {"NaN of x are left out of amax", "amax=without_nan", "a NaN of x is left out of amax",
     [](Backend& b) {
       return with_setting(b, with_nan(), "rule", "te");
     }},
    {"NaN of x are zeros", "x=without_nan", "a NaN of x is taken for 0",
     elements_as<float>(with_nan, {"x"},
                        [](Index i, const float* x) { return std::isnan(x[i]) ? 0.0f : x[i]; })},
    {"blocks along the other axis, codes transposed", "block=1x32_transposed",
     "blocks are 1x32 rather than 32x1, and codes alone are transposed",
     [](Backend& b) {
       const Tensor x = random_floats({128, 128}, 7);
       NamedTensors out = run_call(b, of_x("quantize", x, "block=1x32"));
       return spoiled(b, of_x("quantize", x, "block=32x1 transpose=true"),
                      [&](NamedTensors& wrong) {
                        wrong.at("scales") = out.at("scales");
                        runs_from(wrong.at("codes"), out.at("codes"), 1,
                                  [](Index i) { return i % 128 * 128 + i / 128; });
                      });
     }},
    {"ties of exponents to the even code", "codes=ties_even", "to the even code",
     [](Backend& b) {
       Tensor x = scaled_floats({1024}, 7, [](Index i) { return i * 7 % 40; });
       x = mapped(std::move(x), [](Index i, float v) {
         return std::ldexp(i % 3 == 0 ? 1.5f : 1.25f, std::ilogb(v));
       });
       return spoiled(b, of_x("encode", x, "format=e8m0"), [](NamedTensors& out) {
         for (Index i = 0; i < 1024; i += 3) out.at("codes").as<std::uint8_t>()[i] &= 0xFE;
       });
     }},
    {"an amax of the first 64 rows", "", "rows 0 to 63 of x hold none",
     [](Backend& b) {
       const auto tensor = [](Index rows) {
         return of_x("quantize",
                     scaled_floats({rows, 160}, 7, [](Index i) { return i / 160 / 8; }),
                     "block=RxK scale=f32 rule=vllm");
       };
       const Call call = tensor(96);
       Call wrong = call;
       wrong.replace("given", run_call(b, tensor(64)).at("scales"));
       return planted(b, call, wrong);
     }},
};

TEST(PlantedInPartsOfCodes, AreNamed) { expect_named(kFaults); }

const PlantedFault kNearMisses[] = {
    {"NaN is no byte that is too high", "scale.exponent|bits.flipped", "",
     scales_of<std::uint8_t>(
         with_zero_rows, [](const std::uint8_t* s, Index i) { return i / 16 == 33 ? 255 : s[i]; })},
    {"a rule whose codes did not come", "rule=", "",
     scales_of<float>(numbers,
                      [](const float* s, Index i) { return decode(encode<kBF16>(s[i])); })},
    {"scales of blocks with a NaN are one step above those without it", "amax=|rule=", "",
     [](Backend& b) {
       Planted p = with_setting(b, with_nan(), "rule", "te");
       for (Index s = 0; s < kRows * kK / 32; ++s) {
         auto* scales = p.actual.at("scales").as<std::uint8_t>();
         if (scales[s] != p.expected.at("scales").as<std::uint8_t>()[s]) ++scales[s];
       }
       return p;
     }},
    {"two factors, of even and odd blocks", "codes.factor", "",
     codes_of(bytes, [](float v, Index i,
                        std::uint8_t) { return nearest(v * (i / 32 % 2 == 0 ? 1.27f : 1.3f)); })},
    {"scales beside that of zeros", "scale.of_zeros", "",
     scales_of<float>(numbers,
                      [](const float* s, Index i) {
                        return i / 4 < 10 && i % 4 > 0 ? 1.01f * scale_of_zeros() : s[i];
                      })},
    {"one factor, codes cut", "codes.factor", "",
     codes_of_numbers([](float v, float s) { return decode(E4M3{cut(v / (0.7864f * s))}); })},
    {"whole numbers but for those below one", "codes.rule", "whole number",
     codes_of_numbers([](float v, float s) {
       const float z = v * (1.0f / s);
       return std::fabs(z) < 1.0f ? z : std::rint(z);
     })},
    {"scales of one size for all but a few, on both sides of it", "scale.bound", "",
     scales_of<std::uint8_t>(
         bytes, [](const std::uint8_t* s, Index i) { return i % 5 == 0 ? s[i] : s[0]; })},
};

TEST(PlantedInPartsOfCodes, NearMissesAreNot) { expect_not_named(kNearMisses); }

/// Of a pair one alters the shape of scales, whose elements the other has measured.
TEST(PlantedInPartsOfCodes, ArePairedOnlyWithOwnShapes) {
  const auto b = make_cpu_backend();
  Call call = of("dequantize", run_call(*b, quiet()), "block=1x32");
  const Planted p = altered(*b, call, {"codes", "scales"}, [](Tensor& t, const Tensor& given) {
    const bool scales = t.elements() < kRows * kK;
    for (Index i = 0; i < t.elements(); ++i) {
      const std::uint8_t own = given.as<std::uint8_t>()[i];
      const std::uint8_t before = given.as<std::uint8_t>()[i / 16 * 16 + (i + 15) % 16];
      t.as<std::uint8_t>()[i] = scales ? before : (own & 0x7F) < 8 ? std::uint8_t{0} : own;
    }
  });
  const Explanation e = explain(*b, p.call, p.expected, p.actual);
  EXPECT_NE(e.sentence().find("1 block before and subnormal"), std::string::npos) << e.sentence();
}

}  // namespace
}  // namespace mxo::planted_codes_test
