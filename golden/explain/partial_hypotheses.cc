// Products added up on the host, block by block: partial sums kept in a narrow type, and scales
// that meet in another order than each with its own codes.
#include <algorithm>
#include <cmath>

#include "golden/explain/hypotheses.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

/// A run of depth of one element: the exact sum with every scale, and, where one scale of each side
/// covers the run, the sum of products of codes and those scales.
struct Part {
  double value = 0;
  double codes = 0;
  float scale_a = 1.0f;
  float scale_b = 1.0f;
};

/// What a sum becomes with one more part.
using Step = std::function<float(float sum, const Part& part)>;

/// Codes of one line as numbers, without scales.
std::vector<double> codes_of(const Product& p, const ProductSide& f, Index g, Index line,
                             bool is_a) {
  std::vector<double> values(static_cast<std::size_t>(p.depth(g)));
  const ElementReader read(f.format);
  for (Index d = 0; d < p.depth(g); ++d) {
    const Index at = p.wgrad ? (p.begin(g) + d) * (is_a ? p.a_lines : p.n) + line
                             : (is_a ? line : g * p.n + line) * p.k + d;
    values[static_cast<std::size_t>(d)] = read(bits_at(*f.codes, at)).value;
  }
  return values;
}

/// Depth over which one scale of each side stands.
Index depth_of_scales(const Product& p) {
  Index depth = 1;
  while (depth < p.k && p.scale_a(0, 0, depth) == p.scale_a(0, 0, 0) &&
         p.scale_b(0, 0, depth) == p.scale_b(0, 0, 0)) {
    ++depth;
  }
  return depth;
}

struct At {
  Index group;
  Index i;
  Index j;
};

Part part_of(const Product& p, const At& at, const std::vector<double>& a,
             const std::vector<double>& b, Index block, Index from, Index every) {
  Part part;
  const Index end = std::min(from + every, p.depth(at.group));
  for (Index d = from; d < end;) {
    const Index sa = p.scale_a(at.group, at.i, d);
    const Index sb = p.scale_b(at.group, at.j, d);
    Index run = d;
    do {
      run = std::min(end, (run / block + 1) * block);
    } while (run < end && p.scale_a(at.group, at.i, run) == sa &&
             p.scale_b(at.group, at.j, run) == sb);
    part.codes = 0.0;
    for (; d < run; ++d) {
      part.codes += a[static_cast<std::size_t>(d)] * b[static_cast<std::size_t>(d)];
    }
    if (sa >= 0) part.scale_a = static_cast<float>(scale_value(*p.a.scales, sa));
    if (sb >= 0) part.scale_b = static_cast<float>(scale_value(*p.b.scales, sb));
    part.value +=
        part.codes * static_cast<double>(part.scale_a) * static_cast<double>(part.scale_b);
  }
  return part;
}

/// The output of a product whose sum takes a step every `every` of depth.
NamedTensors added(const Call& call, Index every, const Step& step) {
  NamedTensors out;
  const std::optional<Product> p = product_of(call);
  if (!p) return out;
  std::vector<Index> shape{p->a_lines, p->n};
  if (p->wgrad) shape.insert(shape.begin(), p->groups());
  const bool narrow = call.set.text("out", "bf16") == "bf16";
  Tensor y(narrow ? Dtype::bf16 : Dtype::f32, shape);
  const Index block = depth_of_scales(*p);
  for (Index g = 0; g < p->groups(); ++g) {
    std::vector<std::vector<double>> b;
    for (Index j = 0; j < p->n; ++j) b.push_back(codes_of(*p, p->b, g, j, false));
    for (Index i = p->first_line(g); i < p->last_line(g); ++i) {
      const std::vector<double> a = codes_of(*p, p->a, g, i, true);
      for (Index j = 0; j < p->n; ++j) {
        const std::vector<double>& other = b[static_cast<std::size_t>(j)];
        float sum = 0.0f;
        for (Index from = 0; from < p->depth(g); from += every) {
          const Part part = part_of(*p, {g, i, j}, a, other, block, from, every);
          sum = step(sum, part);
        }
        const Index at = p->output_row(g, i) * p->n + j;
        if (narrow) {
          y.as<BF16>()[at] = encode<kBF16>(sum);
        } else {
          y.as<float>()[at] = sum;
        }
      }
    }
  }
  out.emplace(p->output, std::move(y));
  return out;
}

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase, Stage stage,
         Index every, Step step) {
  Hypothesis h{std::move(name), std::move(phrase), stage};
  h.local = true;
  h.run = [every, step = std::move(step)](Backend&, const Call& c) {
    return added(c, every, step);
  };
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
        Stage::sum, every, [](float sum, const Part& p) {
          return decode(encode<kBF16>(sum + static_cast<float>(p.value)));
        });
    add(list, "sum=f16_every_" + words, "partial sums of " + words + " are added up in f16",
        Stage::sum, every, [](float sum, const Part& p) {
          return decode(encode<kF16>(sum + static_cast<float>(p.value), Overflow::nonfinite));
        });
  }
  for (const Index slices : {2, 4, 8, 16, 32}) {
    if (product->wgrad || product->k == 0) break;
    const bool scaled = product->a.scales != nullptr || product->b.scales != nullptr;
    if (product->k % (slices * (scaled ? product->block : 1)) != 0) continue;
    add(list, "sum=bf16_slices_" + std::to_string(slices),
        "K is split into " + std::to_string(slices) +
            " slices, whose sums are rounded to bf16 before they are added",
        Stage::sum, product->k / slices, [](float sum, const Part& p) {
          return sum + decode(encode<kBF16>(static_cast<float>(p.value)));
        });
    const std::string rounded = "K is split into " + std::to_string(slices) +
                                " slices, whose sums are rounded to bf16 and added up in bf16";
    add(list, "sum=bf16_slices_in_bf16_" + std::to_string(slices), rounded, Stage::sum,
        product->k / slices, [](float sum, const Part& p) {
          return by_bf16(sum + by_bf16(static_cast<float>(p.value)));
        });
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
        Stage::input, product->k, [](float, const Part& p) {
          return decode(encode<kBF16>(static_cast<float>(p.codes))) * (p.scale_a * p.scale_b);
        });
  }
  if (!far) return;
  add(list, "scales=joined", "both scales are multiplied with each other first, in f32",
      Stage::input, block, [](float sum, const Part& p) {
        return sum + static_cast<float>(p.codes) * (p.scale_a * p.scale_b);
      });
  add(list, "scales=joined_flushed",
      "both scales are multiplied with each other first, and subnormal products become zero",
      Stage::input, block, [](float sum, const Part& p) {
        return sum + static_cast<float>(p.codes) * flushed(p.scale_a * p.scale_b);
      });
  add(list, "scales=a_first",
      "sums are multiplied with the scales of " + product->a.name + " first, in f32", Stage::input,
      block, [](float sum, const Part& p) {
        return sum + static_cast<float>(p.codes) * p.scale_a * p.scale_b;
      });
  add(list, "scales=b_first",
      "sums are multiplied with the scales of " + product->b.name + " first, in f32", Stage::input,
      block, [](float sum, const Part& p) {
        return sum + static_cast<float>(p.codes) * p.scale_b * p.scale_a;
      });
}

}  // namespace mxo
