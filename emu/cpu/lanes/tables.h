// The tables that the sources of this folder make, in a namespace for each target of Highway.
#pragma once

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/layout_kernels.h"

namespace mxo::cpu {
/// Of a QuantizeKernels those that do bf16 in 16-bit lanes.
struct MxKernels {
  decltype(QuantizeKernels::mx_run) run;
  decltype(QuantizeKernels::mx_panel) panel;
};
/// The table whose MX blocks of bf16 are done so.
inline EncodeKernels with_mx(EncodeKernels table, const MxKernels (&of_bf16)[4]) {
  for (int format = 0; format < 4; ++format) {
    QuantizeKernels& bf16 = table.quantize[format][input_index(Dtype::bf16)];
    bf16.mx_run = of_bf16[format].run;
    bf16.mx_panel = of_bf16[format].panel;
  }
  return table;
}
}  // namespace mxo::cpu
namespace mxo::cpu::N_EMU128 {
extern const LayoutKernels kLayoutKernels;
}
namespace mxo::cpu::N_AVX2 {
extern const LayoutKernels kLayoutKernels;
extern const EncodeKernels kEncodeKernels;
extern const WordKernels kWordKernels[4];  ///< by format_index()
extern const MxKernels kMxBF16[4];         ///< by format_index()
extern const DecodeKernels kDecodeKernels;
extern const FloatKernels kFloatKernels;
}  // namespace mxo::cpu::N_AVX2
namespace mxo::cpu::N_AVX3 {
extern const LayoutKernels kLayoutKernels;
extern const EncodeKernels kEncodeKernels;
extern const WordKernels kWordKernels[4];  ///< by format_index()
extern const MxKernels kMxBF16[4];         ///< by format_index()
extern const DecodeKernels kDecodeKernels;
extern const FloatKernels kFloatKernels;
}  // namespace mxo::cpu::N_AVX3
namespace mxo::cpu::N_NEON {
extern const LayoutKernels kLayoutKernels;
extern const EncodeKernels kEncodeKernels;
extern const WordKernels kWordKernels[4];  ///< by format_index()
extern const MxKernels kMxBF16[4];         ///< by format_index()
extern const DecodeKernels kDecodeKernels;
extern const FloatKernels kFloatKernels;
}  // namespace mxo::cpu::N_NEON
namespace mxo::cpu::N_SVE {
extern const EncodeKernels kEncodeKernels;
extern const WordKernels kWordKernels[4];  ///< by format_index()
extern const MxKernels kMxBF16[4];         ///< by format_index()
extern const DecodeKernels kDecodeKernels;
extern const FloatKernels kFloatKernels;
}  // namespace mxo::cpu::N_SVE
