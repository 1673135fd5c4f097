// encode and decode, one element at a time.
#include "emu/reference/elements.h"
#include "emu/reference/reference_backend.h"
#include "ops/convert.h"

namespace mxo {

void ReferenceBackend::run(const Encode& op) {
  visit_wide_float(op.x.dtype, [&](auto wide) {
    using X = typename decltype(wide)::type;
    const auto* x = static_cast<const X*>(op.x.data);
    const Index n = op.x.elements();
    if (op.codes.dtype == Dtype::e8m0) {
      auto* codes = static_cast<E8M0*>(op.codes.data);
      for (Index i = 0; i < n; ++i) {
        codes[offset_of(op.codes, i)] = encode_e8m0(to_float(x[offset_of(op.x, i)]), op.rounding,
                                                    op.overflow == Overflow::saturate);
      }
      return;
    }
    visit_minifloat8(op.codes.dtype, [&](auto small) {
      using Code = typename decltype(small)::type;
      auto* codes = static_cast<Code*>(op.codes.data);
      for (Index i = 0; i < n; ++i) {
        codes[offset_of(op.codes, i)] =
            encode<Code::spec>(to_signed_float(x[offset_of(op.x, i)]), op.overflow, op.nan);
      }
    });
  });
}

void ReferenceBackend::run(const Decode& op) {
  auto* x = static_cast<float*>(op.x.data);
  const Index n = op.codes.elements();
  if (op.codes.dtype == Dtype::e8m0) {
    const auto* codes = static_cast<const E8M0*>(op.codes.data);
    for (Index i = 0; i < n; ++i) x[offset_of(op.x, i)] = decode(codes[offset_of(op.codes, i)]);
    return;
  }
  visit_minifloat8(op.codes.dtype, [&](auto small) {
    using Code = typename decltype(small)::type;
    const auto* codes = static_cast<const Code*>(op.codes.data);
    for (Index i = 0; i < n; ++i) x[offset_of(op.x, i)] = decode(codes[offset_of(op.codes, i)]);
  });
}

}  // namespace mxo
