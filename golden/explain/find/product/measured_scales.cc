// The scales that lines of a product show, to hypotheses: others of the tensor, or other values.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "golden/explain/find/product/finders.h"
#include "golden/explain/find/quantiser/seen.h"

namespace mxo {
namespace {

constexpr Index kLines = 12;

/// fn(line, scale as measured, where it lies) for each that is known.
template <typename Fn>
void each_known(const Observation& seen, const Fn& fn) {
  for (const Effective& e : seen.lines) {
    for (Index b = 0; b < static_cast<Index>(e.ratio.size()); ++b) {
      const double value = seen.value(e, b);
      if (!std::isnan(value)) fn(e, value, seen.at(e, b));
    }
  }
}

/// Over which of the measured blocks factors of what was given differ.
enum class Spread : std::uint8_t { nowhere, between_lines, along_k };

Spread spread_of(const Observation& seen) {
  const auto apart = [](double a, double b) { return std::abs(a / b - 1.0) > 0.01; };
  Spread spread = Spread::nowhere;
  const Effective* line = nullptr;
  double last = 0.0;
  each_known(seen, [&](const Effective& e, double value, Index at) {
    const double ratio = value / scale_value(*seen.factor().scales, at);
    if (line != nullptr && apart(ratio, last)) {
      spread = line == &e ? Spread::along_k : std::max(spread, Spread::between_lines);
    }
    line = &e;
    last = ratio;
  });
  return spread;
}

/// "1 step higher in 12 of 96 blocks", of those that were measured: e8m0 scales against those
/// given.
std::string steps_in_words(const Observation& seen, const std::map<Index, double>& values) {
  int least = 0;
  int most = 0;
  Index differing = 0;
  for (const auto& [at, value] : values) {
    const int by = std::ilogb(value / scale_value(*seen.factor().scales, at));
    if (by == 0) continue;
    least = differing == 0 ? by : std::min(least, by);
    most = differing == 0 ? by : std::max(most, by);
    ++differing;
  }
  const auto steps = [](int n) { return std::to_string(n) + (n == 1 ? " step" : " steps"); };
  const std::string by = least != most ? "by " + std::to_string(least) + " to " + steps(most)
                                       : steps(std::abs(most)) + (most < 0 ? " lower" : " higher");
  return by + " in " + std::to_string(differing) + " of the " + std::to_string(values.size()) +
         " blocks that were measured";
}

/// The scales themselves, on the lines that were measured: last, if nothing names them.
void add_other_scales(const Observation& seen, std::vector<Hypothesis>& list) {
  const ProductSide& f = seen.factor();
  if (size_of(f.scales->dtype()) != 1) return;
  std::map<Index, double> values;
  each_known(seen, [&](const Effective&, double value, Index at) { values[at] = value; });
  std::set<Index> lines;
  for (const Effective& e : seen.lines) lines.insert(e.line);
  Window only;
  (seen.side == Side::a ? only.rows : only.columns).assign(lines.begin(), lines.end());
  list.push_back({f.scales_name + "=other",
                  side_words(f) + " are not those that were given: " + steps_in_words(seen, values),
                  Stage::input,
                  [name = f.scales_name, values](Call& c) {
                    Tensor scales = c.input(name);
                    for (const auto& [i, v] : values) {
                      scales.as<std::uint8_t>()[i] =
                          static_cast<std::uint8_t>(std::clamp(std::log2(v) + 127.0, 0.0, 254.0));
                    }
                    c.replace(name, std::move(scales));
                    return true;
                  },
                  {},
                  false,
                  std::move(only)});
}

}  // namespace

void add_measured_scales(const Call& call, const Output& output, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || output.name != p->output || output.left == 0) return;
  for (const Side side : kSides) {
    Observation seen{*p, side, measure(*p, output, side, kLines)};
    if (side == Side::a) add_measured_pairing(*p, output, seen.lines, list);
    std::erase_if(seen.lines, [](const Effective& e) { return !e.fits(); });
    if (seen.lines.empty()) continue;
    // Both sides say the same of what the whole depth shares; the first says it.
    if (side == Side::a || list.empty()) add_measured_depth(*p, seen.lines, list);
    const Effective& line = seen.lines.front();
    const Index first = seen.at(line, 0);
    if (first < 0) continue;
    if (first == seen.at(line, static_cast<Index>(line.ratio.size()) - 1)) {
      add_line_sources(seen, list);
      continue;
    }
    // One factor of lines or of the whole is a matter of scales only if it is that of other scales:
    // recover_factors() has words for the rest.
    const Spread spread = spread_of(seen);
    if (spread == Spread::nowhere) continue;
    add_scale_sources(seen, list);
    add_block_map(seen, list);
    if (spread == Spread::along_k) add_other_scales(seen, list);
  }
  add_measured_terms(*p, output, list);
  add_measured_lines(*p, output, list);
  add_depth_shifts(*p, output, list);
}

}  // namespace mxo
