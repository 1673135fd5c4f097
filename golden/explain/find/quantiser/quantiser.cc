// Scales and codes of a quantiser, one after the other; blocks of zeros, and what else is seen.
#include "golden/explain/find/quantiser/quantiser.h"

#include <algorithm>
#include <cmath>

#include "golden/explain/case/product.h"
#include "golden/explain/find/quantiser/quantiser_call.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

/// What is left of an output, claimed as it looks.
std::optional<Claim> claim_seen(Output& scales, const QuantiserCall& q) {
  const std::string words = scales_in_words(q, true);
  if (words.empty()) return std::nullopt;
  const auto differs = [&](Index i) {
    return scales.marks[static_cast<std::size_t>(i)] == Mark::differs;
  };
  Claim claim{"scale.seen", words, place_of(scales, differs).where};
  claim.kind = FindingKind::symptom;
  claim.elements = static_cast<double>(scales.left);
  for (Index i = 0; i < scales.rows * scales.columns; ++i) scales.settle(i);
  return claim;
}

// ---- Blocks of zeros.

constexpr Index kLeastNumbers = 8;  ///< blocks that are not zero

/// Which scales are of blocks that are all zero, and how many are of others.
struct Zeros {
  std::vector<std::uint8_t> is;  ///< of each scale
  Index others = 0;
  bool any = false;
  bool at(Index scale) const { return scale >= 0 && is[static_cast<std::size_t>(scale)] != 0; }
};

Zeros zeros_of(const QuantiserCall& q) {
  Zeros zeros{std::vector<std::uint8_t>(q.amax.size())};
  std::vector<std::uint8_t> used(q.amax.size());
  for (Index row = 0; row < q.blocks.x->elements(); row += q.blocks.columns) {
    for (Index c = 0; c < q.blocks.columns; c += q.blocks.block_columns) {
      const Index s = q.blocks.scale_of(row + c);
      if (s >= 0) used[static_cast<std::size_t>(s)] = 1;
    }
  }
  for (std::size_t s = 0; s < used.size(); ++s) {
    zeros.is[s] = used[s] != 0 && q.amax[s] == 0.0f;
    zeros.any = zeros.any || zeros.is[s] != 0;
    zeros.others += used[s] != 0 && zeros.is[s] == 0;
  }
  return zeros;
}

/// The one scale of all blocks of zeros, where these are all that is wrong; -1 if they are not.
Index scale_of_zeros(const Output& scales, const Zeros& zeros) {
  Index first = -1;
  if (scales.left == 0) return first;
  for (Index i = 0; i < scales.expected->elements(); ++i) {
    if (!zeros.at(i)) {
      if (scales.marks[static_cast<std::size_t>(i)] == Mark::differs) return -1;
      continue;
    }
    if (first < 0) first = i;
    const double one = scale_value(*scales.actual, first);
    const double here = scale_value(*scales.actual, i);
    if (one != here && !(std::isnan(one) && std::isnan(here))) return -1;
  }
  return first;
}

/// Whether all codes of blocks of zeros came as NaN, and no others where a number is expected.
bool zeros_are_nan(const QuantiserCall& q, const Zeros& zeros) {
  const ElementReader read(q.format);
  for (Index i = 0; i < q.codes.expected->elements(); ++i) {
    const bool differs = q.codes.marks[static_cast<std::size_t>(i)] == Mark::differs;
    if (zeros.at(q.blocks.scale_of(i)) != (differs && read(q.codes.came(i)).nan)) return false;
  }
  return true;
}

/// Whether the blocks of zeros are neighbouring rows as a whole: padding, which nobody may write.
bool are_padding(const Blocks& b, const Zeros& zeros) {
  std::vector<Index> rows;
  for (Index r = 0; r < b.x->elements() / b.columns; ++r) {
    Index blocks = 0;
    Index zero = 0;
    for (Index c = 0; c < b.columns; c += b.block_columns, ++blocks)
      zero += zeros.at(b.scale_of(r * b.columns + c));
    if (zero > 0 && zero < blocks) return false;
    if (zero > 0) rows.push_back(r);
  }
  return runs(rows) == 1;
}

template <typename IsExplained>
void settle_where(const IsExplained& is_explained, Output& output, Claim& claim) {
  claim.where.tensor += (claim.where.tensor.empty() ? "" : ", ") + output.name;
  const Index before = output.left;
  for (Index i = 0; i < output.expected->elements(); ++i) {
    if (is_explained(i)) output.settle(i);
  }
  claim.elements += static_cast<double>(before - output.left);
}

}  // namespace

void mark_what_follows(const Call& call, std::vector<Output>& outputs) {
  const std::optional<QuantiserCall> q = QuantiserCall::of(call, outputs);
  if (q && q->own && q->codes.left > 0 && q->scales.left > 0)
    output_named(outputs, "codes")->follows = codes_follow(*q);
}

