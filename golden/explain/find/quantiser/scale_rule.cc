// How the largest magnitude of a block became its scale: steps of e8m0, quotients of f32, and the
// stacks whose rows of formats/scale_rules.h store the same.
#include <algorithm>
#include <cmath>
#include <limits>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/quantiser/quantiser_call.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr std::size_t kLeastBytes = 8;    ///< blocks that tell a rule of e8m0
constexpr std::size_t kLeastNumbers = 4;  ///< and one of f32
constexpr float kNotTold = std::numeric_limits<float>::quiet_NaN();  ///< the rule says nothing

// ---- Names of stacks.

bool lists(std::string_view list, std::string_view name) {
  return list.empty() ||
         ("|" + std::string(list) + "|").find("|" + std::string(name) + "|") != std::string::npos;
}

enum class Power : std::uint8_t { none, up, down, nearest };

/// The rule of a row that rounds what it stores so, if its stack has it.  Where 1 / s is stored,
/// that is rounded up as s is rounded down.
std::optional<F32ScaleRule> rule_under(const ScaleRuleRow& row, Power power) {
  if (row.scale != ScaleType::f32) return std::nullopt;
  if (row.rule.f32.in_x != StepsInX::none) return std::nullopt;  // of a type that is not asked here
  const bool inverse = row.rule.f32.stores == StoredScale::inverse;
  if (inverse && gives_multiplier(row.rule.f32.quotient)) {
    if (power == Power::up || power == Power::down)
      power = power == Power::up ? Power::down : Power::up;
  }
  constexpr const char* kSettings[] = {"none", "up", "down", "nearest"};  // of power_of_2
  if (!lists(row.powers, kSettings[static_cast<int>(power)])) return std::nullopt;
  F32ScaleRule rule = row.rule.f32;
  rule.power_of_2 = power == Power::none ? PowerOfTwo::none
                    : power == Power::up ? row.up
                                         : row.down;
  return rule;
}

/// Whether a row stores what came of a block; empty: it stores no such scales.
using GivesBlock = std::function<bool(std::size_t block)>;

/// ": the rule of vllm or aiter, which these blocks do not tell apart", of every stack whose row
/// gives all blocks; empty if there is none.  A stack's other path is not named beside it: vllm
/// stands for vllm_cuda.
std::string stacks_where(const std::vector<float>& amax, Dtype format,
                         const std::function<GivesBlock(const ScaleRuleRow&)>& gives_of) {
  std::vector<std::string_view> names;
  for (const ScaleRuleRow& row : kScaleRules) {
    const auto stands_for = [&row](std::string_view other) {
      return other == row.name || row.name.starts_with(std::string(other) + "_");
    };
    const GivesBlock gives = lists(row.formats, name_of(format)) ? gives_of(row) : nullptr;
    if (!gives || std::any_of(names.begin(), names.end(), stands_for)) continue;
    bool same = true;
    bool told = false;  // by a block at least
    for (std::size_t b = 0; b < amax.size() && same; ++b) {
      if (std::isnan(amax[b])) continue;
      same = gives(b);
      told = true;
    }
    if (same && told) names.push_back(row.name);
  }
  std::string text;
  for (const std::string_view name : names)
    text += (text.empty() ? ": the rule of " : " or ") + std::string(name);
  return names.size() > 1 ? text + ", which these blocks do not tell apart" : text;
}

std::string stacks_of_numbers(const std::vector<float>& amax, const float* scales, Power power,
                              Dtype format) {
  return stacks_where(amax, format, [&](const ScaleRuleRow& row) -> GivesBlock {
    const std::optional<F32ScaleRule> rule = rule_under(row, power);
    if (!rule) return nullptr;
    return [&amax, scales, format, rule = *rule](std::size_t b) {
      const F32Scale s = visit_minifloat8(format, [&](auto tag) {
        return f32_scale<decltype(tag)::type::spec>(amax[b], rule, largest_finite<float>());
      });
      return bit_cast<std::uint32_t>(s.stored) == bit_cast<std::uint32_t>(scales[b]);
    };
  });
}

