// Gradients of the MoE layer and of its router against finite differences of the same equations
// in f64, where nothing is rounded and the choice of experts stays what it was.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "ops/router_gradients.h"
#include "tests/support/moe_cases.h"

namespace mxo::test::moe_layer_gradients_test {
namespace {

using Reals = std::vector<double>;

Reals reals(const Tensor& t) {
  Reals values(static_cast<std::size_t>(t.elements()));
  for (Index i = 0; i < t.elements(); ++i) values[static_cast<std::size_t>(i)] = get(t, i);
  return values;
}

double dot(const double* a, const double* b, Index n) {
  return std::inner_product(a, a + n, b, 0.0);
}

/// down (silu(gate x) * (up x) * weight), both with their biases, or none; the second's times
/// `bias_weight`
Reals expert(const Reals& w1, const Reals& w2, const Reals& bias1, const Reals& bias2, Index e,
             Index width, Index hidden, const double* x, double weight, double bias_weight) {
  const double* up = &w1[static_cast<std::size_t>(e * 2 * hidden * width)];
  Reals act(static_cast<std::size_t>(hidden));
  for (Index f = 0; f < hidden; ++f) {
    double a = dot(up + f * width, x, width);
    double b = dot(up + (hidden + f) * width, x, width);
    if (!bias1.empty()) {
      a += bias1[static_cast<std::size_t>(e * 2 * hidden + f)];
      b += bias1[static_cast<std::size_t>(e * 2 * hidden + hidden + f)];
    }
    act[static_cast<std::size_t>(f)] = a / (1 + std::exp(-a)) * b * weight;
  }
  Reals y(static_cast<std::size_t>(width));
  for (Index d = 0; d < width; ++d)
    y[static_cast<std::size_t>(d)] =
        dot(&w2[static_cast<std::size_t>((e * width + d) * hidden)], act.data(), hidden) +
        (bias2.empty() ? 0.0 : bias_weight * bias2[static_cast<std::size_t>(e * width + d)]);
  return y;
}

struct Problem {
  MoeShape shape;
  Index top_k = 2;
  bool at_experts = false;  ///< the weights multiply the activations, not the outputs
  bool at_input = false;    ///< nor these, but x
  bool plain_bias = false;  ///< the second bias is not weighted with the activations
  double scale = 1.5;
  std::map<std::string, Reals, std::less<>> values;
  Reals dy;
  std::vector<std::vector<Index>> chosen;

  Reals scores(Index t) const {
    const Reals& router = values.at("router");
    const Index width = shape.width;
    Reals s(static_cast<std::size_t>(shape.experts));
    for (std::size_t e = 0; e < s.size(); ++e) {
      s[e] = dot(&router[e * static_cast<std::size_t>(width)],
                 &values.at("rank0.x")[static_cast<std::size_t>(t * width)], width);
      if (values.contains("logits.bias")) s[e] += values.at("logits.bias")[e];
    }
    double sum = 0;
    for (double& v : s) sum += v = std::exp(v);
    for (double& v : s) v /= sum;
    return s;
  }

  void choose() {
    for (Index t = 0; t < shape.tokens[0]; ++t) {
      const Reals s = scores(t);
      std::vector<Index> order(s.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
        return s[static_cast<std::size_t>(a)] > s[static_cast<std::size_t>(b)];
      });
      order.resize(static_cast<std::size_t>(top_k));
      chosen.push_back(order);
    }
  }

  Reals of(const char* name) const {
    const auto at = values.find(name);
    return at == values.end() ? Reals() : at->second;
  }

  /// sum over t, d of dy * y
  double loss() const {
    double total = 0;
    const Index width = shape.width;
    for (Index t = 0; t < shape.tokens[0]; ++t) {
      const Reals s = scores(t);
      const double* x = &values.at("rank0.x")[static_cast<std::size_t>(t * width)];
      const double* g = &dy[static_cast<std::size_t>(t * width)];
      const auto& experts = chosen[static_cast<std::size_t>(t)];
      double sum = 0;
      for (const Index e : experts) sum += s[static_cast<std::size_t>(e)];
      for (const Index e : experts) {
        const double weight = s[static_cast<std::size_t>(e)] / sum * scale;
        Reals u(x, x + width);
        for (double& v : u) v *= at_input ? weight : 1.0;
        const Reals y = expert(values.at("w1"), values.at("w2"), of("w1.bias"), of("w2.bias"), e,
                               width, shape.hidden, u.data(), at_experts ? weight : 1.0,
                               at_experts && !plain_bias ? weight : 1.0);
        total += dot(g, y.data(), width) * (at_experts || at_input ? 1.0 : weight);
      }
      if (shape.shared > 0) {
        const Reals y = expert(values.at("shared.w1"), values.at("shared.w2"), {}, {}, 0, width,
                               shape.shared, x, 1.0, 1.0);
        total += dot(g, y.data(), width);
      }
    }
    return total;
  }

