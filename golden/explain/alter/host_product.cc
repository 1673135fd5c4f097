// Codes to numbers, numbers to parts, parts to sums.
#include "golden/explain/alter/host_product.h"

#include <algorithm>
#include <cmath>

#include "golden/judge/elements.h"

namespace mxo {
namespace {

/// Codes of one line as numbers, without scales.
std::vector<double> codes_of(const Product& p, const ProductSide& f, Index g, Index line, bool is_a,
                             const std::optional<CodeTable>& table) {
  std::vector<double> values(static_cast<std::size_t>(p.depth(g)));
  const ElementReader read(f.format);
  for (Index d = 0; d < p.depth(g); ++d) {
    const Index at = p.wgrad ? (p.begin(g) + d) * (is_a ? p.a_lines : p.n) + line
                             : (is_a ? line : g * p.n + line) * p.k + d;
    const std::uint64_t bits = bits_at(*f.codes, at);
    values[static_cast<std::size_t>(d)] =
        table ? (*table)[static_cast<std::size_t>(bits & 0xFF)] : read(bits).value;
  }
  return values;
}

struct At {
  Index group;
  Index i;
  Index j;
};

Part part_of(const Product& p, const At& at, const std::vector<double>& a,
             const std::vector<double>& b, Index block, Index from, Index every) {
  Part part;
  part.first = from == 0;
  part.last = from + every >= p.depth(at.group);
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

}  // namespace

Index depth_of_scales(const Product& p) {
  Index depth = 1;
  while (depth < p.k && p.scale_a(0, 0, depth) == p.scale_a(0, 0, 0) &&
         p.scale_b(0, 0, depth) == p.scale_b(0, 0, 0)) {
    ++depth;
  }
  return depth;
}

float odd_f32(double v) {
  const auto f = static_cast<float>(v);
  if (!std::isfinite(f) || static_cast<double>(f) == v) return f;
  const bool beyond = std::abs(static_cast<double>(f)) > std::abs(v);
  const float below = beyond ? std::nextafter(f, 0.0f) : f;
  return bit_cast<float>(bit_cast<std::uint32_t>(below) | 1u);
}

NamedTensors host_product(const Call& call, const HostSum& how) {
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
    for (Index j = 0; j < p->n; ++j) b.push_back(codes_of(*p, p->b, g, j, false, how.b));
    const Index parts = ceil_div(p->depth(g), how.every);
    for (Index i = p->first_line(g); i < p->last_line(g); ++i) {
      const std::vector<double> a = codes_of(*p, p->a, g, i, true, how.a);
      for (Index j = 0; j < p->n; ++j) {
        const std::vector<double>& other = b[static_cast<std::size_t>(j)];
        double sum = 0.0;
        for (Index n = 0; n < parts; ++n) {
          const Index from = (how.backward ? parts - 1 - n : n) * how.every;
          sum = how.step(sum, part_of(*p, {g, i, j}, a, other, block, from, how.every));
        }
        const Index at = p->output_row(g, i) * p->n + j;
        if (narrow) {
          y.as<BF16>()[at] = encode<kBF16>(odd_f32(sum));
        } else {
          y.as<float>()[at] = static_cast<float>(sum);
        }
      }
    }
  }
  out.emplace(p->output, std::move(y));
  return out;
}

}  // namespace mxo
