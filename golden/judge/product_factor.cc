// Operands of products as doubles.
#include "golden/judge/product_factor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/minifloat.h"
#include "golden/judge/elements.h"
#include "golden/judge/group_rows.h"
#include "ops/catalogue/product_blocks.h"

namespace mxo {
namespace {

/// Exponent of the smallest normal value.
int least_exponent(Dtype type) {
  switch (type) {
    case Dtype::e4m3: return -6;
    case Dtype::e4m3fnuz: return -7;
    case Dtype::e5m2: return -14;
    case Dtype::e5m2fnuz: return -15;
    case Dtype::f16: return -14;
    default: return -126;
  }
}

double binade_of(double value, Dtype type) {
  if (value == 0 || !std::isfinite(value)) return 0;
  return std::ldexp(1.0, std::max(std::ilogb(value), least_exponent(type)));
}

struct Codes {
  const Tensor* tensor = nullptr;
  bool coded = false;
  Dtype type = Dtype::f32;
};

Codes codes_of(const NamedTensors& inputs, const std::string& name, const Parameters& set) {
  const auto plain = inputs.find(name);
  Codes codes;
  codes.coded = plain == inputs.end();
  codes.tensor = codes.coded ? &inputs.at(name + ".codes") : &plain->second;
  const Dtype held = codes.tensor->dtype() == Dtype::u16 ? Dtype::bf16 : codes.tensor->dtype();
  const bool bits = size_of(held) == 4 && !codes.coded;  // i32 and u32 hold those of f32
  codes.type = codes.coded ? set.format("format_" + name, "e4m3") : bits ? Dtype::f32 : held;
  return codes;
}

void read(const Codes& codes, ProductFactor& factor) {
  const ElementReader reader(codes.type);
  factor.type = codes.type;
  factor.value.resize(static_cast<std::size_t>(codes.tensor->elements()));
  factor.binade.resize(factor.value.size());
  // Elements of 8 and 16 bits from tables.
  const std::size_t bits = 8 * size_of(codes.tensor->dtype());
  std::vector<double> value, binade;
  for (std::uint64_t b = 0; bits <= 16 && b < std::uint64_t{1} << bits; ++b) {
    value.push_back(reader(b).value);
    binade.push_back(binade_of(value.back(), codes.type));
  }
  for (Index i = 0; i < codes.tensor->elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::uint64_t stored = bits_at(*codes.tensor, i);
    factor.value[at] = value.empty() ? reader(stored).value : value[stored];
    factor.binade[at] = binade.empty() ? binade_of(factor.value[at], codes.type) : binade[stored];
  }
}

/// Multiplies element i by the e8m0 scale at `scale_of(i)`.
template <typename Fn>
void scale_elements(ProductFactor& factor, const Tensor& scales, Fn scale_of) {
  const ElementReader reader(Dtype::e8m0);
  for (std::size_t i = 0; i < factor.value.size(); ++i) {
    const double scale = reader(bits_at(scales, scale_of(static_cast<Index>(i)))).value;
    factor.value[i] *= scale;
    factor.binade[i] *= scale;
  }
  factor.blocks_of_32 = true;
}

/// f32 scales of rows or of blocks of 128; false where the shapes say neither.
bool place_scales(ProductFactor& factor, const Tensor& codes, const Tensor& scales,
                  std::string_view block) {
  if (!block.empty() && block != "1xK" && block != "1x128" && block != "128x128") return false;
  const int groups = codes.rank() - 2;  // axes before the rows
  factor.scales = &scales;
  if (scales.rank() == codes.rank()) {
    factor.line_blocks = scales.extent(groups);
    factor.blocks = scales.extent(groups + 1);
  } else if (scales.rank() == codes.rank() - 1) {
    factor.line_blocks = scales.extent(groups);
  } else {
    return false;
  }
  factor.line_block = factor.line_blocks == factor.lines ? 1 : 128;
  factor.block_k = factor.blocks == 1 ? factor.k : 128;
  const bool rows = ceil_div(factor.lines, factor.line_block) == factor.line_blocks;
  const bool along = factor.blocks == 1 || ceil_div(factor.k, Index{128}) == factor.blocks;
  return rows && along;
}

/// f32 scales of a matrix contracted along its rows.
void place_columns(ProductFactor& factor, const Tensor& scales, const BlockExtents& block,
                   const std::vector<Index>& ends) {
  factor.scales = &scales;
  const bool whole = block.columns == kWhole;
  factor.line_block = whole ? std::max<Index>(factor.lines, 1) : block.columns;
  factor.line_blocks = ceil_div(factor.lines, factor.line_block);
  factor.block_k = block.rows == kWhole ? 0 : block.rows;
  Index row = 0;
  Index begin = 0;
  for (const Index end : ends) {
    factor.first_row.push_back(row);
    row += factor.block_k == 0 ? 1 : ceil_div(end - begin, factor.block_k);
    begin = end;
  }
}

}  // namespace

double ProductFactor::scale(Index group, Index line, Index block) const {
  if (scales == nullptr) return 1;
  const Index row = group * line_blocks + line / line_block;
  return static_cast<double>(scales->as<float>()[row * blocks + std::min(block, blocks - 1)]);
}

double ProductFactor::scale_below(Index group, Index line, Index at) const {
  if (scales == nullptr) return 1;
  const Index row = first_row[static_cast<std::size_t>(group)] + (block_k == 0 ? 0 : at / block_k);
  return static_cast<double>(scales->as<float>()[row * line_blocks + line / line_block]);
}

std::optional<ProductFactor> factor_of_rows(const NamedTensors& inputs, const std::string& name,
                                            const Parameters& set) {
  const Codes codes = codes_of(inputs, name, set);
  ProductFactor factor;
  factor.k = codes.tensor->extent(codes.tensor->rank() - 1);
  factor.lines = codes.tensor->extent(codes.tensor->rank() - 2);
  factor.block_k = factor.k;
  read(codes, factor);
  if (!codes.coded) return factor;
  const Tensor& scales = inputs.at(name + ".scales");
  const std::string_view block = set.text("block_" + name, "");
  if (size_of(scales.dtype()) == 4) {
    return place_scales(factor, *codes.tensor, scales, block) ? std::optional(std::move(factor))
                                                              : std::nullopt;
  }
  const bool fits = scales.rank() == codes.tensor->rank() &&
                    scales.extent(scales.rank() - 1) * 32 == factor.k &&
                    scales.elements() * 32 == codes.tensor->elements();
  if (!fits || (!block.empty() && block != "1x32")) return std::nullopt;
  scale_elements(factor, scales, [](Index i) { return i / 32; });
  return factor;
}

std::optional<ProductFactor> factor_of_columns(const NamedTensors& inputs, const std::string& name,
                                               const Parameters& set) {
  const Codes codes = codes_of(inputs, name, set);
  const Index rows = codes.tensor->extent(0);
  const Index columns = codes.tensor->extent(1);
  ProductFactor across;
  read(codes, across);
  const Tensor* scales = codes.coded ? &inputs.at(name + ".scales") : nullptr;
  const bool numbers = scales != nullptr && size_of(scales->dtype()) == 4;
  if (codes.coded && !numbers) {
    const std::string_view block = set.text("block_" + name, "");
    const bool fits =
        scales->rank() == 2 && scales->extent(0) * 32 == rows && scales->extent(1) == columns;
    if (!fits || (!block.empty() && block != "32x1")) return std::nullopt;
    scale_elements(across, *scales,
                   [columns](Index i) { return i / columns / 32 * columns + i % columns; });
  }
  ProductFactor factor = across;
  factor.k = factor.block_k = rows;
  factor.lines = columns;
  if (numbers) {
    const Tensor& ends = inputs.at("group_ends");
    const BlockShapes shapes{codes.tensor->shape(), ends.operand()};
    place_columns(factor, *scales,
                  block_of_scales("grouped_matmul_wgrad", name, "block_" + name, set, shapes,
                                  scales->operand()),
                  group_ends_of(ends));
  }
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < columns; ++c) {
      const auto to = static_cast<std::size_t>(c * rows + r);
      const auto from = static_cast<std::size_t>(r * columns + c);
      factor.value[to] = across.value[from];
      factor.binade[to] = across.binade[from];
    }
  }
  return factor;
}

bool has_many_magnitudes(std::span<const double> values) {
  std::array<double, 16> seen{};
  std::size_t count = 0;
  for (const double value : values) {
    const double magnitude = std::fabs(value);
    const auto end = seen.begin() + static_cast<std::ptrdiff_t>(count);
    if (std::find(seen.begin(), end, magnitude) != end) continue;
    if (count == seen.size()) return true;
    seen[count++] = magnitude;
  }
  return false;
}

void dequantise_to_bf16(ProductFactor& factor) {
  for (std::size_t i = 0; i < factor.value.size(); ++i) {
    if (!std::isfinite(factor.value[i])) continue;
    factor.value[i] =
        static_cast<double>(decode(encode<kBF16>(static_cast<float>(factor.value[i]))));
    factor.binade[i] = binade_of(factor.value[i], Dtype::bf16);
  }
}

}  // namespace mxo
