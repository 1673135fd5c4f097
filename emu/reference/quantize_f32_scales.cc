// quantize_rowwise and quantize_blockwise, one block at a time.
#include <algorithm>

#include "emu/reference/elements.h"
#include "emu/reference/reference_backend.h"
#include "ops/quantize_f32_scales.h"

namespace mxo {
namespace {

/// A rectangle of one matrix that shares a scale.
struct Rectangle {
  Index expert, row, column, rows, columns;
};

template <typename X, typename Code>
float quantize_rectangle(const TensorView<const X, 3>& x, const TensorView<Code, 3>& codes,
                         const Rectangle& at, const F32ScaleRule& rule) {
  std::uint32_t amax = 0;
  for (Index r = at.row; r < at.row + at.rows; ++r) {
    for (Index k = at.column; k < at.column + at.columns; ++k) {
      amax = join_amax(amax, to_float(x(at.expert, r, k)), rule.nan());
    }
  }
  const F32Scale scale = f32_scale<Code::spec>(bit_cast<float>(amax), rule, largest_finite<X>());
  for (Index r = at.row; r < at.row + at.rows; ++r) {
    for (Index k = at.column; k < at.column + at.columns; ++k) {
      codes(at.expert, r, k) =
          scale_element<Code::spec>(to_float(x(at.expert, r, k)), scale.multiplier);
    }
  }
  return scale.stored;
}

template <typename X, typename Code>
void quantize_rows(const QuantizeRowwise& op) {
  const int last = op.x.rank - 1;
  const Index width = op.x.extent[last];
  const auto* all = static_cast<const X*>(op.x.data);
  auto* all_codes = static_cast<Code*>(op.codes.data);
  auto* scales = static_cast<float*>(op.scales.data);
  for (Index i = 0; i < op.scales.elements(); ++i) {
    TensorView<const X, 3> x{all, {1, 1, width}, {0, 0, op.x.stride[last]}};
    TensorView<Code, 3> codes{all_codes, {1, 1, width}, {0, 0, op.codes.stride[last]}};
    if (width > 0) {  // else there is no first element to point at
      x.data += offset_of(op.x, i * width);
      codes.data += offset_of(op.codes, i * width);
    }
    scales[offset_of(op.scales, i)] =
        quantize_rectangle(x, codes, Rectangle{0, 0, 0, 1, width}, op.rule);
  }
}

template <typename X, typename Code>
void quantize_group_columns(const QuantizeRowwise& op) {
  const auto x = batched<const X>(op.x);
  const auto codes = batched<Code>(op.codes);
  const auto scales = op.scales.as<float, 2>();
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  Index start = 0;
  for (Index g = 0; g < ends.extent[0]; ++g) {
    for (Index k = 0; k < x.extent[2]; ++k) {
      scales(g, k) =
          quantize_rectangle(x, codes, Rectangle{0, start, k, ends(g) - start, 1}, op.rule);
    }
    start = ends(g);
  }
}

template <typename X, typename Code>
void quantize_tiles(const QuantizeBlockwise& op) {
  const auto x = batched<const X>(op.x);
  const auto codes = batched<Code>(op.codes);
  const auto scales = batched<float>(op.scales);
  const Index height = block_rows(op.block);
  const Index width = block_columns(op.block);
  const bool grouped = op.group_ends.given();
  const auto ends = op.group_ends.as<const std::int32_t, 1>();
  const Index groups = grouped ? ends.extent[0] : 1;
  for (Index e = 0; e < x.extent[0]; ++e) {
    Index tile = 0;
    Index start = 0;
    for (Index g = 0; g < groups; ++g) {
      const Index end = grouped ? ends(g) : x.extent[1];
      for (Index r = start; r < end; r += height, ++tile) {
        for (Index k = 0; k < x.extent[2]; k += width) {
          const Rectangle at{e, r, k, std::min(height, end - r), std::min(width, x.extent[2] - k)};
          scales(e, tile, k / width) = quantize_rectangle(x, codes, at, op.rule);
        }
      }
      start = end;
    }
  }
}

}  // namespace

void ReferenceBackend::run(const QuantizeRowwise& op) {
  visit_quantized(op.x.dtype, op.codes.dtype, [&](auto x, auto code) {
    using X = typename decltype(x)::type;
    using Code = typename decltype(code)::type;
    if (op.axis == BlockAxis::rows) {
      quantize_group_columns<X, Code>(op);
    } else {
      quantize_rows<X, Code>(op);
    }
  });
}

void ReferenceBackend::run(const QuantizeBlockwise& op) {
  visit_quantized(op.x.dtype, op.codes.dtype, [&](auto x, auto code) {
    quantize_tiles<typename decltype(x)::type, typename decltype(code)::type>(op);
  });
}

}  // namespace mxo
