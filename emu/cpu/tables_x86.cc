// Which table of kernels each instruction set of x86 takes.
#include "emu/cpu/gemm/lanes/tables.h"
#include "emu/cpu/lanes/tables.h"
#include "emu/cpu/models/model_kernels.h"

namespace mxo::cpu {

namespace {

/// The table of AVX-512, MX blocks of bf16 by its 16-bit lanes.
EncodeKernels with_bf16_lanes() {
  EncodeKernels table = N_AVX3::kEncodeKernels;
  for (int format = 0; format < 4; ++format) {
    QuantizeKernels& bf16 = table.quantize[format][input_index(Dtype::bf16)];
    bf16.mx_run = N_AVX3::kMxBF16[format].run;
    bf16.mx_panel = N_AVX3::kMxBF16[format].panel;
  }
  return table;
}

}  // namespace

const EncodeKernels& encode_kernels(Isa isa) {
  static const EncodeKernels avx512 = with_bf16_lanes();
  if (isa >= Isa::avx512) return avx512;
  return isa == Isa::avx2 ? N_AVX2::kEncodeKernels : kEncodeScalar;
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
