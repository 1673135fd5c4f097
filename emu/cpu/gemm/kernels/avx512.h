// The packing and rounding loops that both AVX-512 tables share; kernels.h says what each does.
#pragma once

#include "emu/cpu/gemm/kernels/kernels.h"

namespace mxo::cpu {

void avx512_encode_int16(Dtype dtype, const std::uint8_t* codes, const float* factor, bool joint,
                         std::int32_t* pairs, EncodedRun& run) noexcept;
void avx512_interleave(int lanes, int count, const std::uint32_t* in, int in_step,
                       std::uint32_t* out, int out_step) noexcept;
void avx512_widen(int lanes, int k_extent, const float* in, int in_step, double* out, int out_step,
                  double* norm2, float* min_magnitude) noexcept;
std::uint32_t avx512_round(const RowEnd& row, const ColumnEnds& columns, const double* sums, int n,
                           Dtype out_dtype, void* out) noexcept;
void avx512_round_exact(const double* sums, int n, Dtype out_dtype, void* out) noexcept;

}  // namespace mxo::cpu
