// What may have been made of every scale of a factor: a function of the given scale alone.
#include <algorithm>
#include <cmath>

#include "golden/explain/recover/scales.h"

namespace mxo {
namespace {

/// What a value became: a function of the given scale alone.
struct ValueRule {
  const char* id;
  const char* phrase;
  double (*value)(double);
};

double squared(double s) { return s * s; }
double one(double) { return 1.0; }
double inverse(double s) { return 1.0 / s; }
double rounded_up(double s) { return std::exp2(std::ceil(std::log2(s))); }
double rounded_down(double s) { return std::exp2(std::floor(std::log2(s))); }
double rounded_nearest(double s) { return std::exp2(std::round(std::log2(s))); }

constexpr ValueRule kValueRules[] = {
    {"twice", "are applied twice", squared},
    {"left_out", "are left out", one},
    {"inverse", "are divided by rather than multiplied with", inverse},
    {"up", "are rounded up to powers of two", rounded_up},
    {"down", "are cut to powers of two", rounded_down},
    {"nearest", "are rounded to the nearest power of two", rounded_nearest},
};

}  // namespace

std::string side_words(const Factor& f) { return "the scales of " + f.name; }

void add_scale_values(const Factor& f, std::vector<Hypothesis>& list) {
  if (f.scales == nullptr) return;
  const std::string name = f.scales_name;
  const bool bytes = size_of(f.scales->dtype()) == 1;
  for (const ValueRule& rule : kValueRules) {
    if (bytes &&
        (rule.value == rounded_up || rule.value == rounded_down || rule.value == rounded_nearest))
      continue;
    list.push_back({name + "=" + rule.id,
                    side_words(f) + " " + rule.phrase,
                    Stage::input,
                    [name, value = rule.value](Call& c) { return map_scales(c, name, value); },
                    {},
                    true});
  }
}

bool map_scales(Call& call, const std::string& name, const std::function<double(double)>& value) {
  if (!call.has(name)) return false;
  Tensor scales = call.input(name);
  for (Index i = 0; i < scales.elements(); ++i) {
    const double s = scale_value(scales, i);
    if (std::isnan(s)) continue;
    const double v = value(s);
    if (size_of(scales.dtype()) == 1) {
      const double e = v > 0.0 ? std::round(std::log2(v)) + 127.0 : 0.0;
      scales.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(std::clamp(e, 0.0, 254.0));
    } else {
      scales.as<float>()[i] = static_cast<float>(v);
    }
  }
  call.replace(name, std::move(scales));
  return true;
}

}  // namespace mxo
