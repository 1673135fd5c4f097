// Gates that are not silu(gate) * up: what each of them gives, and of which calls it is thought.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/golden/causes_listed.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

constexpr Index kRows = 3;
constexpr Index kColumns = 4;

// Gates and ups of small and large numbers of both signs, and a gate of 0.
Tensor gates_and_ups() {
  return floats({kRows, 2 * kColumns}, {-9.0f,  -2.5f, -0.5f,  0.0f,  0.75f, -1.5f,  2.0f,  -0.25f,
                                        1.25f,  3.5f,  8.0f,   12.0f, 8.5f,  -8.25f, 11.5f, -13.0f,
                                        -0.75f, 0.5f,  -12.0f, 2.75f, 1.75f, 0.625f, 3.0f,  -4.0f});
}

Tensor gradients_of_y() {
  return floats({kRows, kColumns}, {1, -2, 0.5f, 3, -1.5f, 0.25f, 4, -0.75f, 2, 1.25f, -3, 0.5f});
}

Call forward() {
  Call call{"swiglu", {}, {}};
  call.set.set("rounding", "none");
  call.replace("x", gates_and_ups());
  return call;
}

Call weighted() {
  Call call = forward();
  call.replace("probs", floats({kRows}, {0.5f, 2, 0.25f}));
  return call;
}

Call backward() {
  Call call = forward();
  call.op = "swiglu_backward";
  call.replace("dy", gradients_of_y());
  return call;
}

/// The element of x that is the gate of the element i of y; its up lies kColumns behind.
Index gate_at(Index i) { return i / kColumns * 2 * kColumns + i % kColumns; }

double sigma(double a) { return 1.0 / (1.0 + std::exp(-a)); }
double silu(double a) { return a * sigma(a); }
double bf16(double v) { return static_cast<double>(decode(encode<kBF16>(static_cast<float>(v)))); }

using Of = double (*)(double a, double b);

struct Gate {
  const char* name;
  Of of;
  double off = 1e-6;  ///< of a value, of an arithmetic that is only near
};

constexpr Gate kGates[] = {
    {"gate_only", [](double a, double) { return silu(a); }},
    {"glu", [](double a, double b) { return sigma(a) * b; }},
    {"relu", [](double a, double b) { return a > 0 ? a * b : 0; }},
    {"bilinear", [](double a, double b) { return a * b; }},
    {"up_plus_1", [](double a, double b) { return silu(a) * (b + 1); }},
    {"alpha", [](double a, double b) { return a * sigma(1.702 * a) * b; }},
    {"alpha_up_plus_1", [](double a, double b) { return a * sigma(1.702 * a) * (b + 1); }},
    {"clamped_7",
     [](double a, double b) {
       return silu(a > 7 ? 7 : a) * (b > 7 ? 7 : b < -7 ? -7 : b);
     }},
    {"clamped_10",
     [](double a, double b) {
       return silu(a > 10 ? 10 : a) * (b > 10 ? 10 : b < -10 ? -10 : b);
     }},
    {"silu_of_product", [](double a, double b) { return silu(a * b); }},
    {"both", [](double a, double b) { return silu(a) * silu(b); }},
    {"triton_sm90", [](double a, double b) { return silu(a) * b; }},
    {"triton_sm90_quotient", [](double a, double b) { return silu(a) * b; }},
    {"added", [](double a, double b) { return silu(a) + b; }},
    {"sigma_bf16", [](double a, double b) { return a * bf16(sigma(a)) * b; }},
    {"sigma_silu_bf16", [](double a, double b) { return bf16(a * bf16(sigma(a))) * b; }},
    {"up_first", [](double a, double b) { return a * b * sigma(a); }},
    {"sigma_tanh", [](double a, double b) { return silu(a) * b; }, 1e-3},
    {"sigma_tanh_approx", [](double a, double b) { return silu(a) * b; }, 1e-1},
    {"sigma_tanh_bf16",
     [](double a, double b) { return a * (0.5 * bf16(std::tanh(a / 2)) + 0.5) * b; }},
    {"sigma_hard",
     [](double a, double b) {
       return a * b * (a < -3 ? 0 : a > 3 ? 1 : a / 6 + 0.5);
     }},
};