  double slope(const std::string& name, std::size_t i) {
    double& value = values.at(name)[i];
    const double kept = value;
    const double step = 1e-5;
    value = kept + step;
    const double above = loss();
    value = kept - step;
    const double below = loss();
    value = kept;
    return (above - below) / (2 * step);
  }
};

Problem problem_of(const NamedTensors& in, const MoeShape& shape, bool at_experts) {
  Problem p;
  p.shape = shape;
  p.at_experts = at_experts;
  for (const auto& [name, tensor] : in) p.values[name] = reals(tensor);
  p.dy = p.values.at("rank0.dy");
  p.choose();
  return p;
}

struct Variant {
  const char* scores;
  Index shared;
  bool biases = false;
  const char* second_bias = "weighted";
};

class MoeGradients : public testing::TestWithParam<Variant> {};

INSTANTIATE_TEST_SUITE_P(Variants, MoeGradients,
                         testing::Values(Variant{"combine", 32}, Variant{"swiglu", 32},
                                         Variant{"input", 32}, Variant{"input_bf16", 0},
                                         Variant{"combine", 0, true}, Variant{"swiglu", 0, true},
                                         Variant{"swiglu", 0, true, "plain"}));

/// The layer keeps bf16 between steps (2^-9 each), so its gradients hold about 40 dB; a wrong
/// factor or a lost term leaves less than 20.
TEST_P(MoeGradients, AreTheSlopesOfTheLayerInF64) {
  MoeShape shape;
  shape.experts = 4;
  shape.width = 32;
  shape.hidden = 32;
  shape.shared = GetParam().shared;
  shape.biases = GetParam().biases;
  shape.tokens = {7};
  NamedTensors in = moe_inputs(shape, 21);
  for (const char* name : {"w1", "w2", "router"}) {  // so that sums over D are of the order of 1
    Tensor& w = in.at(name);
    for (Index i = 0; i < w.elements(); ++i) put(w, i, get(w, i) * 0.25f);
  }
  Parameters set;
  for (const auto& [key, value] : {std::pair{"top_k", "2"},
                                   {"pipeline", "bf16"},
                                   {"scale", "1.5"},
                                   {"scores", GetParam().scores},
                                   {"second_bias", GetParam().second_bias}}) {
    set.set(key, value);
  }
  const auto cpu = make_backend("cpu", 2);
  const NamedTensors out = run_moe(*cpu, in, set);
  Problem problem = problem_of(in, shape, GetParam().scores == std::string("swiglu"));
  problem.plain_bias = GetParam().second_bias == std::string_view("plain");
  problem.at_input = std::string_view(GetParam().scores).starts_with("input");

  for (const auto& [gradient, operand] : {std::pair{"rank0.dx", "rank0.x"},
                                          {"drouter", "router"},
                                          {"logits.dbias", "logits.bias"},
                                          {"w1.dbias", "w1.bias"},
                                          {"w2.dbias", "w2.bias"},
                                          {"dw1", "w1"},
                                          {"dw2", "w2"},
                                          {"shared.dw1", "shared.w1"},
                                          {"shared.dw2", "shared.w2"}}) {
    if (!in.contains(operand)) continue;
    const Reals given = reals(out.at(gradient));
    double signal = 0;
    double noise = 0;
    const std::size_t stride = given.size() > 600 ? 37 : 1;  // prime to the extents
    for (std::size_t i = 0; i < given.size(); i += stride) {
      const double expected_output = problem.slope(operand, i);
      signal += expected_output * expected_output;
      noise += (given[i] - expected_output) * (given[i] - expected_output);
    }
    EXPECT_GT(10 * std::log10(signal / noise), 36.0) << gradient;
  }
}

class RouterBackends : public testing::TestWithParam<const char*> {};

TEST_P(RouterBackends, GiveTheSlopeOfTheWeightsInF64) {
  constexpr Index tokens = 9;
  constexpr Index experts = 6;
  constexpr Index k = 3;
  const auto backend = make_backend(GetParam(), 2);
  const Tensor logits = random_floats(Dtype::f32, {tokens, experts}, 4, 1);
  const Tensor dweights = random_floats(Dtype::f32, {tokens, k}, 5, 0);
  for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid,
                                  RouterScore::softmax_of_chosen, RouterScore::sqrtsoftplus}) {
    for (const bool normalize : {true, false}) {
      Tensor chosen(Dtype::i32, {tokens, k});
      Tensor weights(Dtype::f32, {tokens, k});
      Tensor counts(Dtype::i32, {experts});
      const Result into[] = {chosen.result(), weights.result(), counts.result()};
      route(*backend,
            {logits.operand(), {}, into[0], into[1], into[2], score, 1, 1, normalize, 2.0f});
      Tensor dlogits(Dtype::f32, {tokens, experts});
      route_backward(*backend, {logits.operand(), chosen.operand(), dweights.operand(),
                                dlogits.result(), score, normalize, 2.0f});
      Reals z = reals(logits);
      const auto loss = [&](Index t) {
        Reals s(z.begin() + t * experts, z.begin() + (t + 1) * experts);
        double sum = 0;
        for (double& v : s) sum += v = std::exp(v);
        for (double& v : s)
          v = score == RouterScore::sigmoid        ? v / (1 + v)
              : score == RouterScore::sqrtsoftplus ? std::sqrt(std::log1p(v))
                                                   : v / sum;
        double total = 0;
        double norm = 0;
        for (Index j = 0; j < k; ++j) {
          const double w = s[static_cast<std::size_t>(chosen.as<std::int32_t>()[t * k + j])];
          total += w * 2.0 * dweights.as<float>()[t * k + j];
          norm += w;
        }
        return normalize || score == RouterScore::softmax_of_chosen ? total / norm : total;
      };
      for (Index t = 0; t < tokens; ++t) {
        for (Index e = 0; e < experts; ++e) {
          double& value = z[static_cast<std::size_t>(t * experts + e)];
          const double kept = value;
          value = kept + 1e-5;
          const double above = loss(t);
          value = kept - 1e-5;
          const double below = loss(t);
          value = kept;
          EXPECT_NEAR(dlogits.as<float>()[t * experts + e], (above - below) / 2e-5, 2e-6)
              << t << " " << e;
        }
      }
    }
  }
}

