// Gates, their gradients and their quantised form that are not those of silu(gate) * up.
#include <limits>

#include "formats/approximate_lg2_tanh.h"
#include "formats/erf.h"
#include "tests/golden/planted.h"

namespace mxo::activations_test {
namespace {

constexpr Index kRows = 32;
constexpr Index kColumns = 64;

Tensor gates(Dtype dtype) {
  const Tensor wide = random_floats({kRows, 2 * kColumns}, 7);
  return mapped(Tensor(dtype, wide.shape()), [&](Index i, float) { return wide.as<float>()[i]; });
}

/// swiglu, or another gate, of x that is rounded as y is.
Call gated(const char* op, Dtype dtype, const char* limit = nullptr, bool weighed = false) {
  NamedTensors in{{"x", gates(dtype)}};
  if (std::string(op) == "swiglu_backward") in.emplace("dy", random_bf16({kRows, kColumns}, 8));
  const auto weight = [](Index, float v) { return 0.4f + 0.02f * v; };
  if (weighed) in.emplace("probs", mapped(random_floats({kRows}, 9), weight));
  Call call = make_call(op, in, {});
  if (std::string(op) != "swiglu_quantize")
    call.set.set("rounding", dtype == Dtype::f32 ? "none" : dtype == Dtype::f16 ? "f16" : "bf16");
  if (limit != nullptr) call.set.set("limit", limit);
  return call;
}

/// y of a call where each element is of(gate, up, weight of the row).
Planted computed(Backend& b, const Call& call,
                 const std::function<double(double, double, double)>& of) {
  const double limit = call.set.real("limit", std::numeric_limits<double>::infinity());
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index i = 0; i < kRows * kColumns; ++i) {
      const Index gate = i / kColumns * 2 * kColumns + i % kColumns;
      const Tensor& x = call.input("x");
      const double p = call.has("probs") ? call.input("probs").as<float>()[i / kColumns] : 1.0;
      const double a = std::min<double>(wide_value(x, gate), limit);
      const double u = std::clamp<double>(wide_value(x, gate + kColumns), -limit, limit);
      store_wide(out.at("y"), i, static_cast<float>(of(a, u, p)));
    }
  });
}

double sigma(double a) { return 1.0 / (1.0 + std::exp(-a)); }
double silu(double a) { return a * sigma(a); }
double slope(double a) { return sigma(a) * (1 + a * (1 - sigma(a))); }

/// A gate by its formula; of y in bf16, under a limit and with router weights.
struct Gate {
  const char* id;
  const char* words;
  double (*of)(double a, double u, double p);
};

const Gate kGates[] = {
    {"activation=gate_only", "silu of the gate is not multiplied with up",
     [](double a, double, double p) { return silu(a) * p; }},
    {"activation=glu", "the gate is sigma(a) rather than a sigma(a)",
     [](double a, double u, double p) { return sigma(a) * u * p; }},
    {"activation=relu", "the gate is max(a, 0)",
     [](double a, double u, double p) { return std::max(a, 0.0) * u * p; }},
    {"activation=bilinear", "gate and up are multiplied without an activation",
     [](double a, double u, double p) { return a * u * p; }},
    {"up_offset=1", "up is raised by 1",
     [](double a, double u, double p) { return silu(a) * (u + 1) * p; }},
    {"alpha=1.702", "the gate is a sigma(1.702 a)",
     [](double a, double u, double p) { return a * sigma(1.702 * a) * u * p; }},
    {"activation=alpha_up_plus_1", "the gate is a sigma(1.702 a) and up is raised by 1",
     [](double a, double u, double p) { return a * sigma(1.702 * a) * (u + 1) * p; }},
    {"limit=7", "the gate is cut at 7 and up is clamped to 7",
     [](double a, double u, double p) {
       return silu(std::min(a, 7.0)) * std::clamp(u, -7.0, 7.0) * p;
     }},
    {"activation=silu_of_product", "silu is taken of the product of gate and up",
     [](double a, double u, double p) { return silu(a * u) * p; }},
    {"activation=both", "silu is taken of up, too",
     [](double a, double u, double p) { return silu(a) * silu(u) * p; }},
    {"activation=added", "up is added to silu of the gate rather than multiplied",
     [](double a, double u, double p) { return (silu(a) + u) * p; }},
    {"activation=sigma_hard", "sigma is cut off straight lines: clamp(a / 6 + 0.5, 0, 1)",
     [](double a, double u, double p) { return a * std::clamp(a / 6 + 0.5, 0.0, 1.0) * u * p; }},
    {"weights=weighted_gate", "multiplied with the router weight before silu is taken",
     [](double a, double u, double p) { return silu(a * p) * u; }},
    {"weights=weighted_silu_up", "gate and up are both multiplied with the router weight",
     [](double a, double u, double p) { return silu(a * p) * u * p; }},
    {"weights=twice", "", [](double a, double u, double p) { return silu(a) * u * p * p; }},
};