void expect_near(double came, double expected, double off, const std::string& what) {
  EXPECT_NEAR(came, expected, off * std::max(1.0, std::abs(expected))) << what;
}

/// Every element of y, of gates at most `limit` and of ups between it and its negative.
void expect_gates(const CausesListed& causes, double limit = HUGE_VAL) {
  const float* x = causes.call.input("x").as<float>();
  const bool weighs = causes.call.has("probs");
  for (const Gate& gate : kGates) {
    const auto out = causes.come("activation=" + std::string(gate.name));
    ASSERT_TRUE(out) << gate.name;
    for (Index i = 0; i < kRows * kColumns; ++i) {
      const double a = std::min<double>(x[gate_at(i)], limit);
      const double b = std::clamp<double>(x[gate_at(i) + kColumns], -limit, limit);
      const double p = weighs ? causes.call.input("probs").as<float>()[i / kColumns] : 1.0;
      expect_near(out->at("y").as<float>()[i], gate.of(a, b) * p, gate.off,
                  gate.name + std::string(" of ") + std::to_string(i));
    }
  }
  EXPECT_EQ(causes.names("activation=").size(), std::size(kGates));
}

TEST(ActivationHypotheses, OfGatesGiveTheirFormulas) {
  expect_gates({forward(), add_activation_hypotheses});
}

TEST(ActivationHypotheses, TakeTheLimitAndTheWeights) {
  Call call = weighted();
  expect_gates({call, add_activation_hypotheses});
  call.set.set("limit", "2");
  expect_gates({call, add_activation_hypotheses}, 2);
}

/// Another arithmetic is near everywhere: an output that is near is no rule that is off.
TEST(ActivationHypotheses, OfAnotherArithmeticAreOfTheOutput) {
  const CausesListed causes(forward(), add_activation_hypotheses);
  for (const Gate& gate : kGates) {
    const std::string name = gate.name;
    const bool near =
        name.starts_with("triton") || name.starts_with("sigma_") || name == "up_first";
    const Hypothesis* h = causes.find("activation=" + name);
    ASSERT_NE(h, nullptr) << name;
    EXPECT_EQ(h->stage, near ? Stage::output : Stage::rule) << name;
  }
}

TEST(ActivationHypotheses, OfWeightsBeforeTheGateGiveTheirFormulas) {
  const CausesListed causes(weighted(), add_activation_hypotheses);
  const float* x = causes.call.input("x").as<float>();
  const float* probs = causes.call.input("probs").as<float>();
  const auto gate = causes.come("weights=weighted_gate");
  const auto both = causes.come("weights=weighted_silu_up");
  ASSERT_TRUE(gate && both);
  for (Index i = 0; i < kRows * kColumns; ++i) {
    const double p = probs[i / kColumns];
    const double a = x[gate_at(i)] * p;
    const double b = x[gate_at(i) + kColumns];
    expect_near(gate->at("y").as<float>()[i], silu(a) * b, 1e-6, "gate");
    expect_near(both->at("y").as<float>()[i], silu(a) * b * p, 1e-6, "both");
  }
  const CausesListed without(forward(), add_activation_hypotheses);
  EXPECT_EQ(without.find("weights=weighted_gate"), nullptr);
}

/// A gate alone in a row of x, or an output that is not there, is nothing to think of.
TEST(ActivationHypotheses, OfGatesNeedBothHalves) {
  const CausesListed causes(forward(), add_activation_hypotheses);
  NamedTensors out;
  out.emplace("y", Tensor(Dtype::f32, {kRows, 2 * kColumns}));
  EXPECT_FALSE(causes.rewritten("activation=relu", std::move(out)));
  out = {};
  out.emplace("z", Tensor(Dtype::f32, {kRows, kColumns}));
  EXPECT_FALSE(causes.rewritten("activation=relu", std::move(out)));
  CausesListed empty(forward(), add_activation_hypotheses);
  empty.call.replace("x", Tensor(Dtype::f32, {kRows, 0}));
  out = {};
  out.emplace("y", Tensor(Dtype::f32, {kRows, 0}));
  EXPECT_FALSE(empty.rewritten("activation=relu", std::move(out)));
  empty.call.inputs.erase("x");
  out = {};
  out.emplace("y", Tensor(Dtype::f32, {kRows, kColumns}));
  EXPECT_FALSE(empty.rewritten("activation=relu", std::move(out)));
}

