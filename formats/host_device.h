// The one place that knows whether a CUDA compiler is reading us.
#pragma once

#include <type_traits>

#if defined(__CUDACC__)
#define MXO_HD __host__ __device__
#else
#define MXO_HD
#endif

namespace mxo {

/// std::bit_cast, which nvcc admits to device code only behind a flag.
template <typename To, typename From>
MXO_HD constexpr To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<From>);
  return __builtin_bit_cast(To, from);
}

}  // namespace mxo
