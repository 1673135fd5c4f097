// How the largest magnitude of a block became its scale: steps of e8m0, quotients of f32, and the
// stacks whose rows of formats/scale_rules.h store the same.
#include <limits>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/quantiser/quantiser.h"

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

enum class Power : std::uint8_t { none, up, down, nearest, above };

/// Whether a scale is this one; NaN is one scale.
bool same_scale(float scale, const Tensor& scales, Index i) {
  const double other = scale_value(scales, i);
  return static_cast<double>(scale) == other || (std::isnan(scale) && std::isnan(other));
}

/// What a row stores of scales of a type, rounded so; none if its stack has no such scales.  Where
/// 1 / s is stored, that is rounded up as s is rounded down.
std::optional<ScaleRule> rule_under(const ScaleRuleRow& row, bool bytes, Power power) {
  ScaleRule rule = row.rule;
  if ((row.scale == ScaleType::e8m0) != bytes) return std::nullopt;
  if (bytes) {
    // Those that no scale_mode gives.  The quotient's is RCEIL but beside powers of two.
    const bool chosen = rule.e8m0.exponent == ExponentRule::by_mode ||
                        rule.e8m0.exponent == ExponentRule::floor_log2 ||
                        rule.e8m0.exponent == ExponentRule::ceil_quotient;
    return chosen ? std::nullopt : std::optional(rule);
  }
  if (power == Power::above) return std::nullopt;            // no stack's
  if (rule.f32.in_x != StepsInX::none) return std::nullopt;  // of a type that is not asked here
  if (rule.f32.stores == StoredScale::inverse && gives_multiplier(rule.f32.quotient))
    if (power == Power::up || power == Power::down)
      power = power == Power::up ? Power::down : Power::up;
  constexpr const char* kSettings[] = {"none", "up", "down", "nearest"};  // of power_of_2
  if (!lists(row.powers, kSettings[static_cast<int>(power)])) return std::nullopt;
  rule.f32.power_of_2 = power == Power::none ? PowerOfTwo::none
                        : power == Power::up ? row.up
                                             : row.down;
  return rule;
}

/// ": the rule of vllm or aiter, which these blocks do not tell apart", of every stack whose row
/// stores every scale; empty if there is none.  vllm stands for its other path, vllm_cuda.
std::string stacks_of(const std::vector<float>& amax, const Tensor& scales, Dtype format,
                      Power power = Power::none) {
  std::vector<std::string_view> names;
  for (const ScaleRuleRow& row : kScaleRules) {
    const auto stands_for = [&row](std::string_view other) {
      return other == row.name || row.name.starts_with(std::string(other) + "_");
    };
    const auto rule = rule_under(row, size_of(scales.dtype()) == 1, power);
    if (!rule || !lists(row.formats, name_of(format)) || std::ranges::any_of(names, stands_for))
      continue;
    const OwnRule own(*rule, format, scales.dtype(), Dtype::f32);
    bool same = true;
    bool told = false;  // by a block at least
    for (std::size_t b = 0; b < amax.size() && same; ++b) {
      if (std::isnan(amax[b])) continue;
      same = same_scale(own.stored(amax[b]), scales, static_cast<Index>(b));
      told = true;
    }
    if (same && told) names.push_back(row.name);
  }
  std::string text;
  for (const std::string_view name : names)
    text += (text.empty() ? ": the rule of " : " or ") + std::string(name);
  return names.size() > 1 ? text + ", which these blocks do not tell apart" : text;
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
    {"the scale is 2^trunc(log2(amax / {})): the exponent is truncated",
     [](double a, double max) { return std::trunc(std::log2(a / max)); }},
    {"the scale is 2^trunc(log2 amax) / 2^floor(log2 {}): the exponent is truncated",
     [](double a, double max) { return std::trunc(std::log2(a)) - std::ilogb(max); }},
};

/// How many blocks a rule tells, where it stores the scales of all of these; 0 if it does not.
template <typename Stored>
std::size_t blocks_told(const Stored& stored, const std::vector<float>& amax,
                        const Tensor& scales) {
  std::size_t told = 0;
  for (std::size_t b = 0; b < amax.size(); ++b) {
    const float s = stored(amax[b]);
    if (std::isnan(s)) continue;
    if (static_cast<double>(s) != scale_value(scales, static_cast<Index>(b))) return 0;
    ++told;
  }
  return told;
}

std::optional<ScaleRuleFound> cut_rule(const std::vector<float>& amax, const Tensor& scales,
                                       Dtype format) {
  for (const auto& [words, exponent] : kCut) {
    const auto stored = [of = exponent, max = largest(format)](float a) {
      return usable(a) ? static_cast<float>(std::exp2(of(static_cast<double>(a), max))) : kNotTold;
    };
    if (blocks_told(stored, amax, scales) >= kLeastBytes)
      return ScaleRuleFound{filled(words, number(largest(format), 7)), "", stored};
  }
  return std::nullopt;
}