struct Derivative {
  const char* name;
  bool of_gate;
  double (*of)(double a, double b);  ///< what dy is multiplied with
};

double derivative(double a) { return sigma(a) * (1 + a * (1 - sigma(a))); }

constexpr Derivative kDerivatives[] = {
    {"sigma", true, [](double a, double b) { return b * sigma(a); }},
    {"sigma_prime", true, [](double a, double b) { return b * sigma(a) * (1 - sigma(a)); }},
    {"sigma_sign", true,
     [](double a, double b) { return b * sigma(a) * (1 + a * (1 + sigma(a))); }},
    {"sigma_minus", true,
     [](double a, double b) { return b * sigma(a) * (1 - a * (1 - sigma(a))); }},
    {"of_silu", true, [](double a, double b) { return b * derivative(silu(a)); }},
    {"relu", true, [](double a, double b) { return a > 0 ? b : 0; }},
    {"gate_without_up", true, [](double a, double) { return derivative(a); }},
    {"up_by_gate", false, [](double a, double) { return a; }},
    {"up_by_sigma", false, [](double a, double) { return sigma(a); }},
    {"up_by_relu", false, [](double a, double) { return a > 0 ? a : 0; }},
    {"up_alone", false, [](double, double) { return 1.0; }},
};

/// dx whose halves are of the gate and of up.
void expect_gradient(const NamedTensors& out, Of of_gate, Of of_up, const std::string& name) {
  const Tensor x = gates_and_ups();
  const Tensor dy = gradients_of_y();
  for (Index i = 0; i < kRows * kColumns; ++i) {
    const double a = x.as<float>()[gate_at(i)];
    const double b = x.as<float>()[gate_at(i) + kColumns];
    const double d = dy.as<float>()[i];
    const float* dx = out.at("dx").as<float>() + gate_at(i);
    expect_near(dx[0], d * of_gate(a, b), 1e-6, name);
    expect_near(dx[kColumns], d * of_up(a, b), 1e-6, name);
  }
}

/// The half of dx that is another derivative's; the other half is as it was.
TEST(ActivationHypotheses, OfDerivativesGiveTheirFormulas) {
  const CausesListed causes(backward(), add_activation_hypotheses);
  const Of of_gate = [](double a, double b) { return b * derivative(a); };
  const Of of_up = [](double a, double) { return silu(a); };
  for (const Derivative& d : kDerivatives) {
    const auto out = causes.come("derivative=" + std::string(d.name));
    ASSERT_TRUE(out) << d.name;
    expect_gradient(*out, d.of_gate ? d.of : of_gate, d.of_gate ? of_up : d.of, d.name);
  }
  EXPECT_EQ(causes.names("derivative=").size(), std::size(kDerivatives));
  const auto relu = causes.come("activation=relu");
  ASSERT_TRUE(relu);
  expect_gradient(
      *relu, [](double a, double b) { return a > 0 ? b : 0; },
      [](double a, double) { return a > 0 ? a : 0; }, "both halves of relu");
}

/// Of weights and limits nothing is known there, nor of other shapes.
TEST(ActivationHypotheses, OfDerivativesAreOfPlainGradients) {
  const auto applies = [](const Call& call, std::vector<Index> shape, const char* name = "dx") {
    NamedTensors out;
    out.emplace(name, Tensor(Dtype::f32, std::move(shape)));
    return CausesListed(call, add_activation_hypotheses)
        .rewritten("derivative=sigma", std::move(out))
        .has_value();
  };
  EXPECT_TRUE(applies(backward(), {kRows, 2 * kColumns}));
  EXPECT_FALSE(applies(backward(), {kRows, 2 * kColumns}, "y"));
  EXPECT_FALSE(applies(backward(), {kRows, kColumns})) << "gates alone";
  Call call = backward();
  call.replace("probs", floats({kRows}, {1, 1, 1}));
  EXPECT_FALSE(applies(call, {kRows, 2 * kColumns}));
  call = backward();
  call.set.set("limit", "2");
  EXPECT_FALSE(applies(call, {kRows, 2 * kColumns}));
  call = backward();
  call.replace("dy", Tensor(Dtype::f32, {kRows, 0}));
  EXPECT_FALSE(applies(call, {kRows, 0}));
  call.replace("dy", floats({}, {1}));
  EXPECT_FALSE(applies(call, {2})) << "no row";
}