TEST(PlantedActivations, OfGatesAreNamed) {
  for (const Gate& g : kGates) {
    expect_named({g.id, g.id, g.words, [&](Backend& b) {
                    return computed(b, gated("swiglu", Dtype::bf16, "12", true), g.of);
                  }});
  }
}

float bf16(float v) { return decode(encode<kBF16>(v)); }
float half_of(float tanh) { return 0.5f * tanh + 0.5f; }

/// Another arithmetic of the same gate, to the bit of y in f32.
struct Arithmetic {
  const char* id;
  const char* words;
  float (*of)(float a, float u);
};

const Arithmetic kArithmetics[] = {
    {"activation=sigma_bf16", "sigma is rounded to bf16",
     [](float a, float u) { return a * bf16(sigmoid_rn(a)) * u; }},
    {"activation=sigma_silu_bf16", "each rounded to bf16",
     [](float a, float u) { return bf16(a * bf16(sigmoid_rn(a))) * u; }},
    {"activation=up_first", "multiplied before sigma is",
     [](float a, float u) { return a * u * sigmoid_rn(a); }},
    {"activation=sigma_tanh", "sigma is 0.5 tanh(a / 2) + 0.5",
     [](float a, float u) { return a * half_of(tanh_rn(a / 2)) * u; }},
    {"activation=sigma_tanh_approx", "0.5 tanh.approx(a / 2) + 0.5, of Hopper",
     [](float a, float u) { return a * half_of(tanh_approx(a / 2)) * u; }},
    {"activation=sigma_tanh_bf16", "tanh being rounded to bf16",
     [](float a, float u) { return a * half_of(bf16(tanh_rn(a / 2))) * u; }},
};

TEST(PlantedActivations, OfOtherArithmeticAreNamed) {
  for (const Arithmetic& row : kArithmetics) {
    expect_named({row.id, row.id, row.words, [&](Backend& b) {
                    return computed(b, gated("swiglu", Dtype::f32),
                                    [&](double a, double u, double) {
                                      return row.of(static_cast<float>(a), static_cast<float>(u));
                                    });
                  }});
  }
}

/// dx by factors of dy for the gate and for up; null: as it is.
using Factor = double (*)(double a, double u);
struct Gradient {
  const char* id;
  const char* words;
  Factor of_gate;
  Factor of_up;
};

