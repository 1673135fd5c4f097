// Biases by row, sums short of rows, experts with weights of others, and codes made with scales of
// other rows beside scales that came right.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/golden/planted.h"
#include "tests/golden/ranks.h"

namespace mxo {
namespace {

Call biased() {
  NamedTensors in;
  in.emplace("y", random_bf16({96, 64}, 1));
  in.emplace("bias", random_bf16({64}, 2));
  return make_call("add_bias", in, {});
}

Call summed(bool of_groups) {
  NamedTensors in;
  in.emplace("x", random_bf16({96, 64}, 1));
  if (of_groups) in.emplace("group_ends", ends_of({40, 40, 96}));
  return make_call("column_sum", in, of_groups ? with({{"over", "groups"}}) : Parameters{});
}

Planted short_of(Backend& b, const Call& call, std::initializer_list<Index> rows) {
  return altered(b, call, {"x"}, [&](Tensor& t, const Tensor&) {
    for (const Index r : rows) std::memset(row_of(t, r), 0, row_bytes(t));
  });
}

Call layer() {
  NamedTensors in;
  for (std::uint64_t p = 0; p < 2; ++p) {
    in.emplace("rank" + std::to_string(p) + ".x", random_bf16({48, 64}, 3 + p));
  }
  in.emplace("router", random_bf16({8, 64}, 5));
  in.emplace("w1", random_bf16({8, 128, 64}, 6));
  in.emplace("w2", random_bf16({8, 64, 64}, 7));
  Call call = make_call("moe_layer", in, with({{"top_k", "2"}, {"pipeline", "bf16"}}));
  call.world = &ranks();
  return call;
}

/// Expert e has the weights of expert source(e).
Planted exchanged(Backend& b, const char* name, const std::function<Index(Index)>& source) {
  return altered(b, layer(), {name}, [&](Tensor& t, const Tensor& given) {
    const std::size_t one = t.bytes() / static_cast<std::size_t>(t.extent(0));
    for (Index e = 0; e < t.extent(0); ++e) {
      std::memcpy(t.data() + static_cast<std::size_t>(e) * one,
                  given.data() + static_cast<std::size_t>(source(e)) * one, one);
    }
  });
}

/// y of swiglu with sigma(gate) by a function of its own.
Planted other_sigma(Backend& b, float (*sigma)(float gate)) {
  NamedTensors in;
  in.emplace("x", random_bf16({96, 256}, 7));
  const Call call = make_call("swiglu", in, with({{"rounding", "bf16"}}));
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index i = 0; i < 96 * 128; ++i) {
      const Index gate = i / 128 * 256 + i % 128;
      const float a = value_of(call.input("x"), gate);
      out.at("y").as<BF16>()[i] =
          encode<kBF16>(a * sigma(a) * value_of(call.input("x"), gate + 128));
    }
  });
}

/// The gate's half of dx by a derivative of its own.
Planted other_derivative(Backend& b, float (*of)(float gate, float sigma)) {
  NamedTensors in;
  in.emplace("x", random_bf16({96, 256}, 7));
  in.emplace("dy", random_bf16({96, 128}, 8));
  const Call call = make_call("swiglu_backward", in, with({{"rounding", "bf16"}}));
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index i = 0; i < 96 * 128; ++i) {
      const Index gate = i / 128 * 256 + i % 128;
      const float a = value_of(call.input("x"), gate);
      const auto s = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(a))));
      out.at("dx").as<BF16>()[gate] = encode<kBF16>(
          value_of(call.input("dy"), i) * value_of(call.input("x"), gate + 128) * of(a, s));
    }
  });
}

/// silu of a sigma of bf16, rounded once more or not.
Planted narrow_sigma(Backend& b, bool silu) {
  NamedTensors in;
  in.emplace("x", random_bf16({96, 256}, 7));
  const Call call = make_call("swiglu", in, with({{"rounding", "bf16"}}));
  return spoiled(b, call, [&](NamedTensors& out) {
    const auto narrow = [](double v) { return decode(encode<kBF16>(static_cast<float>(v))); };
    for (Index i = 0; i < 96 * 128; ++i) {
      const Index gate = i / 128 * 256 + i % 128;
      const float a = value_of(call.input("x"), gate);
      const float up = value_of(call.input("x"), gate + 128);
      const float product = a * narrow(1.0 / (1.0 + std::exp(-static_cast<double>(a))));
      out.at("y").as<BF16>()[i] =
          encode<kBF16>((silu ? narrow(static_cast<double>(product)) : product) * up);
    }
  });
}

