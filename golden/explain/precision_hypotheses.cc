// Operands rounded to a narrower type before they are used.
#include <cmath>

#include "golden/explain/hypotheses.h"
#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

using Rounding = float (*)(float);

float by_bf16(float v) { return decode(encode<kBF16>(v)); }
float by_f16(float v) { return decode(encode<kF16>(v, Overflow::nonfinite)); }
float cut_to_bf16(float v) { return bit_cast<float>(bit_cast<std::uint32_t>(v) & 0xFFFF0000u); }

/// A rounding of f32, and what it makes of an operand.
struct Narrowed {
  const char* id;
  const char* words;
  Rounding of;
};

constexpr Narrowed kInBf16{"bf16", "rounded to bf16 first", by_bf16};
constexpr Narrowed kCutToBf16{"bf16_cut", "cut to bf16 first, toward zero", cut_to_bf16};
constexpr Narrowed kInF16{"f16", "rounded to f16 first", by_f16};

bool round_operand(Call& call, const std::string& name, Rounding rounded) {
  if (!call.has(name) || call.input(name).dtype() != Dtype::f32) return false;
  Tensor t = call.input(name);
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = rounded(t.as<float>()[i]);
  call.replace(name, std::move(t));
  return true;
}

/// Whether a type keeps every number of `t` apart from zero and infinity.
bool keeps(const Tensor& t, Rounding rounded) {
  for (Index i = 0; i < t.elements(); ++i) {
    const float v = t.as<float>()[i];
    if (v != 0.0f && std::isfinite(v) && (rounded(v) == 0.0f || std::isinf(rounded(v))))
      return false;
  }
  return true;
}

void add_scales(const Product& p, std::vector<Hypothesis>& list) {
  for (const bool half : {false, true}) {
    const Rounding rounded = half ? by_f16 : by_bf16;
    const std::string id = half ? "f16" : "bf16";
    std::vector<std::string> names;
    for (const ProductSide* f : {&p.a, &p.b}) {
      if (f->scales == nullptr || f->scales->dtype() != Dtype::f32) continue;
      if (!keeps(*f->scales, rounded)) continue;
      names.push_back(f->scales_name);
      list.push_back(
          {f->scales_name + "=" + id,
           side_words(*f) + " are rounded to " + id + " first",
           Stage::input,
           [name = f->scales_name, rounded](Call& c) { return round_operand(c, name, rounded); },
           {},
           true});
    }
    if (names.size() < 2) continue;
    list.push_back({"scales=" + id,
                    "the scales of both sides are rounded to " + id + " first",
                    Stage::input,
                    [names, rounded](Call& c) {
                      return round_operand(c, names[0], rounded) &&
                             round_operand(c, names[1], rounded);
                    },
                    {},
                    true});
  }
}

/// By a logarithm in f64, which keeps neighbours of a power apart.
template <typename Round>
float power(float v, Round rounded) {
  return v > 0.0f ? static_cast<float>(std::exp2(rounded(std::log2(static_cast<double>(v))))) : v;
}
float power_below(float v) {
  return power(v, [](double x) { return std::floor(x); });
}
float power_above(float v) {
  return power(v, [](double x) { return std::ceil(x); });
}

constexpr Narrowed kNarrowed[] = {
    kInBf16,
    kCutToBf16,
    kInF16,
    {"down", "cut to powers of two first", power_below},
    {"up", "rounded up to powers of two first", power_above},
    {"nearest", "rounded to the nearest power of two first",
     [](float v) { return power(v, [](double x) { return std::round(x); }); }},
};

void add_scales_to_dequantise(const Call& call, std::vector<Hypothesis>& list) {
  if (!call.has("scales") || call.input("scales").dtype() != Dtype::f32) return;
  for (const Narrowed& n : kNarrowed) {
    list.push_back({"scales=" + std::string(n.id), "the scales are " + std::string(n.words),
                    Stage::input, [&n](Call& c) { return round_operand(c, "scales", n.of); }});
  }
}

}  // namespace

void add_precision_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (const std::optional<Product> p = product_of(call)) return add_scales(*p, list);
  const auto add = [&](const std::string& name, const Narrowed& n) {
    if (!call.has(name) || call.input(name).dtype() != Dtype::f32) return;
    list.push_back({name + "=" + n.id, name + (name.ends_with('s') ? " are " : " is ") + n.words,
                    Stage::input, [name, &n](Call& c) { return round_operand(c, name, n.of); }});
  };
  add("x", kInBf16);
  add("x", kCutToBf16);
  if (call.op == "quantize" && call.has("x") && call.input("x").dtype() == Dtype::f16) {
    list.push_back({"x=bf16", "x is rounded to bf16 first", Stage::input, [](Call& c) {
                      const Tensor& x = c.input("x");
                      Tensor narrow(Dtype::f32, x.shape());
                      for (Index i = 0; i < x.elements(); ++i)
                        narrow.as<float>()[i] = by_bf16(decode(x.as<F16>()[i]));
                      c.replace("x", std::move(narrow));
                      return true;
                    }});
  }
  add("x", kInF16);
  if (call.op == "dequantize") add_scales_to_dequantise(call, list);
  add("logits", kInBf16);
  add("logits", kInF16);
  add("bias", kInBf16);
}

}  // namespace mxo