/// Of rules that leave scale_mode no choice.
std::string stacks_of_bytes(const std::vector<float>& amax, const std::uint8_t* scales,
                            Dtype format) {
  return stacks_where(amax, format, [&](const ScaleRuleRow& row) -> GivesBlock {
    const ExponentRule exponent = row.rule.e8m0.exponent;
    // The quotient's is RCEIL but beside powers of two.
    if (row.scale != ScaleType::e8m0 || exponent == ExponentRule::by_mode ||
        exponent == ExponentRule::ceil_quotient)
      return nullptr;
    return [&amax, scales, format, &rule = row.rule](std::size_t b) {
      return visit_minifloat8(format, [&](auto tag) {
        constexpr FormatSpec kSpec = decltype(tag)::type::spec;
        return shared_scale<kSpec>(amax[b], rule.mode, rule.e8m0).bits == scales[b];
      });
    };
  });
}

// ---- e8m0.

bool usable(float amax) { return amax >= std::numeric_limits<float>::min(); }

/// What a scale has in its exponent beyond that of amax, and the significand of that.
struct Step {
  int step;
  double significand;
};
Step step_of(float amax, int byte) {
  int e = 0;
  const double m = std::frexp(static_cast<double>(amax), &e);
  return {byte - 127 - (e - 1), 2.0 * m};
}

/// Exponents of the scale that are cut toward zero rather than down.
constexpr std::pair<const char*, double (*)(double amax, double max)> kCut[] = {
    {"the scale is 2^trunc(log2(amax / {})): the exponent is cut toward zero",
     [](double a, double max) { return std::trunc(std::log2(a / max)); }},
    {"the scale is 2^trunc(log2 amax) / 2^floor(log2 {}): the exponent is cut toward zero",
     [](double a, double max) { return std::trunc(std::log2(a)) - std::ilogb(max); }},
};

std::optional<ScaleRuleFound> cut_rule(const std::vector<float>& amax, const std::uint8_t* scales,
                                       Dtype format) {
  for (const auto& [words, exponent] : kCut) {
    const auto stored = [of = exponent, max = largest(format)](float a) {
      return usable(a) ? static_cast<float>(std::exp2(of(static_cast<double>(a), max))) : kNotTold;
    };
    std::size_t told = 0;
    std::size_t b = 0;
    for (; b < amax.size(); ++b) {
      const float s = stored(amax[b]);
      if (!std::isnan(s) && s != std::ldexp(1.0f, scales[b] - 127)) break;
      told += !std::isnan(s);
    }
    if (b == amax.size() && told >= kLeastBytes)
      return ScaleRuleFound{filled(words, number(largest(format), 7)), "", stored};
  }
  return std::nullopt;
}

