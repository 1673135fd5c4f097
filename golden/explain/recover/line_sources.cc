// One scale a line: which line's it was.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "golden/explain/recover/block_map.h"
#include "golden/explain/recover/scales.h"

namespace mxo {
namespace {

constexpr std::size_t kLeastLines = 3;

/// What the whole line was multiplied by, as a multiple of what it should have been; NaN where no
/// block is known.
struct Ratio {
  double value;
  double sigma;
};

Ratio ratio_of(const Effective& e) {
  double weights = 0.0;
  double sum = 0.0;
  for (std::size_t b = 0; b < e.ratio.size(); ++b) {
    const double w = 1.0 / (e.sigma[b] * e.sigma[b] + 1e-16);
    weights += w;
    sum += w * e.ratio[b];
  }
  return {sum / weights, 1.0 / std::sqrt(weights)};
}

}  // namespace

void add_line_sources(const Seen& seen, std::vector<Hypothesis>& list) {
  const Tensor& tensor = *seen.factor().scales;
  const Index n = tensor.elements();
  std::map<Index, std::size_t> votes;
  for (const Effective& e : seen.lines) {
    const Ratio ratio = ratio_of(e);
    const Index own = seen.at(e, 0);
    const double measured = scale_value(tensor, own) * ratio.value;
    const double within = std::abs(measured) * (5.0 * ratio.sigma / std::abs(ratio.value) + 2e-5);
    for (Index i = 0; i < n; ++i) {
      if (std::abs(scale_value(tensor, i) - measured) <= within) ++votes[i - own];
    }
  }
  Index shift = 0;
  std::size_t most = 0;
  for (const auto& [by, count] : votes) {
    if (count > most || (count == most && std::abs(by) < std::abs(shift))) {
      most = count;
      shift = by;
    }
  }
  if (shift == 0 || most < kLeastLines || most * 5 < seen.lines.size() * 3) return;
  const std::string name = seen.factor().scales_name;
  std::string by = std::to_string(std::abs(shift)) + (std::abs(shift) == 1 ? " row " : " rows ");
  const bool rows_of_x = seen.side == Side::a && !seen.product.wgrad;
  if (!rows_of_x && shift % tensor.extent(1) == 0) {
    const Index experts = std::abs(shift) / tensor.extent(1);
    by = std::to_string(experts) + (experts == 1 ? " expert " : " experts ");
  }
  const std::string words =
      side_words(seen.factor()) + " are those of " + by + (shift < 0 ? "before" : "after");
  for (const bool wraps : {false, true}) {
    list.push_back({name + "=source", words, Stage::input, [name, n, shift, wraps](Call& c) {
                      const Tensor& given = c.input(name);
                      if (given.elements() != n) return false;
                      Tensor taken = given;
                      const std::size_t size = size_of(given.dtype());
                      for (Index i = 0; i < n; ++i) {
                        Index from = i + shift;
                        if (wraps) from = (from % n + n) % n;
                        if (from < 0 || from >= n) continue;
                        std::memcpy(taken.data() + static_cast<std::size_t>(i) * size,
                                    given.data() + static_cast<std::size_t>(from) * size, size);
                      }
                      c.replace(name, std::move(taken));
                      return true;
                    }});
  }
}

}  // namespace mxo
