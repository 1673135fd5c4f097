// Gates and routers against the stacks' own Python, run on a CPU.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/captures.h"
#include "tests/support/contestants.h"
#include "tests/support/products.h"
#include "tests/support/random_tensors.h"

namespace mxo::test::stack_gates_test {
namespace {

const TensorFile& recorded() { return capture("stack_gates"); }
const Tensor& expected_output(const std::string& name) { return tensor_of(recorded(), name); }

/// A gate of a stack, how it is spelt here in bf16 and in f32, and how many results torch's own
/// functions, which are not correctly rounded, make others than the same code with right ones.
struct GateRow {
  const char* name;
  std::vector<std::string> set;
  const char* bf16_steps;
  int bf16_differ;
  int f32_differ;
};

const std::vector<GateRow>& gate_rows() {
  static const std::vector<GateRow> rows = {
      {"sglang.silu", {}, "activation", 1, 1063},
      {"transformers.silu", {}, "activation", 1, 1063},
      {"sglang.gelu", {"activation=gelu"}, "activation", 2, 1805},
      {"sglang.gelu_tanh", {"activation=gelu_tanh"}, "activation", 6, 12},
      {"sglang.relu2", {"activation=relu_squared", "halves=gate_only"}, "every", 0, 0},
      {"transformers.relu2", {"activation=relu_squared", "halves=gate_only"}, "every", 0, 0},
      {"transformers.gpt_oss",
       {"alpha=1.702", "limit=7", "up_offset=1", "halves=interleaved"},
       "every",
       1,
       704},
  };
  return rows;
}

class StackGates : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> backend_ = make_backend(GetParam(), 2);
};
INSTANTIATE_TEST_SUITE_P(Backends, StackGates, testing::ValuesIn(every_backend()),
                         [](const auto& row) {
                           std::string name = row.param;
                           for (char& c : name) c = c == ':' ? '_' : c;
                           return name;
                         });

TEST_P(StackGates, AreTheStacksOwnUpToTheirExp) {
  for (const GateRow& row : gate_rows()) {
    for (const bool narrow : {true, false}) {
      const std::string type = narrow ? "bf16" : "f32";
      std::vector<std::string> set = row.set;
      if (narrow) {
        set.push_back("rounding=bf16");
        set.push_back(std::string("bf16_steps=") + row.bf16_steps);
      }
      const NamedTensors out =
          call_operator(*backend_, "swiglu", {{"x", expected_output("x." + type)}}, settings(set));
      const std::string key = std::string("gate.") + row.name + "." + type;
      EXPECT_EQ(departures(expected_output("exact." + key), out.at("y")), 0) << key;
      EXPECT_EQ(departures(expected_output(key), out.at("y")),
                narrow ? row.bf16_differ : row.f32_differ)
          << key;
    }
  }
}

struct RouterRow {
  const char* name;
  const char* logits;
  bool bias;
  std::vector<std::string> set;
};

const std::vector<RouterRow>& router_rows() {
  static const std::vector<std::string> v3 = {"score=sigmoid", "groups=8", "limited_groups=4",
                                              "scale=2.5"};
  static const auto with = [](std::vector<std::string> set,
                              std::initializer_list<const char*> more) {
    set.insert(set.end(), more.begin(), more.end());
    return set;
  };
  static const std::vector<std::string> best = {"groups=8", "limited_groups=4", "scale=2.5",
                                                "group_score=best"};
  static const std::vector<RouterRow> rows = {
      {"transformers.deepseek_v3", "logits", true, v3},
      {"transformers4.deepseek_v3", "logits", true, with(v3, {"other_groups=zero"})},
      {"vllm.two_best", "logits", true, v3},
      {"sglang.two_best", "logits", true, v3},
      {"transformers.deepseek_v2", "logits", false,
       with(best, {"other_groups=zero", "normalize=false"})},
      {"vllm.best", "logits", false, best},
      {"sglang.best", "logits", false, with(best, {"other_groups=zero"})},
      {"transformers.mixtral", "logits", false, {}},
      {"transformers.mixtral.bf16", "logits.bf16", false, {}},
  };
  return rows;
}

/// Slots of every token in the order of their experts.
void sort_slots(Tensor& experts, Tensor& weights) {
  const Index k = experts.extent(1);
  for (Index t = 0; t < experts.extent(0); ++t) {
    auto* e = experts.as<std::int32_t>() + t * k;
    float* w = weights.as<float>() + t * k;
    for (Index i = 1; i < k; ++i) {
      for (Index j = i; j > 0 && e[j] < e[j - 1]; --j) {
        std::swap(e[j], e[j - 1]);
        std::swap(w[j], w[j - 1]);
      }
    }
  }
}

/// What differs in a token: nothing, its weights by some units of the last place, or its experts.
struct Difference {
  int ulps = 0;       ///< of tokens with the same experts
  int of_ties = 0;    ///< tokens with other experts whose logits are the same
  int of_choice = 0;  ///< tokens with other experts
};

Difference difference(const std::string& key, const std::string& kind, const Tensor& logits,
                      const NamedTensors& out) {
  const Tensor& experts = expected_output(key + ".experts");
  const Tensor& weights = expected_output(kind + key + ".weights");
  const Index k = experts.extent(1);
  Difference d;
  for (Index t = 0; t < experts.extent(0); ++t) {
    std::multiset<float> theirs;
    std::multiset<float> ours;
    bool same = true;
    for (Index i = t * k; i < t * k + k; ++i) {
      const auto e = experts.as<std::int32_t>()[i];
      const auto f = out.at("experts").as<std::int32_t>()[i];
      theirs.insert(get(logits, t * logits.extent(1) + e));
      ours.insert(get(logits, t * logits.extent(1) + f));
      same = same && e == f;
    }
    if (!same) ++(theirs == ours ? d.of_ties : d.of_choice);
    for (Index i = t * k; same && i < t * k + k; ++i) {
      const int apart = weights.as<std::int32_t>()[i] - out.at("weights").as<std::int32_t>()[i];
      d.ulps = std::max(d.ulps, std::abs(apart));
    }
  }
  return d;
}

TEST_P(StackGates, RoutersChooseTheStacksExperts) {
  for (const RouterRow& row : router_rows()) {
    std::vector<std::string> set = row.set;
    set.push_back("top_k=4");
    NamedTensors in{{"logits", expected_output(row.logits)}};
    if (row.bias) in["bias"] = expected_output("bias");
    NamedTensors out = call_operator(*backend_, "route", in, settings(set));
    sort_slots(out.at("experts"), out.at("weights"));
    const std::string key = std::string("router.") + row.name;
    const Tensor& logits = expected_output(row.logits);
    const Difference exact = difference(key, "exact.", logits, out);
    EXPECT_EQ(exact.of_choice, 0) << key;
    // torch.topk leaves open which of equal bf16 logits it takes.
    EXPECT_EQ(exact.of_ties, logits.dtype() == Dtype::bf16 ? 4 : 0) << key;
    // Their sums are in an order of their own.
    EXPECT_LE(exact.ulps, 3) << key;
    EXPECT_LE(difference(key, "", logits, out).ulps, 5) << key;
  }
}

/// transformers' own router of gpt-oss: weights in f32, and in bf16 where its logits are.
TEST_P(StackGates, RouterOfGptOssIsItsOwnUpToTheExp) {
  const TensorFile& theirs = capture("gpt_oss_router");
  for (const std::string suffix : {"", ".bf16"}) {
    NamedTensors out =
        call_operator(*backend_, "route", {{"logits", tensor_of(theirs, "logits" + suffix)}},
                      settings({"top_k=4", "score=softmax_of_chosen"}));
    sort_slots(out.at("experts"), out.at("weights"));
    const Tensor& experts = tensor_of(theirs, "experts" + suffix);
    Tensor weights = out.at("weights");
    if (!suffix.empty()) weights = call_operator(*backend_, "cast", {{"x", weights}}, {}).at("y");
    const Tensor& logits = tensor_of(theirs, "logits" + suffix);
    int exact = 0;
    int plain = 0;
    for (Index t = 0; t < experts.extent(0); ++t) {
      std::multiset<float> chosen;
      std::multiset<float> expected;
      for (Index i = t * 4; i < t * 4 + 4; ++i) {
        const std::int32_t e = experts.as<std::int32_t>()[i];
        const std::int32_t f = out.at("experts").as<std::int32_t>()[i];
        expected.insert(get(logits, t * 32 + e));
        chosen.insert(get(logits, t * 32 + f));
        if (e != f) continue;  // torch.topk leaves open which of equal bf16 logits it takes
        exact += get(tensor_of(theirs, "exact.weights" + suffix), i) != get(weights, i) ? 1 : 0;
        plain += get(tensor_of(theirs, "weights" + suffix), i) != get(weights, i) ? 1 : 0;
      }
      EXPECT_EQ(chosen, expected) << suffix << " " << t;
    }
    EXPECT_EQ(exact, 0) << suffix;
    EXPECT_EQ(plain, suffix.empty() ? 218 : 0) << suffix;
  }
}

}  // namespace
}  // namespace mxo::test::stack_gates_test