Call chip_function(const char* function, const char* ftz) {
  NamedTensors in;
  Tensor x = random_floats({96, 64}, 7);
  for (Index i = 5; i < 96 * 64; i += 50) x.as<float>()[i] = 0x1p-130f;
  in.emplace("x", std::move(x));
  if (std::string(function) == "div_full") in.emplace("b", random_floats({96, 64}, 8));
  return make_call("approximate", in, with({{"function", function}, {"ftz", ftz}}));
}

/// Every element of y is of(x, b).
Planted computed(Backend& b, const char* function, const char* ftz,
                 const std::function<float(float, float)>& of) {
  const Call call = chip_function(function, ftz);
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index i = 0; i < 96 * 64; ++i) {
      const float divisor = call.has("b") ? call.input("b").as<float>()[i] : 0.0f;
      out.at("y").as<float>()[i] = of(call.input("x").as<float>()[i], divisor);
    }
  });
}

const PlantedFault kFaults[] = {
    {"ex2 is rounded correctly", "function=nearest", "correctly rounded",
     [](Backend& b) {
       return computed(b, "ex2", "false",
                       [](float x, float) { return std::exp2(static_cast<double>(x)); });
     }},
    {"rcp is taken for ex2", "function=rcp", "is rcp.approx rather than ex2.approx",
     [](Backend& b) {
       return planted(b, chip_function("ex2", "true"), chip_function("rcp", "true"));
     }},
    {"a division is IEEE's", "function=nearest", "a / b is correctly rounded",
     [](Backend& b) {
       return computed(b, "div_full", "true", [](float x, float y) { return x / y; });
     }},
    {"the reciprocal of b is correctly rounded", "function=reciprocal", "reciprocal of b",
     [](Backend& b) {
       return computed(b, "div_full", "true", [](float x, float y) { return x * (1.0f / y); });
     }},
    {"b is divided by a", "operands=exchanged", "b is divided by a",
     [](Backend& b) {
       Call other = chip_function("div_full", "false");
       std::swap(other.inputs["x"], other.inputs["b"]);
       return planted(b, chip_function("div_full", "false"), other);
     }},
    {"subnormals are kept", "ftz=false", "subnormals are kept",
     [](Backend& b) {
       return planted(b, chip_function("sqrt", "true"), chip_function("sqrt", "false"));
     }},
    {"a gate of f16 is a relu", "activation=relu", "the gate is max(a, 0)",
     [](Backend& b) {
       NamedTensors in;
       Tensor x(Dtype::f16, {96, 256});
       const Tensor wide = random_floats({96, 256}, 7);
       for (Index i = 0; i < x.elements(); ++i) x.as<F16>()[i] = encode<kF16>(value_of(wide, i));
       in.emplace("x", std::move(x));
       const Call call = make_call("swiglu", in, with({{"rounding", "f16"}}));
       return spoiled(b, call, [&](NamedTensors& out) {
         for (Index i = 0; i < 96 * 128; ++i) {
           const F16* row = call.input("x").as<F16>() + i / 128 * 256;
           out.at("y").as<F16>()[i] =
               encode<kF16>(std::max(decode(row[i % 128]), 0.0f) * decode(row[i % 128 + 128]));
         }
       });
     }},
    {"a gate of Triton is rounded correctly", "arithmetic=rounded", "arithmetic is rounded",
     [](Backend& b) {
       NamedTensors in;
       in.emplace("x", random_floats({96, 256}, 7));
       const auto call = [&](const char* how) {
         return make_call("swiglu", in, with({{"arithmetic", how}, {"rounding", "none"}}));
       };
       return planted(b, call("triton_sm90"), call("rounded"));
     }},
    {"a bias is added by row", "bias=by_row", "by row rather than by column",
     [](Backend& b) {
       const Call call = biased();
       return spoiled(b, call, [&](NamedTensors& out) {
         for (Index i = 0; i < 96 * 64; ++i) {
           out.at("out").as<BF16>()[i] = encode<kBF16>(value_of(call.input("y"), i) +
                                                       value_of(call.input("bias"), i / 64 % 64));
         }
       });
     }},
    {"a sum is short of a row", "rows.missing", "row 40 is left out of the sum",
     [](Backend& b) { return short_of(b, summed(false), {40}); }},
    {"sums of groups are short of rows", "rows.missing", "rows 39, 95 are left out of the sum",
     [](Backend& b) {
       return short_of(b, summed(true), {39, 95});
     }},
    {"experts take the next w2", "w2=other_expert", "experts take w2 of the expert after",
     [](Backend& b) { return exchanged(b, "w2", [](Index e) { return (e + 1) % 8; }); }},
    {"experts take w1 by their number on the rank", "w1=local", "those of their rank",
     [](Backend& b) { return exchanged(b, "w1", [](Index e) { return e % 4; }); }},
    {"experts take the first w2", "w2=expert_0", "experts take w2 of expert 0",
     [](Backend& b) { return exchanged(b, "w2", [](Index) { return Index{0}; }); }},
    {"sigma is rounded to bf16", "activation=sigma_bf16", "sigma is rounded to bf16",
     [](Backend& b) { return narrow_sigma(b, false); }},
    {"sigma and silu are rounded to bf16", "activation=sigma_silu_bf16", "each rounded to bf16",
     [](Backend& b) { return narrow_sigma(b, true); }},
    {"sigma by tanh", "activation=sigma_tanh", "sigma is 0.5 tanh(a / 2) + 0.5",
     [](Backend& b) {
       return other_sigma(b, [](float a) {
         return 0.5f * static_cast<float>(std::tanh(static_cast<double>(0.5f * a))) + 0.5f;
       });
     }},
    {"sigma by straight lines", "activation=sigma_hard", "clamp(a / 6 + 0.5, 0, 1)",
     [](Backend& b) {
       return other_sigma(b, [](float a) { return std::clamp(a / 6.0f + 0.5f, 0.0f, 1.0f); });
     }},
    {"a sign in the derivative of silu", "derivative=sigma_sign", "(1 + a (1 + sigma(a)))",
     [](Backend& b) {
       return other_derivative(b, [](float a, float s) { return s * (1.0f + a * (1.0f + s)); });
     }},
    {"the other sign in the derivative of silu", "derivative=sigma_minus", "sigma(a) - a sigma'(a)",
     [](Backend& b) {
       return other_derivative(b, [](float a, float s) { return s * (1.0f - a * (1.0f - s)); });
     }},
    {"the derivative of silu at silu", "derivative=of_silu", "at silu(a) in place of a",
     [](Backend& b) {
       return other_derivative(b, [](float a, float s) {
         const float t = a * s;
         const auto u = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(t))));
         return u * (1.0f + t * (1.0f - u));
       });
     }},
};

