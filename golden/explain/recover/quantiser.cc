// Pairs to rules.
#include "golden/explain/recover/quantiser.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "golden/explain/product.h"
#include "golden/explain/recover/blocks.h"
#include "golden/explain/recover/model.h"
#include "golden/explain/recover/scale_rule.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

enum class Rounding : std::uint8_t { even, away_ties, zero_ties, zero, away, down, up };

constexpr const char* kRoundingWords[] = {
    "to nearest, ties to even",
    "to nearest, ties away from zero",
    "to nearest, ties toward zero",
    "toward zero (truncated)",
    "away from zero",
    "down, toward minus infinity",
    "up, toward plus infinity",
};

/// Magnitudes of a format in the order of their codes.
class Grid {
 public:
  explicit Grid(Dtype format) {
    const ElementReader read(format);
    for (std::uint64_t c = 0; c < 128; ++c) {
      const Element e = read(c);
      if (e.nan || e.infinite) break;
      values_.push_back(e.value);
    }
    fnuz_ = format == Dtype::e4m3fnuz || format == Dtype::e5m2fnuz;
    normal_ = format == Dtype::e4m3 || format == Dtype::e4m3fnuz ? 8 : 4;
  }
  std::size_t top() const { return values_.size() - 1; }
  double value(std::size_t code) const { return values_[code]; }
  double least_normal() const { return values_[normal_]; }
  bool fnuz() const { return fnuz_; }

  /// The magnitude code of |v|, saturated.
  std::size_t round(double v, Rounding rounding) const {
    const double m = std::abs(v);
    if (m >= values_.back()) return top();
    const auto above = std::upper_bound(values_.begin(), values_.end(), m);
    const auto low = static_cast<std::size_t>(above - values_.begin()) - 1;
    if (values_[low] == m) return low;
    const double half = 0.5 * (values_[low] + values_[low + 1]);
    switch (rounding) {
      case Rounding::even: return m > half || (m == half && (low & 1) != 0) ? low + 1 : low;
      case Rounding::away_ties: return m >= half ? low + 1 : low;
      case Rounding::zero_ties: return m > half ? low + 1 : low;
      case Rounding::zero: return low;
      case Rounding::away: return low + 1;
      case Rounding::down: return v < 0 ? low + 1 : low;
      case Rounding::up: break;
    }
    return v < 0 ? low : low + 1;
  }

 private:
  std::vector<double> values_;
  std::size_t normal_ = 1;
  bool fnuz_ = false;
};

/// What x becomes before it is rounded.
struct Cast {
  std::string words;  ///< empty: as the operator is defined
  std::function<double(Index)> value;
};

/// A rule of codes, measured.
struct CodeRule {
  Rounding rounding = Rounding::even;
  std::size_t clamp = 0;  ///< largest code
  double jump = 0;        ///< magnitudes above become the largest code; 0: none do
  bool flush = false;     ///< codes below the least normal one are zero
  bool usual(const Grid& g) const {
    return rounding == Rounding::even && clamp == g.top() && jump == 0 && !flush;
  }
  std::size_t code(const Grid& g, double v) const {
    const std::size_t c = std::min(g.round(v, rounding), clamp);
    if (jump > 0 && std::abs(v) > jump) return g.top();
    if (flush && g.value(c) < g.least_normal()) return 0;
    return c;
  }
  std::string words(const Grid& g) const {
    std::string text;
    const auto add = [&text](const std::string& more) {
      text += (text.empty() ? "" : "; ") + more;
    };
    if (rounding != Rounding::even) {
      add("codes are rounded " + std::string(kRoundingWords[static_cast<int>(rounding)]));
    }
    const auto number = [](double v) {
      std::string n = std::to_string(v);
      while (n.back() == '0') n.pop_back();
      if (n.back() == '.') n.pop_back();
      return n;
    };
    if (clamp != g.top()) add("codes are clamped at " + number(g.value(clamp)));
    if (jump > 0) add("everything above " + number(jump) + " becomes " + number(g.value(g.top())));
    if (flush) add("subnormal codes are flushed to zero");
    return text;
  }
};

/// A pair that the rule has to give.
struct Pair {
  double v;
  std::size_t code;
};

