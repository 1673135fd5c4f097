// Pairs to rules.
#include "golden/explain/recover/quantiser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "golden/explain/product.h"
#include "golden/explain/recover/blocks.h"
#include "golden/explain/recover/code_rule.h"
#include "golden/explain/recover/degenerate_scales.h"
#include "golden/explain/recover/model.h"
#include "golden/explain/recover/scale_rule.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

/// Neighbours in a row that share a scale.
struct BlockRun {
  Index first;
  Index count;
  Index scale;
};

/// What x becomes before it is rounded.
struct Cast {
  std::string words;  ///< empty: as the operator is defined
  std::function<void(const BlockRun&, double* values)> run;

  double value(Index i, Index scale) const {
    double v = 0.0;
    run({i, 1, scale}, &v);
    return v;
  }
};

/// A cast whose `by(scale)` gives what turns a value of such a block into the one that is rounded.
template <typename By>
Cast make_cast(std::string words, const Blocks& b, By by) {
  return {std::move(words), [&b, by](const BlockRun& run, double* values) {
            const auto turned = by(run.scale);
            for (Index i = 0; i < run.count; ++i) {
              values[i] = static_cast<double>(turned(b.value(run.first + i)));
            }
          }};
}

/// Elements from blocks in which codes are left, and from some others.
std::vector<Index> sample_of(const Output& codes, Index most) {
  const Index n = codes.rows * codes.columns;
  std::vector<Index> found;
  const Index step = std::max<Index>(1, codes.left / most);
  Index seen = 0;
  for (Index i = 0; i < n; ++i) {
    if (codes.marks[static_cast<std::size_t>(i)] == Mark::differs && seen++ % step == 0)
      found.push_back(i);
  }
  const Index stride = std::max<Index>(1, n / most);
  for (Index i = 0; i < n; i += stride) {
    if (codes.marks[static_cast<std::size_t>(i)] != Mark::settled) found.push_back(i);
  }
  return found;
}

/// Every way in which x may have met its scale; the operator's own first.
std::vector<Cast> casts_of(const Blocks& b, const Tensor& scales, const std::vector<float>& amax,
                           Dtype format) {
  std::vector<Cast> list;
  const auto rounded = [](float v) { return decode(encode<kBF16>(v)); };
  const auto divided = [&scales](Index s) {
    return [by = scale_value(scales, s)](float v) { return static_cast<double>(v) / by; };
  };
  if (size_of(scales.dtype()) == 1) {
    list.push_back(make_cast("", b, divided));
    list.push_back(make_cast("x is rounded to bf16 before the cast", b, [=](Index s) {
      return [=, by = divided(s)](float v) { return by(rounded(v)); };
    }));
  } else {
    const auto scale = [&scales](Index s) { return static_cast<float>(scale_value(scales, s)); };
    const auto times = [](auto factor) {
      return [factor](Index s) { return [by = factor(s)](float v) { return v * by; }; };
    };
    const auto inverse = [scale](Index s) { return 1.0f / scale(s); };
    list.push_back(make_cast("", b, times(inverse)));
    list.push_back(
        make_cast("x is divided by the stored scale rather than multiplied", b,
                  [scale](Index s) { return [by = scale(s)](float v) { return v / by; }; }));
    list.push_back(
        make_cast("x is multiplied by the stored number, which is no scale but its inverse", b,
                  times(scale)));
    list.push_back(
        make_cast("x is multiplied by one unit in the last place more than 1 / scale", b,
                  times([inverse](Index s) { return std::nextafter(inverse(s), 1e38f); })));
    list.push_back(
        make_cast("x is multiplied by one unit in the last place less than 1 / scale", b,
                  times([inverse](Index s) { return std::nextafter(inverse(s), 0.0f); })));
    list.push_back(make_cast("x is rounded to bf16 before the cast", b, [=](Index s) {
      return [=, by = inverse(s)](float v) { return rounded(v) * by; };
    }));
  }
  if (!b.tiled) {
    const Index n = scales.elements();
    const auto neighbour = [&](const char* words, Index by) {
      list.push_back(make_cast(words, b, [divided, by, n](Index own) {
        const Index s = own + by;
        return divided(s < 0 || s >= n ? own : s);
      }));
    };
    neighbour("codes are made with the scale of the block before", -1);
    neighbour("codes are made with the scale of the block after", 1);
    neighbour("codes are made with the scale of the row before", -b.scale_columns);
    neighbour("codes are made with the scale of the row after", b.scale_columns);
  }
  for (const Multiplier& m : multipliers(format)) {
    const auto factor = [&amax, of = m.of_amax](Index s) {
      return of(amax[static_cast<std::size_t>(s)]);
    };
    list.push_back(
        make_cast("codes are made with " + m.words + ", before the scale was rounded", b,
                  [factor](Index s) { return [by = factor(s)](float v) { return v * by; }; }));
    list.push_back(make_cast("codes are made with one unit in the last place more than " + m.words,
                             b, [factor](Index s) {
                               return [by = std::nextafter(factor(s), 1e38f)](float v) {
                                 return v * by;
                               };
                             }));
  }
  return list;
}

