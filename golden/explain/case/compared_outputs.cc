// The outputs of a call beside those that were expected: which count, how far apart they are.
#include "golden/explain/case/output.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "golden/judge/elements.h"
#include "golden/judge/step_order.h"

namespace mxo {
namespace {

/// The squares of one-byte elements that are numbers, by how often each code comes.
double squares_of_bytes(const Output& o, const ElementReader& read) {
  std::vector<Index> count(256);
  const auto* codes = reinterpret_cast<const std::uint8_t*>(o.expected->data());
  for (Index i = 0; i < o.compared_rows * o.columns; ++i) ++count[codes[i]];
  double sum = 0.0;
  for (std::uint64_t code = 0; code < 256; ++code) {
    const Element x = read(code);
    if (x.nan || x.infinite) continue;
    sum += static_cast<double>(count[static_cast<std::size_t>(code)]) * x.value * x.value;
  }
  return sum;
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
    for (const char* part : {".codes", ".scales"}) {
      if (name.ends_with(part)) name.resize(name.size() - std::char_traits<char>::length(part));
    }
    return name;
  };
  const auto first = std::find_if(verdict.outputs.begin(), verdict.outputs.end(),
                                  [](const auto& t) { return t.outcome == Outcome::fail; });
  const std::string name = step(first->name);
  std::size_t others = 0;
  std::string last = name;
  for (const TensorVerdict& t : verdict.outputs) {
    if (t.outcome != Outcome::fail || step(t.name) == name) continue;
    if (step(t.name) != last) outputs.later_steps.emplace_back();
    last = step(t.name);
    ++others;
    outputs.later_steps.back().push_back(
        *std::find_if(outputs.list.begin(), outputs.list.end(),
                      [&](const Output& o) { return o.name == t.name; }));
  }
  std::erase_if(outputs.list, [&](const Output& o) { return step(o.name) != name; });
  outputs.later = "the first step to differ is " + name;
  if (others > 0) {
    outputs.later += "; " + std::to_string(others) +
                     (others == 1 ? " later output differs" : " later outputs differ") + ", too";
  }
}

double sqnr_of(const std::vector<Output>& outputs) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double signal = 0.0;
  double noise = 0.0;
  for (const Output& o : outputs) {
    const ElementReader read(o.expected->dtype());
    const bool bytes = size_of(o.expected->dtype()) == 1;
    if (bytes) signal += squares_of_bytes(o, read);
    for (Index i = 0; i < o.compared_rows * o.columns; ++i) {
      if (bytes && o.marks[static_cast<std::size_t>(i)] == Mark::same) continue;
      const Element x = read(o.expected_bits(i));
      const bool same = o.marks[static_cast<std::size_t>(i)] == Mark::same;
      const Element y = same ? x : read(o.actual_bits(i));
      if (x.nan || y.nan || x.infinite || y.infinite) {
        if (!same) return -kInfinity;
        continue;
      }
      if (!bytes) signal += x.value * x.value;
      noise += (x.value - y.value) * (x.value - y.value);
    }
  }
  if (noise == 0.0) return kInfinity;
  return signal == 0.0 ? -kInfinity : 10.0 * std::log10(signal / noise);
}

}  // namespace mxo
