// Cases of grouped_linear: every recipe, forward and backward.
#include <algorithm>

#include "golden/suites/case_list.h"
#include "golden/suites/families.h"
#include "ops/linear_recipe.h"

namespace mxo {
namespace {

struct LinearCase {
  std::string name;
  Index tokens, k, n;
  std::vector<std::int32_t> ends;
  std::string pad;
  std::vector<std::string> flags;
  int level = 0;
};

const std::vector<LinearCase>& layer_cases() {
  static const std::vector<LinearCase> cases = {
      {"aligned", 96, 64, 32, {32, 96}, "false", {}, 0},
      {"edges",
       70,
       64,
       32,
       {0, 1, 1, 34, 65, 65},
       "true",
       {"empty_group", "one_row", "first_group_empty", "last_group_empty", "rows_beyond_last_group",
        "rows_31_32_33"},
       0},
      {"one_expert", 64, 32, 64, {0, 64, 64}, "false", {"all_rows_to_one_group", "empty_group"}, 1},
      {"no_tokens", 0, 32, 32, {0, 0}, "true", {"empty", "empty_group"}, 1},
      {"wide", 160, 288, 160, {100, 130}, "true", {"rows_beyond_last_group", "ragged"}, 2},
  };
  return cases;
}

struct LinearVariant {
  std::string format;
  std::string out;
  std::string sum;
  Dtype dtype;
  bool bias_by_group;
  int level;
};

const LinearVariant kVariants[] = {
    {"e4m3", "bf16", "exact", Dtype::bf16, false, 0},
    {"e4m3", "f32", "exact", Dtype::f32, true, 1},
    {"e4m3fnuz", "bf16", "fma_chain", Dtype::bf16, true, 1},
};

NamedTensors inputs_of(const LinearCase& c, const LinearVariant& v, const InputStream& in) {
  const auto groups = static_cast<Index>(c.ends.size());
  NamedTensors tensors = one("x", in.wide("x", v.dtype, {c.tokens, c.k}, 3));
  tensors.emplace("w", in.normal("w", v.dtype, {groups, c.n, c.k}, -2));
  tensors.emplace("dy", in.wide("dy", v.dtype, {c.tokens, c.n}, 3));
  const std::vector<Index> bias =
      v.bias_by_group ? std::vector<Index>{groups, c.n} : std::vector<Index>{c.n};
  tensors.emplace("bias", in.normal("bias", v.dtype, bias));
  Tensor ends(Dtype::i32, {groups});
  std::copy(c.ends.begin(), c.ends.end(), ends.as<std::int32_t>());
  tensors.emplace("group_ends", std::move(ends));
  return tensors;
}

}  // namespace

std::vector<SuiteCase> linear_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const LinearRecipe& recipe : kLinearRecipes) {
    for (const LinearCase& c : layer_cases()) {
      for (const LinearVariant& v : kVariants) {
        if (c.level > level || v.level > level) continue;
        std::string id = "linear." + std::string(recipe.name) + "." + c.name;
        for (const std::string& part : {v.format, v.out, v.sum}) (id += '.') += part;
        add_case(cases, std::move(id), "grouped_linear",
                 {{"recipe", std::string(recipe.name)},
                  {"format", v.format},
                  {"out", v.out},
                  {"sum", v.sum},
                  {"pad", c.pad}},
                 c.flags, [c, v](const InputStream& in) { return inputs_of(c, v, in); });
      }
    }
  }
  return cases;
}

}  // namespace mxo