const Gradient kGradients[] = {
    {"activation=relu", "in both halves of the gradient",
     [](double a, double u) { return a > 0 ? u : 0; },
     [](double a, double) { return std::max(a, 0.0); }},
    {"derivative=sigma", "is taken as sigma(a): a sigma'(a) is left out",
     [](double a, double u) { return u * sigma(a); }, nullptr},
    {"derivative=sigma_prime", "is taken as sigma'(a)",
     [](double a, double u) { return u * sigma(a) * (1 - sigma(a)); }, nullptr},
    {"derivative=sigma_sign", "is taken as sigma(a) (1 + a (1 + sigma(a)))",
     [](double a, double u) { return u * sigma(a) * (1 + a * (1 + sigma(a))); }, nullptr},
    {"derivative=sigma_minus", "is taken as sigma(a) - a sigma'(a)",
     [](double a, double u) { return u * sigma(a) * (1 - a * (1 - sigma(a))); }, nullptr},
    {"derivative=of_silu", "is taken at silu(a) in place of a",
     [](double a, double u) { return u * slope(silu(a)); }, nullptr},
    {"derivative=relu", "the derivative of relu is taken",
     [](double a, double u) { return a > 0 ? u : 0; }, nullptr},
    {"derivative=gate_without_up", "up is left out of the gradient of the gate",
     [](double a, double) { return slope(a); }, nullptr},
    {"derivative=up_by_gate", "dy a rather than dy silu(a)", nullptr,
     [](double a, double) { return a; }},
    {"derivative=up_by_sigma", "dy sigma(a) rather than dy silu(a)", nullptr,
     [](double a, double) { return sigma(a); }},
    {"derivative=up_by_relu", "dy max(a, 0) rather than dy silu(a)", nullptr,
     [](double a, double) { return std::max(a, 0.0); }},
    {"derivative=up_alone", "the gradient of up is dy", nullptr,
     [](double, double) { return 1.0; }},
};

class PlantedGradients : public testing::TestWithParam<Gradient> {};
INSTANTIATE_TEST_SUITE_P(All, PlantedGradients, testing::ValuesIn(kGradients));
TEST_P(PlantedGradients, AreNamed) {
  const Gradient& row = GetParam();
  const auto plant = [&](Backend& b) {
    const Call call = gated("swiglu_backward", Dtype::bf16);
    return spoiled(b, call, [&](NamedTensors& out) {
      for (Index i = 0; i < kRows * kColumns; ++i) {
        const Index gate = i / kColumns * 2 * kColumns + i % kColumns;
        const double a = wide_value(call.input("x"), gate);
        const double u = wide_value(call.input("x"), gate + kColumns);
        const double d = wide_value(call.input("dy"), i);
        Tensor& dx = out.at("dx");
        if (row.of_gate)  // 0 of relu is no -0
          store_wide(dx, gate, static_cast<float>(d * row.of_gate(a, u) + 0.0));
        if (row.of_up) store_wide(dx, gate + kColumns, static_cast<float>(d * row.of_up(a, u)));
      }
    });
  };
  expect_named({row.id, row.id, row.words, plant});
  if (row.of_up != nullptr) return;
  // A half that is right has no other gate.
  EXPECT_EQ(explained(plant(*make_cpu_backend())).sentence().find("both halves"),
            std::string::npos);
}

/// Rows of an operand one late or one early.
Planted moved(Backend& b, const char* op, const char* name, bool late) {
  const Call call = gated(op, Dtype::bf16, nullptr, std::string(name) == "probs");
  return altered(b, call, {name}, [late](Tensor& t, const Tensor& given) {
    const std::size_t row = t.bytes() / static_cast<std::size_t>(kRows);
    std::memcpy(t.data() + (late ? row : 0), given.data() + (late ? 0 : row), t.bytes() - row);
  });
}

/// dprobs by of(sum so far, dy, y).
Planted other_dprobs(Backend& b, float (*of)(float sum, float dy, float y)) {
  const Call call = gated("swiglu_backward", Dtype::bf16, nullptr, true);
  return spoiled(b, call, [&](NamedTensors& out) {
    for (Index r = 0; r < kRows; ++r) {
      float sum = 0;
      for (Index c = 0; c < kColumns; ++c) {
        const float a = wide_value(call.input("x"), r * 2 * kColumns + c);
        const float u = wide_value(call.input("x"), r * 2 * kColumns + kColumns + c);
        sum = of(sum, wide_value(call.input("dy"), r * kColumns + c), a * sigmoid_rn(a) * u);
      }
      out.at("dprobs").as<float>()[r] = sum;
    }
  });
}

