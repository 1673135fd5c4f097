// Gradients of the whole model, for each of its options, against differences of a plain f64 twin.
#include <gtest/gtest.h>

#include <numeric>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "tools/train/model.h"

namespace mxo::tools {
namespace {

using List = std::vector<double>;

/// The model by loops, in f64, without any rounding.
struct Twin {
  const TrainOptions& o;
  std::map<std::string, List> values;

  static List product(const List& x, const double* w, Index n, Index k) {
    List y(x.size() / static_cast<std::size_t>(k) * static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double* row = x.data() + static_cast<Index>(i) / n * k;
      y[i] = std::inner_product(row, row + k, w + static_cast<Index>(i) % n * k, 0.0);
    }
    return y;
  }
  List product(const List& x, const std::string& w, Index k) const {
    const List& weight = values.at(w);
    return product(x, weight.data(), static_cast<Index>(weight.size()) / k, k);
  }
  List norm(const List& x, const std::string& gain) const {
    List y = x;
    const auto d = static_cast<std::size_t>(o.width);
    for (std::size_t t = 0; t < x.size(); t += d) {
      double squares = 0.0;
      for (std::size_t i = 0; i < d; ++i) squares += x[t + i] * x[t + i];
      const double r = 1.0 / std::sqrt(squares / static_cast<double>(d) + kRmsEpsilon);
      for (std::size_t i = 0; i < d; ++i) y[t + i] = x[t + i] * r * values.at(gain)[i];
    }
    return y;
  }
  List attention(const List& x, const std::string& name) const {
    List rows = product(x, name + ".qkv", o.width);
    const Index d = o.width / o.heads;
    const auto at = [&](Index t, Index which, Index h) {
      return rows.data() + t * 3 * o.width + which * o.width + h * d;
    };
    List mixed(x.size());
    for (Index h = 0; h < o.heads; ++h) {
      for (Index t = 0; t < o.context; ++t) {
        for (Index i = 0; i < d / 2; ++i) {
          const double angle =
              static_cast<double>(t) *
              std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(d));
          for (const Index which : {0, 1}) {
            double* q = at(t, which, h);
            const double a = q[i], b = q[i + d / 2];
            q[i] = a * std::cos(angle) - b * std::sin(angle);
            q[i + d / 2] = b * std::cos(angle) + a * std::sin(angle);
          }
        }
        List p;
        for (Index u = 0; u <= t; ++u)
          p.push_back(std::exp(std::inner_product(at(t, 0, h), at(t, 0, h) + d, at(u, 1, h), 0.0) /
                               std::sqrt(static_cast<double>(d))));
        const double sum = std::accumulate(p.begin(), p.end(), 0.0);
        for (Index u = 0; u <= t; ++u) {
          for (Index i = 0; i < d; ++i)
            mixed[static_cast<std::size_t>(t * o.width + h * d + i)] +=
                p[static_cast<std::size_t>(u)] / sum * at(u, 2, h)[i];
        }
      }
    }
    return product(mixed, name + ".out", o.width);
  }
  List gated(const List& x, const double* w1, const double* w2, Index f) const {
    const List h = product(x, w1, 2 * f, o.width);
    List act(static_cast<std::size_t>(f));
    for (std::size_t i = 0; i < act.size(); ++i)
      act[i] = h[i] / (1.0 + std::exp(-h[i])) * h[i + act.size()];
    return product(act, w2, o.width, f);
  }
  /// Expert and weight of every slot.
  std::vector<std::pair<Index, double>> route(const List& logits, const List* bias) const {
    const auto experts = static_cast<std::size_t>(o.experts);
    List s(experts), choice(experts);
    double sum = 0.0;
    for (const double z : logits) sum += std::exp(z);
    for (std::size_t e = 0; e < experts; ++e) {
      const double z = logits[e];
      s[e] = o.score == "softmax"        ? std::exp(z) / sum
             : o.score == "sigmoid"      ? 1.0 / (1.0 + std::exp(-z))
             : o.score == "sqrtsoftplus" ? std::sqrt(std::log1p(std::exp(z)))
                                         : z;
      choice[e] = s[e] + (bias != nullptr ? (*bias)[e] : 0.0);
    }
    const auto run = static_cast<std::size_t>(o.experts / o.groups);
    std::vector<std::pair<double, std::size_t>> runs;
    for (std::size_t g = 0; g < experts; g += run) {
      List of_run(choice.begin() + static_cast<Index>(g),
                  choice.begin() + static_cast<Index>(g + run));
      std::sort(of_run.rbegin(), of_run.rend());
      const bool best = o.group_score == "best" || run == 1;
      runs.emplace_back(best ? -of_run[0] : -of_run[0] - of_run[1], g);
    }
    std::sort(runs.begin(), runs.end());
    const auto kept = static_cast<std::size_t>(o.limited_groups > 0 ? o.limited_groups : o.groups);
    for (std::size_t i = kept; i < runs.size(); ++i) {
      for (std::size_t e = runs[i].second; e < runs[i].second + run; ++e)
        choice[e] = o.other_groups == "zero" ? 0.0 : -INFINITY;
    }
    std::vector<std::pair<Index, double>> slots;
    double total = 0.0;
    for (Index k = 0; k < o.top_k; ++k) {
      const auto e =
          static_cast<std::size_t>(std::max_element(choice.begin(), choice.end()) - choice.begin());
      choice[e] = -INFINITY;
      slots.emplace_back(e, o.score == "softmax_of_chosen" ? std::exp(s[e]) : s[e]);
      total += slots.back().second;
    }
    const bool normalize = o.normalize || o.score == "softmax_of_chosen";
    for (auto& [e, weight] : slots) weight *= o.scale / (normalize ? total : 1.0);
    return slots;
  }
  List experts(const List& x, const std::string& name) const {
    List y;
    const Index f = o.expert_width;
    const auto d = static_cast<std::size_t>(o.width);
    for (std::size_t t = 0; t < x.size(); t += d) {
      const List row(x.begin() + static_cast<Index>(t), x.begin() + static_cast<Index>(t + d));
      List sum(d);
      const auto add = [&](const List& part, double weight) {
        for (std::size_t i = 0; i < d; ++i) sum[i] += weight * part[i];
      };
      const auto bias = values.find(name + ".bias");
      const List logits = product(row, name + ".router", o.width);
      for (const auto& [e, weight] :
           route(logits, bias == values.end() ? nullptr : &bias->second)) {
        add(gated(row, values.at(name + ".w1").data() + e * 2 * f * o.width,
                  values.at(name + ".w2").data() + e * f * o.width, f),
            weight);
      }
      if (o.shared_experts > 0)
        add(gated(row, values.at(name + ".shared_w1").data(), values.at(name + ".shared_w2").data(),
                  o.shared_experts * f),
            1.0);
      y.insert(y.end(), sum.begin(), sum.end());
    }
    return y;
  }
  double loss(const Window& window) const {
    List x;
    for (const std::uint8_t byte : window.input) {
      const double* row = values.at("tokens").data() + byte * o.width;
      x.insert(x.end(), row, row + o.width);
    }
    const auto add = [&x](const List& y) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    };
    for (Index i = 0; i < o.layers; ++i) {
      const std::string layer = "layer" + std::to_string(i);
      add(attention(norm(x, layer + ".attention.gain"), layer + ".attention"));
      add(experts(norm(x, layer + ".moe.gain"), layer + ".moe"));
    }
    const List z = product(norm(x, "final.gain"), "head", o.width);
    double total = 0.0;
    for (std::size_t t = 0; t < window.next.size(); ++t) {
      double sum = 0.0;
      for (std::size_t b = 0; b < 256; ++b) sum += std::exp(z[t * 256 + b]);
      total += std::log(sum) - z[t * 256 + window.next[t]];
    }
    return total;
  }
};

