// Parts of an output that no one wrote.
#include <algorithm>
#include <map>

#include "golden/explain/recover/recover.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

/// All NaNs of a type are one fill.
constexpr std::uint64_t kAnyNan = ~std::uint64_t{0};

/// Neighbours that must hold the fill before it is believed: short runs of one code are common.
Index least_run(const Output& output) {
  const Index wide = size_of(output.expected->dtype()) == 1 ? 16 : 8;
  return std::min(wide, output.columns);
}

bool is_scale(const Output& output) { return output.name.ends_with("scales"); }

std::string fill_in_words(Dtype dtype, std::uint64_t fill) {
  if (fill == kAnyNan) return "NaN";
  if (fill == 0) return "zeros";
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string text = "0x";
  for (int i = static_cast<int>(size_of(dtype)) * 2 - 1; i >= 0; --i) {
    text += kHex[fill >> (4 * i) & 15];
  }
  return text;
}

/// Elements of runs, by fill.
using Runs = std::map<std::uint64_t, std::vector<Index>>;

/// Adds the runs of one row or one column: `n` elements from `at`, `step` apart.
void add_runs(const Output& output, const ElementReader& read, Index at, Index n, Index step,
              Index least, Runs& found) {
  const auto fill_at = [&](Index i) {
    const std::uint64_t bits = output.came(at + i * step);
    return read(bits).nan ? kAnyNan : bits;
  };
  Index begin = 0;
  while (begin < n) {
    const std::uint64_t fill = fill_at(begin);
    Index end = begin + 1;
    bool varied = false;
    Index differs = 0;
    const std::uint64_t first = output.wanted(at + begin * step);
    for (Index i = begin; i < n && (i == begin || fill_at(i) == fill); ++i) {
      end = i + 1;
      varied = varied || output.wanted(at + i * step) != first;
      differs += output.marks[static_cast<std::size_t>(at + i * step)] == Mark::differs;
    }
    const bool plain = fill == 0 || fill == kAnyNan;
    if (end - begin >= least && differs * 2 > end - begin && (varied || plain)) {
      for (Index i = begin; i < end; ++i) {
        const Index e = at + i * step;
        if (output.marks[static_cast<std::size_t>(e)] == Mark::differs) found[fill].push_back(e);
      }
    }
    begin = end;
  }
}

}  // namespace

std::vector<Claim> recover_unwritten(Output& output) {
  std::vector<Claim> claims;
  if (output.left == 0 || output.expected->elements() < 16) return claims;
  const ElementReader read(output.expected->dtype());
  Runs found;
  for (Index r = 0; r < output.owed; ++r) {
    add_runs(output, read, r * output.columns, output.columns, 1, least_run(output), found);
  }
  Runs down;
  const Index least = std::max<Index>(16, output.owed / 4);
  for (Index c = 0; c < output.columns && output.owed >= 16; ++c) {
    add_runs(output, read, c, output.owed, output.columns, least, down);
  }
  for (auto& [fill, elements] : down) {
    std::vector<Index>& all = found[fill];
    all.insert(all.end(), elements.begin(), elements.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
  }
  std::map<std::uint64_t, std::size_t> everywhere;
  for (Index i = 0; i < output.owed * output.columns; ++i) {
    if (output.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
    const std::uint64_t bits = output.came(i);
    const std::uint64_t fill = read(bits).nan ? kAnyNan : bits;
    if (found.count(fill) > 0) ++everywhere[fill];
  }
  for (const auto& [fill, elements] : found) {
    // Among many scattered ones a few are neighbours by chance.
    if (elements.size() * 2 < everywhere[fill]) continue;
    const bool plain = fill == 0 || fill == kAnyNan;
    if (!plain && is_scale(output)) continue;
    // A fill that is no NaN and no zero has to stand alone: a constant may have been computed.
    if (elements.size() < 8) continue;
    const Place place = place_of(output, [&all = elements](Index i) {
      return std::binary_search(all.begin(), all.end(), i);
    });
    Claim claim;
    claim.id = fill == kAnyNan ? "never_written.nan"
               : fill == 0     ? "never_written.zero"
                               : "never_written.fill";
    claim.sentence = place.words + " hold " + fill_in_words(output.expected->dtype(), fill) +
                     (fill == kAnyNan ? ": never written, or made of a NaN that was read"
                      : fill == 0     ? ": never written, or cleared"
                                      : ": the fill of the buffer, never written");
    claim.where = place.where;
    claim.elements = static_cast<double>(elements.size());
    for (const Index i : elements) output.settle(i);
    claims.push_back(std::move(claim));
  }
  return claims;
}

}  // namespace mxo
