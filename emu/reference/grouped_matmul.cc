// The grouped products, one output at a time.
#include "emu/reference/dot.h"
#include "emu/reference/machine_product.h"
#include "emu/reference/reference_backend.h"
#include "formats/mx_block.h"

namespace mxo {
namespace {

template <typename Out>
Out dot(const Accumulation& sum, Scaling scaling, const ScaledLine& a, const ScaledLine& b,
        Index length) {
  if (length == 0) return from_float<Out>(0.0f);
  if (sum.family == SumFamily::fma_chain) {
    return from_float<Out>(fma_chain_dot(scaling, a, b, length));
  }
  const ExactSum exact = exact_dot(a, b, length);
  if constexpr (std::is_same_v<Out, float>) {
    return exact.round_to_f32();
  } else {
    return exact.round_to_bf16();
  }
}

/// How many neighbours along the contracted axis share a scale.
Index scale_block(Scaling scaling, Index length) {
  switch (scaling) {
    case Scaling::mx: return kMxBlock;
    case Scaling::blockwise: return kScaleTile;
    case Scaling::none:
    case Scaling::rowwise: break;
  }
  return length;
}

/// Row r of x, along K.
ScaledLine row_of_x(const GroupedMatmul& op, Index r) {
  ScaledLine line;
  line.codes = op.x;
  line.codes_start = r * op.x.stride[0];
  line.codes_step = op.x.stride[1];
  line.scales = op.x_scales;
  line.scales_start = r * op.x_scales.stride[0];
  line.scales_step = op.x_scales.stride[1];
  line.block = scale_block(op.scaling, op.x.extent[1]);
  return line;
}

/// Row n of the matrix of group g, along K.
ScaledLine row_of_w(const GroupedMatmul& op, Index g, Index n) {
  const Index scale_row = op.scaling == Scaling::blockwise ? n / kScaleTile : n;
  ScaledLine line;
  line.codes = op.w;
  line.codes_start = g * op.w.stride[0] + n * op.w.stride[1];
  line.codes_step = op.w.stride[2];
  line.scales = op.w_scales;
  line.scales_start = g * op.w_scales.stride[0] + scale_row * op.w_scales.stride[1];
  line.scales_step = op.w_scales.stride[2];
  line.block = scale_block(op.scaling, op.w.extent[2]);
  return line;
}

/// The rows of one group: [start, end), its scales from `scale_row` on.
struct GroupRows {
  Index start;
  Index end;
  Index scale_row;
};

/// Column `at` of dy or x, along the rows of a group.
ScaledLine column(const Operand& codes, const Operand& scales, Scaling scaling,
                  const GroupRows& rows, Index at) {
  ScaledLine line;
  line.codes = codes;
  line.codes_start = rows.start * codes.stride[0] + at * codes.stride[1];
  line.codes_step = codes.stride[0];
  line.scales = scales;
  line.scales_start = rows.scale_row * scales.stride[0] + at * scales.stride[1];
  line.scales_step = scales.stride[0];
  line.block = scale_block(scaling, rows.end - rows.start);
  return line;
}

template <typename Out>
void forward(const GroupedMatmul& op) {
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  const auto y = op.y.as<Out, 2>();
  Index r = 0;
  for (Index g = 0; g < ends.extent[0]; ++g) {
    for (; r < ends(g); ++r) {
      const ScaledLine x = row_of_x(op, r);
      for (Index n = 0; n < y.extent[1]; ++n) {
        y(r, n) = dot<Out>(op.sum, op.scaling, x, row_of_w(op, g, n), op.x.extent[1]);
      }
    }
  }
}

template <typename Out>
void weight_gradient(const GroupedMatmulWgrad& op) {
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  const auto dw = op.dw.as<Out, 3>();
  Index start = 0;
  Index tiles = 0;  // scale tiles of the groups before
  for (Index g = 0; g < ends.extent[0]; ++g) {
    GroupRows rows{start, ends(g), 0};
    if (op.scaling == Scaling::mx) rows.scale_row = start / kMxBlock;
    if (op.scaling == Scaling::rowwise) rows.scale_row = g;
    if (op.scaling == Scaling::blockwise) rows.scale_row = tiles;
    for (Index n = 0; n < dw.extent[1]; ++n) {
      const ScaledLine dy = column(op.dy, op.dy_scales, op.scaling, rows, n);
      for (Index k = 0; k < dw.extent[2]; ++k) {
        const ScaledLine x = column(op.x, op.x_scales, op.scaling, rows, k);
        dw(g, n, k) = dot<Out>(op.sum, op.scaling, dy, x, rows.end - rows.start);
      }
    }
    tiles += ceil_div(rows.end - rows.start, kScaleTile);
    start = rows.end;
  }
}

}  // namespace

void ReferenceBackend::run(const GroupedMatmul& op) {
  if (is_machine(op.sum)) return run_each(products_of(op));
  op.y.dtype == Dtype::f32 ? forward<float>(op) : forward<BF16>(op);
}

void ReferenceBackend::run(const GroupedMatmulWgrad& op) {
  if (is_machine(op.sum)) return run_each(products_of(op));
  op.dw.dtype == Dtype::f32 ? weight_gradient<float>(op) : weight_gradient<BF16>(op);
}

}  // namespace mxo
