// Which table of kernels each instruction set of x86 takes.
#include "emu/cpu/gemm/lanes/tables.h"
#include "emu/cpu/lanes/tables.h"
#include "emu/cpu/models/model_kernels.h"

namespace mxo::cpu {

const EncodeKernels& encode_kernels(Isa isa) {
  static const EncodeKernels avx512 = with_mx(N_AVX3::kEncodeKernels, N_AVX3::kMxBF16);
  static const EncodeKernels avx2 = with_mx(N_AVX2::kEncodeKernels, N_AVX2::kMxBF16);
  if (isa >= Isa::avx512) return avx512;
  return isa == Isa::avx2 ? avx2 : kEncodeScalar;
}

const DecodeKernels& decode_kernels(Isa isa) {
  if (isa >= Isa::avx512) return N_AVX3::kDecodeKernels;
  return isa == Isa::avx2 ? N_AVX2::kDecodeKernels : kDecodeScalar;
}

const FloatKernels& float_kernels(Isa isa) {
  if (isa >= Isa::avx512) return N_AVX3::kFloatKernels;
  return isa == Isa::avx2 ? N_AVX2::kFloatKernels : kFloatScalar;
}

const LayoutKernels& layout_kernels(Isa isa) {
  if (isa >= Isa::avx512) return N_AVX3::kLayoutKernels;
  return isa == Isa::avx2 ? N_AVX2::kLayoutKernels : N_EMU128::kLayoutKernels;
}

const ModelKernels* model_kernels(Isa isa) {
  if (isa >= Isa::avx512) return &kModelsAvx512;
  return isa == Isa::avx2 ? &kModelsAvx2 : nullptr;
}

/// Each is built on first use: code that builds a table may need its instruction set.
const Kernels& kernels_of(Isa isa) {
  if (isa == Isa::amx) return amx_kernels();
  if (isa == Isa::avx512_vnni) {
    static const Kernels vnni = [] {
      Kernels table = N_AVX3::kernels(Isa::avx512_vnni);
      table.dot_int16 = avx512_vnni_dot_int16;
      return table;
    }();
    return vnni;
  }
  if (isa == Isa::avx512) {
    static const Kernels avx512 = N_AVX3::kernels(Isa::avx512);
    return avx512;
  }
  if (isa == Isa::avx2) {
    static const Kernels avx2 = N_AVX2::kernels(Isa::avx2);
    return avx2;
  }
  static const Kernels scalar = N_EMU128::kernels(Isa::scalar);
  return scalar;
}

}  // namespace mxo::cpu
