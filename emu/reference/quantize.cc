// quantize and dequantize, one block at a time.
#include "ops/quantize.h"
#include "emu/reference/elements.h"
#include "emu/reference/reference_backend.h"
#include "formats/scale_layout.h"

namespace mxo {
namespace {

/// Where the scale of a block lies: through the view, or in 128x4 tiles, whose padding is cleared.
auto scale_places(const Quantize& op, Index rows, Index columns) {
  const bool tiles = op.storage == ScaleStorage::blocked;
  auto* blocked = static_cast<E8M0*>(op.scales.data);
  for (Index i = 0; tiles && i < op.scales.elements(); ++i) blocked[i] = {0};
  const auto view = tiles ? TensorView<E8M0, 3>{} : batched<E8M0>(op.scales);
  return [=](Index e, Index i, Index j) -> E8M0& {
    if (!tiles) return view(e, i, j);
    return blocked[e * blocked_bytes(rows, columns) +
                   blocked_offset(i, j, ceil_div(columns, kTileColumns))];
  };
}

template <typename X, typename Code>
void quantize_blocks(const Quantize& op) {
  const auto x = batched<const X>(op.x);
  const auto codes = batched<Code>(op.codes);
  const bool rows = op.axis == BlockAxis::rows;
  const Index step_r = rows ? 1 : 0;  // from one neighbour of a block to the next
  const Index step_k = rows ? 0 : 1;
  const Index scale_rows = rows ? x.extent[1] / op.block : x.extent[1];
  const Index scale_columns = rows ? x.extent[2] : x.extent[2] / op.block;
  const auto scale_of = scale_places(op, scale_rows, scale_columns);

  for (Index e = 0; e < x.extent[0]; ++e) {
    for (Index i = 0; i < scale_rows; ++i) {
      for (Index j = 0; j < scale_columns; ++j) {
        const Index r = rows ? i * op.block : i;
        const Index k = rows ? j : j * op.block;
        std::uint32_t amax = 0;
        for (Index n = 0; n < op.block; ++n) {
          amax = join_amax(amax, to_float(x(e, r + n * step_r, k + n * step_k)), op.profile.nan);
        }
        const E8M0 scale = shared_scale<Code::spec>(bit_cast<float>(amax), op.mode, op.profile);
        scale_of(e, i, j) = scale;
        for (Index n = 0; n < op.block; ++n) {
          const Index at_r = r + n * step_r;
          const Index at_k = k + n * step_k;
          codes(e, at_r, at_k) = quantize_element<Code::spec>(to_float(x(e, at_r, at_k)), scale);
        }
      }
    }
  }
}

template <typename X, typename Code>
void dequantize_elements(const Dequantize& op) {
  const auto codes = batched<const Code>(op.codes);
  const auto scales = batched<const E8M0>(op.scales);
  const auto x = batched<X>(op.x);
  const bool rows = op.axis == BlockAxis::rows;
  for (Index e = 0; e < x.extent[0]; ++e) {
    for (Index r = 0; r < x.extent[1]; ++r) {
      for (Index k = 0; k < x.extent[2]; ++k) {
        const E8M0 scale = rows ? scales(e, r / op.block, k) : scales(e, r, k / op.block);
        x(e, r, k) = from_float<X>(dequantize_f32(codes(e, r, k), scale));
      }
    }
  }
}

}  // namespace

void ReferenceBackend::run(const Quantize& op) {
  visit_quantized(op.x.dtype, op.codes.dtype, [&](auto x, auto code) {
    quantize_blocks<typename decltype(x)::type, typename decltype(code)::type>(op);
  });
}

void ReferenceBackend::run(const Dequantize& op) {
  visit_quantized(op.x.dtype, op.codes.dtype, [&](auto x, auto code) {
    dequantize_elements<typename decltype(x)::type, typename decltype(code)::type>(op);
  });
}

}  // namespace mxo
