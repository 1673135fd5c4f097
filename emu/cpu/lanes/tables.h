// The tables that the sources of this folder make, in a namespace for each target of Highway.
#pragma once

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/layout_kernels.h"

namespace mxo::cpu {
/// Of a QuantizeKernels those that AVX-512 does in 16-bit lanes.
struct MxKernels {
  decltype(QuantizeKernels::mx_run) run;
  decltype(QuantizeKernels::mx_panel) panel;
};
}  // namespace mxo::cpu
namespace mxo::cpu::N_EMU128 {
extern const LayoutKernels kLayoutKernels;
}
namespace mxo::cpu::N_AVX2 {
extern const LayoutKernels kLayoutKernels;
extern const EncodeKernels kEncodeKernels;
extern const WordKernels kWordKernels[4];  ///< by format_index()
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
extern const DecodeKernels kDecodeKernels;
extern const FloatKernels kFloatKernels;
}  // namespace mxo::cpu::N_NEON
namespace mxo::cpu::N_SVE {
extern const EncodeKernels kEncodeKernels;
extern const WordKernels kWordKernels[4];  ///< by format_index()
extern const DecodeKernels kDecodeKernels;
extern const FloatKernels kFloatKernels;
}  // namespace mxo::cpu::N_SVE
