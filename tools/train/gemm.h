// The f32 product of the transformer, whose bits are defined here.
#pragma once

#include "emu/cpu/isa.h"
#include "formats/tensor_view.h"

namespace mxo::tools {

/// A matrix anywhere in memory.
struct FloatView {
  const float* data;
  Index rows;
  Index columns;
  Index row_stride;
  Index column_stride = 1;

  FloatView transposed() const { return {data, columns, rows, column_stride, row_stride}; }
};

/// The best set of this machine, or what MXO_ISA names; asked once.
inline cpu::Isa this_isa() {
  static const cpu::Isa isa = cpu::best_isa();
  return isa;
}

/// c(i, j) = fma(a(i, k), b(k, j), c(i, j)) for k ascending, from +0, or from c where `add`; rows
/// of c are `stride` apart.  A chain of fused steps for each output: the same bits on any number of
/// threads and any instruction set, which decide only which outputs are computed side by side.
void multiply(const FloatView& a, const FloatView& b, float* c, Index stride, bool add = false,
              int threads = 1, cpu::Isa isa = this_isa());

}  // namespace mxo::tools
