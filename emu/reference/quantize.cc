// quantize and dequantize, one block at a time.
#include "ops/quantize.h"

#include "emu/reference/block_rows.h"
#include "emu/reference/elements.h"
#include "emu/reference/reference_backend.h"
#include "formats/scale_layout.h"

namespace mxo {
namespace {

/// Where the scale of a block lies: through the view, or in 128x4 tiles, whose padding is cleared.
template <typename Scale>
auto scale_places(const ScaledResult& to, Index rows, Index columns) {
  const bool tiles = to.storage == ScaleStorage::blocked;
  auto* blocked = static_cast<Scale*>(to.scales.data);
  if (tiles) std::fill_n(static_cast<std::uint8_t*>(to.scales.data), to.scales.elements(), 0);
  const auto view = tiles ? TensorView<Scale, 3>{} : batched<Scale>(to.scales);
  return [=](Index e, Index i, Index j) -> Scale& {
    if (!tiles) return view(e, i, j);
    return blocked[e * blocked_bytes(rows, columns) +
                   blocked_offset(i, j, ceil_div(columns, kTileColumns))];
  };
}

/// Writes the scale, and returns how x becomes a code.  `given` is null where amax decides.
template <typename X, typename Code>
auto choose_scale(E8M0& stored, float amax, const float*, const ScaleRule& rule) {
  const E8M0 scale = shared_scale<Code::spec>(amax, rule.mode, rule.e8m0);
  stored = scale;
  const float factor = factor_of(scale, amax, rule.e8m0);
  return [=, &rule](float x) { return encode_element<Code::spec>(x * factor, rule.element); };
}
template <typename X, typename Code>
auto choose_scale(float& stored, float amax, const float* given, const ScaleRule& rule) {
  const F32Scale scale = given != nullptr
                             ? given_scale(*given, rule.f32)
                             : f32_scale<Code::spec>(amax, rule.f32, largest_finite<X>());
  stored = scale.stored;
  return [=, &rule](float x) {
    return encode_element<Code::spec>(scaled(x, scale.factor, rule.f32.code), rule.element);
  };
}

NanRule nan_rule(const ScaleRule& rule, Dtype scales) {
  return scales == Dtype::e8m0 ? rule.e8m0.nan : rule.f32.nan;
}

template <typename X, typename Code, typename Scale>
void quantize_blocks(const Quantize& op) {
  const auto x = batched<const X>(op.x);
  const auto codes = batched<Code>(op.to.codes);
  const Index columns = x.extent[2];
  const Index width = block_columns(op.to.block, columns);
  const Index across = blocks_of_row(op.to.block, columns);
  const auto scale_of = scale_places<Scale>(op.to, x.extent[1], across);
  const NanRule nan = nan_rule(op.rule, op.to.scales.dtype);
  const bool told = op.given.given();
  const auto given = told ? batched<const float>(op.given) : TensorView<const float, 3>{};

  for (Index e = 0; e < x.extent[0]; ++e) {
    for (const BlockRows& rows : block_rows(op.group_ends, x.extent[1], op.to.block.rows)) {
      for (Index j = 0; j < across; ++j) {
        const Index first = j * width;
        const Index end = std::min(first + width, columns);
        std::uint32_t amax = 0;
        for (Index r = rows.first; r < rows.end; ++r) {
          for (Index k = first; k < end; ++k) amax = join_amax(amax, to_float(x(e, r, k)), nan);
        }
        const auto code_of =
            choose_scale<X, Code>(scale_of(e, rows.scales, j), bit_cast<float>(amax),
                                  told ? &given(e, rows.scales, j) : nullptr, op.rule);
        for (Index r = rows.first; r < rows.end; ++r) {
          for (Index k = first; k < end; ++k) codes(e, r, k) = code_of(to_float(x(e, r, k)));
        }
      }
    }
  }
}

template <typename X, typename Code, typename Scale>
void dequantize_elements(const Dequantize& op) {
  const auto codes = batched<const Code>(op.from.codes);
  const auto scales = batched<const Scale>(op.from.scales);
  const auto x = batched<X>(op.x);
  const Index width = block_columns(op.from.block, x.extent[2]);
  for (Index e = 0; e < x.extent[0]; ++e) {
    for (const BlockRows& rows : block_rows(op.group_ends, x.extent[1], op.from.block.rows)) {
      for (Index r = rows.first; r < rows.end; ++r) {
        for (Index k = 0; k < x.extent[2]; ++k) {
          x(e, r, k) = dequantize_element<X>(codes(e, r, k), scales(e, rows.scales, k / width));
        }
      }
    }
  }
}

}  // namespace

void ReferenceBackend::run(const Quantize& op) {
  visit_quantized(op.x.dtype, op.to.codes.dtype, [&](auto x, auto code) {
    using X = typename decltype(x)::type;
    using Code = typename decltype(code)::type;
    if (op.to.scales.dtype == Dtype::e8m0) {
      quantize_blocks<X, Code, E8M0>(op);
    } else {
      quantize_blocks<X, Code, float>(op);
    }
  });
}

void ReferenceBackend::run(const Dequantize& op) {
  visit_quantized(op.x.dtype, op.from.codes.dtype, [&](auto x, auto code) {
    using X = typename decltype(x)::type;
    using Code = typename decltype(code)::type;
    if (op.from.scales.dtype == Dtype::e8m0) {
      dequantize_elements<X, Code, E8M0>(op);
    } else {
      dequantize_elements<X, Code, float>(op);
    }
  });
}

}  // namespace mxo
