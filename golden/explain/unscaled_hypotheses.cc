// Products whose slices of K are added from the last, whose scales are left out of a block or read
// as numbers, or whose subnormal codes are read as normal ones.
#include <cmath>

#include "golden/explain/alter/host_product.h"
#include "golden/explain/find/quantiser/code_rule.h"
#include "golden/explain/hypotheses.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase, Stage stage,
         HostSum sum) {
  Hypothesis h{std::move(name), std::move(phrase), stage};
  h.local = true;
  h.run = [sum = std::move(sum)](Backend&, const Call& c) { return host_product(c, sum); };
  list.push_back(std::move(h));
}

float by_bf16(float v) { return decode(encode<kBF16>(v)); }

/// Slices of K added in bf16 from the last one: of two the order is nothing.
void add_backward_slices(const Product& p, std::vector<Hypothesis>& list) {
  const bool scaled = p.a.scales != nullptr || p.b.scales != nullptr;
  for (const Index slices : {4, 8, 16, 32}) {
    if (p.wgrad || p.k % (slices * (scaled ? p.block : 1)) != 0) continue;
    add(list, "sum=bf16_slices_backward_" + std::to_string(slices),
        "K is split into " + std::to_string(slices) +
            " slices, whose sums are rounded to bf16 and added up in bf16, from the last to the "
            "first",
        Stage::sum,
        {p.k / slices,
         [](double sum, const Part& part) {
           return by_bf16(static_cast<float>(sum) + by_bf16(static_cast<float>(part.value)));
         },
         true});
  }
}

enum class Sides : std::uint8_t { a, b, both };

/// Scales of both sides that do not reach the first or last block of K, and of one or both that are
/// taken for the integers that their bytes are.
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
      if (sides != Sides::both || p.wgrad || blocks < 2) break;  // one side is measured
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

/// Subnormal codes of one side taken for 1.m of the lowest exponent.
void add_normal_formula(const Product& p, bool of_a, std::vector<Hypothesis>& list) {
  const ProductSide& side = of_a ? p.a : p.b;
  if (!is_minifloat8(side.format)) return;
  const double least = Grid(side.format).least_normal();
  const ElementReader decode(side.format);
  CodeTable table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    const double own = decode(byte).value;
    const bool subnormal = own != 0.0 && std::abs(own) < least;
    table[byte] = subnormal ? std::copysign((least + std::abs(own)) / 2.0, own) : own;
  }
  HostSum sum{depth_of_scales(p),
              [](double so_far, const Part& part) { return so_far + part.value; }};
  (of_a ? sum.a : sum.b) = table;
  add(list, side.codes_name + "=normal_formula",
      "subnormal codes of " + side.name +
          " are read by the formula of normal ones, 1.m of the lowest exponent",
      Stage::input, std::move(sum));
}

}  // namespace

void add_unscaled_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  const std::optional<Product> product = product_of(call);
  if (!product || product->k < 1 || call.has("main_grad")) return;
  add_backward_slices(*product, list);
  for (const bool of_a : {true, false}) add_normal_formula(*product, of_a, list);
  add_unscaled_blocks(*product, depth_of_scales(*product), list);
}

}  // namespace mxo