Output* named(std::vector<Output>& outputs, std::string_view name) {
  for (Output& o : outputs) {
    if (o.name == name) return &o;
  }
  return nullptr;
}

/// The bits of a scale; those owed where it is no number, of which a rule says nothing.
std::uint64_t scale_bits(const Output& scales, Index i, float s) {
  if (std::isnan(s)) return scales.wanted(i);
  if (size_of(scales.expected->dtype()) != 1) return bit_cast<std::uint32_t>(s);
  return static_cast<std::uint64_t>(
      std::clamp(std::log2(static_cast<double>(s)) + 127.0, 0.0, 254.0));
}

/// The scales of all blocks by a measured rule.
std::optional<Claim> claim_scales(Output& scales, const Blocks& blocks,
                                  const std::vector<float>& amax, Dtype format) {
  if (const auto rule = rule_of(amax, *scales.actual, format)) {
    return claim_model(
        scales,
        [&](Index i) {
          return scale_bits(scales, i, rule->stored(amax[static_cast<std::size_t>(i)]));
        },
        "scale.rule", rule->words + rule->stacks);
  }
  // The rule is the one owed, of another amax.
  const auto owed = rule_of(amax, *scales.expected, format);
  if (!owed) return claim_one_scale(scales, amax, nullptr);
  // A scale of 1 says that there is none sooner than whose amax it is.
  if (auto claim = claim_one_scale(scales, amax, &*owed)) return claim;
  if (auto claim = claim_one_scale_in_part(scales, amax, *owed, true)) return claim;
  for (const AmaxWindow& window : other_windows(blocks, amax)) {
    const auto claim = claim_model(
        scales,
        [&](Index i) {
          return scale_bits(scales, i, owed->stored(window.amax[static_cast<std::size_t>(i)]));
        },
        "scale.amax", std::string("amax is that of ") + window.words, 8);
    if (claim) return claim;
  }
  return claim_one_scale_in_part(scales, amax, *owed, false);
}

/// How the codes of a row fit one of some rules.
RowFit fit_of_row(const Output& codes, Index row, const Blocks& blocks, const Cast& cast,
                  std::initializer_list<const CodeRule*> rules, const Grid& grid) {
  RowFit found;
  std::vector<double> values(static_cast<std::size_t>(blocks.block_columns));
  const auto* came = codes.actual->as<std::uint8_t>();
  for (Index c = 0; c < codes.columns; c += blocks.block_columns) {
    const Index first = row * codes.columns + c;
    const Index count = std::min(blocks.block_columns, codes.columns - c);
    const Index scale = blocks.scale_of(first);
    if (scale >= 0) cast.run({first, count, scale}, values.data());
    for (Index i = 0; i < count; ++i) {
      const Mark mark = codes.marks[static_cast<std::size_t>(first + i)];
      if (mark == Mark::settled) continue;
      const double v = values[static_cast<std::size_t>(i)];
      const std::uint64_t code = came[first + i];
      const bool fits = scale < 0 || !std::isfinite(v)
                            ? mark == Mark::same
                            : std::any_of(rules.begin(), rules.end(), [&](const CodeRule* r) {
                                return r->gives(grid, v, code);
                              });
      if (!fits) return {false, 0};
      found.fixed += mark == Mark::differs;
    }
  }
  return found;
}

/// Elements that are not settled, whether they differ or not.
std::vector<Index> every(const Output& codes, Index most) {
  std::vector<Index> found;
  const Index n = codes.owed * codes.columns;
  for (Index i = 0; i < n; i += std::max<Index>(1, n / most) | 1) {
    if (codes.marks[static_cast<std::size_t>(i)] != Mark::settled) found.push_back(i);
  }
  return found;
}

std::vector<CodePair> pairs_of(const Output& codes, const Blocks& blocks, const Cast& cast,
                               const std::vector<Index>& elements, Dtype format) {
  const ElementReader read(format);
  std::vector<CodePair> pairs;
  for (const Index i : elements) {
    const Index s = blocks.scale_of(i);
    if (s < 0) continue;
    const double v = cast.value(i, s);
    const Element c = read(codes.came(i));
    if (!std::isfinite(v) || c.nan || c.infinite) continue;
    pairs.push_back({v, static_cast<std::size_t>(codes.came(i) & 0x7F)});
  }
  return pairs;
}

/// The least magnitude that came as NaN or infinity; 0 if none did, or one below the largest code.
double least_lost(const Output& codes, const Blocks& blocks, const Cast& cast, const Grid& grid) {
  double least = 0.0;
  for (Index i = 0; i < codes.owed * codes.columns; ++i) {
    if (codes.marks[static_cast<std::size_t>(i)] == Mark::settled) continue;
    if (!grid.no_number(codes.came(i)) || blocks.scale_of(i) < 0) continue;
    const double v = std::abs(cast.value(i, blocks.scale_of(i)));
    if (!std::isfinite(v)) continue;
    if (v <= grid.value(grid.top())) return 0.0;
    least = least == 0.0 ? v : std::min(least, v);
  }
  return least;
}

