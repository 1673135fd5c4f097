// Whose scales came: of a measured rule, one for all blocks, or those of another amax.
#include <span>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/quantiser/quantiser_call.h"

namespace mxo {
namespace {

constexpr Index kLeastAlike = 8;              ///< scales that are one number rather than chance
constexpr Index kMostTold = 2;                ///< scales that are told one by one
constexpr Index kMostLines = Index{1} << 24;  ///< of all blocks, whose amax may be of some

using Stored = std::function<float(float amax)>;

/// The bits of a scale; those expected where it is no number, of which a rule says nothing.
std::uint64_t scale_bits(const Output& scales, Index i, float s) {
  if (std::isnan(s)) return scales.expected_bits(i);
  if (size_of(scales.expected->dtype()) != 1) return bit_cast<std::uint32_t>(s);
  return static_cast<std::uint64_t>(
      std::clamp(std::log2(static_cast<double>(s)) + 127.0, 0.0, 254.0));
}

/// One scale for several blocks: 1, which the amax of the whole tensor may give, too, or a number
/// that it does not give.
struct OneScale {
  std::uint64_t bits;
  bool of_whole;  ///< the amax of the whole tensor gives it
  bool of_all;    ///< every block has it, but those of no elements
  std::string words;
};

std::optional<OneScale> one_scale(const Output& scales, const std::vector<float>& amax,
                                  const Stored& stored) {
  const auto first = std::find(scales.marks.begin(), scales.marks.end(), Mark::differs);
  if (first == scales.marks.end()) return std::nullopt;
  const Index at = first - scales.marks.begin();
  const double one = scale_value(*scales.actual, at);
  if (!(one > 0.0) || std::isinf(one)) return std::nullopt;
  float most = 0.0f;
  for (const float a : amax) most = std::max(most, a);
  OneScale found{scales.actual_bits(at),
                 stored && static_cast<double>(stored(most)) == one,
                 scales.left == scales.differing,
                 {}};
  if (found.of_whole && one != 1.0) return std::nullopt;
  for (std::size_t s = 0; s < amax.size(); ++s) {
    const bool unused = amax[s] == 0.0f && scales.marks[s] == Mark::same;
    found.of_all =
        found.of_all && (unused || scales.actual_bits(static_cast<Index>(s)) == found.bits);
  }
  found.words = "every scale is " + scale_in_words(*scales.actual, at) + ", whatever amax is" +
                (found.of_whole ? "; equivalently, amax is that of the whole tensor" : "");
  return found;
}

std::optional<Claim> claim_one(Output& scales, const std::vector<float>& amax,
                               const OneScale& one) {
  const auto bits = [&](Index i) {
    const bool unused = nth(amax, i) == 0.0f && nth(scales.marks, i) == Mark::same;
    return one.of_all && unused ? scales.actual_bits(i) : one.bits;
  };
  std::optional<Claim> claim = claim_model(scales, bits, "scale.one", one.words, kLeastAlike);
  if (claim && one.of_all) {
    claim->sentence = one.words;
    claim->where = {scales.name, {}, {}, {}, {}};
  }
  return claim;
}

// ---- The amax of a part of each block.

/// How many of the first of a list have a largest that gives a scale: from `least` to `most`.
struct Range {
  Index least = 1;
  Index most = 0;
};

Range firsts_that_give(std::span<const float> magnitudes, const std::function<bool(float)>& gives) {
  Range range;
  float largest = -1.0f;
  bool given = false;
  for (std::size_t k = 0; k < magnitudes.size(); ++k) {
    if (magnitudes[k] > largest) {
      largest = magnitudes[k];
      const bool now = gives(largest);
      if (given && !now) break;
      if (now && !given) range.least = static_cast<Index>(k) + 1;
      given = now;
    }
    if (given) range.most = static_cast<Index>(k) + 1;
  }
  return range;
}

/// The number from `least` to `most` that is the largest part of `all`: all / 2, 3 all / 4, ...
Index roundest(Index least, Index most, Index all) {
  for (Index part = 1; part <= all && all % part == 0; part *= 2) {
    const Index step = all / part;
    const Index n = most / step * step;
    if (n >= least) return n;
  }
  return most;
}

/// Rows or columns of a block, from the front or from behind.
struct Walk {
  bool columns;
  bool from_behind;
};

/// The largest magnitude of every line of every block, by scale.
std::vector<std::vector<float>> lines_of(const QuantiserCall& q, const Walk& walk) {
  const Blocks& b = q.blocks;
  std::vector<std::vector<float>> most(q.amax.size());
  Index begin = 0;
  Index end = 0;  // of the rows of one block
  const auto row = [&b](Index of) { return nth(b.block_row, of % b.rows); };
  for (Index r = 0; r < b.x->elements() / b.columns; ++r) {
    if (r == end) {
      begin = end++;
      while (end % b.rows != 0 && row(end) == row(begin)) ++end;
    }
    for (Index c = 0; c < b.columns; ++c) {
      const Index scale = b.scale_of(r * b.columns + c);
      if (scale < 0) continue;
      Index line = walk.columns ? c % b.block_columns : r - begin;
      const Index lines =
          walk.columns ? std::min(b.block_columns, b.columns - (c - line)) : end - begin;
      if (walk.from_behind) line = lines - 1 - line;
      std::vector<float>& block = nth(most, scale);
      block.resize(static_cast<std::size_t>(lines));
      float& m = nth(block, line);
      const float v = std::fabs(b.value(r * b.columns + c));
      m = std::isnan(v) ? HUGE_VALF : std::max(m, v);
    }
  }
  return most;
}

/// "the first 96 of the 128 columns of its block", and the amax of that part of each block.
struct AmaxPart {
  std::string words;
  std::vector<float> amax;
};

/// The part, from one end of the rows or columns of a block, whose amax gives every scale that
/// came; of several the roundest.
std::optional<AmaxPart> part_of_blocks(const QuantiserCall& q) {
  if (q.blocks.tiled) return std::nullopt;
  for (const Walk walk : {Walk{true, false}, {true, true}, {false, false}, {false, true}}) {
    const Index length = walk.columns ? q.blocks.block_columns : q.blocks.height();
    if (length < 2 || static_cast<Index>(q.amax.size()) * length > kMostLines) continue;
    const std::vector<std::vector<float>> lines = lines_of(q, walk);
    Range range{1, length};
    for (std::size_t s = 0; s < lines.size() && range.least <= range.most; ++s) {
      const double got = scale_value(*q.scales.actual, static_cast<Index>(s));
      if (lines[s].empty() || !std::isfinite(got)) continue;
      const Range own = firsts_that_give(
          lines[s], [&](float a) { return static_cast<double>(q.own->stored(a)) == got; });
      // A short block is whole from its end on.
      const bool whole = own.most == static_cast<Index>(lines[s].size());
      range.least = std::max(range.least, own.least);
      range.most = std::min(range.most, whole ? length : own.most);
    }
    if (range.least > range.most || range.most >= length) continue;
    const Index n = roundest(range.least, range.most, length);
    AmaxPart part{filled("the {} {} of the {} {} of its block", walk.from_behind ? "last" : "first",
                         n, length, walk.columns ? "columns" : "rows"),
                  q.amax};
    for (std::size_t s = 0; s < lines.size(); ++s) {
      if (lines[s].empty()) continue;
      const Index lines_of_part = std::min(n, static_cast<Index>(lines[s].size()));
      part.amax[s] = *std::max_element(lines[s].begin(), lines[s].begin() + lines_of_part);
    }
    return part;
  }
  return std::nullopt;
}

// ---- A scale or two.

/// Elements of one block, in the order in which they lie.
std::vector<Index> elements_of(const Blocks& b, Index scale) {
  std::vector<Index> found;
  for (Index first = 0; first < b.x->elements(); first += b.columns) {
    for (Index c = 0; c < b.columns; c += b.block_columns) {
      if (b.scale_of(first + c) != scale) continue;
      for (Index i = c; i < std::min(c + b.block_columns, b.columns); ++i)
        found.push_back(first + i);
    }
  }
  return found;
}

/// ", as an amax of 3 gives it: that of rows 0 to 15 of x", of the part of a block, from either end
/// of it, whose amax gives a scale: whole rows, or "the first 256 of its 512 elements".
std::optional<std::string> part_in_words(const QuantiserCall& q, std::vector<Index> block,
                                         float got) {
  const auto all = static_cast<Index>(block.size());
  for (const bool from_behind : {false, true}) {
    if (from_behind) std::reverse(block.begin(), block.end());
    std::vector<float> magnitudes;
    for (const Index i : block) magnitudes.push_back(std::fabs(q.blocks.value(i)));
    const auto [least, most] =
        firsts_that_give(magnitudes, [&](float a) { return q.own->stored(a) == got; });
    if (least > most || most == all) continue;
    const float amax = *std::max_element(magnitudes.begin(), magnitudes.begin() + least);
    const std::string text =
        filled(", as an amax of {} gives it: that of ", number(static_cast<double>(amax), 4));
    const auto row_of = [&](Index n) { return nth(block, n - 1) / q.blocks.columns; };
    const Index first = row_of(1);
    const Index rows = std::abs(row_of(all) - first) + 1;
    const Index with_least = std::abs(row_of(least) - first) + 1;
    const Index whole = std::abs(row_of(most + 1) - first);  // rows before the one that is larger
    if (whole < with_least) {
      return text + filled("the {} {} of its {} elements", from_behind ? "last" : "first",
                           roundest(least, most, all), all);
    }
    const Index n = roundest(with_least, whole, rows);
    const Index from = from_behind ? first - n + 1 : first;
    return text + filled("rows {} to {} of x", from, from + n - 1);
  }
  return std::nullopt;
}

/// The element of a block whose magnitude gives a scale.
std::string holder_in_words(const QuantiserCall& q, const std::vector<Index>& block, float got) {
  for (const Index i : block) {
    const float amax = std::fabs(q.blocks.value(i));
    if (q.own->stored(amax) != got) continue;
    return filled(", as an amax of {} gives it, which row {}, column {} of x holds",
                  number(static_cast<double>(amax), 4), i / q.blocks.columns, i % q.blocks.columns);
  }
  return ", as no element of its block gives it";
}

/// ", as a maximum of 448 rather than 240 gives it", of f32 scales that are so many times their
/// own; a power of two may be anything.
std::optional<std::string> maximum_in_words(const QuantiserCall& q, double ratio) {
  if (size_of(q.scales.expected->dtype()) == 1) return std::nullopt;
  const bool inverse = q.own->stored(2.0f) < q.own->stored(1.0f);
  const double own = largest(q.format);
  const double most = inverse ? ratio * own : own / ratio;
  for (const double max : {448.0, 240.0, 57344.0, 224.0, 127.0, 256.0}) {
    const bool power = std::exp2(std::round(std::log2(max / own))) == max / own;
    if (!power && std::abs(most / max - 1.0) <= 0x1p-21)
      return filled(", as a maximum of {} rather than {} gives it", number(max, 7), number(own, 7));
  }
  return std::nullopt;
}

}  // namespace

std::string scale_in_words(const Tensor& scales, Index i) {
  const double s = scale_value(scales, i);
  if (std::isnan(s)) return "NaN";
  if (std::isinf(s)) return "infinity";
  int e = 0;
  const bool power = std::frexp(s, &e) == 0.5;
  const std::string text = !power ? number(s, 9) : e == 1 ? "1" : "2^" + std::to_string(e - 1);
  if (size_of(scales.dtype()) != 1) return text;
  return text + " (byte " + std::to_string(bits_at(scales, i)) + ")";
}

std::string scales_in_words(const QuantiserCall& q, bool parts) {
  const Output& scales = q.scales;
  if (!q.own || scales.left == 0) return {};
  // A few scales that are those of the same part of their blocks; from kLeastAlike on a cause.
  if (scales.left >= 2 && scales.left < kLeastAlike && scales.left == scales.differing) {
    if (const auto part = part_of_blocks(q))
      return "scales: what an amax of " + part->words + " gives";
  }
  if (scales.left > kMostTold) return {};
  std::string text;
  for (Index i = 0; i < scales.rows * scales.columns; ++i) {
    if (nth(scales.marks, i) != Mark::differs) continue;
    const double want = scale_value(*scales.expected, i);
    const double got = scale_value(*scales.actual, i);
    if (!(want > 0.0) || !(got > 0.0) || std::isinf(want) || std::isinf(got)) return {};
    const std::vector<Index> block = elements_of(q.blocks, i);
    auto part = part_in_words(q, block, static_cast<float>(got));
    if (!part) part = maximum_in_words(q, got / want);
    if (parts && !part) return {};
    list_words(
        text,
        filled("{} is {} times what is expected{}",
               place_of(scales, [i](Index at) { return at == i; }).words, number(got / want, 4),
               part ? *part : holder_in_words(q, block, static_cast<float>(got))),
        "; ");
  }
  return text;
}

std::optional<Claim> claim_scales(Output& scales, QuantiserCall& q) {
  const auto bits_by = [&scales](const Stored& stored, const std::vector<float>& amax) {
    return [&](Index i) { return scale_bits(scales, i, stored(nth(amax, i))); };
  };
  if (q.own) {
    const std::vector<Index> all = range_of(static_cast<Index>(q.amax.size()));
    for (const auto& [words, own] : q.own->other_limits()) {
      const Stored stored = [&own = own](float a) { return own.stored(a); };
      const auto bits = bits_by(stored, q.amax);
      const auto came = [&](Index i) { return bits(i) == scales.actual_bits(i); };
      if (std::all_of(all.begin(), all.end(), came))
        return claim_model(scales, bits, "scale.limits", words);
    }
  }
  if (const auto rule = rule_of(q.amax, *scales.actual, q.format)) {
    const bool plain = q.own && q.own->rounds_to_powers() && !rule->powers;
    auto claim =
        claim_model(scales, bits_by(rule->stored, q.amax), "scale.rule",
                    rule->words + (plain ? ", not rounded to a power of two" : "") + rule->stacks);
    if (claim) claim->yields = !rule->named;
    return claim;
  }
  // The rule is the one that was asked for, of another amax.
  Stored stored;
  if (q.own) {
    stored = [&q](float a) { return q.own->stored(a); };
  } else if (const auto rule = rule_of(q.amax, *scales.expected, q.format)) {
    stored = rule->stored;
  }
  // A scale of 1 says that there is none sooner than whose amax it is.
  const std::optional<OneScale> one = one_scale(scales, q.amax, stored);
  if (one && (one->of_all || one->of_whole)) {
    if (auto claim = claim_one(scales, q.amax, *one)) return claim;
  }
  if (!stored) return std::nullopt;
  const auto of_another = [&](const std::string& words, const std::vector<float>& other) {
    auto claim =
        claim_model(scales, bits_by(stored, other), "scale.amax", "amax is that of " + words, 8);
    for (std::size_t s = 0; claim && s < q.amax.size(); ++s) {
      const auto at = static_cast<Index>(s);
      if (scales.actual_bits(at) != scales.expected_bits(at)) q.amax[s] = other[s];
    }
    if (claim) claim->yields = true;  // to a rule that somebody has
    return claim;
  };
  // What gives every scale goes first: a running amax is that of the tensor, but for what comes
  // before its largest value.
  const std::vector<AmaxWindow> windows = other_windows(q.blocks, q.amax);
  for (const AmaxWindow& window : windows) {
    const auto bits = bits_by(stored, window.amax);
    Index s = 0;
    while (s < static_cast<Index>(q.amax.size()) && bits(s) == scales.actual_bits(s)) ++s;
    if (s < static_cast<Index>(q.amax.size())) continue;
    if (auto claim = of_another(window.words, window.amax)) return claim;
  }
  if (q.own) {
    if (const auto part = part_of_blocks(q)) {
      if (auto claim = of_another(part->words, part->amax)) return claim;
    }
  }
  for (const AmaxWindow& window : windows) {
    if (auto claim = of_another(window.words, window.amax)) return claim;
  }
  return one && !one->of_whole ? claim_one(scales, q.amax, *one) : std::nullopt;
}

}  // namespace mxo
