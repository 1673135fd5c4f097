// Steps of e8m0, quotients of f32.
#include "golden/explain/recover/scale_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "golden/explain/recover/stack_names.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr std::size_t kLeastBlocks = 8;
constexpr float kNotTold = std::numeric_limits<float>::quiet_NaN();  ///< the rule says nothing

int log2_floor(double v) {
  int e = 0;
  std::frexp(v, &e);
  return e - 1;
}

bool usable(float amax) { return amax >= std::numeric_limits<float>::min(); }

std::string number(double v) {
  std::string text = std::to_string(v);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
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

std::optional<ScaleRuleFound> e8m0_rule(const std::vector<float>& amax,
                                        const std::vector<std::uint8_t>& scales, Dtype format) {
  int low = 1000;
  int high = -1000;
  std::size_t used = 0;
  const auto step_of = [&](std::size_t b) {
    return scales[b] - 127 - log2_floor(static_cast<double>(amax[b]));
  };
  for (std::size_t b = 0; b < amax.size(); ++b) {
    if (!usable(amax[b]) || scales[b] == 0 || scales[b] >= 254) continue;
    low = std::min(low, step_of(b));
    high = std::max(high, step_of(b));
    ++used;
  }
  if (used < kLeastBlocks || high - low > 1) return std::nullopt;
  double below = 1.0;  // the largest significand without the step
  double from = 2.0;   // the least with it; 2: none has it
  double least = 2.0;  // of all
  for (std::size_t b = 0; b < amax.size(); ++b) {
    if (!usable(amax[b]) || scales[b] == 0 || scales[b] >= 254) continue;
    const double m =
        std::ldexp(static_cast<double>(amax[b]), -log2_floor(static_cast<double>(amax[b])));
    least = std::min(least, m);
    if (high > low && step_of(b) == high) {
      from = std::min(from, m);
    } else {
      below = std::max(below, m);
    }
  }
  if (high > low && below >= from) return std::nullopt;
  const int emax = log2_floor(largest(format));
  const double top = std::ldexp(largest(format), -emax);
  const auto steps_above = [&](int offset, double threshold) {
    return low == offset && below <= threshold && threshold < from;
  };
  const auto steps_from = [&](int offset, double threshold) {
    return low == offset && below < threshold && threshold <= from;
  };
  // The logarithm of a threshold that is no float may be rounded.
  const auto steps_near = [&](int offset, double threshold) {
    return low == offset && below <= threshold && threshold <= from + 1e-7;
  };
  const std::string exponent =
      "the scale is 2^(floor(log2 amax)" +
      (low == 0 ? std::string() : (low < 0 ? " - " : " + ") + std::to_string(std::abs(low))) + ")";
  std::string words;
  if (high == low) {
    words = exponent;
    if (low == 0) words += ": no emax is subtracted";
    if (low == -emax) words += ": FLOOR";
    if (low == -emax + 1 && least > 1.0) words += ": CEIL, where no amax is a power of two";
  } else if (steps_from(-emax - 1, top)) {
    words = "the scale is 2^floor(log2(amax / " + number(largest(format)) + "))";
  } else if (steps_above(-emax, top)) {
    words = exponent + ", twice that above " + number(top) + ": RCEIL";
  } else if (steps_from(-emax, top)) {
    words = exponent + ", twice that from " + number(top) + " on, where RCEIL begins above it";
  } else if (steps_above(-emax + 1, top)) {
    words = "the scale is one step above RCEIL";
  } else if (steps_near(-emax - 1, top * std::sqrt(0.5))) {
    words =
        "the scale is 2^round(log2(amax / " + number(largest(format)) + ")): the nearest exponent";
  } else if (steps_near(-emax, std::sqrt(2.0))) {
    words = exponent + ", twice that from a significand of " + number(from) +
            " on: the nearest exponent";
  } else if (steps_above(-emax, 1.0)) {
    words = exponent + ", twice that for every significand above 1: CEIL";
  } else {
    words = exponent + ", twice that from a significand between " + number(below) + " and " +
            number(from) + " on";
  }
  std::string stacks;
  if (is_minifloat8(format)) stacks = stacks_that_give(amax, scales, format);
  return ScaleRuleFound{words, stacks, [low, from](float a) {
                          if (!usable(a)) return kNotTold;
                          const int e = log2_floor(static_cast<double>(a));
                          const double m = std::ldexp(static_cast<double>(a), -e);
                          return static_cast<float>(std::exp2(e + low + (m >= from ? 1 : 0)));
                        }};
}

namespace {

struct ScaleQuotient {
  const char* words;
  float (*of)(float amax, float max);
};

float divided(float a, float max) { return a / max; }
float by_reciprocal(float a, float max) { return a * (1.0f / max); }
float f32_inverse(float a, float max) { return 1.0f / (max / a); }
float f64_inverse(float a, float max) {
  return 1.0f / static_cast<float>(static_cast<double>(max) / static_cast<double>(a));
}
float product_inverse(float a, float max) { return 1.0f / (max * (1.0f / a)); }
float f32_quotient(float a, float max) { return max / a; }
float f64_quotient(float a, float max) {
  return static_cast<float>(static_cast<double>(max) / static_cast<double>(a));
}
float product(float a, float max) { return max * (1.0f / a); }

constexpr ScaleQuotient kQuotients[] = {
    {"amax / max", divided},
    {"amax * fl(1 / max)", by_reciprocal},
    {"1 / fl(max / amax) from f64", f64_inverse},
    {"1 / fl(max / amax)", f32_inverse},
    {"1 / fl(max * fl(1 / amax))", product_inverse},
    {"max / amax, the inverse", f32_quotient},
    {"max / amax from f64, the inverse", f64_quotient},
    {"max * fl(1 / amax), the inverse", product},
};

enum class Power : std::uint8_t { none, up, down, nearest };

/// As --set power_of_2 has it.
const char* power_name(Power power) {
  constexpr const char* kNames[] = {"none", "up", "down", "nearest"};
  return kNames[static_cast<int>(power)];
}

float to_power(float s, Power power) {
  if (power == Power::none || !(s > 0.0f)) return s;
  int e = 0;
  const float m = std::frexp(s, &e);  // [0.5, 1)
  const float low = std::ldexp(0.5f, e);
  if (power == Power::down || m == 0.5f) return low;
  if (power == Power::nearest) return m < std::sqrt(0.5f) ? low : 2 * low;
  return 2 * low;
}

constexpr const char* kPowerWords[] = {"", ", rounded up to a power of two",
                                       ", cut to a power of two",
                                       ", rounded to the nearest power of two"};

constexpr double kFloors[] = {0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4};

/// Whether a block shows that amax is raised to `floor`.
bool raises_some(const std::vector<float>& amax, float floor) {
  return std::any_of(amax.begin(), amax.end(), [floor](float a) { return a < floor; });
}

/// "1e-12"
std::string power_of_ten(float floor) {
  return "1e" + std::to_string(std::lround(std::log10(static_cast<double>(floor))));
}

bool gives(const std::vector<float>& amax, const std::vector<float>& scales, const ScaleQuotient& q,
           float max, float floor, Power power) {
  bool told = false;  // by a block at least
  for (std::size_t b = 0; b < amax.size(); ++b) {
    if (std::isnan(amax[b]) || (floor == 0.0f && amax[b] == 0.0f)) continue;
    if (to_power(q.of(std::max(amax[b], floor), max), power) != scales[b]) return false;
    told = true;
  }
  return told;
}

}  // namespace

std::optional<ScaleRuleFound> f32_rule(const std::vector<float>& amax,
                                       const std::vector<float>& scales, Dtype format) {
  if (amax.size() < 4) return std::nullopt;
  std::vector<double> maxima{largest(format)};
  for (const double other : {448.0, 240.0, 57344.0, 127.0, 224.0, 256.0}) maxima.push_back(other);
  for (const double max : maxima) {
    for (const Power power : {Power::none, Power::up, Power::down, Power::nearest}) {
      for (std::size_t q = 0; q < std::size(kQuotients); ++q) {
        std::optional<float> floor;
        for (const double f : kFloors) {
          const auto least = static_cast<float>(f);
          if (!gives(amax, scales, kQuotients[q], static_cast<float>(max), least, power)) continue;
          if (!floor || raises_some(amax, least)) floor = least;
        }
        if (!floor) continue;
        std::string words = "the stored scale is " + std::string(kQuotients[q].words);
        if (max != maxima.front()) words += " with max " + number(max);
        if (raises_some(amax, *floor)) {
          words += (max != maxima.front() ? " and amax at least " : " with amax at least ") +
                   power_of_ten(*floor);
        }
        words += kPowerWords[static_cast<int>(power)];
        std::string stacks;
        if (max == maxima.front())
          stacks = stacks_that_give(amax, scales, power_name(power), format);
        const auto of = kQuotients[q].of;
        return ScaleRuleFound{words, stacks, [of, max, f = *floor, power](float a) {
                                if (f == 0.0f && a == 0.0f) return kNotTold;
                                return to_power(of(std::max(a, f), static_cast<float>(max)), power);
                              }};
      }
    }
  }
  return std::nullopt;
}

std::optional<ScaleRuleFound> rule_of(const std::vector<float>& amax, const Tensor& scales,
                                      Dtype format) {
  if (size_of(scales.dtype()) == 1) {
    const auto* bytes = scales.as<std::uint8_t>();
    return e8m0_rule(amax, {bytes, bytes + scales.elements()}, format);
  }
  return f32_rule(amax, {scales.as<float>(), scales.as<float>() + scales.elements()}, format);
}

std::vector<Multiplier> multipliers(Dtype format) {
  const auto max = static_cast<float>(largest(format));
  return {{"max / amax", [max](float a) { return max / a; }},
          {"max / amax from f64", [max](float a) { return f64_quotient(a, max); }},
          {"1 / fl(amax / max)", [max](float a) { return 1.0f / (a / max); }},
          {"max * fl(1 / amax)", [max](float a) { return max * (1.0f / a); }}};
}

}  // namespace mxo
