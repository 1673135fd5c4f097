// encode and decode on the device.
#include "emu/cuda/element_cast.cuh"
#include "emu/cuda/element_map.cuh"
#include "ops/convert.h"

namespace mxo::cuda {
namespace {

struct ToE8M0 {
  E8M0Rounding rounding;
  bool saturate;
  template <typename X>
  __device__ E8M0 operator()(X x) const {
    return encode_e8m0(to_float(x), rounding, saturate);
  }
};

template <typename Code>
struct ToCode {
  Overflow overflow;
  NanSign nan;
  template <typename X>
  __device__ Code operator()(X x) const {
    return encode<Code::spec>(to_signed_float(x), overflow, nan);
  }
};

/// The same, saturating and with the positive NaN, by the chip's own converter where it has one.
template <typename Code>
struct ToSaturatedCode {
  template <typename X>
  __device__ Code operator()(X x) const {
    return saturated_code<Code>(to_float(x));
  }
};

struct ToFloat {
  template <typename Code>
  __device__ float operator()(Code code) const {
    return decode(code);
  }
};

}  // namespace

void DeviceBackend::run(const Encode& op) {
  visit_wide_float(op.x.dtype, [&](auto wide) {
    using X = typename decltype(wide)::type;
    if (op.codes.dtype == Dtype::e8m0) {
      map_elements<X, E8M0>(stream(), op.x, op.codes,
                            ToE8M0{op.rounding, op.overflow == Overflow::saturate});
      return;
    }
    visit_minifloat8(op.codes.dtype, [&](auto small) {
      using Code = typename decltype(small)::type;
      if (op.overflow == Overflow::saturate && op.nan == NanSign::positive) {
        map_elements<X, Code>(stream(), op.x, op.codes, ToSaturatedCode<Code>{});
      } else {
        map_elements<X, Code>(stream(), op.x, op.codes, ToCode<Code>{op.overflow, op.nan});
      }
    });
  });
}

void DeviceBackend::run(const Decode& op) {
  if (op.codes.dtype == Dtype::e8m0) {
    map_elements<E8M0, float>(stream(), op.codes, op.x, ToFloat{});
    return;
  }
  visit_minifloat8(op.codes.dtype, [&](auto small) {
    map_elements<typename decltype(small)::type, float>(stream(), op.codes, op.x, ToFloat{});
  });
}

}  // namespace mxo::cuda