/// The step function of the significand that gives these bytes, if one does.
std::optional<ScaleRuleFound> e8m0_rule(const std::vector<float>& amax, const std::uint8_t* scales,
                                        Dtype format) {
  std::vector<Step> steps;
  for (std::size_t b = 0; b < amax.size(); ++b) {
    if (usable(amax[b]) && scales[b] > 0 && scales[b] < 254)
      steps.push_back(step_of(amax[b], scales[b]));
  }
  if (steps.size() < kLeastBytes) return std::nullopt;
  const auto [least, most] = std::minmax_element(
      steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.step < b.step; });
  const int low = least->step;
  const bool two = most->step > low;
  if (most->step - low > 1) return cut_rule(amax, scales, format);
  double below = 1.0;  // the largest significand without the step
  double from = 2.0;   // the least with it; 2: none has it
  double least_of_all = 2.0;
  for (const Step& s : steps) {
    least_of_all = std::min(least_of_all, s.significand);
    if (two && s.step > low) {
      from = std::min(from, s.significand);
    } else {
      below = std::max(below, s.significand);
    }
  }
  if (two && below >= from) return cut_rule(amax, scales, format);

  const double max = largest(format);
  const int emax = std::ilogb(max);
  const double top = std::ldexp(max, -emax);
  const std::string exponent =
      "the scale is 2^(floor(log2 amax)" +
      (low == 0 ? std::string() : (low < 0 ? " - " : " + ") + std::to_string(std::abs(low))) + ")";
  std::string words = exponent;
  bool named = true;
  if (!two) {
    if (low == 0) words += ": no emax is subtracted";
    if (low == -emax) words += ": FLOOR";
    if (low == -emax + 1 && least_of_all > 1.0) words += ": CEIL, where no amax is a power of two";
  } else {
    // Where the step begins: above a significand, or from it on.  The logarithm of a threshold that
    // is no float may be rounded.
    enum class Begins : std::uint8_t { above, at, near };
    struct Named {
      int low;
      Begins begins;
      double threshold;
      std::string words;
    };
    const std::string twice = exponent + ", twice that ";
    const std::string quotient = "(amax / " + number(max, 7) + "))";
    const Named known[] = {
        {-emax - 1, Begins::at, top, "the scale is 2^floor(log2" + quotient},
        {-emax, Begins::above, top, twice + "above " + number(top, 7) + ": RCEIL"},
        {-emax, Begins::at, top,
         twice + "from " + number(top, 7) + " on, where RCEIL begins above it"},
        {-emax + 1, Begins::above, top, "the scale is one step above RCEIL"},
        {-emax, Begins::at, 2.0 - 0x1p-8, exponent + ": FLOOR, of an amax rounded to bf16"},
        {-emax, Begins::at, 2.0 - 0x1p-11, exponent + ": FLOOR, of an amax rounded to f16"},
        {-emax - 1, Begins::near, top * std::sqrt(0.5),
         "the scale is 2^round(log2" + quotient + ": the nearest exponent"},
        {-emax, Begins::near, std::sqrt(2.0),
         twice + "from a significand of " + number(from, 7) + " on: the nearest exponent"},
        {-emax, Begins::above, 1.0, twice + "for every significand above 1: CEIL"},
    };
    const auto holds = [&](const Named& n) {
      if (n.low != low) return false;
      if (n.begins == Begins::at) return below < n.threshold && n.threshold <= from;
      return below <= n.threshold &&
             (n.begins == Begins::above ? n.threshold < from : n.threshold <= from + 1e-7);
    };
    const auto* found = std::find_if(std::begin(known), std::end(known), holds);
    named = found != std::end(known);
    words = named ? found->words
                  : twice + "from a significand between " + number(below, 7) + " and " +
                        number(from, 7) + " on";
  }
  const auto stored = [low, from](float a) {
    if (!usable(a)) return kNotTold;
    const Step s = step_of(a, 127);
    return static_cast<float>(std::exp2(low - s.step + (s.significand >= from ? 1 : 0)));
  };
  return ScaleRuleFound{words, stacks_of_bytes(amax, scales, format), stored, named};
}

// ---- f32.

struct ScaleQuotient {
  const char* words;
  float (*of)(float amax, float max);
};
float in_f64(float max, float a) {
  return static_cast<float>(static_cast<double>(max) / static_cast<double>(a));
}
constexpr ScaleQuotient kQuotients[] = {
    {"amax / max", [](float a, float max) { return a / max; }},
    {"amax * fl(1 / max)", [](float a, float max) { return a * (1.0f / max); }},
    {"1 / fl(max / amax) from f64", [](float a, float max) { return 1.0f / in_f64(max, a); }},
    {"1 / fl(max / amax)", [](float a, float max) { return 1.0f / (max / a); }},
    {"1 / fl(max * fl(1 / amax))", [](float a, float max) { return 1.0f / (max * (1.0f / a)); }},
    {"max / amax, the inverse", [](float a, float max) { return max / a; }},
    {"max / amax from f64, the inverse", [](float a, float max) { return in_f64(max, a); }},
    {"max * fl(1 / amax), the inverse", [](float a, float max) { return max * (1.0f / a); }},
};

