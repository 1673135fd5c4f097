// From measured factors of scales to hypotheses: other scales of the tensor, or others altogether.
#include "golden/explain/recover/scales.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "golden/explain/recover/block_map.h"
#include "golden/explain/find/quantiser/seen.h"

namespace mxo {
namespace {

constexpr Index kLines = 12;

/// Over which of the measured blocks factors of what was given differ.
enum class Spread : std::uint8_t { nowhere, between_lines, along_k };

Spread spread_of(const Seen& seen) {
  const auto apart = [](double a, double b) { return std::abs(a / b - 1.0) > 0.01; };
  std::optional<double> of_all;
  Spread spread = Spread::nowhere;
  for (const Effective& e : seen.lines) {
    std::optional<double> of_line;
    for (Index b = 0; b < static_cast<Index>(e.ratio.size()); ++b) {
      const double value = seen.value(e, b);
      if (std::isnan(value)) continue;
      const double ratio = value / scale_value(*seen.factor().scales, seen.at(e, b));
      if (apart(ratio, of_line.value_or(ratio))) return Spread::along_k;
      if (apart(ratio, of_all.value_or(ratio))) spread = Spread::between_lines;
      of_line = ratio;
      of_all = ratio;
    }
  }
  return spread;
}

/// What the scales that were measured on some lines say.
void add_seen_scales(const std::optional<Product>& p, const Output& output,
                     std::vector<Hypothesis>& list) {
  for (const Side side : {Side::a, Side::b}) {
    Seen seen{*p, side, measure(*p, output, side, kLines)};
    if (side == Side::a) add_measured_pairing(*p, output, seen.lines, list);
    std::erase_if(seen.lines, [](const Effective& e) { return !e.fits(); });
    if (seen.lines.empty()) continue;
    // Both sides say the same of what the whole depth shares; the first says it.
    if (side == Side::a || list.empty()) add_measured_depth(*p, seen.lines, list);
    const Effective& line = seen.lines.front();
    if (seen.at(line, 0) < 0) continue;
    if (seen.at(line, 0) == seen.at(line, static_cast<Index>(line.ratio.size()) - 1)) {
      add_line_sources(seen, list);
      continue;
    }
    // One factor of lines or of the whole is a matter of scales only if it is that of other scales:
    // recover_factors() has words for the rest.
    const Spread spread = spread_of(seen);
    if (spread == Spread::nowhere) continue;
    add_scale_sources(seen, list);
    add_block_map(seen, list);
    if (spread == Spread::between_lines) continue;
    // The scales themselves, on the lines that were measured: last, if nothing names them.
    std::map<Index, double> values;
    for (const Effective& e : seen.lines) {
      for (Index b = 0; b < static_cast<Index>(e.ratio.size()); ++b) {
        const double v = seen.value(e, b);
        if (!std::isnan(v)) values[seen.at(e, b)] = v;
      }
    }
    const std::string name = seen.factor().scales_name;
    const Tensor& given = *seen.factor().scales;
    if (size_of(given.dtype()) != 1) continue;
    Window only;
    for (const Effective& e : seen.lines) {
      (side == Side::a ? only.rows : only.columns).push_back(e.line);
    }
    for (std::vector<Index>* lines : {&only.rows, &only.columns}) {
      std::sort(lines->begin(), lines->end());
      lines->erase(std::unique(lines->begin(), lines->end()), lines->end());
    }
    list.push_back({name + "=other",
                    side_words(seen.factor()) +
                        " are not those that were given: values of other places, or old ones",
                    Stage::input,
                    [name, values](Call& c) {
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
}

}  // namespace

void add_measured_scales(const Call& call, const Output& output, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || output.name != p->output || output.left == 0) return;
  add_seen_scales(p, output, list);
  add_measured_terms(*p, output, list);
  add_measured_lines(*p, output, list);
  add_depth_shifts(*p, output, list);
}

}  // namespace mxo
