// Gates of other stacks against what their own code says, with sigma, erf and tanh by MPFR.
#include "ops/swiglu.h"
#include "tests/support/by_mpfr.h"
#include "tests/support/named_calls.h"
#include "tests/support/random_tensors.h"
#include "tests/support/same.h"

namespace mxo::test::gates_test {
namespace {

float sigmoid(float x) { return sigma_by_mpfr(x); }
float erf_of(float x) { return by_mpfr(x, mpfr_erf); }
float tanh_of(float x) { return by_mpfr(x, mpfr_tanh); }
using Stored = float (*)(float);
struct Narrow {
  Dtype type;
  Stored stored;
};
constexpr Narrow kNarrow[] = {{Dtype::bf16, bf16}, {Dtype::f16, f16}};

/// F.gelu of torch in f32.
float gelu(float x) {
  volatile float scaled = x * 0.707106781186547524401f;
  volatile float one = 1.0f + erf_of(scaled);
  volatile float half = x * 0.5f;
  return half * one;
}
float gelu_tanh(float x) {
  volatile float square = x * x;
  volatile float cube = square * x;
  volatile float term = 0.044715f * cube;
  volatile float sum = x + term;
  volatile float inner = 0.797884560802865355880f * sum;
  volatile float one = 1.0f + tanh_of(inner);
  volatile float half = 0.5f * x;
  return half * one;
}
float relu_squared(float x) { return std::max(x, 0.0f) * std::max(x, 0.0f); }

/// swiglu of gpt-oss, torch/model.py, in f32 or with every torch operation in bf16.
float gpt_oss(float gate, float up, const std::function<float(float)>& stored) {
  gate = std::min(gate, 7.0f);
  up = std::clamp(up, -7.0f, 7.0f);
  volatile float angle = stored(1.702f * gate);
  volatile float sigma = stored(sigmoid(angle));
  volatile float glu = stored(gate * sigma);
  volatile float linear = stored(up + 1.0f);
  return stored(glu * linear);
}
float kept(float x) { return x; }

struct GateCase {
  const char* name;
  const char* settings;
  std::function<float(float, float)> of;  ///< gate and up to what the probability multiplies
};

/// Steps in 16 bits are stored by `in16`.
std::vector<GateCase> gate_cases(Stored in16) {
  const auto stored = [in16](float (*activation)(float)) {
    return [=](float a, float b) { return in16(in16(activation(a)) * b); };
  };
  const std::vector<GateCase> cases = {
      {"silu", "", [](float a, float b) { return a * sigmoid(a) * b; }},
      {"silu_eager", "bf16_steps=every",
       [in16](float a, float b) { return in16(in16(a * sigmoid(a)) * b); }},
      {"silu_of_alpha", "bf16_steps=activation alpha=1.5",
       [in16](float a, float b) { return in16(a * sigmoid(1.5f * a)) * b; }},
      {"vllm_silu_and_mul", "bf16_steps=activation",
       [in16](float a, float b) { return in16(a * sigmoid(a)) * b; }},
      {"gpt_oss", "alpha=1.702 limit=7 up_offset=1",
       [](float a, float b) { return gpt_oss(a, b, kept); }},
      {"gpt_oss_eager", "alpha=1.702 limit=7 up_offset=1 bf16_steps=every",
       [in16](float a, float b) { return gpt_oss(a, b, in16); }},
      {"gelu", "activation=gelu", [](float a, float b) { return gelu(a) * b; }},
      {"gelu_eager", "activation=gelu bf16_steps=every", stored(gelu)},
      {"gelu_tanh_eager", "activation=gelu_tanh bf16_steps=every", stored(gelu_tanh)},
      {"relu_squared_eager", "activation=relu_squared bf16_steps=every", stored(relu_squared)},
      {"gelu_tanh", "activation=gelu_tanh", [](float a, float b) { return gelu_tanh(a) * b; }},
      {"relu_squared", "activation=relu_squared",
       [](float a, float b) { return relu_squared(a) * b; }},
  };
  return cases;
}

constexpr Index kRows = 37;
constexpr Index kWidth = 64;

Tensor random(std::vector<Index> shape, unsigned seed, float spread, Dtype dtype = Dtype::f32) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  Tensor t(dtype, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) put(t, i, normal(engine));
  return t;
}
/// The columns of x that hold a and b.
std::pair<Index, Index> places(std::string_view halves, Index f) {
  if (halves == "up_first") return {kWidth + f, f};
  if (halves == "interleaved") return {2 * f, 2 * f + 1};
  return {f, kWidth + f};
}

TEST(Gates, EveryStackHasItsOwnStepsInEveryOrderOfHalves) {
  for (const auto& [type, stored] : kNarrow) {
    NamedTensors in{{"x", random({kRows, 2 * kWidth}, 1, 4.0f, type)},
                    {"probs", random({kRows}, 2, 1.0f)}};
    for (const GateCase& c : gate_cases(stored)) {
      for (const char* halves : {"gate_first", "up_first", "interleaved"}) {
        const std::string set = std::string(c.settings) + " halves=" + halves;
        const NamedTensors out = call("reference", "swiglu", in, set);
        for (Index i = 0; i < kRows * kWidth; ++i) {
          const auto [a, b] = places(halves, i % kWidth);
          const Index row = i / kWidth * 2 * kWidth;
          volatile float gated = c.of(get(in.at("x"), row + a), get(in.at("x"), row + b));
          ASSERT_EQ(get(out.at("y"), i), gated * get(in.at("probs"), i / kWidth))
              << c.name << " " << halves << " " << i;
        }
        for (const char* backend : {"cpu", "cpu:scalar"})
          expect_same(out, call(backend, "swiglu", in, set));
      }
    }
  }
}

TEST(Gates, AGateWithoutUpMultipliesNothing) {
  NamedTensors in{{"x", random({kRows, kWidth}, 3, 4.0f)}};
  const std::string set = "activation=relu_squared halves=gate_only";
  const NamedTensors out = call("cpu", "swiglu", in, set);
  ASSERT_EQ(out.at("y").shape(), (std::vector<Index>{kRows, kWidth}));
  for (Index i = 0; i < kRows * kWidth; ++i)
    ASSERT_EQ(get(out.at("y"), i), relu_squared(get(in.at("x"), i)));
  in.emplace("dy", random({kRows, kWidth}, 4, 1.0f));
  const NamedTensors back = call("reference", "swiglu_backward", in, set);
  for (Index i = 0; i < kRows * kWidth; ++i)
    ASSERT_EQ(get(back.at("dx"), i),
              get(in.at("dy"), i) * (2.0f * std::max(get(in.at("x"), i), 0.0f)));
  expect_same(back, call("cpu", "swiglu_backward", in, set));
}

/// The smooth functions in double, for differences.
double real(std::string_view name, double a, double b) {
  if (name == "gpt_oss") {
    a = std::min(a, 7.0);
    return a / (1 + std::exp(-1.702 * a)) * (std::clamp(b, -7.0, 7.0) + 1);
  }
  if (name == "gelu") return 0.5 * a * (1 + std::erf(a * std::sqrt(0.5))) * b;
  if (name == "gelu_tanh") {
    const double inner = std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a);
    return 0.5 * a * (1 + std::tanh(inner)) * b;
  }
  if (name == "relu_squared") return std::pow(std::max(a, 0.0), 2) * b;
  return a / (1 + std::exp(-a)) * b;
}

