// The table of suites.
#include "golden/suites/suites.h"

#include <algorithm>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "golden/suites/families.h"

namespace mxo {
namespace {

constexpr Suite kSuites[] = {
    {"formats", "encode and decode: every code, every tie, both neighbours of each boundary",
     formats_cases},
    {"quantize", "MX quantise and dequantise: scale modes x formats x blocks x rules, with edges",
     quantize_cases},
    {"f32_scales", "row-wise and block-wise quantise with f32 scales", f32_scales_cases},
    {"layouts", "swizzled scale layouts and back, groups at their edges", layouts_cases},
    {"products", "grouped products: groups at their edges, sums that are hard to add up",
     products_cases},
    {"movement", "groups padded, rows permuted, and both undone", movement_cases},
    {"linear", "grouped_linear forward and backward, every recipe", linear_cases},
    {"route", "experts and weights of tokens: scores, groups, ties, infinities and NaN",
     route_cases},
    {"exchange", "dispatch, combine and their gradients across ranks, also with an empty rank",
     exchange_cases},
    {"activation", "swiglu and its gradients, also quantised in the same pass", activation_cases},
    {"approximate",
     "approximate functions of a chip: subnormals, powers of two, infinities and NaN",
     approximate_cases},
    {"transpose", "row-wise FP8 to column-wise, exponents moved", transpose_cases},
    {"moe_layer", "a layer across ranks, forward and backward, with every step", moe_layer_cases},
    {"poison", "padding and unused bytes, once NaN and once numbers: no result may depend on them",
     poison_cases},
    {"huge", "tensors beyond 2^31 elements: some rows are stored, the generator makes the rest",
     huge_cases},
};

}  // namespace

std::string parameter_of(std::string_view op,
                         const std::map<std::string, std::string, std::less<>>& given,
                         std::string_view key) {
  for (const ParameterSpec& spec : catalogue_entry(op).parameters) {
    if (spec.key != key) continue;
    const auto at = given.find(key);
    if (at != given.end()) return at->second;
    return std::string(spec.values.substr(0, spec.values.find('|')));
  }
  return {};
}

std::span<const Suite> suites() { return kSuites; }

std::vector<SuiteCase> suite_cases(std::string_view suite, int level) {
  std::vector<SuiteCase> cases;
  std::vector<std::string_view> known{"all"};
  bool found = false;
  for (const Suite& row : kSuites) {
    known.push_back(row.name);
    if (suite != "all" && suite != row.name) continue;
    found = true;
    std::vector<SuiteCase> more = row.cases(level);
    cases.insert(cases.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  }
  if (!found) {
    throw Error(Fault::argument, unknown_name("suite", suite, known));
  }
  return cases;
}

}  // namespace mxo
