// Steps of operators, from the catalogue.
#include "golden/judge/step_order.h"

#include <algorithm>

#include "ops/catalogue.h"

namespace mxo {
namespace {

std::span<const std::string_view> steps_of(std::string_view op) {
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.name == op) return entry.steps;
  }
  return {};
}

/// "rank3.dexpert_out.codes" is a part of "dexpert_out".
std::size_t step_of(std::span<const std::string_view> steps, std::string_view name) {
  if (name.starts_with("rank")) name.remove_prefix(std::min(name.find('.') + 1, name.size()));
  for (const std::string_view part : {".codes", ".scales"}) {
    if (name.ends_with(part)) name.remove_suffix(part.size());
  }
  return static_cast<std::size_t>(std::find(steps.begin(), steps.end(), name) - steps.begin());
}

}  // namespace

void order_by_step(std::string_view op, CaseVerdict& verdict) {
  const auto steps = steps_of(op);
  if (steps.empty()) return;
  std::stable_sort(verdict.outputs.begin(), verdict.outputs.end(),
                   [&](const TensorVerdict& a, const TensorVerdict& b) {
                     return step_of(steps, a.name) < step_of(steps, b.name);
                   });
  const auto first =
      std::find_if(verdict.outputs.begin(), verdict.outputs.end(),
                   [](const TensorVerdict& v) { return v.outcome == Outcome::fail; });
  if (first != verdict.outputs.end()) verdict.reason = "the first step to differ is " + first->name;
}

}  // namespace mxo