struct Case {
  const char* name;
  const char* recipe;
  double bound;  ///< of |found - twin| / |twin|, of each parameter
  std::function<void(TrainOptions&)> change;
};

constexpr double kBf16 = 0.015;
constexpr double kFp8 = 0.12;

const Case kCases[] = {
    {"f32 and bf16", "bf16", kBf16, [](TrainOptions&) {}},
    {"two layers", "bf16", kBf16, [](TrainOptions& o) { o.layers = 2, o.seed = 5; }},
    {"sigmoid", "bf16", kBf16, [](TrainOptions& o) { o.score = "sigmoid"; }},
    {"softmax_of_chosen", "bf16", kBf16, [](TrainOptions& o) { o.score = "softmax_of_chosen"; }},
    {"sqrtsoftplus", "bf16", kBf16, [](TrainOptions& o) { o.score = "sqrtsoftplus"; }},
    {"not normalised", "bf16", kBf16, [](TrainOptions& o) { o.normalize = false; }},
    {"groups by best", "bf16", kBf16,
     [](TrainOptions& o) {
       o.groups = 2, o.limited_groups = 1, o.group_score = "best", o.other_groups = "zero";
     }},
    {"shared experts", "bf16", kBf16, [](TrainOptions& o) { o.shared_experts = 2; }},
    {"DeepSeek-V3", "bf16", kBf16,
     [](TrainOptions& o) {
       o.score = "sigmoid", o.groups = 2, o.limited_groups = 1, o.shared_experts = 1;
       o.scale = 2.5, o.bias_rate = 0.05;
     }},
    {"sum fma_chain", "bf16", kBf16, [](TrainOptions& o) { o.sum = "fma_chain"; }},
    {"linears bf16", "bf16", kBf16, [](TrainOptions& o) { o.linears = "bf16"; }},
    {"linears mxfp8", "bf16", kFp8, [](TrainOptions& o) { o.linears = "mxfp8_rceil"; }},
    {"linears of a machine", "bf16", kFp8,
     [](TrainOptions& o) { o.linears = "fp8_rowwise", o.sum = "h200_wgmma_fast"; }},
    {"mxfp8", "mxfp8_rceil", kFp8, [](TrainOptions&) {}},
    {"mxfp8 in e5m2", "mxfp8_rceil", 0.25, [](TrainOptions& o) { o.format = "e5m2"; }},
    {"flow", "flow", kFp8, [](TrainOptions&) {}},
};

