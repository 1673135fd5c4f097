// The packing and rounding loops in plain C++; kernels.h says what each does.
#pragma once

#include "emu/cpu/gemm/kernels/kernels.h"

namespace mxo::cpu {

/// The value of every code of an 8-bit format; NaN and infinity as they are.
const float* code_values(Dtype dtype);

void portable_encode_int16(Dtype dtype, const std::uint8_t* codes, const float* factor, bool joint,
                           std::int32_t* pairs, EncodedRun& run) noexcept;
void portable_interleave(int lanes, int count, const std::uint32_t* in, int in_step,
                         std::uint32_t* out, int out_step) noexcept;
void portable_widen(int lanes, int k_extent, const float* in, int in_step, double* out,
                    int out_step, double* norm2, float* min_magnitude) noexcept;
std::uint32_t portable_round(const RowEnd& row, const ColumnEnds& columns, const double* sums,
                             int n, Dtype out_dtype, void* out) noexcept;
void portable_round_exact(const double* sums, int n, Dtype out_dtype, void* out) noexcept;

}  // namespace mxo::cpu
