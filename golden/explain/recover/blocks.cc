// Shapes to block extents.
#include "golden/explain/recover/blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/dtype.h"

namespace mxo {
namespace {

/// The usual extents come first: ceil(n / extent) may fit several.
Index extent_for(Index n, Index scales) {
  if (scales == n) return 1;
  for (const Index extent : {32, 128, 16, 64, 256, 512}) {
    if (ceil_div(n, extent) == scales) return extent;
  }
  return scales == 1 ? std::max<Index>(n, 1) : 0;
}

}  // namespace

float Blocks::value(Index i) const {
  if (x->dtype() == Dtype::bf16) return decode(x->as<BF16>()[i]);
  if (x->dtype() == Dtype::f16) return decode(x->as<F16>()[i]);
  return x->as<float>()[i];
}

std::vector<float> Blocks::amax() const {
  std::vector<float> most(static_cast<std::size_t>(scales()));
  for (Index i = 0; i < x->elements(); ++i) {
    float& m = most[static_cast<std::size_t>(scale_of(i))];
    const float v = std::fabs(value(i));
    if (!(v <= std::numeric_limits<float>::max())) m = std::numeric_limits<float>::quiet_NaN();
    if (v > m) m = v;
  }
  return most;
}

std::optional<Blocks> blocks_of(const Call& call, const Output& codes, const Tensor& scales) {
  if (!call.op.starts_with("quantize") || !call.has("x") || call.has("group_ends"))
    return std::nullopt;
  Blocks b;
  b.x = &call.input("x");
  const std::vector<Index>& shape = b.x->shape();
  const bool wide =
      b.x->dtype() == Dtype::f32 || b.x->dtype() == Dtype::bf16 || b.x->dtype() == Dtype::f16;
  if (!wide || shape.size() < 2 || codes.expected->shape() != shape || b.x->elements() == 0)
    return std::nullopt;
  b.columns = shape.back();
  b.rows = shape[shape.size() - 2];
  if (scales.rank() + 1 == b.x->rank() && scales.shape().back() == b.rows) {
    b.scale_rows = b.rows;  // one for a row
    b.scale_columns = 1;
  } else if (scales.rank() == b.x->rank()) {
    b.scale_columns = scales.shape().back();
    b.scale_rows = scales.shape()[scales.shape().size() - 2];
  } else {
    return std::nullopt;
  }
  b.block_rows = extent_for(b.rows, b.scale_rows);
  b.block_columns = extent_for(b.columns, b.scale_columns);
  if (b.block_rows == 0 || b.block_columns == 0 || b.scales() != scales.elements())
    return std::nullopt;
  return b;
}

}  // namespace mxo