float to_power(float s, Power power) {
  if (power == Power::none || !(s > 0.0f)) return s;
  int e = 0;
  const float m = std::frexp(s, &e);  // [0.5, 1)
  const float low = std::ldexp(0.5f, e);
  if (power == Power::down || m == 0.5f) return low;
  return power == Power::nearest && m < std::sqrt(0.5f) ? low : 2 * low;
}

constexpr const char* kPowerWords[] = {"", ", rounded up to a power of two",
                                       ", cut to a power of two",
                                       ", rounded to the nearest power of two"};

/// Floors of amax; 0: none.
struct Floor {
  float value;
  const char* words;
};
constexpr Floor kFloors[] = {{0.0f, ""},      {1e-12f, "1e-12"}, {1e-10f, "1e-10"}, {1e-8f, "1e-8"},
                             {1e-6f, "1e-6"}, {1e-5f, "1e-5"},   {1e-4f, "1e-4"}};

struct NumberRule {
  const ScaleQuotient* quotient;
  float max;
  Power power;
  float stored(float amax, const Floor& floor) const {
    if (floor.value == 0.0f && amax == 0.0f) return kNotTold;
    return to_power(quotient->of(std::max(amax, floor.value), max), power);
  }
  bool gives(const std::vector<float>& amax, const float* scales, const Floor& floor) const {
    bool told = false;  // by a block at least
    for (std::size_t b = 0; b < amax.size(); ++b) {
      if (std::isnan(amax[b]) || (floor.value == 0.0f && amax[b] == 0.0f)) continue;
      if (stored(amax[b], floor) != scales[b]) return false;
      told = true;
    }
    return told;
  }
};

/// The quotient, floor and power of two that give these scales, if some do.
std::optional<ScaleRuleFound> f32_rule(const std::vector<float>& amax, const float* scales,
                                       Dtype format) {
  if (amax.size() < kLeastNumbers) return std::nullopt;
  const auto own_max = static_cast<float>(largest(format));
  const auto raises = [&amax](const Floor& floor) {
    return std::any_of(amax.begin(), amax.end(), [&](float a) { return a < floor.value; });
  };
  // A number of no format is measured.
  const auto largest_amax = std::max_element(amax.begin(), amax.end());
  const float ratio = *largest_amax / scales[largest_amax - amax.begin()];
  const float measured = std::isfinite(ratio) ? std::nearbyint(ratio) : own_max;
  for (const float max : {own_max, 448.0f, 240.0f, 57344.0f, 127.0f, 224.0f, 256.0f, measured}) {
    for (const Power power : {Power::none, Power::up, Power::down, Power::nearest}) {
      for (const ScaleQuotient& quotient : kQuotients) {
        const NumberRule rule{&quotient, max, power};
        const Floor* floor = nullptr;
        for (const Floor& f : kFloors) {
          if (rule.gives(amax, scales, f) && (floor == nullptr || raises(f))) floor = &f;
        }
        if (floor == nullptr) continue;
        std::string words = "the stored scale is " + std::string(quotient.words);
        if (max != own_max) words += " with max " + number(static_cast<double>(max), 7);
        if (raises(*floor))
          words +=
              (max != own_max ? " and" : " with") + std::string(" amax at least ") + floor->words;
        words += kPowerWords[static_cast<int>(power)];
        const std::string stacks =
            max == own_max ? stacks_of_numbers(amax, scales, power, format) : std::string();
        return ScaleRuleFound{words, stacks,
                              [rule, floor](float a) { return rule.stored(a, *floor); }, true,
                              power != Power::none};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

double largest(Dtype format) {
  double most = 0.0;
  const ElementReader read(format);
  for (std::uint64_t c = 0; c < 128; ++c) {
    const Element e = read(c);
    if (!e.nan && !e.infinite) most = std::max(most, e.value);
  }
  return most;
}

std::optional<ScaleRuleFound> rule_of(const std::vector<float>& amax, const Tensor& scales,
                                      Dtype format) {
  if (size_of(scales.dtype()) == 1) return e8m0_rule(amax, scales.as<std::uint8_t>(), format);
  return f32_rule(amax, scales.as<float>(), format);
}

}  // namespace mxo
