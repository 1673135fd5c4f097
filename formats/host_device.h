// The one place that knows which compiler is reading us, and whether its flags leave floats alone.
// Thread safety: functions of their arguments and values; any threads at once.
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

// clang tells its headers nothing of -funsafe-math-optimizations and -fassociative-math, under
// which it splits fused steps and moves brackets whatever a pragma says.  A host unit that it
// compiles with flags we did not choose therefore calls the library for what computes in several
// rounded steps.  The two kinds of unit name two functions, so that a linker does not mix them.
#if defined(__clang__) && !defined(__CUDACC__) && !defined(MXO_ARITHMETIC_AS_WRITTEN)
#define MXO_ARITHMETIC through_library
#define MXO_THROUGH_LIBRARY true
#else
#define MXO_ARITHMETIC in_line
#define MXO_THROUGH_LIBRARY false
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