TEST_P(RouterBackends, SumGradientsInOrder) {
  constexpr Index tokens = 33;
  constexpr Index experts = 5;
  constexpr Index width = 19;
  const auto backend = make_backend(GetParam(), 2);
  const Tensor dlogits = random_floats(Dtype::f32, {tokens, experts}, 6, 3);
  for (const Dtype dtype : {Dtype::bf16, Dtype::f32}) {
    const Tensor router = random_floats(dtype, {experts, width}, 7, 3);
    const Tensor x = random_floats(dtype, {tokens, width}, 8, 3);
    Tensor dx(Dtype::f32, {tokens, width});
    Tensor drouter(Dtype::f32, {experts, width});
    router_gradients(*backend, {dlogits.operand(), router.operand(), x.operand(), dx.result(),
                                drouter.result()});
    for (Index d = 0; d < width; ++d) {
      for (Index t = 0; t < tokens; ++t) {
        float sum = 0;
        for (Index e = 0; e < experts; ++e)
          sum += get(dlogits, t * experts + e) * get(router, e * width + d);
        EXPECT_EQ(dx.as<float>()[t * width + d], sum);
      }
      for (Index e = 0; e < experts; ++e) {
        float sum = 0;
        for (Index t = 0; t < tokens; ++t)
          sum += get(dlogits, t * experts + e) * get(x, t * width + d);
        EXPECT_EQ(drouter.as<float>()[e * width + d], sum);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, RouterBackends, testing::Values("reference", "cpu"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace mxo::test::moe_layer_gradients_test