class PlantedElementwise : public testing::TestWithParam<std::size_t> {};

TEST_P(PlantedElementwise, AreNamed) { expect_named(kFaults[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Faults, PlantedElementwise,
                         testing::Range(std::size_t{0}, std::size(kFaults)));

/// Codes of some rows were made with scales of the row before; the scales themselves are right.
TEST(PlantedBesideScales, NamesNoRuleOfScalesThatCameRight) {
  const auto backend = make_cpu_backend();
  NamedTensors in;
  in.emplace("x", random_floats({256, 512}, 7));
  const Call call = make_call("quantize", in, with({{"block", "1x32"}}));
  const Planted p = spoiled(*backend, call, [&](NamedTensors& out) {
    const auto* scales = out.at("scales").as<std::uint8_t>();
    for (Index i = 32 * 512; i < 64 * 512; ++i) {
      const float v = std::ldexp(call.input("x").as<float>()[i], 127 - scales[i / 32 - 16]);
      out.at("codes").as<std::uint8_t>()[i] = encode<kE4M3>(v, Overflow::saturate).bits;
    }
  });
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  for (const Cause& c : e.causes) {
    EXPECT_FALSE(starts_with_one(c.id, "rule=|scale_mode=")) << e.sentence();
  }
}

}  // namespace
}  // namespace mxo