/// The step function of the significand that gives these bytes, if one does.
std::optional<ScaleRuleFound> e8m0_rule(const std::vector<float>& amax, const Tensor& scales,
                                        Dtype format) {
  std::vector<Step> steps;
  for (std::size_t b = 0; b < amax.size(); ++b) {
    const int byte = scales.as<std::uint8_t>()[b];
    if (usable(amax[b]) && byte > 0 && byte < 254) steps.push_back(step_of(amax[b], byte));
  }
  // Blocks of one amax are one witness.
  const std::set<float> told(amax.begin(), amax.end());
  if (steps.size() < kLeastBytes || told.size() < kLeastNumbers) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(steps, {}, &Step::step);
  const int low = least.step;
  const bool two = most.step > low;
  double below = 1.0;  // the largest significand without the step
  double from = 2.0;   // the least with it; 2: none has it
  for (const Step& s : steps) {
    if (two && s.step > low) {
      from = std::min(from, s.significand);
    } else {
      below = std::max(below, s.significand);
    }
  }
  if (most.step - low > 1 || (two && below >= from)) return cut_rule(amax, scales, format);

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
    const bool no_power = std::ranges::min(steps, {}, &Step::significand).significand > 1.0;
    if (low == -emax + 1 && no_power) words += ": CEIL, where no amax is a power of two";
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
        {-emax - 1, Begins::at, 0.75 * top,
         "the scale is the power of two nearest to amax / " + number(max, 7)},
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
    words.clear();
    for (const Named& n : known)
      if (holds(n)) list_words(words, n.words, "; equivalently, ");
    named = !words.empty();
    if (!named)
      words = twice + "from a significand between " + number(below, 7) + " and " + number(from, 7) +
              " on";
  }
  const auto stored = [low, from](float a) {
    if (!usable(a)) return kNotTold;
    const Step s = step_of(a, 127);
    return static_cast<float>(std::exp2(low - s.step + (s.significand >= from ? 1 : 0)));
  };
  return ScaleRuleFound{words, stacks_of(amax, scales, format), stored, named};
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
  if (power == Power::down || (m == 0.5f && power != Power::above)) return low;
  return power == Power::nearest && m < std::sqrt(0.5f) ? low : 2 * low;
}

constexpr const char* kPowerWords[] = {"", ", rounded up to a power of two",
                                       ", truncated to a power of two",
                                       ", rounded to the nearest power of two",
                                       ", raised to the next power of two, powers of two as well"};

/// Floors of amax; 0: none.
constexpr float kFloors[] = {0.0f, 1e-12f, 1e-10f, 1e-8f, 1e-6f, 1e-5f, 1e-4f};

struct NumberRule {
  const ScaleQuotient* quotient;
  float max;
  Power power;
  float floor = 0.0f;  ///< of amax
  float stored(float amax) const {
    if (floor == 0.0f && amax == 0.0f) return kNotTold;
    return to_power(quotient->of(std::max(amax, floor), max), power);
  }
};

/// The quotient, floor and power of two that give these scales, if some do.
std::optional<ScaleRuleFound> f32_rule(const std::vector<float>& amax, const Tensor& scales,
                                       Dtype format) {
  if (std::set<float>(amax.begin(), amax.end()).size() < kLeastNumbers) return std::nullopt;
  const auto own_max = static_cast<float>(largest(format));
  // How many blocks a floor raises; those of the least amax, if many have their scale, measure one.
  const auto raised = [&amax](float floor) {
    return static_cast<std::size_t>(
        std::ranges::count_if(amax, [&](float a) { return a < floor; }));
  };
  const float least = scales.as<float>()[std::ranges::min_element(amax) - amax.begin()];
  // A number of no format is measured.
  const auto most = std::ranges::max_element(amax);
  const float ratio = *most / scales.as<float>()[most - amax.begin()];
  const float measured = ratio > 0.0f && std::isfinite(ratio) ? std::nearbyint(ratio) : own_max;
  for (const float max : {own_max, 448.0f, 240.0f, 57344.0f, 127.0f, 224.0f, 256.0f, measured}) {
    for (const Power power : {Power::none, Power::up, Power::down, Power::nearest, Power::above}) {
      for (const ScaleQuotient& quotient : kQuotients) {
        std::optional<NumberRule> found;
        const auto try_floor = [&](float floor) {
          const NumberRule rule{&quotient, max, power, floor};
          const auto stored = [&rule](float a) { return rule.stored(a); };
          if (blocks_told(stored, amax, scales) > 0 && (!found || raised(floor) > 0)) found = rule;
        };
        for (const float floor : kFloors) try_floor(floor);
        const bool named = found.has_value();
        for (const float floor : {least * max, max / least}) {
          const std::size_t n = raised(floor);
          if (!found && n >= kLeastBytes && n + kLeastBytes <= amax.size()) try_floor(floor);
        }
        if (!found) continue;
        std::string words = "the stored scale is " + std::string(quotient.words);
        if (max != own_max) words += " with max " + number(static_cast<double>(max), 7);
        int by = 0;
        if (max != own_max && std::frexp(max / own_max, &by) == 0.5f)
          words += filled(" (every scale is multiplied by 2^{})", 1 - by);
        if (raised(found->floor) > 0)
          words += (max != own_max ? " and" : " with") + std::string(" amax at least ") +
                   number(static_cast<double>(found->floor), 7);
        words += kPowerWords[static_cast<int>(power)];
        const std::string stacks =
            max == own_max ? stacks_of(amax, scales, format, power) : std::string();
        return ScaleRuleFound{words, stacks, [rule = *found](float a) { return rule.stored(a); },
                              named, power != Power::none};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

double largest(Dtype format) {
  const Grid grid(format);
  return grid.value(grid.top());
}

std::optional<ScaleRuleFound> rule_of(const std::vector<float>& amax, const Tensor& scales,
                                      Dtype format) {
  return size_of(scales.dtype()) == 1 ? e8m0_rule(amax, scales, format)
                                      : f32_rule(amax, scales, format);
}

}  // namespace mxo