const PlantedFault kFaults[] = {
    {"dy late", "rows=shifted", "rows of dy are read one late, the first as it is",
     planted_by(moved, "swiglu_backward", "dy", true)},
    {"dy early", "rows=shifted", "rows of dy are read one early, the last as it is",
     planted_by(moved, "swiglu_backward", "dy", false)},
    {"weights late", "weights=other_row", "of the row before",
     planted_by(moved, "swiglu", "probs", true)},
    {"weights early", "weights=other_row", "of the row after",
     planted_by(moved, "swiglu", "probs", false)},
    {"dprobs in bf16", "dprobs=bf16", "dprobs is added up in bf16",
     planted_by(other_dprobs, [](float sum, float dy, float y) { return bf16(sum + dy * y); })},
    {"dprobs and products in bf16", "dprobs=bf16", "of y and products that are rounded to bf16",
     planted_by(other_dprobs,
                [](float sum, float dy, float y) { return bf16(sum + bf16(dy * bf16(y))); })},
    {"dprobs weighed (a report)", "dprobs=weighed", "multiplied with the router weight",
     [](Backend& b) {
       const Call call = gated("swiglu_backward", Dtype::bf16, nullptr, true);
       return spoiled(b, call, [&](NamedTensors& out) {
         for (Index r = 0; r < kRows; ++r)
           out.at("dprobs").as<float>()[r] *= call.input("probs").as<float>()[r];
       });
     }},
    {"a gate of f16", "activation=relu", "the gate is max(a, 0)",
     [](Backend& b) {
       return computed(b, gated("swiglu", Dtype::f16),
                       [](double a, double u, double) { return std::max(a, 0.0) * u; });
     }},
    {"a gate of Triton is rounded correctly", "arithmetic=rounded", "arithmetic is rounded",
     [](Backend& b) {
       Call call = gated("swiglu", Dtype::f32);
       call.set.set("arithmetic", "triton_sm90");
       return with_setting(b, call, "arithmetic", "rounded");
     }},
    {"sigma by Triton", "activation=triton_sm90", "Triton's tl.sigmoid on Hopper",
     [](Backend& b) {
       return with_setting(b, gated("swiglu", Dtype::f32), "arithmetic", "triton_sm90");
     }},
    {"silu by Triton", "activation=triton_sm90", "a / (1 + tl.exp(-a)) by Triton",
     [](Backend& b) {
       return with_setting(b, gated("swiglu", Dtype::f32), "arithmetic", "triton_sm90_quotient");
     }},
    {"an activation by way of f16", "out=f16", "rounded to f16 before they are rounded to bf16",
     [](Backend& b) {
       return spoiled(b, gated("swiglu", Dtype::bf16), [&](NamedTensors& out) {
         Call half = gated("swiglu", Dtype::bf16);
         half.set.set("rounding", "f16");
         const Tensor y = run_call(b, half).at("y");
         out.at("y") = mapped(out.at("y"), [&](Index i, float) { return wide_value(y, i); });
       });
     }},
};

TEST(PlantedAroundGates, AreNamed) { expect_named(kFaults); }

/// What is left of one cause by chance is no second one: a sigma of another library alone.
TEST(PlantedGate, BlamesNoOtherArithmeticForWhatIsLeft) {
  const auto backend = make_cpu_backend();
  const Planted p = computed(
      *backend, gated("swiglu", Dtype::bf16, nullptr, true), [](double a, double u, double w) {
        const auto gate = static_cast<float>(a);
        const float s = 1.0f / (1.0f + std::exp(-gate));
        return gate * s * static_cast<float>(u) * static_cast<float>(w) * static_cast<float>(w);
      });
  const Explanation e = explained(p);
  ASSERT_FALSE(e.causes.empty()) << e.sentence();
  EXPECT_EQ(e.causes.front().id, "weights=twice") << e.sentence();
  EXPECT_EQ(e.sentence().find("Triton"), std::string::npos) << e.sentence();
}

}  // namespace
}  // namespace mxo::activations_test