/// Whether codes go to either neighbour as often as their distances say.
bool rounds_at_random(const Grid& grid, const std::vector<CodePair>& pairs) {
  constexpr int kBins = 8;
  struct Bin {
    double n = 0;
    double up = 0;
    double owed = 0;
    double variance = 0;
  };
  std::array<Bin, kBins> bins{};
  for (const CodePair& p : pairs) {
    const double m = std::abs(p.v);
    const std::size_t low = grid.round(m, CodeRounding::zero);
    if (low == grid.top() || grid.value(low) == m) {
      if (p.code != low) return false;
      continue;
    }
    if (p.code != low && p.code != low + 1) return false;
    const double share = (m - grid.value(low)) / (grid.value(low + 1) - grid.value(low));
    Bin& bin = bins[static_cast<std::size_t>(share * kBins)];
    ++bin.n;
    bin.up += p.code == low ? 0.0 : 1.0;
    bin.owed += share;
    bin.variance += share * (1.0 - share);
  }
  return std::all_of(bins.begin(), bins.end(), [](const Bin& b) {
    return b.n >= 16 && std::abs(b.up - b.owed) <= 4.5 * std::sqrt(b.variance) + 1.0;
  });
}

/// Codes that are neighbours of their values, the nearer as often as it is nearer.
std::optional<Claim> claim_random_codes(Output& codes, const Blocks& blocks, const Cast& cast,
                                        const Grid& grid) {
  CodeRule down{CodeRounding::zero, grid.top(), 0, false};
  CodeRule up{CodeRounding::away, grid.top(), 0, false};
  const std::string words =
      "codes are rounded at random (stochastic rounding): each to one of the "
      "two neighbours of its value, the nearer as often as it is nearer";
  return claim_fits(
      codes,
      [&](Index row) {
        return fit_of_row(codes, row, blocks, cast, {&down, &up}, grid);
      },
      "codes.random", words, 64);
}

std::optional<Claim> claim_codes(Output& codes, const Blocks& blocks, const Tensor& scales,
                                 const std::vector<float>& amax, Dtype format, bool scales_differ) {
  const Grid grid(format);
  const std::vector<Index> sample = sample_of(codes, 16384);
  for (const Cast& cast : casts_of(blocks, scales, amax, format)) {
    const std::vector<CodePair> pairs = pairs_of(codes, blocks, cast, sample, format);
    if (pairs.size() < 32) return std::nullopt;
    std::optional<CodeRule> rule = fit(grid, pairs);
    if (rule) rule->lost = least_lost(codes, blocks, cast, grid);
    if (!rule && cast.words.empty() &&
        rounds_at_random(grid, pairs_of(codes, blocks, cast, every(codes, 16384), format))) {
      if (auto claim = claim_random_codes(codes, blocks, cast, grid)) return claim;
    }
    if (!rule) continue;
    std::string words = cast.words;
    const std::string more = rule->words(grid);
    if (!more.empty()) words += (words.empty() ? "" : "; ") + more;
    const bool usual = words.empty();
    if (usual && !scales_differ) return std::nullopt;
    const auto claim = claim_fits(
        codes, [&](Index row) { return fit_of_row(codes, row, blocks, cast, {&*rule}, grid); },
        usual ? "codes.follow" : "codes.rule", usual ? "codes follow from the scales" : words, 2);
    if (claim) return claim;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Claim> recover_quantiser(const Call& call, std::vector<Output>& outputs) {
  Output* codes = named(outputs, "codes");
  Output* scales = named(outputs, "scales");
  if (codes == nullptr || scales == nullptr || codes->left + scales->left == 0) return {};
  const std::optional<Blocks> blocks = blocks_of(call, *codes, *scales->expected);
  if (!blocks) return {};
  const Dtype format = call.set.format("format", "e4m3");
  if (!is_minifloat8(format)) return {};
  const std::vector<float> amax = amax_of(*blocks);
  std::vector<Claim> claims;
  if (scales->left > 0) {
    if (auto claim = claim_scales(*scales, *blocks, amax, format))
      claims.push_back(std::move(*claim));
  }
  if (codes->left > 0) {
    if (auto claim =
            claim_codes(*codes, *blocks, *scales->actual, amax, format, scales->differing > 0)) {
      const bool follows = claim->id == "codes.follow";
      if (follows && claims.empty()) {
        // Codes that follow from scales nobody can explain: the scales are what is wrong.
        claim->sentence =
            "codes follow from the scales that came, and these are not the ones expected";
      }
      if (follows && !claims.empty()) {
        claims.front().elements += claim->elements;
        claims.front().where.tensor = "scales, codes";
      } else {
        claims.push_back(std::move(*claim));
      }
    }
  }
  return claims;
}

}  // namespace mxo
