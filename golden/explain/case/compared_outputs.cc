// The outputs of a call beside those that were expected: which count, how far apart they are.
#include "golden/explain/case/output.h"

#include <cmath>
#include <limits>

#include "golden/judge/step_order.h"

namespace mxo {
namespace {

/// The choice of a token is one witness: its weights follow from it where no others differ, and
/// counts of experts that are as they came.
void mark_choices(std::vector<Output>& outputs) {
  Output* experts = output_named(outputs, "experts");
  if (experts == nullptr || experts->differing == 0) return;
  experts->tile = {1, experts->columns};
  if (Output* weights = output_named(outputs, "weights")) {
    weights->follows = true;
    for (Index r = 0; r < weights->rows && weights->rows == experts->rows; ++r)
      weights->follows &= !weights->differs_in(r * weights->columns, weights->columns) ||
                          experts->differs_in(r * experts->columns, experts->columns);
  }
  if (Output* counts = output_named(outputs, "tokens_per_expert")) {
    std::vector<std::int32_t> came(static_cast<std::size_t>(counts->columns));
    for (Index i = 0; i < experts->rows * experts->columns; ++i) {
      const Index e = experts->actual->as<std::int32_t>()[i];
      if (e >= 0 && e < counts->columns) ++nth(came, e);
    }
    counts->follows =
        std::ranges::equal(came, std::span(counts->actual->as<std::int32_t>(), came.size()));
  }
}

}  // namespace

Outputs outputs_of(const Call& call, const NamedTensors& expected, const NamedTensors& actual) {
  Outputs outputs;
  for (const auto& [name, tensor] : expected) {
    const auto at = actual.find(name);
    if (at == actual.end()) {
      outputs.missing.push_back(name);
    } else {
      outputs.list.push_back(make_output(call, name, tensor, at->second));
    }
  }
  mark_choices(outputs.list);
  return outputs;
}

void keep_first_step(const Call& call, Outputs& outputs) {
  CaseVerdict verdict;
  for (const Output& o : outputs.list) {
    TensorVerdict tensor;
    tensor.name = o.name;
    tensor.outcome = o.differing > 0 ? Outcome::fail : Outcome::pass;
    verdict.outputs.push_back(std::move(tensor));
  }
  order_by_step(call.op, verdict);
  if (verdict.reason.empty()) return;
  const auto step = [](std::string name) {
    if (name.starts_with("rank")) name = name.substr(name.find('.') + 1);
    for (const char* part : {".codes", ".scales"})
      if (name.ends_with(part)) name.resize(name.size() - std::char_traits<char>::length(part));
    return name;
  };
  // The outputs that fail, step by step.
  std::vector<std::vector<Output>>& failing = outputs.later_steps;
  for (const TensorVerdict& t : verdict.outputs) {
    if (t.outcome != Outcome::fail) continue;
    if (failing.empty() || step(failing.back().back().name) != step(t.name)) failing.emplace_back();
    failing.back().push_back(*std::ranges::find(outputs.list, t.name, &Output::name));
  }
  const std::string name = step(failing.front().front().name);
  failing.erase(failing.begin());
  std::size_t others = 0;
  for (const std::vector<Output>& later : failing) others += later.size();
  std::erase_if(outputs.list, [&](const Output& o) { return step(o.name) != name; });
  outputs.later = "the first step to differ is " + name;
  if (others > 0)
    outputs.later += "; " + std::to_string(others) +
                     (others == 1 ? " later output differs" : " later outputs differ") + ", too";
}

double sqnr_of(const std::vector<Output>& outputs) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double signal = 0.0;
  double noise = 0.0;
  for (const Output& o : outputs) {
    for (Index i = 0; i < o.compared_rows * o.columns; ++i) {
      const Element x = o.wanted(i);
      const bool same = nth(o.marks, i) == Mark::same;
      const Element y = same ? x : o.came(i);
      if (x.nan || y.nan || x.infinite || y.infinite) {
        if (!same) return -kInfinity;
        continue;
      }
      signal += x.value * x.value;
      noise += (x.value - y.value) * (x.value - y.value);
    }
  }
  if (noise == 0.0) return kInfinity;
  return signal == 0.0 ? -kInfinity : 10.0 * std::log10(signal / noise);
}

}  // namespace mxo
