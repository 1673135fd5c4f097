// Prefixes and suffixes of a block, and single elements, whose amax gives the scale that came.
#include "golden/explain/recover/seen_scales.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "golden/explain/name/places.h"
#include "golden/explain/product.h"
#include "golden/explain/recover/amax_parts.h"
#include "golden/explain/recover/quantiser.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kMostScales = 2;  ///< that are told one by one

std::string digits(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", v);
  return text;
}

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

/// "rows 0 to 15 of x", "the first 256 of its 512 elements": as many as are round from `least` to
/// `most` elements, walked from either end.
std::string part_in_words(const Blocks& b, const std::vector<Index>& block, Index least, Index most,
                          bool from_behind) {
  const auto all = static_cast<Index>(block.size());
  const auto row_of = [&](Index n) {
    return block[static_cast<std::size_t>(from_behind ? all - n : n - 1)] / b.columns;
  };
  const Index first = row_of(1);
  const Index rows = std::abs(row_of(all) - first) + 1;
  const Index with_least = std::abs(row_of(least) - first) + 1;
  const Index whole = std::abs(row_of(most + 1) - first);  // rows before the one that is larger
  if (whole >= with_least) {
    const Index n = roundest(with_least, whole, rows);
    const Index from = from_behind ? first - n + 1 : first;
    return "rows " + std::to_string(from) + " to " + std::to_string(from + n - 1) + " of x";
  }
  return std::string("the ") + (from_behind ? "last " : "first ") +
         std::to_string(roundest(least, most, all)) + " of its " + std::to_string(all) +
         " elements";
}

/// The part of a block whose amax gives a scale, from either end of it.
std::optional<std::string> part_that_gives(const Blocks& b, const OwnCodes& own,
                                           const std::vector<Index>& block, float came) {
  for (const bool from_behind : {false, true}) {
    float most = 0.0f;
    std::size_t least = block.size();
    for (std::size_t n = 0; n < block.size(); ++n) {
      const float v = std::fabs(b.value(block[from_behind ? block.size() - 1 - n : n]));
      if (!(v > most)) continue;
      const bool gives = own.stored(v) == came;
      if (least < block.size() && !gives) {
        return ", as an amax of " + digits(static_cast<double>(most)) + " gives it: that of " +
               part_in_words(b, block, static_cast<Index>(least) + 1, static_cast<Index>(n),
                             from_behind);
      }
      most = v;
      if (gives && least == block.size()) least = n;
    }
  }
  return std::nullopt;
}

/// The element of a block whose magnitude gives a scale.
std::string holder_in_words(const Blocks& b, const OwnCodes& own, const std::vector<Index>& block,
                            float came) {
  const auto holder = std::find_if(block.begin(), block.end(), [&](Index i) {
    return own.stored(std::fabs(b.value(i))) == came;
  });
  if (holder == block.end()) return ", as no element of its block gives it";
  return ", as an amax of " + digits(static_cast<double>(std::fabs(b.value(*holder)))) +
         " gives it, which row " + std::to_string(*holder / b.columns) + ", column " +
         std::to_string(*holder % b.columns) + " of x holds";
}

/// A few scales that are those of the same part of their blocks.
std::string common_part_in_words(const Output& scales, const Blocks& blocks, const OwnCodes& own) {
  constexpr Index kLeast = 2;
  constexpr Index kMany = 8;  // from here on they are a cause
  if (scales.left < kLeast || scales.left >= kMany || scales.left != scales.differing) return {};
  const auto part = amax_part_of(scales, blocks, own);
  return part ? "scales: what an amax of " + part->words + " gives" : std::string();
}

/// What is seen of the scales that are left; `parts`: only of parts of blocks.
std::string in_words(const Output& scales, const Blocks& blocks, const OwnCodes& own, bool parts) {
  std::string text = common_part_in_words(scales, blocks, own);
  if (!text.empty() || scales.left == 0 || scales.left > kMostScales) return text;
  for (Index i = 0; i < scales.rows * scales.columns; ++i) {
    if (scales.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
    const double want = scale_value(*scales.expected, i);
    const double came = scale_value(*scales.actual, i);
    if (!(want > 0.0) || !(came > 0.0) || std::isinf(want) || std::isinf(came)) return {};
    const std::vector<Index> block = elements_of(blocks, i);
    const auto part = part_that_gives(blocks, own, block, static_cast<float>(came));
    if (parts && !part) return {};
    text += (text.empty() ? "" : "; ") + place_of(scales, [i](Index at) { return at == i; }).words +
            " is " + digits(came / want) + " times what is expected" +
            (part ? *part : holder_in_words(blocks, own, block, static_cast<float>(came)));
  }
  return text;
}

}  // namespace

std::string seen_scales_in_words(const Output& scales, const Blocks& blocks, const OwnCodes& own) {
  return in_words(scales, blocks, own, false);
}

std::optional<Claim> claim_seen_scales(Output& scales, const Blocks& blocks, const OwnCodes& own) {
  const std::string text = in_words(scales, blocks, own, true);
  if (text.empty()) return std::nullopt;
  const Place place = place_of(
      scales, [&](Index i) { return scales.marks[static_cast<std::size_t>(i)] == Mark::differs; });
  Claim claim{"scale.seen", text, place.where};
  claim.elements = static_cast<double>(scales.left);
  claim.kind = Kind::symptom;
  for (Index i = 0; i < scales.rows * scales.columns; ++i) scales.settle(i);
  return claim;
}

std::string scales_seen(const Call& call, const std::vector<Output>& outputs) {
  const auto is = [](const char* name) {
    return [name](const Output& o) { return o.name == name; };
  };
  const auto codes = std::find_if(outputs.begin(), outputs.end(), is("codes"));
  const auto scales = std::find_if(outputs.begin(), outputs.end(), is("scales"));
  if (codes == outputs.end() || scales == outputs.end()) return {};
  const Dtype format = call.set.format("format", "e4m3");
  const std::optional<Blocks> blocks = blocks_of(call, *codes, *scales->expected);
  if (!blocks || !is_minifloat8(format)) return {};
  const auto own = OwnCodes::of(call, *codes, *blocks, *scales, amax_of(*blocks));
  return own ? seen_scales_in_words(*scales, *blocks, *own) : std::string();
}

}  // namespace mxo
