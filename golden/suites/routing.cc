// Cases of route: scores, groups of experts, ties, and what is not finite.
#include <limits>

#include "golden/suites/case_list.h"
#include "golden/suites/families.h"

namespace mxo {
namespace {

struct RouteCase {
  std::string name;
  Index tokens, experts;
  Settings set;
  std::vector<std::string> flags;
  int level = 0;
};

const std::vector<RouteCase>& routes_chosen() {
  static const std::vector<RouteCase> cases = {
      {"top_1", 24, 8, {}, {"random"}, 0},
      {"top_3", 24, 8, {{"top_k", "3"}, {"scale", "2.5"}}, {"random"}, 0},
      {"groups",
       32,
       16,
       {{"top_k", "4"}, {"groups", "4"}, {"limited_groups", "2"}, {"score", "sigmoid"}},
       {"random"},
       0},
      {"all", 9, 6, {{"top_k", "6"}, {"normalize", "false"}}, {"random"}, 1},
      {"one_expert", 5, 1, {}, {"all_rows_to_one_group"}, 1},
      {"no_tokens", 0, 8, {{"top_k", "2"}}, {"empty"}, 1},
      {"groups_of_one",
       16,
       8,
       {{"top_k", "2"}, {"groups", "8"}, {"limited_groups", "3"}},
       {"random"},
       1},
      {"sigmoid_raw", 16, 8, {{"top_k", "2"}, {"score", "sigmoid"}, {"normalize", "false"}}, {}, 1},
      {"gpt_oss", 24, 32, {{"top_k", "4"}, {"score", "softmax_of_chosen"}}, {"random"}, 0},
      {"large", 2048, 256, {{"top_k", "8"}, {"groups", "8"}, {"limited_groups", "4"}}, {}, 2},
  };
  return cases;
}

/// Rows of logits that are hard to choose from, one edge each.
Tensor edge_logits(const InputStream& in, Index experts) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor logits = in.wide("logits", Dtype::f32, {9, experts}, 2);
  const auto set = [&](Index row, auto value_of) {
    for (Index e = 0; e < experts; ++e) logits.as<float>()[row * experts + e] = value_of(e);
  };
  set(0, [](Index) { return 0.0f; });
  set(1, [](Index e) { return e % 2 == 0 ? 0.0f : -0.0f; });
  set(2, [](Index e) { return e < 3 ? 1.5f : -1.5f; });
  set(3, [](Index e) { return e == 4 ? nan : static_cast<float>(e); });
  set(4, [](Index) { return nan; });
  set(5, [](Index e) { return e == 2 ? inf : 0.25f; });
  set(6, [](Index) { return -inf; });
  set(7, [](Index e) { return e == 5 ? 3e38f : -3e38f; });
  return logits;
}

}  // namespace

std::vector<SuiteCase> route_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const RouteCase& c : routes_chosen()) {
    for (const bool biased : {false, true}) {
      if (c.level > level || (biased && level < 1)) continue;
      add_case(cases, "route." + c.name + (biased ? ".bias" : ""), "route", c.set, c.flags,
               [c, biased](const InputStream& in) {
                 NamedTensors tensors =
                     one("logits", in.wide("logits", Dtype::f32, {c.tokens, c.experts}, 2));
                 if (biased) tensors.emplace("bias", in.normal("bias", Dtype::f32, {c.experts}));
                 return tensors;
               });
    }
  }
  for (const Dtype narrow : {Dtype::bf16, Dtype::f16}) {
    add_case(cases, "route.top_3." + std::string(name_of(narrow)), "route",
             {{"top_k", "3"}, {"score", "sigmoid"}}, {"ties", "random"},
             [narrow](const InputStream& in) {
               return one("logits", in.wide("logits", narrow, {48, 64}, 2));
             });
  }
  for (const std::string score : {"softmax", "sigmoid", "softmax_of_chosen"}) {
    add_case(cases, "route.edges." + score, "route", {{"top_k", "2"}, {"score", score}},
             {"ties", "signed_zero", "one_nan", "all_nan", "one_inf", "max_finite"},
             [](const InputStream& in) { return one("logits", edge_logits(in, 8)); });
  }
  return cases;
}

}  // namespace mxo
