// Products whose sums of parts of K are in a narrow type: rounded after every so many of k, or
// added up slice by slice; and gradients whose scales and main_grad each slice takes.
#include <cmath>

#include "golden/explain/alter/alterations.h"

namespace mxo {
namespace {

/// Rounded to so many fraction bits, ties away from zero.
template <int Bits>
float away(float v) {
  constexpr std::uint32_t kBelow = (1u << (23 - Bits)) - 1;
  if (!std::isfinite(v)) return v;
  return bit_cast<float>((bit_cast<std::uint32_t>(v) + (kBelow + 1) / 2) & ~kBelow);
}

/// A way to add up parts of a product; {} is their depth, or how many there are.
struct Summation {
  const char* id;
  const char* phrase;
  double (*step)(double sum, const Part& part);
  Index least = 2;  ///< slices
  bool backward = false;
};
constexpr Summation kOfParts[] = {
    {"bf16_every_{}", "partial sums of {} are added up in bf16",
     [](double sum, const Part& p) -> double { return by_bf16(by_f32(sum) + by_f32(p.value)); }},
    {"f16_every_{}", "partial sums of {} are added up in f16",
     [](double sum, const Part& p) -> double { return by_f16(by_f32(sum) + by_f32(p.value)); }},
    {"bf16_every_{}", "partial sums of {} are added up in bf16",
     [](double sum, const Part& p) -> double { return by_bf16(odd_f32(sum + p.value)); }},
    {"bf16_away_every_{}", "the sum is rounded to bf16 after every {} of k, ties away from zero",
     [](double sum, const Part& p) -> double { return away<7>(odd_f32(sum + p.value)); }},
    {"bf16_tf32_every_{}",
     "the sum is rounded to TF32 and then to bf16 after every {} of k, ties away from zero",
     [](double sum, const Part& p) -> double { return away<7>(away<10>(odd_f32(sum + p.value))); }},
};

double add_in_bf16(double sum, const Part& p) {
  return by_bf16(by_f32(sum) + by_bf16(by_f32(p.value)));
}
constexpr Summation kOfSlices[] = {
    {"bf16_slices_{}", "whose sums are rounded to bf16 before they are added",
     [](double sum, const Part& p) -> double { return by_f32(sum) + by_bf16(by_f32(p.value)); }},
    {"bf16_slices_in_bf16_{}", "whose sums are rounded to bf16 and added up in bf16", add_in_bf16},
    // Of two the order is nothing.
    {"bf16_slices_backward_{}",
     "whose sums are rounded to bf16 and added up in bf16, from the last to the first", add_in_bf16,
     4, true},
};

float squared(float v) { return v * v; }

/// Scales that slices and their sum take, main_grad that each of so many slices adds before.
void add_epilogues_of_slices(const Call& call, List& list) {
  for (const char* name : {"dy.scales", "x.scales"}) {
    if (!call.has(name) || call.input(name).elements() != 1 ||
        call.input(name).dtype() != Dtype::f32)
      return;
  }
  for (const bool twice : {true, false}) {
    for (const int slices : {0, 2, 3, 4, 8}) {
      if (slices == 0 && !twice) continue;
      std::string phrase = twice ? "the scales of both sides are applied twice" : "";
      if (slices > 0)
        phrase += filled(
            "{}main_grad is added by each of {} slices of the sum, then times the "
            "scales, and once more",
            twice ? ", and " : "", slices);
      add_altered(list, filled("main_grad={}slices_{}", twice ? "scaled_" : "", slices),
                  std::move(phrase), [=](Call& c) {
                    const float by_dy = c.input("dy.scales").as<float>()[0];
                    const float by_x = c.input("x.scales").as<float>()[0];
                    if (twice) {
                      map_floats(c, "dy.scales", squared);
                      map_floats(c, "x.scales", squared);
                    }
                    map_values(c, "main_grad",
                               [=, by = 1.0f + static_cast<float>(slices) * by_dy * by_x](
                                   float v, Index) { return by * v; });
                  });
    }
  }
}

}  // namespace

void add_partial_hypotheses(const Call& call, List& list) {
  if (call.op == "grouped_matmul_wgrad" && call.has("main_grad"))
    add_epilogues_of_slices(call, list);
  const std::optional<Product> p = product_of(call);
  if (!p) return;
  for (const Index every : {16, 32, 64, 128, 256, 512}) {
    for (const Summation& s : kOfParts) {
      if (every >= p->k) continue;
      add_summed(list, "sum=" + filled(s.id, every), filled(s.phrase, every), Stage::sum,
                 {every, s.step});
    }
  }
  const Index unit = p->a.scales != nullptr || p->b.scales != nullptr ? p->block : 1;
  for (const Index slices : {2, 3, 4, 5, 6, 7, 8, 16, 32}) {
    if (p->wgrad || p->k == 0 || p->k % (slices * unit) != 0) continue;
    for (const Summation& s : kOfSlices) {
      if (slices < s.least) continue;
      // Rounded to bf16 by way of f32, and from the exact sum.
      for (float (*const first)(double) : {by_f32, odd_f32}) {
        add_summed(list, "sum=" + filled(s.id, slices),
                   filled("K is split into {} slices, {}", slices, s.phrase), Stage::sum,
                   {p->k / slices,
                    [first, step = s.step](double sum, Part part) {
                      part.value = first(part.value);
                      return step(sum, part);
                    },
                    s.backward});
      }
    }
  }
}

}  // namespace mxo