std::optional<CodeRule> fit(const Grid& g, const std::vector<Pair>& pairs) {
  std::size_t most = 0;
  for (const Pair& p : pairs) most = std::max(most, p.code);
  const double normal = g.least_normal();
  for (const Rounding rounding : {Rounding::even, Rounding::away_ties, Rounding::zero_ties,
                                  Rounding::zero, Rounding::away, Rounding::down, Rounding::up}) {
    CodeRule rule{rounding, g.top(), 0, false};
    Index wrong = 0;
    double least_wrong = std::numeric_limits<double>::infinity();
    bool only_top = true;
    bool only_clamped = true;
    bool low_fits = true;
    Index low_wrong = 0;
    for (const Pair& p : pairs) {
      const std::size_t c = g.round(p.v, rounding);
      if (c == p.code) continue;
      if (g.value(c) < normal && p.code == 0) {
        ++low_wrong;
        continue;
      }
      ++wrong;
      low_fits = low_fits && std::abs(p.v) >= 2 * normal;
      least_wrong = std::min(least_wrong, std::abs(p.v));
      only_top = only_top && p.code == g.top();
      only_clamped = only_clamped && p.code == most && c > most;
    }
    rule.flush = low_wrong > 0;
    if (wrong > 0 && low_fits && only_clamped) {
      rule.clamp = most;
    } else if (wrong > 0 && low_fits && only_top) {
      // The largest magnitude that still has its own code bounds where the jump begins.
      double kept = 0.0;
      for (const Pair& p : pairs) {
        if (p.code != g.top() && std::abs(p.v) < least_wrong) kept = std::max(kept, std::abs(p.v));
      }
      double jump = kept;
      for (std::size_t c = 0; c <= g.top(); ++c) {
        if (g.value(c) >= kept && g.value(c) < least_wrong) {
          jump = g.value(c);
          break;
        }
      }
      rule.jump = jump;
    } else if (wrong > 0) {
      continue;
    }
    const bool all = std::all_of(pairs.begin(), pairs.end(),
                                 [&](const Pair& p) { return rule.code(g, p.v) == p.code; });
    if (all) return rule;
  }
  return std::nullopt;
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
  const auto at = [&b](Index i) { return static_cast<std::size_t>(b.scale_of(i)); };
  const auto scale = [&b, &scales](Index i) { return scale_value(scales, b.scale_of(i)); };
  const auto rounded = [](float v) { return decode(encode<kBF16>(v)); };
  if (size_of(scales.dtype()) == 1) {
    list.push_back({"", [=, &b](Index i) { return static_cast<double>(b.value(i)) / scale(i); }});
    list.push_back({"x is rounded to bf16 before the cast", [=, &b](Index i) {
                      return static_cast<double>(rounded(b.value(i))) / scale(i);
                    }});
  } else {
    const auto f32 = [scale](Index i) { return static_cast<float>(scale(i)); };
    list.push_back(
        {"", [=, &b](Index i) { return static_cast<double>(b.value(i) * (1.0f / f32(i))); }});
    list.push_back({"x is divided by the stored scale rather than multiplied",
                    [=, &b](Index i) { return static_cast<double>(b.value(i) / f32(i)); }});
    list.push_back({"x is multiplied by the stored number, which is no scale but its inverse",
                    [=, &b](Index i) { return static_cast<double>(b.value(i) * f32(i)); }});
    list.push_back(
        {"x is multiplied by one unit in the last place more than 1 / scale", [=, &b](Index i) {
           return static_cast<double>(b.value(i) * std::nextafter(1.0f / f32(i), 1e38f));
         }});
    list.push_back(
        {"x is multiplied by one unit in the last place less than 1 / scale", [=, &b](Index i) {
           return static_cast<double>(b.value(i) * std::nextafter(1.0f / f32(i), 0.0f));
         }});
    list.push_back({"x is rounded to bf16 before the cast", [=, &b](Index i) {
                      return static_cast<double>(rounded(b.value(i)) * (1.0f / f32(i)));
                    }});
  }
  if (!b.tiled) {
    const Index n = scales.elements();
    const auto neighbour = [&](const char* words, Index by) {
      list.push_back({words, [&b, &scales, by, n](Index i) {
                        const Index s = b.scale_of(i) + by;
                        return static_cast<double>(b.value(i)) /
                               scale_value(scales, s < 0 || s >= n ? s - by : s);
                      }});
    };
    neighbour("codes are made with the scale of the block before", -1);
    neighbour("codes are made with the scale of the block after", 1);
    neighbour("codes are made with the scale of the row before", -b.scale_columns);
    neighbour("codes are made with the scale of the row after", b.scale_columns);
  }
  for (const Multiplier& m : multipliers(format)) {
    list.push_back({"codes are made with " + m.words + ", before the scale was rounded",
                    [=, &b, &amax](Index i) {
                      return static_cast<double>(b.value(i) * m.of_amax(amax[at(i)]));
                    }});
    list.push_back({"codes are made with one unit in the last place more than " + m.words,
                    [=, &b, &amax](Index i) {
                      return static_cast<double>(b.value(i) *
                                                 std::nextafter(m.of_amax(amax[at(i)]), 1e38f));
                    }});
  }
  return list;
}

