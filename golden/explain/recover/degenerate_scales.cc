// One scale for all, and scales and codes of 0 / 0.
#include "golden/explain/recover/degenerate_scales.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "golden/explain/product.h"
#include "golden/explain/find/product/blocks.h"
#include "golden/explain/recover/model.h"

namespace mxo {
namespace {

constexpr Index kLeastTold = 8;

bool same_scale(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// "2^-7 (byte 120)", "NaN", "0.0125".
std::string in_words(const Tensor& scales, Index i) {
  const double s = scale_value(scales, i);
  if (std::isnan(s)) return "NaN";
  if (std::isinf(s)) return "infinity";
  int e = 0;
  std::string text;
  if (std::frexp(s, &e) == 0.5) {
    text = e == 1 ? "1" : "2^" + std::to_string(e - 1);
  } else {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.9g", s);
    text = digits.data();
  }
  if (size_of(scales.dtype()) != 1) return text;
  return text + " (byte " + std::to_string(bits_at(scales, i)) + ")";
}

/// What blocks of x are made of, one entry for each scale.
enum class Content : std::uint8_t { none, zeros, numbers };
std::vector<Content> contents_of(const Blocks& b, const std::vector<float>& amax) {
  std::vector<Content> contents(amax.size(), Content::none);
  for (Index first = 0; first < b.x->elements(); first += b.columns) {
    for (Index c = 0; c < b.columns; c += b.block_columns) {
      const Index s = b.scale_of(first + c);
      if (s < 0) continue;
      const bool zero = amax[static_cast<std::size_t>(s)] == 0.0f;
      contents[static_cast<std::size_t>(s)] = zero ? Content::zeros : Content::numbers;
    }
  }
  return contents;
}

/// The one scale of all blocks of zeros, where these are all that is wrong; -1 if they are not.
Index scale_of_zeros(const Output& scales, const std::vector<Content>& contents) {
  Index first = -1;
  if (scales.left == 0) return first;
  for (Index i = 0; i < scales.expected->elements(); ++i) {
    if (contents[static_cast<std::size_t>(i)] != Content::zeros) {
      if (scales.marks[static_cast<std::size_t>(i)] == Mark::differs) return -1;
      continue;
    }
    if (first < 0) first = i;
    if (!same_scale(scale_value(*scales.actual, i), scale_value(*scales.actual, first))) return -1;
  }
  return first;
}

/// Whether all codes of blocks of zeros came as NaN, and no others where a number is expected.
bool zeros_are_nan(const Output& codes, const Blocks& blocks, const std::vector<Content>& contents,
                   Dtype format) {
  const ElementReader read(format);
  for (Index i = 0; i < codes.expected->elements(); ++i) {
    const Index s = blocks.scale_of(i);
    const bool zero = s >= 0 && contents[static_cast<std::size_t>(s)] == Content::zeros;
    const bool differs = codes.marks[static_cast<std::size_t>(i)] == Mark::differs;
    if (zero != (differs && read(codes.came(i)).nan)) return false;
  }
  return true;
}

/// Whether the blocks of zeros are neighbouring rows as a whole: padding, which nobody may write.
bool are_padding(const Blocks& b, const std::vector<Content>& contents) {
  std::vector<Index> rows;
  for (Index r = 0; r < b.x->elements() / b.columns; ++r) {
    bool zeros = true;
    bool any = false;
    for (Index c = 0; c < b.columns; c += b.block_columns) {
      const Index s = b.scale_of(r * b.columns + c);
      const bool zero = s >= 0 && contents[static_cast<std::size_t>(s)] == Content::zeros;
      zeros = zeros && zero;
      any = any || zero;
    }
    if (any && !zeros) return false;
    if (any) rows.push_back(r);
  }
  return runs(rows) == 1;
}

void settle_where(const std::function<bool(Index)>& is_explained, Output& output, Claim& claim) {
  claim.where.tensor += (claim.where.tensor.empty() ? "" : ", ") + output.name;
  for (Index i = 0; i < output.expected->elements(); ++i) {
    if (output.marks[static_cast<std::size_t>(i)] != Mark::differs || !is_explained(i)) continue;
    output.settle(i);
    claim.elements += 1.0;
  }
}

}  // namespace

std::optional<Claim> claim_one_scale(Output& scales, const std::vector<float>& amax,
                                     const ScaleRuleFound* rule) {
  if (scales.left != scales.differing) return std::nullopt;
  Index first = -1;
  Index others = 0;
  float most = 0.0f;
  for (Index i = 0; i < scales.expected->elements(); ++i) {
    const float a = amax[static_cast<std::size_t>(i)];
    const bool differs = scales.marks[static_cast<std::size_t>(i)] == Mark::differs;
    if (a == 0.0f && !differs) continue;  // of no block, maybe
    if (first < 0) first = i;
    if (scales.came(i) != scales.came(first)) return std::nullopt;
    others += differs;
    most = std::max(most, a);
  }
  if (others < kLeastTold) return std::nullopt;
  const double one = scale_value(*scales.actual, first);
  if (!(one > 0.0) || std::isinf(one)) return std::nullopt;
  const bool of_whole = rule != nullptr && static_cast<double>(rule->stored(most)) == one;
  if (of_whole && one != 1.0) return std::nullopt;
  Claim claim;
  claim.id = "scale.one";
  claim.sentence = "every scale is " + in_words(*scales.actual, first) + ", whatever amax is" +
                   (of_whole ? "; as well if amax is that of the whole tensor" : "");
  settle_where([](Index) { return true; }, scales, claim);
  return claim;
}

std::optional<Claim> claim_one_scale_in_part(Output& scales, const std::vector<float>& amax,
                                             const ScaleRuleFound& rule, bool of_whole) {
  const auto at = std::find(scales.marks.begin(), scales.marks.end(), Mark::differs);
  if (at == scales.marks.end()) return std::nullopt;
  const Index first = at - scales.marks.begin();
  const double one = scale_value(*scales.actual, first);
  if (!(one > 0.0) || std::isinf(one)) return std::nullopt;
  const float most = *std::max_element(amax.begin(), amax.end());
  if ((static_cast<double>(rule.stored(most)) == one) != of_whole || (of_whole && one != 1.0))
    return std::nullopt;
  return claim_model(
      scales, [came = scales.came(first)](Index) { return came; }, "scale.one",
      "every scale is " + in_words(*scales.actual, first) + ", whatever amax is" +
          (of_whole ? "; as well if amax is that of the whole tensor" : ""),
      kLeastTold);
}

std::vector<Claim> recover_zero_blocks(const Call& call, std::vector<Output>& outputs) {
  const auto named = [&](std::string_view name) {
    return std::find_if(outputs.begin(), outputs.end(),
                        [name](const Output& o) { return o.name == name; });
  };
  const auto codes = named("codes");
  const auto scales = named("scales");
  if (codes == outputs.end() || scales == outputs.end()) return {};
  const Dtype format = call.set.format("format", "e4m3");
  const std::optional<Blocks> blocks = blocks_of(call, *codes, *scales->expected);
  if (!blocks || !is_minifloat8(format)) return {};
  const std::vector<float> amax = amax_of(*blocks);
  const std::vector<Content> contents = contents_of(*blocks, amax);
  if (std::count(contents.begin(), contents.end(), Content::zeros) == 0 ||
      std::count(contents.begin(), contents.end(), Content::numbers) < kLeastTold) {
    return {};
  }
  const Index scale = scale_of_zeros(*scales, contents);
  const bool nan = zeros_are_nan(*codes, *blocks, contents, format);
  if (scale < 0 && !nan) return {};
  const bool nan_scale = scale >= 0 && std::isnan(scale_value(*scales->actual, scale));
  Claim claim;
  claim.id = nan || nan_scale ? "zero_blocks.nan" : "zero_blocks.scale";
  claim.kind = Kind::symptom;
  claim.sentence = "blocks of x that are all zero, and no others, have ";
  if (nan) claim.sentence += std::string("codes that are NaN") + (scale >= 0 ? " and " : "");
  if (scale >= 0) {
    claim.sentence += "a scale of " + in_words(*scales->actual, scale) + " rather than " +
                      in_words(*scales->expected, scale);
    settle_where([](Index) { return true; }, *scales, claim);
  }
  if (nan) {
    const auto is_zero = [&](Index i) {
      const Index s = blocks->scale_of(i);
      return s >= 0 && contents[static_cast<std::size_t>(s)] == Content::zeros;
    };
    settle_where(is_zero, *codes, claim);
  }
  if (nan || nan_scale) {
    claim.sentence += ": 0 / 0, an amax of zero that has no floor";
    if (are_padding(*blocks, contents)) claim.sentence += ", or rows that were never written";
  } else if (const auto rule = rule_of(amax, *scales->actual, format)) {
    claim.sentence += rule->stacks;
  }
  return {claim};
}

}  // namespace mxo
