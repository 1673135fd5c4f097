// One matrix instruction at a time: d[t, m, n] = sum_k a[t, m, k] b[t, n, k] + c[t, m, n].
#pragma once

#include <cstdint>

namespace mxo::capture {

/// Instructions that can be captured.  The name is the prefix of the tensors in the file.
enum class Unit : int {
  wgmma_e4m3,       ///< f32 accumulator, K = 32
  wgmma_e5m2_e4m3,  ///< a is e5m2
  wgmma_e4m3_f16,   ///< f16 accumulator, K = 32
  wgmma_e5m2_e4m3_f16,
  wgmma_bf16,  ///< f32 accumulator, K = 16
  wgmma_f16,
  wgmma_f16_f16,      ///< f16 accumulator, K = 16
  mma_sync_e4m3,      ///< m16n8k32, f32 accumulator; emulated by the compiler on sm_90
  mma_sync_e4m3_f16,  ///< m16n8k32, f16 accumulator; likewise
  mma_sync_bf16,      ///< m16n8k16
};

struct UnitShape {
  const char* name;
  int rows;  ///< m; n is 8
  int k;
  int operand_bytes;  ///< of one element of a and b
  int result_bytes;   ///< of one element of c and d
};

inline constexpr UnitShape kUnits[] = {
    {"wgmma_e4m3", 64, 32, 1, 4},        {"wgmma_e5m2_e4m3", 64, 32, 1, 4},
    {"wgmma_e4m3_f16", 64, 32, 1, 2},    {"wgmma_e5m2_e4m3_f16", 64, 32, 1, 2},
    {"wgmma_bf16", 64, 16, 2, 4},        {"wgmma_f16", 64, 16, 2, 4},
    {"wgmma_f16_f16", 64, 16, 2, 2},     {"mma_sync_e4m3", 16, 32, 1, 4},
    {"mma_sync_e4m3_f16", 16, 32, 1, 2}, {"mma_sync_bf16", 16, 16, 2, 4},
};

/// Runs `tests` instructions; a, b, c, d are device pointers to row-major tensors.
void run_unit(Unit unit, int tests, const void* a, const void* b, const void* c, void* d);

}  // namespace mxo::capture
