// The one place that knows which compiler is reading us, and whether its flags leave floats alone.
#pragma once

#include <cfloat>
#include <type_traits>

// Contraction (-ffp-contract=fast, --fmad=true) changes no bit of these headers; flags that drop
// NaN or move brackets would.
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error \
    "mxoracle: this file is compiled with -ffast-math, -Ofast or a part of them, and NaN, infinity and the order of operations would be lost: compile files that include mxoracle with -fno-fast-math after it"
#endif

#if defined(__CUDACC__)
#define MXO_HD __host__ __device__
#else
#define MXO_HD
#endif

// First in a function whose sums may not be reassociated: clang does not tell its headers of
// -fassociative-math or -funsafe-math-optimizations.
#if defined(__clang__)
#define MXO_AS_WRITTEN _Pragma("clang fp reassociate(off)")
#else
#define MXO_AS_WRITTEN
#endif

static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16,
              "mxoracle: float and double are computed in their own precision: compile with "
              "-mfpmath=sse");

namespace mxo {

/// std::bit_cast, which nvcc admits to device code only behind a flag.
template <typename To, typename From>
MXO_HD constexpr To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<From>);
  return __builtin_bit_cast(To, from);
}

}  // namespace mxo