TEST(Gates, GradientsAgreeWithDifferencesInDouble) {
  NamedTensors in{{"x", random({kRows, 2 * kWidth}, 5, 4.0f)},
                  {"dy", random({kRows, kWidth}, 6, 1.0f)},
                  {"probs", random({kRows}, 7, 1.0f)}};
  for (const GateCase& c : gate_cases(bf16)) {
    std::string name = c.name;
    const bool eager = name.ends_with("_eager");
    if (eager) name.resize(name.size() - std::strlen("_eager"));
    if (!eager && name != "silu" && name != "gpt_oss" && name != "gelu" && name != "gelu_tanh" &&
        name != "relu_squared") {
      continue;
    }
    if (eager && !name.starts_with("gelu") && name != "relu_squared") continue;  // below
    for (const char* halves : {"gate_first", "up_first", "interleaved"}) {
      const std::string set = std::string(c.settings) + " halves=" + halves;
      const NamedTensors out = call("reference", "swiglu_backward", in, set);
      double dprob = 0;
      for (Index i = 0; i < kRows * kWidth; ++i) {
        const Index row = i / kWidth * 2 * kWidth;
        const auto [ia, ib] = places(halves, i % kWidth);
        const double a = get(in.at("x"), row + ia);
        const double b = get(in.at("x"), row + ib);
        const double g = static_cast<double>(get(in.at("dy"), i)) * get(in.at("probs"), i / kWidth);
        const double h = 1e-5;
        if (eager) {  // the product's gradient is stored
          const double of_product = bf16(get(in.at("dy"), i) * get(in.at("probs"), i / kWidth) *
                                         get(in.at("x"), row + ib));
          const double da = of_product * (real(name, a + h, 1) - real(name, a - h, 1)) / (2 * h);
          EXPECT_NEAR(get(out.at("dx"), row + ia), da, 2e-5 * (1 + std::fabs(da))) << name;
          continue;
        }
        const double da = g * (real(name, a + h, b) - real(name, a - h, b)) / (2 * h);
        const double db = g * (real(name, a, b + h) - real(name, a, b - h)) / (2 * h);
        EXPECT_NEAR(get(out.at("dx"), row + ia), da, 2e-5 * (1 + std::fabs(da))) << name;
        EXPECT_NEAR(get(out.at("dx"), row + ib), db, 2e-5 * (1 + std::fabs(db))) << name;
        dprob = (i % kWidth == 0 ? 0 : dprob) + get(in.at("dy"), i) * real(name, a, b);
        if (i % kWidth + 1 < kWidth) continue;
        EXPECT_NEAR(get(out.at("dprobs"), i / kWidth), dprob, 1e-4 * (1 + std::fabs(dprob)))
            << name;
      }
      for (const char* backend : {"cpu", "cpu:scalar"})
        expect_same(out, call(backend, "swiglu_backward", in, set));
    }
  }
}

