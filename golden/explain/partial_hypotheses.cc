// Partial sums kept in a narrow type or added in another order, and scales that meet in another
// order than each with its own codes, are left out of a block, or are read as numbers.
#include <algorithm>
#include <cmath>

#include "golden/explain/host_product.h"
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

enum class Sides : std::uint8_t { a, b, both };

/// Scales of one side or both that do not reach the first or last block of K, or are taken for the
/// integers that their bytes are.
void add_unscaled_blocks(const Product& p, Index block, std::vector<Hypothesis>& list) {
  const auto is_bytes = [](const ProductSide& f) {
    return f.scales != nullptr && size_of(f.scales->dtype()) == 1;
  };
  const Index blocks = ceil_div(p.k, block);
  for (const Sides sides : {Sides::a, Sides::b, Sides::both}) {
    const bool of_a = sides != Sides::b;
    const bool of_b = sides != Sides::a;
    if ((of_a && p.a.scales == nullptr) || (of_b && p.b.scales == nullptr)) continue;
    const std::string whose = sides == Sides::both ? "both sides" : (of_a ? p.a : p.b).name;
    for (const bool last : {true, false}) {
      if (p.wgrad || blocks < 2) break;
      add(list, "scales=unscaled_block",
          "the scales of " + whose + " are left out in the " + (last ? "last" : "first") +
              " block of K, k = " + std::to_string(last ? (blocks - 1) * block : 0) + " to " +
              std::to_string(last ? p.k - 1 : block - 1),
          Stage::input, {block, [=](double sum, const Part& part) {
                           const bool here = last ? part.last : part.first;
                           const double a = here && of_a ? 1.0 : static_cast<double>(part.scale_a);
                           const double b = here && of_b ? 1.0 : static_cast<double>(part.scale_b);
                           return sum + part.codes * a * b;
                         }});
    }
    if ((of_a && !is_bytes(p.a)) || (of_b && !is_bytes(p.b))) continue;
    const auto number = [](bool of, float scale) {
      return of ? static_cast<double>(std::ilogb(scale) + 127) : static_cast<double>(scale);
    };
    add(list, "scales=bytes_as_numbers",
        "scale bytes of " + whose + " are taken as the numbers 0 to 255 rather than as exponents",
        Stage::input,
        {block, [=](double sum, const Part& part) {
           return sum + part.codes * number(of_a, part.scale_a) * number(of_b, part.scale_b);
         }});
  }
}

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
    if (slices == 2) continue;  // of two the order is nothing
    add(list, "sum=bf16_slices_backward_" + n, words + ", from the last to the first", Stage::sum,
        {every, in_bf16, true});
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
  add_unscaled_blocks(*product, block, list);
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
