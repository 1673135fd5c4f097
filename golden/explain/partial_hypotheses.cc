// Products added up on the host, block by block: partial sums kept in a narrow type, and scales
// that meet in another order than each with its own codes.
#include <algorithm>
#include <cmath>

#include "golden/explain/alter/host_product.h"
#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase, Stage stage,
         HostSum sum) {
  Hypothesis h{std::move(name), std::move(phrase), stage};
  h.local = true;
  h.run = [sum = std::move(sum)](Backend&, const Call& c) { return host_product(c, sum); };
  list.push_back(std::move(h));
}

/// Scales so small or large that products of two of them, or with a sum, leave the range of f32.
bool extreme(const ProductSide& f) {
  if (f.scales == nullptr || size_of(f.scales->dtype()) != 4) return false;
  for (Index i = 0; i < f.scales->elements(); ++i) {
    const float s = std::fabs(f.scales->as<float>()[i]);
    if (s > 0.0f && (s < 0x1p-50f || s > 0x1p50f)) return true;
  }
  return false;
}

float by_bf16(float v) { return decode(encode<kBF16>(v)); }
float flushed(float v) { return std::fabs(v) < 0x1p-126f ? 0.0f : v; }

}  // namespace

void add_partial_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  const std::optional<Product> product = product_of(call);
  if (!product) return;
  for (const Index every : {16, 32, 64, 128, 256, 512}) {
    if (every >= product->k) continue;
    const std::string words = std::to_string(every);
    add(list, "sum=bf16_every_" + words, "partial sums of " + words + " are added up in bf16",
        Stage::sum, {every, [](double sum, const Part& p) {
                       return by_bf16(static_cast<float>(sum) + static_cast<float>(p.value));
                     }});
    add(list, "sum=f16_every_" + words, "partial sums of " + words + " are added up in f16",
        Stage::sum, {every, [](double sum, const Part& p) {
                       const float next = static_cast<float>(sum) + static_cast<float>(p.value);
                       return decode(encode<kF16>(next, Overflow::nonfinite));
                     }});
  }
  for (const Index slices : {2, 4, 8, 16, 32}) {
    if (product->wgrad || product->k == 0) break;
    const bool scaled = product->a.scales != nullptr || product->b.scales != nullptr;
    if (product->k % (slices * (scaled ? product->block : 1)) != 0) continue;
    const std::string split = "K is split into " + std::to_string(slices) + " slices, whose sums ";
    const std::string n = std::to_string(slices);
    const Index every = product->k / slices;
    add(list, "sum=bf16_slices_" + n, split + "are rounded to bf16 before they are added",
        Stage::sum, {every, [](double sum, const Part& p) {
                       return static_cast<float>(sum) + by_bf16(static_cast<float>(p.value));
                     }});
    const auto in_bf16 = [](double sum, const Part& p) {
      return by_bf16(static_cast<float>(sum) + by_bf16(static_cast<float>(p.value)));
    };
    const std::string words = split + "are rounded to bf16 and added up in bf16";
    add(list, "sum=bf16_slices_in_bf16_" + n, words, Stage::sum, {every, in_bf16});
  }
}

void add_scale_order_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  const std::optional<Product> product = product_of(call);
  if (!product || product->k < 1) return;
  const bool far = extreme(product->a) || extreme(product->b);
  const bool both = product->a.scales != nullptr && product->b.scales != nullptr;
  const Index block = depth_of_scales(*product);
  if (both && block == product->k && !product->wgrad) {
    add(list, "scales=after_rounding", "sums of codes are rounded to bf16 before they are scaled",
        Stage::input, {product->k, [](double, const Part& p) {
                         return by_bf16(static_cast<float>(p.codes)) * (p.scale_a * p.scale_b);
                       }});
  }
  if (!far) return;
  add(list, "scales=joined", "both scales are multiplied with each other first, in f32",
      Stage::input,
      {block, [](double sum, const Part& p) {
         return static_cast<float>(sum) + static_cast<float>(p.codes) * (p.scale_a * p.scale_b);
       }});
  add(list, "scales=joined_flushed",
      "both scales are multiplied with each other first, and subnormal products become zero",
      Stage::input, {block, [](double sum, const Part& p) {
                       const float scale = flushed(p.scale_a * p.scale_b);
                       return static_cast<float>(sum) + static_cast<float>(p.codes) * scale;
                     }});
  add(list, "scales=a_first",
      "sums are multiplied with the scales of " + product->a.name + " first, in f32", Stage::input,
      {block, [](double sum, const Part& p) {
         return static_cast<float>(sum) + static_cast<float>(p.codes) * p.scale_a * p.scale_b;
       }});
  add(list, "scales=b_first",
      "sums are multiplied with the scales of " + product->b.name + " first, in f32", Stage::input,
      {block, [](double sum, const Part& p) {
         return static_cast<float>(sum) + static_cast<float>(p.codes) * p.scale_b * p.scale_a;
       }});
}

}  // namespace mxo