/// torch's autograd through eager bf16 code: every gradient is stored as bf16.
TEST(Gates, EagerGradientsRoundWhereAutogradStores) {
  for (const auto& [type, stored] : kNarrow) {
    NamedTensors in{{"x", random({kRows, 2 * kWidth}, 8, 4.0f, type)},
                    {"dy", random({kRows, kWidth}, 9, 1.0f, type)}};
    const NamedTensors eager =
        call("cpu", "swiglu_backward", in,
             std::string("alpha=1.702 limit=7 up_offset=1 bf16_steps=every rounding=") +
                 (type == Dtype::bf16 ? "bf16" : "f16"));
    for (Index i = 0; i < kRows * kWidth; ++i) {
      const Index k = i / kWidth * 2 * kWidth + i % kWidth;
      const float a = get(in.at("x"), k);
      const float b = get(in.at("x"), k + kWidth);
      const float g = get(in.at("dy"), i);
      const float gate = std::min(a, 7.0f);
      const float linear = stored(std::clamp(b, -7.0f, 7.0f) + 1.0f);
      const float s = stored(sigmoid(stored(1.702f * gate)));
      const float d_glu = stored(g * linear);
      const float d_sigma = stored(d_glu * gate);
      volatile float rest = d_sigma * (1.0f - s);  // sigmoid_backward: (g * (1 - y)) * y
      const float d_angle = stored(rest * s);
      const float d_gate = stored(stored(d_glu * s) + stored(d_angle * 1.702f));
      ASSERT_EQ(get(eager.at("dx"), k), a <= 7.0f ? d_gate : 0.0f) << i;
      ASSERT_EQ(get(eager.at("dx"), k + kWidth),
                b >= -7.0f && b <= 7.0f ? stored(g * stored(gate * s)) : 0.0f)
          << i;
    }
  }
}

