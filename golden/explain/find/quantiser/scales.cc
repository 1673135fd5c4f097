// Whose scales came: of a measured rule, one for all blocks, or those of another amax.
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/quantiser/quantiser.h"

namespace mxo {
namespace {

constexpr Index kLeastAlike = 8;    ///< scales that are one number rather than chance
constexpr Index kMostTold = 2;      ///< scales that are told one by one
constexpr Index kLeastOfSign = 2;   ///< values of one sign that are larger than an amax
constexpr Index kLeastBeyond = 32;  ///< the same, all before or behind it

using Stored = std::function<float(float amax)>;

/// The bits of a scale; those expected where it is no number, of which a rule says nothing.
std::uint64_t scale_bits(const Output& scales, Index i, float s) {
  return std::isnan(s) ? scales.expected_bits(i) : scale_bits(scales.expected->dtype(), s);
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
  const auto first = std::ranges::find(scales.marks, Mark::differs);
  if (first == scales.marks.end()) return std::nullopt;
  const Index at = first - scales.marks.begin();
  const double one = scale_value(*scales.actual, at);
  if (!(one > 0.0) || std::isinf(one)) return std::nullopt;
  float most = 0.0f;
  for (const float a : amax) most = std::max(most, a);
  const bool of_whole = stored && static_cast<double>(stored(most)) == one;
  if (of_whole && one != 1.0) return std::nullopt;
  // Of one amax it is not told that it is that whatever amax is.
  const auto other = [&](Index s) {
    return scales.differs(s) && scales.expected_bits(s) != scales.expected_bits(at);
  };
  if (std::ranges::none_of(range_of(std::ssize(amax)), other)) return std::nullopt;
  const auto has_it = [&, bits = scales.actual_bits(at)](Index s) {
    const bool unused = nth(amax, s) == 0.0f && nth(scales.marks, s) == Mark::same;
    return unused || scales.actual_bits(s) == bits;
  };
  return OneScale{
      scales.actual_bits(at), of_whole,
      scales.left == scales.differing && std::ranges::all_of(range_of(std::ssize(amax)), has_it),
      "every scale is " + scale_in_words(*scales.actual, at) + ", whatever amax is" +
          (of_whole ? "; equivalently, amax is that of the whole tensor" : "")};
}

std::optional<Claim> claim_one(Output& scales, const OneScale& one) {
  if (scales.left < kLeastAlike) return std::nullopt;
  if (one.of_all) return claim_all(scales, {"scale.one"}, one.words).front();
  return claim_model(
      scales, [&](Index) { return one.bits; }, "scale.one", one.words, kLeastAlike);
}

/// Scales that are cut at the largest that came, or raised to the least.
std::optional<Claim> claim_bound(Output& scales, const QuantiserCall& q) {
  if (scales.left < kLeastAlike || scales.left != scales.differing) return std::nullopt;
  const auto first = std::ranges::find(scales.marks, Mark::differs) - scales.marks.begin();
  const double bound = scale_value(*scales.actual, first);
  const bool upper = scale_value(*scales.expected, first) > bound;
  bool varied = false;  // scales beyond the bound, of several values
  bool beside = false;  // one on its other side, that is right
  for (Index s = 0; s < std::ssize(q.amax); ++s) {
    const double want = scale_value(*scales.expected, s);
    const double got = scale_value(*scales.actual, s);
    if (got != (upper ? std::min(want, bound) : std::max(want, bound))) return std::nullopt;
    varied = varied || (scales.differs(s) && want != scale_value(*scales.expected, first));
    beside = beside || got != bound;
  }
  if (!varied || !beside) return std::nullopt;
  return claim_all(scales, {"scale.bound"},
                   filled("scales are at {} {}: those that should be {} came as this",
                          upper ? "most" : "least", scale_in_words(*scales.actual, first),
                          upper ? "larger" : "less"))
      .front();
}

/// f32 scales of blocks that are not zero, beside right codes, that came as the scale of zeros.
std::optional<Claim> claim_of_zeros(Output& scales, const QuantiserCall& q) {
  const bool begun = scales.left != scales.differing || scales.left < kLeastAlike;
  if (!q.own || q.codes.differing > 0 || begun || scales.expected->dtype() != Dtype::f32)
    return std::nullopt;
  const float zeros = q.own->stored(0.0f);
  const auto is_told = [&](Index s) {
    return !scales.differs(s) || scales.actual->as<float>()[s] == zeros;
  };
  // A zero or a one may be what a buffer held.
  if (!(zeros > 0.0f) || zeros == 1.0f || !std::ranges::all_of(range_of(compared(scales)), is_told))
    return std::nullopt;
  const auto words = [&](const Place& place) {
    return filled("{}{}the scale of zeros, {}", place.words, place.hold(), number(zeros, 4));
  };
  return claim_place(scales, {"scale.of_zeros", FindingKind::symptom}, words).front();
}

// ---- The amax of a part of each block.

/// What a part of a block consists of, from the front or from behind.
enum class Lines : std::uint8_t { columns, rows };
struct Walk {
  Lines of;
  bool from_behind;
};

/// The largest magnitude of so many first lines of a block.
std::vector<float> largest_of(const Blocks& b, const BlockPlace& block, const Walk& walk) {
  const Index lines = walk.of == Lines::columns ? block.columns : block.rows;
  std::vector<float> most(static_cast<std::size_t>(lines));
  for (Index r = 0; r < block.rows; ++r) {
    for (Index c = 0; c < block.columns; ++c) {
      const Index line = walk.of == Lines::columns ? c : r;
      float& m = nth(most, walk.from_behind ? lines - 1 - line : line);
      const float v = std::fabs(b.value((block.row + r) * b.columns + block.column + c));
      m = std::isnan(v) ? HUGE_VALF : std::max(m, v);
    }
  }
  for (std::size_t k = 1; k < most.size(); ++k) most[k] = std::max(most[k], most[k - 1]);
  return most;
}

/// How many first lines give a scale: from `least` to `most`.
struct Range {
  Index least;
  Index most;
};

/// The number of a range that the largest power of two divides.
Index roundest(const Range& range) {
  Index step = 1;
  while (range.most / (2 * step) * (2 * step) >= range.least) step *= 2;
  return range.most / step * step;
}

/// " (57 to 80 give the same)", where more than one number does.
std::string others_in_words(const Range& range) {
  return range.least == range.most ? std::string()
                                   : filled(" ({} to {} give the same)", range.least, range.most);
}

/// The part, from one end of the rows or columns of a block, whose amax gives every scale that
/// came; of several the roundest.
std::optional<AmaxWindow> part_of_blocks(const QuantiserCall& q) {
  if (q.blocks.tiled) return std::nullopt;
  const std::vector<BlockPlace> places = places_of(q.blocks);
  for (const Walk walk : {Walk{Lines::columns, false},
                          {Lines::columns, true},
                          {Lines::rows, false},
                          {Lines::rows, true}}) {
    const auto extent = walk.of == Lines::rows ? &BlockPlace::rows : &BlockPlace::columns;
    const Index length = std::invoke(extent, std::ranges::max(places, {}, extent));
    Range range{1, length - 1};
    for (std::size_t s = 0; s < places.size() && range.least <= range.most; ++s) {
      const double got = scale_value(*q.scales.actual, static_cast<Index>(s));
      if (places[s].rows == 0 || !std::isfinite(got)) continue;
      const std::vector<float> largest = largest_of(q.blocks, places[s], walk);
      const auto gives = [&](float a) { return static_cast<double>(q.own->stored(a)) == got; };
      const auto first = std::ranges::find_if(largest, gives);
      const auto end = std::find_if_not(first, largest.end(), gives);
      range.least = std::max(range.least, first - largest.begin() + 1);
      // A short block is whole from its end on.
      if (first == end) range.most = 0;
      if (end != largest.end()) range.most = std::min(range.most, end - largest.begin());
    }
    if (range.least > range.most) continue;
    const Index n = roundest(range);
    AmaxWindow part{
        filled("the {} {} of the {} {} of its block", walk.from_behind ? "last" : "first", n,
               length, walk.of == Lines::rows ? "rows" : "columns") +
            others_in_words(range),
        q.amax};
    for (std::size_t s = 0; s < places.size(); ++s) {
      if (places[s].rows == 0) continue;
      const std::vector<float> largest = largest_of(q.blocks, places[s], walk);
      part.amax[s] = nth(largest, std::min(n, std::ssize(largest)) - 1);
    }
    return part;
  }
  return std::nullopt;
}

// ---- A scale or two.

/// An element of a block, and the place that it has in x.
struct Held {
  float value;
  Index row;
  Index column;
};

/// ", as an amax of 3 gives it, which row 5, column 7 of x holds, beside 40 larger elements of its
/// block, in rows 16 to 63, all negative", of the largest element of a block that gives a scale.
/// `told`: by so many that lie so that they were left out; a few do by chance.
std::string holder_in_words(const QuantiserCall& q, const BlockPlace& block, float got,
                            bool& told) {
  // Powers of two are alike by chance.
  const bool powers = size_of(q.scales.expected->dtype()) == 1 || q.own->rounds_to_powers();
  std::vector<Held> held;
  for (Index r = block.row; r < block.row + block.rows; ++r)
    for (Index c = block.column; c < block.column + block.columns; ++c)
      held.push_back({q.blocks.value(r * q.blocks.columns + c), r, c});
  const auto size = [](const Held& h) { return std::fabs(h.value); };
  std::ranges::stable_sort(held, std::greater{}, size);
  const auto at =
      std::ranges::find_if(held, [&](const Held& h) { return q.own->stored(size(h)) == got; });
  if (at == held.end()) {
    const bool is_short = block.columns < q.blocks.block_columns;
    const Place other = place_of(q.scales, [&](Index i) {
      return !powers && scale_value(*q.scales.expected, i) == static_cast<double>(got);
    });
    return filled(", as no element of its block{} gives it{}",
                  is_short ? filled(", which ends after {} of {} columns,", block.columns,
                                    q.blocks.block_columns)
                           : std::string(),
                  other.elements == 1 ? ": it is that of " + other.words : std::string());
  }
  std::string words = filled(", as an amax of {} gives it, which row {}, column {} of {} holds",
                             number(size(*at), 4), at->row, at->column, q.blocks.name());
  const std::span<const Held> larger(held.begin(), at);
  if (larger.empty()) return words;
  const bool of_rows = block.rows > 1;
  const auto line = of_rows ? &Held::row : &Held::column;
  std::set<Index> lines;
  for (const Held& h : larger) lines.insert(h.*line);
  const char* noun = of_rows ? "row" : "column";
  words += filled(", beside {} of its block, in {}", counted(std::ssize(larger), "larger element"),
                  ranges_in_words(noun, {lines.begin(), lines.end()}));
  if (powers) return words;
  const bool below = larger.front().value < 0.0f;
  if (std::ranges::all_of(larger, [&](const Held& h) { return std::signbit(h.value) == below; })) {
    words += below ? ", all negative" : ", all positive";
    told = std::ssize(larger) >= kLeastOfSign;
  }
  const bool before = (*at).*line < *lines.begin();
  if (std::ssize(larger) < kLeastBeyond || (!before && (*at).*line < *lines.rbegin())) return words;
  told = true;
  const Index begin = of_rows ? block.row : block.column;
  const Index end = begin + (of_rows ? block.rows : block.columns);
  return words + filled(": {}s {} to {} of {} hold none", noun,
                        before ? begin : *lines.rbegin() + 1, (before ? *lines.begin() : end) - 1,
                        q.blocks.name());
}

/// ", as a maximum of 448 rather than 240 gives it", of f32 scales that are so many times their
/// own; a power of two may be anything.
std::optional<std::string> maximum_in_words(const QuantiserCall& q, double ratio) {
  if (size_of(q.scales.expected->dtype()) == 1) return std::nullopt;
  const bool inverse = q.own->stored(2.0f) < q.own->stored(1.0f);
  const double own = largest(q.format);
  const double most = inverse ? ratio * own : own / ratio;
  for (const double max : {448.0, 240.0, 57344.0, 224.0, 127.0, 256.0, 98304.0}) {
    const bool power = std::exp2(std::round(std::log2(max / own))) == max / own;
    if (!power && std::abs(most / max - 1.0) <= 0x1p-21)
      return filled(", as a maximum of {} rather than {} gives it", number(max, 7), number(own, 7));
  }
  return std::nullopt;
}

}  // namespace

/// "all of experts 1 to 3 of scales hold what is expected in all of expert 0 of scales", of f32
/// scales that all hold what is expected of one block; empty otherwise.
std::string one_block_in_words(const Output& scales) {
  if (scales.expected->dtype() != Dtype::f32 || scales.left < 2 || scales.left != scales.differing)
    return {};
  const auto first = std::ranges::find(scales.marks, Mark::differs) - scales.marks.begin();
  const std::uint64_t held = scales.actual_bits(first);
  const auto holds = [&](Index i) { return scales.expected_bits(i) == held; };
  const auto fits = [&](Index i) { return !scales.differs(i) || scales.actual_bits(i) == held; };
  if (!std::ranges::all_of(range_of(compared(scales)), fits)) return {};
  const Place source = place_of(scales, holds);
  if (source.elements != 1) return {};
  const Place place = place_of(scales, [&](Index i) { return scales.differs(i); });
  return filled("{}{}what is expected in {}", place.words, place.hold(), source.words);
}

std::string scales_in_words(const QuantiserCall& q, bool parts) {
  const Output& scales = q.scales;
  if (!q.own || scales.left == 0) return {};
  if (std::string one = one_block_in_words(scales); !one.empty()) return one;
  // A few scales that are those of the same part of their blocks; from kLeastAlike on a cause.
  if (scales.left >= 2 && scales.left < kLeastAlike && scales.left == scales.differing)
    if (const auto part = part_of_blocks(q)) return "scales: those of an amax of " + part->words;
  if (scales.left > kMostTold) return {};
  const std::vector<BlockPlace> places = places_of(q.blocks);
  std::string text;
  for (Index i = 0; i < scales.rows * scales.columns; ++i) {
    if (!scales.differs(i)) continue;
    const double want = scale_value(*scales.expected, i);
    const double got = scale_value(*scales.actual, i);
    if (!(want > 0.0) || !(got > 0.0) || std::isinf(want) || std::isinf(got)) return {};
    std::optional<std::string> why = maximum_in_words(q, got / want);
    bool told = why.has_value();
    if (!why) why = holder_in_words(q, nth(places, i), static_cast<float>(got), told);
    if (parts && !told) return {};
    list_words(text,
               filled("{} is {} times what is expected{}",
                      place_of(scales, [i](Index at) { return at == i; }).words,
                      number(got / want, 4), *why),
               "; ");
  }
  return text;
}

std::optional<Claim> claim_scales(Output& scales, QuantiserCall& q) {
  const auto bits_by = [&scales](const Stored& stored, const std::vector<float>& amax) {
    return [&](Index i) { return scale_bits(scales, i, stored(nth(amax, i))); };
  };
  const auto gives_all = [&](const Stored& stored, const std::vector<float>& amax) {
    return std::ranges::all_of(
        range_of(compared(scales)),
        [&, bits = bits_by(stored, amax)](Index i) { return bits(i) == scales.actual_bits(i); });
  };
  Stored stored;  // by the rule that was asked for
  if (q.own) {
    stored = [&q](float a) { return q.own->stored(a); };
    for (const auto& [words, own] : q.own->other_limits()) {
      const Stored limited = [&own = own](float a) { return own.stored(a); };
      if (gives_all(limited, q.amax))
        return claim_model(scales, bits_by(limited, q.amax), "scale.limits", words);
    }
  }
  if (const auto rule = rule_of(q.amax, *scales.actual, q.format)) {
    const bool plain = q.own && q.own->rounds_to_powers() && !rule->powers;
    auto claim =
        claim_model(scales, bits_by(rule->stored, q.amax), "scale.rule",
                    rule->words + (plain ? ", not rounded to a power of two" : "") + rule->stacks,
                    rule->named ? 2 : kLeastAlike);
    if (claim) claim->yields = !rule->named;
    return claim;
  }
  if (!q.own)
    if (const auto rule = rule_of(q.amax, *scales.expected, q.format)) stored = rule->stored;
  if (auto claim = claim_bound(scales, q)) return claim;
  // A scale of 1 says that there is none sooner than whose amax it is.
  const std::optional<OneScale> one = one_scale(scales, q.amax, stored);
  if (one && (one->of_all || one->of_whole))
    if (auto claim = claim_one(scales, *one)) return claim;
  std::set<float> told;
  for (Index s = 0; s < std::ssize(q.amax); ++s)
    if (scales.differs(s)) told.insert(nth(q.amax, s));
  if (!stored || told.size() < 2) return std::nullopt;  // blocks of one amax are one witness
  // What gives every scale goes first: a running amax is that of the tensor, but for what comes
  // before its largest value.
  std::vector<AmaxWindow> windows = other_windows(q.blocks, q.amax);
  const auto others = std::stable_partition(
      windows.begin(), windows.end(),
      [&](const AmaxWindow& window) { return gives_all(stored, window.amax); });
  std::string alike;
  for (auto window = windows.begin(); window < others; ++window)
    if (window > windows.begin()) list_words(alike, window->words, ", or ");
  if (q.own && others == windows.begin())
    if (auto part = part_of_blocks(q)) windows.insert(windows.begin(), *std::move(part));
  for (const AmaxWindow& window : windows) {
    auto claim = claim_model(
        scales, bits_by(stored, window.amax), "scale.amax",
        "amax is that of " + window.words + (alike.empty() ? alike : "; equivalently, of " + alike),
        kLeastAlike);
    if (!claim) continue;
    for (Index s = 0; s < std::ssize(q.amax); ++s)
      if (scales.actual_bits(s) != scales.expected_bits(s)) nth(q.amax, s) = nth(window.amax, s);
    claim->yields = true;  // to a rule that somebody has
    return claim;
  }
  if (auto claim = claim_of_zeros(scales, q)) return claim;
  return one && !one->of_whole ? claim_one(scales, *one) : std::nullopt;
}

}  // namespace mxo
