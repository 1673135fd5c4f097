// Products whose sums of parts of K are in a narrow type: rounded after every so many of k, or
// added up slice by slice; and gradients whose scales and main_grad each slice takes.
#include <cmath>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/product/sides.h"

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
    {"f16_every_{}", "partial sums of {} are added up in f16",
     [](double sum, const Part& p) -> double { return by_f16(odd_f32(sum + p.value)); }},
    {"bf16_away_every_{}", "the sum is rounded to bf16 after every {} of k, ties away from zero",
     [](double sum, const Part& p) -> double { return away<7>(odd_f32(sum + p.value)); }},
    {"bf16_tf32_every_{}",
     "the sum is rounded to TF32 and then to bf16 after every {} of k, ties away from zero",
     [](double sum, const Part& p) -> double { return away<7>(away<10>(odd_f32(sum + p.value))); }},
};

constexpr auto kAsItIs = [](double v) { return v; };

/// The sum of a slice rounded, added, and the sum of all so far rounded.
template <auto kSlice, auto kSum>
double add_slice(double sum, const Part& p) {
  return kSum(by_f32(sum) + kSlice(by_f32(p.value)));
}
constexpr Summation kOfSlices[] = {
    {"bf16_slices_{}", "whose sums are rounded to bf16 before they are added",
     add_slice<by_bf16, kAsItIs>},
    {"f16_slices_{}", "whose sums are rounded to f16 before they are added",
     add_slice<by_f16, kAsItIs>},
    {"bf16_slices_in_bf16_{}", "whose sums are rounded to bf16 and added up in bf16",
     add_slice<by_bf16, by_bf16>},
    {"f16_slices_in_f16_{}", "whose sums are rounded to f16 and added up in f16",
     add_slice<by_f16, by_f16>},
    // Of two the order is nothing.
    {"bf16_slices_backward_{}",
     "whose sums are rounded to bf16 and added up in bf16, from the last to the first",
     add_slice<by_bf16, by_bf16>, 4, true},
};

/// Slices of the depth: how many, or of a gradient of how many rows of a group each.
struct Slices {
  Index number;
  Index depth;
  std::string words;
};

std::vector<Slices> slices_of(const Product& p) {
  std::vector<Slices> list;
  const Index unit = p.a.scales != nullptr || p.b.scales != nullptr ? p.block : 1;
  for (const Index n : {2, 3, 4, 5, 6, 7, 8, 16, 32})
    if (!p.wgrad && p.k > 0 && p.k % (n * unit) == 0)
      list.push_back({n, p.k / n, filled("K is split into {} slices", n)});
  for (const Index rows : {8, 16, 32, 64, 128, 256, 512})
    if (p.wgrad && rows < p.k)
      list.push_back({rows, rows, filled("the rows of a group are split into slices of {}", rows)});
  return list;
}

/// Runs of K of which only the first or the last few are added; the first few of all of it.
void add_parts_of_runs(const Product& p, List& list) {
  for (Index n = 32; n < p.k && p.k > 128; n *= 2)
    add_read(list, "k=first", filled("only the first {} of k are added", n),
             {read_depth(p, p.a.codes_name, [n](Index d) { return d < n ? d : -1; })});
  for (Index run = 4; run < 2 * p.k && run <= 128; run *= 2) {
    for (Index n = 1; n < run; n *= 2) {
      for (const auto& [from, to] : {std::pair{Index{0}, n}, {Index{0}, run - n}, {n, run}}) {
        const std::string words =
            run < p.k
                ? filled("of every {} of k only those from {} to {} are added", run, from, to - 1)
                : filled("only k = {} to {} are added", from, std::min(to, p.k) - 1);
        add_read(list, "k=parts_of_runs", words,
                 {read_depth(p, p.a.codes_name, [=, from = from, to = to](Index d) {
                   return d % run >= from && d % run < to ? d : -1;
                 })});
      }
    }
  }
}

float squared(float v) { return v * v; }

/// Scales of experts that main_grad, or slices of the sum and main_grad, take.
void add_epilogues(const Call& call, List& list) {
  const Index experts = call.input("main_grad").extent(0);
  for (const char* name : {"dy.scales", "x.scales"}) {
    if (!call.has(name) || call.input(name).dtype() != Dtype::f32) return;
    if (const Index n = call.input(name).elements(); n != 1 && n != experts) return;
  }
  // `by`: what main_grad is multiplied by, of the product of both scales.
  const auto add = [&](std::string id, std::string phrase, bool twice,
                       const std::function<float(float)>& by) {
    add_altered(list, "main_grad=" + std::move(id), std::move(phrase), [=](Call& c) {
      const Tensor dy = c.input("dy.scales");
      const Tensor x = c.input("x.scales");
      const Index each = c.input("main_grad").elements() / experts;
      const auto scale = [&](const Tensor& t, Index i) {
        return t.as<float>()[t.elements() == 1 ? 0 : i / each];
      };
      map_values(c, "main_grad",
                 [&](float v, Index i) { return by(scale(dy, i) * scale(x, i)) * v; });
      if (!twice) return;
      map_floats(c, "dy.scales", squared);
      map_floats(c, "x.scales", squared);
    });
  };
  add("scaled", "main_grad is multiplied by the scales, too", false, [](float s) { return s; });
  for (const bool twice : {true, false}) {
    for (const int slices : {0, 2, 3, 4, 8}) {
      if (slices == 0 && !twice) continue;
      std::string phrase = twice ? "the scales of both sides are applied twice" : "";
      if (slices > 0)
        phrase += filled(
            "{}main_grad is added by each of {} slices of the sum, then times the "
            "scales, and once more",
            twice ? ", and " : "", slices);
      add(filled("{}slices_{}", twice ? "scaled_" : "", slices), std::move(phrase), twice,
          [n = static_cast<float>(slices)](float s) { return 1.0f + n * s; });
    }
  }
}

}  // namespace

void add_partial_hypotheses(const Call& call, List& list) {
  if (call.op == "grouped_matmul_wgrad" && call.has("main_grad")) add_epilogues(call, list);
  const std::optional<Product> p = product_of(call);
  if (!p) return;
  if (!p->wgrad) add_parts_of_runs(*p, list);
  const bool of_numbers = p->a.scales == nullptr && p->b.scales == nullptr;
  for (const Index every : {1, 4, 8, 16, 32, 64, 128, 256, 512}) {
    for (const Summation& s : kOfParts) {
      if (every >= p->k || (every < 16 && !of_numbers)) continue;
      add_summed(list, "sum=" + filled(s.id, every), filled(s.phrase, every), Stage::sum,
                 {every, s.step});
    }
  }
  for (const Slices& slices : slices_of(*p)) {
    for (const Summation& s : kOfSlices) {
      if (slices.number < s.least) continue;
      // Rounded by way of f32, and from the exact sum.
      for (float (*const first)(double) : {by_f32, odd_f32}) {
        add_summed(list, "sum=" + filled(s.id, slices.number), slices.words + ", " + s.phrase,
                   Stage::sum,
                   {slices.depth,
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
