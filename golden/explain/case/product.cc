// Lines, scales and slices.
#include "golden/explain/case/product.h"

#include "golden/judge/elements.h"
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

ProductSide factor_of(const Call& call, const std::string& name, const char* format_key) {
  ProductSide f;
  f.name = name;
  f.codes_name = call.has(name + ".codes") ? name + ".codes" : name;
  if (!call.has(f.codes_name)) return f;
  f.codes = &call.input(f.codes_name);
  f.format = f.codes->dtype();
  if (f.codes_name != name) {
    f.format = call.set.format(format_key, "e4m3");
    f.scales_name = name + ".scales";
    if (call.has(f.scales_name)) f.scales = &call.input(f.scales_name);
  } else if (f.format == Dtype::u16) {
    f.format = Dtype::bf16;
  } else if (f.format == Dtype::i32 || f.format == Dtype::u32) {
    f.format = Dtype::f32;
  }
  return f;
}

/// One scale for every 32 neighbours of depth, whatever else: e8m0 operands.
bool is_mx(const ProductSide& f) { return f.scales != nullptr && size_of(f.scales->dtype()) == 1; }

/// Number of 128-row tiles before group g (blocks restart at each group).
Index tiles_before(const Product& p, Index g) {
  Index n = 0;
  for (Index h = 0; h < g; ++h) n += ceil_div(p.end(h) - p.begin(h), 128);
  return n;
}

/// Scale index of column `line`, depth `d` rows into group `g`, of a factor of a gradient.
Index gradient_scale(const Product& p, const ProductSide& f, Index g, Index line, Index d) {
  if (f.scales != nullptr && f.scales->elements() == 1) return 0;
  if (f.scales == nullptr || f.scales->rank() != 2) return -1;
  const Index columns = f.scales->extent(1);
  if (is_mx(f)) return (p.begin(g) + d) / p.block * columns + line;
  if (f.scales->extent(0) == p.groups()) return g * columns + line;
  return (tiles_before(p, g) + d / 128) * columns + line;
}

/// Whether the scales of `f` have a line for each of its own, as everything here indexes them: an
/// operator also takes one for all, or for several lines.
bool has_scale_lines(const Product& p, const ProductSide& f, Index lines) {
  if (f.scales == nullptr) return true;
  const Tensor& s = *f.scales;
  if (s.elements() == 1) return true;
  if (p.wgrad) return s.rank() == 2 && s.extent(1) == lines;
  if (&f == &p.a) return (s.rank() == 1 || s.rank() == 2) && s.extent(0) == lines;
  return (s.rank() == 2 || s.rank() == 3) && s.extent(0) == p.groups() && s.extent(1) > 0;
}

/// `depth` values from element `first` on, `step` apart; scale(d): the index of the scale of d, the
/// same for `run` neighbours.
template <typename Scale>
std::vector<double> line(const ProductSide& f, Index depth, Index first, Index step, Index run,
                         Scale scale) {
  std::vector<double> values(static_cast<std::size_t>(depth));
  const ElementReader read(f.format);
  const auto decoded = [&](auto word) {
    const std::byte* at = f.codes->data() + static_cast<std::size_t>(first) * sizeof word;
    for (Index d = 0; d < depth;) {
      const Index s = scale(d);
      const double by = s < 0 ? 1.0 : scale_value(*f.scales, s);
      for (const Index end = std::min(d + run, depth); d < end; ++d) {
        std::memcpy(&word, at + static_cast<std::size_t>(d * step) * sizeof word, sizeof word);
        nth(values, d) = read(word).value * by;
      }
    }
  };
  switch (size_of(f.codes->dtype())) {
    case 1: decoded(std::uint8_t{}); break;
    case 2: decoded(std::uint16_t{}); break;
    case 4: decoded(std::uint32_t{}); break;
    default: decoded(std::uint64_t{});
  }
  return values;
}

/// The same of neighbours, whose scales follow the one at `scale` every `run`; -1: there are none.
std::vector<double> forward_line(const ProductSide& f, Index depth, Index first, Index run,
                                 Index scale) {
  return line(f, depth, first, 1, run,
              [=](Index d) { return scale < 0 ? scale : scale + d / run; });
}

}  // namespace

Index block_of(Index extent, Index scales) {
  if (scales <= 1) return std::max<Index>(extent, 1);
  for (int shift = 4; shift <= 9; ++shift) {  // no division: it is asked of every scale
    const Index block = Index{1} << shift;
    if ((extent + block - 1) >> shift == scales) return block;
  }
  return ceil_div(extent, scales);
}

Tensor resized(const Tensor& t, std::vector<Index> shape) {
  Tensor to(t.dtype(), std::move(shape));
  std::memcpy(to.data(), t.data(), std::min(t.bytes(), to.bytes()));
  return to;
}