TEST(ActivationHypotheses, OfRowsShiftThemByOne) {
  const CausesListed causes(backward(), add_activation_hypotheses);
  EXPECT_EQ(causes.phrases("rows="),
            (std::vector<std::string>{"rows of dy are read one late, the first as it is",
                                      "rows of dy are read one early, the last as it is",
                                      "rows of x are read one late, the first as it is",
                                      "rows of x are read one early, the last as it is"}));
  for (const char* name : {"dy", "x"}) {
    const Tensor given = causes.call.input(name);
    const Index columns = given.extent(1);
    for (const bool late : {true, false}) {
      const auto other = causes.altered(
          "rows=shifted", name + std::string(late ? " are read one late" : " are read one early"));
      ASSERT_TRUE(other);
      EXPECT_EQ(other->input(name).shape(), given.shape());
      const std::vector<Index> from =
          late ? std::vector<Index>{0, 0, 1} : std::vector<Index>{1, 2, 2};
      for (Index i = 0; i < given.elements(); ++i) {
        const Index at = from[static_cast<std::size_t>(i / columns)] * columns + i % columns;
        EXPECT_EQ(other->input(name).as<float>()[i], given.as<float>()[at]) << name << i;
      }
    }
  }
}

TEST(ActivationHypotheses, OfRowsNeedTwoOfThem) {
  Call call = backward();
  const auto applies = [&](std::vector<Index> shape) {
    call.replace("dy", Tensor(Dtype::f32, std::move(shape)));
    return CausesListed(call, add_activation_hypotheses).altered("rows=shifted").has_value();
  };
  EXPECT_TRUE(applies({2, 4}));
  EXPECT_FALSE(applies({1, 4}));
  EXPECT_FALSE(applies({4}));
  EXPECT_FALSE(applies({2, 2, 4}));
}

TEST(ActivationHypotheses, OfWeightsTakeThoseOfTheRowBeside) {
  const CausesListed causes(weighted(), add_activation_hypotheses);
  EXPECT_EQ(causes.phrases("weights=other_row"),
            (std::vector<std::string>{"rows take the router weight of the row before",
                                      "rows take the router weight of the row after"}));
  const auto weights = [&](const char* words) {
    const Call other = causes.altered("weights=other_row", words).value();
    const float* p = other.input("probs").as<float>();
    return std::vector<float>(p, p + kRows);
  };
  EXPECT_EQ(weights("before"), (std::vector<float>{0.5f, 0.5f, 2}));
  EXPECT_EQ(weights("after"), (std::vector<float>{2, 0.25f, 0.25f}));
  EXPECT_FALSE(CausesListed(forward(), add_activation_hypotheses).altered("weights=other_row"));
  Call bytes = weighted();
  bytes.replace("probs", Tensor(Dtype::u32, {kRows}));
  EXPECT_FALSE(CausesListed(bytes, add_activation_hypotheses).altered("weights=other_row"));
}

/// A gate that is quantised in one pass has rows and weights, and no y of its own.
TEST(ActivationHypotheses, AreOfCallsThatHaveAGate) {
  const auto begins = [](Call call, std::string op) {
    call.op = std::move(op);
    const CausesListed causes(std::move(call), add_activation_hypotheses);
    std::string seen;
    for (const char* begin : {"rows=", "derivative=", "weights=", "activation="}) {
      if (!causes.names(begin).empty()) seen += begin;
    }
    return seen;
  };
  EXPECT_EQ(begins(forward(), "swiglu"), "weights=activation=");
  EXPECT_EQ(begins(backward(), "swiglu_backward"), "rows=derivative=weights=activation=");
  EXPECT_EQ(begins(backward(), "swiglu_quantize"), "rows=weights=");
  EXPECT_EQ(begins(backward(), "cast"), "weights=");
  Call call = backward();
  call.inputs.erase("x");
  EXPECT_EQ(begins(call, "swiglu_backward"), "weights=");
  EXPECT_EQ(begins(forward(), "swiglu_backward"), "weights=");
}

}  // namespace
}  // namespace mxo