std::vector<Claim> recover_quantiser(const Call& call, std::vector<Output>& outputs) {
  std::optional<QuantiserCall> q = QuantiserCall::of(call, outputs);
  if (!q) return {};
  Output& codes = *output_named(outputs, "codes");
  Output& scales = *output_named(outputs, "scales");
  std::vector<Claim> claims;
  if (scales.left > 0) {
    auto claim = claim_scales(scales, *q);
    if (!claim && codes.follows) claim = claim_seen(scales, *q);
    if (claim) claims.push_back(std::move(*claim));
  }
  if (codes.left == 0) return claims;
  std::optional<Claim> claim = claim_codes(codes, *q);
  if (!claim) return claims;
  if (claim->kind != FindingKind::follows) {
    claims.push_back(std::move(*claim));
  } else if (claims.empty()) {
    // Codes that follow from scales nobody can explain: the scales are what is wrong.
    claim->sentence = "codes follow from the scales that came, and these are not the ones expected";
    claims.push_back(std::move(*claim));
  } else {
    claims.front().elements += claim->elements;
    claims.front().where.tensor = "scales, codes";
  }
  return claims;
}

std::vector<Claim> recover_zero_blocks(const Call& call, std::vector<Output>& outputs) {
  const std::optional<QuantiserCall> q = QuantiserCall::of(call, outputs);
  if (!q) return {};
  const Zeros zeros = zeros_of(*q);
  if (!zeros.any || zeros.others < kLeastNumbers) return {};
  const Index scale = scale_of_zeros(q->scales, zeros);
  const bool nan = zeros_are_nan(*q, zeros);
  if (scale < 0 && !nan) return {};
  const bool nan_scale = scale >= 0 && std::isnan(scale_value(*q->scales.actual, scale));
  Claim claim;
  claim.kind = FindingKind::symptom;
  claim.id = nan || nan_scale ? "zero_blocks.nan" : "zero_blocks.scale";
  claim.sentence = "blocks of x that are all zero, and no others, have ";
  if (nan) claim.sentence += std::string("codes that are NaN") + (scale >= 0 ? " and " : "");
  if (scale >= 0) {
    claim.sentence += "a scale of " + scale_in_words(*q->scales.actual, scale) + " rather than " +
                      scale_in_words(*q->scales.expected, scale);
    settle_where([](Index) { return true; }, *output_named(outputs, "scales"), claim);
  }
  if (nan) {
    settle_where([&](Index i) { return zeros.at(q->blocks.scale_of(i)); },
                 *output_named(outputs, "codes"), claim);
  }
  if (nan || nan_scale) {
    claim.sentence += ": as 0 / 0 is, of an amax without a floor";
    if (are_padding(q->blocks, zeros)) claim.sentence += ", or rows that were never written";
  } else if (const auto rule = rule_of(q->amax, *q->scales.actual, q->format)) {
    claim.sentence += rule->stacks;
  }
  return {claim};
}

std::string scales_seen(const Call& call, const std::vector<Output>& outputs) {
  const std::optional<QuantiserCall> q = QuantiserCall::of(call, outputs);
  return q ? scales_in_words(*q, false) : std::string();
}

std::string magnitudes_seen(const Call& call, const std::vector<Output>& outputs) {
  const std::optional<QuantiserCall> q = QuantiserCall::of(call, outputs);
  if (!q || q->codes.left == 0) return {};
  std::vector<std::uint8_t> differs(q->amax.size());
  for (Index i = 0; i < q->codes.owed * q->codes.columns; ++i) {
    const Index s = q->blocks.scale_of(i);
    if (s >= 0 && q->codes.marks[static_cast<std::size_t>(i)] == Mark::differs)
      differs[static_cast<std::size_t>(s)] = 1;
  }
  struct Magnitudes {
    float least = HUGE_VALF;
    float most = 0.0f;
    Index blocks = 0;
  };
  Magnitudes right;
  Magnitudes wrong;
  for (std::size_t s = 0; s < q->amax.size(); ++s) {
    const float a = q->amax[s];
    if (std::isnan(a) || a == 0.0f) continue;
    Magnitudes& m = differs[s] != 0 ? wrong : right;
    m = {std::min(m.least, a), std::max(m.most, a), m.blocks + 1};
  }
  constexpr Index kLeast = 4;
  const bool lower = wrong.most < right.least;
  if (right.blocks < kLeast || wrong.blocks < kLeast || (!lower && wrong.least <= right.most))
    return {};
  return "exactly the blocks with an amax of " +
         number(static_cast<double>(lower ? wrong.most : wrong.least), 6) +
         (lower ? " and less differ" : " and more differ");
}

}  // namespace mxo