/// Values that bf16 holds, in both models, for the twin.
List drawn(Parameter& p, Parameter& also) {
  List list;
  for (Index i = 0; i < p.elements(); ++i) {
    float& value = p.value.as<float>()[i];
    if (!p.trained) value = i % 2 == 0 ? 0.3f : -0.2f;
    value = decode(encode<kBF16>(value));
    also.value.as<float>()[i] = value;
    list.push_back(static_cast<double>(value));
  }
  return list;
}

/// |found - twin| / |twin| over some gradients of a parameter; 0 where all are 0.
double apart(Twin& twin, const std::string& name, const float* found, const Window& window,
             std::span<const std::size_t> places) {
  constexpr double kStep = 1e-5;
  List& list = twin.values[name];
  double apart = 0.0, size = 0.0;
  for (const std::size_t place : places) {
    double& value = list[place];
    const double kept = value;
    value = kept + kStep;
    const double above = twin.loss(window);
    value = kept - kStep;
    const double slope = (above - twin.loss(window)) / (2 * kStep);
    value = kept;
    apart += std::pow(static_cast<double>(found[place]) - slope, 2);
    size += slope * slope;
  }
  return apart > 0.0 ? std::sqrt(apart / size) : 0.0;
}

/// The largest gradients within the bound, and the last, which are small, there at all.
void expect_gradients(Twin& twin, const Parameter& p, const Window& window, const Case& c) {
  const float* found = p.gradient.as<float>();
  std::vector<std::size_t> places(static_cast<std::size_t>(p.elements()));
  std::iota(places.begin(), places.end(), 0u);
  const std::span last(places.end() - 12, places.end());
  EXPECT_LT(apart(twin, p.name, found, window, last), 0.7) << c.name << ": last of " << p.name;
  std::partial_sort(places.begin(), places.begin() + 12, places.end(),
                    [&](auto a, auto b) { return std::abs(found[a]) > std::abs(found[b]); });
  EXPECT_LT(apart(twin, p.name, found, window, std::span(places).first(12)), c.bound)
      << c.name << ": " << p.name;
}

TEST(Gradients, AreThoseOfAPlainTwinForEveryOption) {
  const std::string words = "one fish, two fish, red fish, blue";
  const std::span text(reinterpret_cast<const std::uint8_t*>(words.data()), words.size());
  for (const Case& c : kCases) {
    TrainOptions o{.seed = 3,
                   .tokens = 32,
                   .context = 32,
                   .layers = 1,
                   .width = 32,
                   .heads = 2,
                   .experts = 4,
                   .expert_width = 32,
                   .top_k = 2};
    c.change(o);
    check(o, 1);
    const TrainRecipe recipe = train_recipe_named(c.recipe, o.format);
    const auto backend = make_backend("cpu", 1);
    make_in_process_world()->run(1, [&](Communicator& communicator) {
      Model model({o, recipe, *backend, communicator, 1});
      Model again({o, recipe, *backend, communicator, 1, true});
      Twin twin{o, {}};
      for (std::size_t i = 0; i < model.parameters().all().size(); ++i)
        twin.values[model.parameters().all()[i].name] =
            drawn(model.parameters().all()[i], again.parameters().all()[i]);
      const Window window{text.subspan(0, 32), text.subspan(1, 32)};
      const double loss = model.forward({window}, nullptr);
      EXPECT_NEAR(loss / twin.loss(window), 1.0, c.bound) << c.name;
      EXPECT_EQ(loss, again.forward({window}, nullptr)) << c.name;
      model.backward(1.0f, nullptr);
      again.backward(1.0f, nullptr);
      for (const Parameter& p : model.parameters().all()) {
        if (!p.trained) continue;
        const float* found = p.gradient.as<float>();
        EXPECT_TRUE(std::equal(found, found + p.elements(),
                               again.parameters()[p.name].gradient.as<float>()))
            << c.name << ": " << p.name << ", recomputed";
        expect_gradients(twin, p, window, c);
      }
    });
  }
}

}  // namespace
}  // namespace mxo::tools