/// silu_backward of torch: (h * s) * (1 + a * (1 - s)) in f32, stored once.  Without alpha sigma is
/// no step of its own, and where the activation alone is stored alpha rounds nothing.
TEST(Gates, GradientsOfSiluAreStoredOnce) {
  for (const auto& [type, stored] : kNarrow) {
    NamedTensors in{{"x", random({kRows, 2 * kWidth}, 8, 4.0f, type)},
                    {"dy", random({kRows, kWidth}, 9, 1.0f, type)}};
    const std::string rounding = type == Dtype::bf16 ? " rounding=bf16" : " rounding=f16";
    for (const auto& [steps, alpha] : {std::pair{"bf16_steps=activation alpha=1", 1.0f},
                                       {"bf16_steps=every alpha=1", 1.0f},
                                       {"bf16_steps=activation alpha=1.5", 1.5f}}) {
      const NamedTensors out = call("cpu", "swiglu_backward", in, steps + rounding);
      for (Index i = 0; i < kRows * kWidth; ++i) {
        const Index k = i / kWidth * 2 * kWidth + i % kWidth;
        const float a = get(in.at("x"), k);
        const float g = get(in.at("dy"), i);
        const float s = sigmoid(alpha * a);
        const float left = stored(g * get(in.at("x"), k + kWidth)) * s;
        const float turn = (alpha * a) * (1.0f - s);
        ASSERT_EQ(get(out.at("dx"), k), stored(left * (1.0f + turn))) << steps << i;
        ASSERT_EQ(get(out.at("dx"), k + kWidth), stored(g * stored(a * s))) << steps << i;
      }
    }
  }
}

TEST(Gates, MinusZeroStaysWithoutAnOffset) {
  const auto negative = [](float a, float b, const std::string& set, bool back) {
    NamedTensors in{{"x", Tensor(Dtype::f32, {1, 2})}};
    in.at("x").as<float>()[0] = a;
    in.at("x").as<float>()[1] = b;
    if (back) in.emplace("dy", Tensor(Dtype::f32, {1, 1})).first->second.as<float>()[0] = 1.0f;
    const NamedTensors out = call("cpu", back ? "swiglu_backward" : "swiglu", in, set);
    return std::signbit(get(out.begin()->second, 0));
  };
  const std::string squared = "activation=relu_squared";
  EXPECT_TRUE(negative(1.0f, -0.0f, "alpha=2", false));
  EXPECT_FALSE(negative(-0.0f, 1.0f, squared, false));
  EXPECT_TRUE(negative(-0.0f, 1.0f, squared, true));
}

TEST(Gates, QuantisedInOnePassAreTheTwoSteps) {
  NamedTensors in{{"x", random({kRows, 2 * kWidth}, 10, 3.0f, Dtype::bf16)}};
  const Tensor dy = random({kRows, kWidth}, 11, 1.0f, Dtype::bf16);
  for (const GateCase& c : gate_cases(bf16)) {
    for (const char* halves : {"gate_first", "interleaved"}) {
      const std::string set = std::string(c.settings) + " rounding=bf16 halves=" + halves;
      for (const bool backward : {false, true}) {
        NamedTensors operands = in;
        if (backward) operands.emplace("dy", dy);
        const NamedTensors between =
            call("reference", backward ? "swiglu_backward" : "swiglu", operands, set);
        const NamedTensors want =
            call("reference", "quantize", {{"x", between.begin()->second}}, "block=1x32");
        for (const char* backend : {"reference", "cpu"})
          expect_same(want, call(backend, backward ? "swiglu_quantize_backward" : "swiglu_quantize",
                                 operands, set + " block=1x32"));
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test::gates_test