Output* named(std::vector<Output>& outputs, std::string_view name) {
  for (Output& o : outputs) {
    if (o.name == name) return &o;
  }
  return nullptr;
}

std::optional<ScaleRuleFound> rule_of(const std::vector<float>& amax, const Tensor& scales,
                                      Dtype format) {
  if (size_of(scales.dtype()) == 1) {
    const auto* bytes = scales.as<std::uint8_t>();
    return e8m0_rule(amax, {bytes, bytes + scales.elements()}, format);
  }
  return f32_rule(amax, {scales.as<float>(), scales.as<float>() + scales.elements()}, format);
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
        "scale.rule", rule->words);
  }
  // The rule is the one owed, of another amax.
  const auto owed = rule_of(amax, *scales.expected, format);
  if (!owed) return std::nullopt;
  for (const AmaxWindow& window : other_windows(blocks, amax)) {
    const auto claim = claim_model(
        scales,
        [&](Index i) {
          return scale_bits(scales, i, owed->stored(window.amax[static_cast<std::size_t>(i)]));
        },
        "scale.amax", std::string("amax is that of ") + window.words, 8);
    if (claim) return claim;
  }
  return std::nullopt;
}

std::optional<Claim> claim_codes(Output& codes, const Blocks& blocks, const Tensor& scales,
                                 const std::vector<float>& amax, Dtype format, bool scales_differ) {
  const Grid grid(format);
  const ElementReader read(format);
  const std::vector<Index> sample = sample_of(codes, 16384);
  for (const Cast& cast : casts_of(blocks, scales, amax, format)) {
    std::vector<Pair> pairs;
    for (const Index i : sample) {
      if (blocks.scale_of(i) < 0) continue;
      const double v = cast.value(i);
      const Element c = read(codes.came(i));
      if (!std::isfinite(v) || c.nan || c.infinite) continue;
      pairs.push_back({v, static_cast<std::size_t>(codes.came(i) & 0x7F)});
    }
    if (pairs.size() < 32) return std::nullopt;
    const std::optional<CodeRule> rule = fit(grid, pairs);
    if (!rule) continue;
    std::string words = cast.words;
    const std::string more = rule->words(grid);
    if (!more.empty()) words += (words.empty() ? "" : "; ") + more;
    const bool usual = words.empty();
    if (usual && !scales_differ) return std::nullopt;
    const auto claim = claim_model(
        codes,
        [&](Index i) -> std::uint64_t {
          if (blocks.scale_of(i) < 0) return codes.wanted(i);
          const double v = cast.value(i);
          const std::uint64_t came = codes.came(i);
          if (!std::isfinite(v)) return codes.wanted(i);
          const std::size_t c = rule->code(grid, v);
          if (c == 0 && rule->flush && (came & 0x7F) == 0 && !grid.fnuz()) return came;
          const std::uint64_t sign = std::signbit(v) ? 0x80 : 0;
          return c == 0 && grid.fnuz() ? 0 : c | sign;
        },
        usual ? "codes.follow" : "codes.rule", usual ? "codes follow from the scales" : words);
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
        claim->sentence = "codes follow from the scales that came, and these are not the ones owed";
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