Tensor gathered(const Tensor& tensor, int axis, const std::vector<Index>& kept) {
  std::vector<Index> shape = tensor.shape();
  const auto at = static_cast<std::size_t>(axis);
  Index outer = 1;
  for (std::size_t i = 0; i < at; ++i) outer *= shape[i];
  Index inner = 1;
  for (std::size_t i = at + 1; i < shape.size(); ++i) inner *= shape[i];
  const Index extent = shape[at];
  shape[at] = static_cast<Index>(kept.size());
  Tensor out(tensor.dtype(), shape);
  const std::size_t bytes = static_cast<std::size_t>(inner) * size_of(tensor.dtype());
  std::byte* to = out.data();
  for (Index o = 0; o < outer; ++o) {
    for (const Index i : kept) {
      std::memcpy(to, tensor.data() + static_cast<std::size_t>(o * extent + i) * bytes, bytes);
      to += bytes;
    }
  }
  return out;
}

double scale_value(const Tensor& scales, Index i) {
  if (size_of(scales.dtype()) != 1) return static_cast<double>(scales.as<float>()[i]);
  return static_cast<double>(decode(E8M0{scales.as<std::uint8_t>()[i]}));
}

std::vector<double> scale_values(const Tensor& scales) {
  std::vector<double> values(static_cast<std::size_t>(scales.elements()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = scale_value(scales, static_cast<Index>(i));
  return values;
}

std::optional<Product> product_of(const Call& call) {
  Product p;
  p.wgrad = call.has("dy") || call.has("dy.codes");
  if (!call.op.starts_with("grouped_matmul") || !call.has("group_ends")) return std::nullopt;
  if (call.has("main_grad")) return std::nullopt;  // dw is not the product alone
  p.a = factor_of(call, p.wgrad ? "dy" : "x", p.wgrad ? "format_dy" : "format_x");
  p.b = factor_of(call, p.wgrad ? "x" : "w", p.wgrad ? "format_x" : "format_w");
  p.output = p.wgrad ? "dw" : "y";
  p.ends = group_ends_of(call.input("group_ends"));
  if (p.a.codes == nullptr || p.b.codes == nullptr || p.a.codes->rank() != 2 ||
      p.b.codes->rank() != (p.wgrad ? 2 : 3) || p.ends.empty()) {
    return std::nullopt;
  }
  const Tensor& a = *p.a.codes;
  const Tensor& b = *p.b.codes;
  p.k = p.wgrad ? a.extent(0) : a.extent(1);
  p.a_lines = p.wgrad ? a.extent(1) : a.extent(0);
  p.n = b.extent(1);
  if (p.ends.back() > a.extent(0) ||
      (!p.wgrad && (b.extent(2) != p.k || b.extent(0) != p.groups())) ||
      (p.wgrad && b.extent(0) != a.extent(0))) {
    return std::nullopt;
  }
  if (!has_scale_lines(p, p.a, p.a_lines) || !has_scale_lines(p, p.b, p.n)) return std::nullopt;
  if (p.wgrad) {
    p.block = is_mx(p.a) || p.a.scales == nullptr ? 32 : 128;
  } else if (p.a.scales != nullptr && p.a.scales->rank() == 2 && p.a.scales->extent(1) > 1) {
    p.block = block_of(p.k, p.a.scales->extent(1));
  } else {
    p.block = p.k >= 1024 ? 128 : 32;
  }
  return p;
}

void add_bias(const Call& call, Tensor& y) {
  if (!is_biased_product(call)) return;
  const Tensor& bias = call.input("bias");
  std::vector<Index> ends;
  if (bias.rank() == 2) ends = group_ends_of(call.input("group_ends"));
  const Index columns = bias.shape().back();
  std::size_t g = 0;
  for (Index i = 0; i < y.elements(); ++i) {
    while (g + 1 < ends.size() && i / columns >= ends[g]) ++g;
    const Index at = static_cast<Index>(g) * columns + i % columns;
    store_wide(y, i, wide_value(y, i) + wide_value(bias, at));
  }
}

Index Product::scale_a(Index g, Index i, Index d) const {
  if (wgrad) return gradient_scale(*this, a, g, i, d);
  if (a.scales == nullptr) return -1;
  const Tensor& s = *a.scales;
  if (s.elements() == 1) return 0;
  if (s.rank() == 1) return i;
  return i * s.extent(1) + d / block_of(k, s.extent(1));
}

Index Product::scale_b(Index g, Index j, Index d) const {
  if (wgrad) return gradient_scale(*this, b, g, j, d);
  if (b.scales == nullptr) return -1;
  const Tensor& s = *b.scales;
  if (s.elements() == 1) return 0;
  const Index lines = s.extent(1) == n ? 1 : block_of(n, s.extent(1));
  const Index at = g * s.extent(1) + j / lines;
  return s.rank() == 2 ? at : at * s.extent(2) + d / block_of(k, s.extent(2));
}

Index Product::depth_of_scale(const ProductSide& f) const {
  if (wgrad) return 1;
  const bool several = f.scales != nullptr && f.scales->rank() == f.codes->rank();
  return several ? block_of(k, f.scales->shape().back()) : std::max<Index>(k, 1);
}

std::vector<double> Product::line_a(Index g, Index i) const {
  if (wgrad)
    return line(a, depth(g), begin(g) * a_lines + i, a_lines, 1,
                [&](Index d) { return scale_a(g, i, d); });
  return forward_line(a, k, i * k, depth_of_scale(a), k == 0 ? -1 : scale_a(g, i, 0));
}

std::vector<double> Product::line_b(Index g, Index j) const {
  if (wgrad)
    return line(b, depth(g), begin(g) * n + j, n, 1, [&](Index d) { return scale_b(g, j, d); });
  return forward_line(b, k, (g * n + j) * k, depth_of_scale(b), k == 0 ? -1 : scale_b(g, j, 0));
}

std::vector<Index> output_rows(const Product& product, const Window& window) {
  if (!product.wgrad) return window.rows;
  std::vector<Index> rows;
  for (Index g = 0; g < product.groups(); ++g)
    for (const Index n : window.rows) rows.push_back(g * product.a_lines + n);
  return rows;
}

std::vector<Index> whole_columns(const Product& product, const std::vector<Index>& columns,
                                 Index most) {
  const Tensor* s = product.b.scales;
  if (product.wgrad || s == nullptr || s->rank() < 2 || s->extent(1) == product.n) return columns;
  const Index run = block_of(product.n, s->extent(1));
  std::vector<Index> wide;
  for (const Index c : columns) {
    const Index first = c / run * run;
    if (!wide.empty() && wide.back() >= first) continue;
    if (!wide.empty() && static_cast<Index>(wide.size()) >= most) break;
    for (Index i = first; i < std::min(first + run, product.n); ++i) wide.push_back(i);
  }
  return wide;
}

Tensor sliced_result(const Tensor& y, const Window& window) {
  return gathered(gathered(y, 0, window.rows), 1, window.columns);
}

Call sliced(const Call& call, const Product& product, const Window& window,
            const std::vector<const Reading*>& readings) {
  Call part = call;
  const auto cut = [&](const std::string& name, int axis, const std::vector<Index>& kept) {
    if (!call.has(name)) return;
    const Tensor& whole = call.input(name);
    if (name.ends_with(".scales") && whole.elements() == 1) return;  // of every line
    const auto reading = std::find_if(readings.begin(), readings.end(),
                                      [&name](const Reading* r) { return r->operand == name; });
    if (reading != readings.end()) {
      part.replace(name, read_gathered(**reading, whole, axis, kept));
      return;
    }
    if (static_cast<Index>(kept.size()) == whole.extent(axis)) return;  // all of it: shared
    part.replace(name, gathered(whole, axis, kept));
  };
  if (product.wgrad) {
    for (const auto& [factor, kept] :
         {std::pair{&product.a, &window.rows}, std::pair{&product.b, &window.columns}}) {
      cut(factor->codes_name, 1, *kept);
      cut(factor->scales_name, 1, *kept);
    }
    return part;
  }
  cut(product.a.codes_name, 0, window.rows);
  cut(product.a.scales_name, 0, window.rows);
  cut(product.b.codes_name, 1, window.columns);
  if (call.has("bias"))
    cut("bias", static_cast<int>(call.input("bias").rank()) - 1, window.columns);
  const Tensor* s = product.b.scales;
  if (s != nullptr && s->rank() >= 2 && s->extent(1) != product.n) {
    const Index run = block_of(product.n, s->extent(1));
    std::vector<Index> tiles;
    for (const Index c : window.columns)
      if (tiles.empty() || tiles.back() != c / run) tiles.push_back(c / run);
    cut(product.b.scales_name, 1, tiles);
  } else {
    cut(product.b.scales_name, 1, window.columns);
  }
  Tensor ends = call.input("group_ends");
  for (Index g = 0; g < ends.elements(); ++g) {
    auto& end = ends.as<std::int32_t>()[g];
    end = static_cast<std::int32_t>(std::lower_bound(window.rows.begin(), window.rows.end(), end) -
                                    window.rows.begin());
  }
  part.replace("group_ends", std::move(ends));
  return part;
}

}  // namespace mxo
