// Transposes K-vectors that are strided in memory.
#include "emu/cpu/gemm/pack/scratch.h"

#include <cstring>

#include "emu/cpu/layout_kernels.h"

namespace mxo::cpu {

template <typename Element>
void Fetched<Element>::fetch(Isa isa, const Factor& f, Index first, int lanes, Index start,
                             int count) {
  const Element* from =
      static_cast<const Element*>(f.codes.data) + f.start + first * f.row_step + start * f.step;
  if (f.step == 1 && count == kRun) {
    for (int i = 0; i < lanes; ++i) lane_[i] = from + i * f.row_step;
    return;
  }
  for (int i = 0; i < lanes; ++i) lane_[i] = copy_[i];
  if (count < kRun) std::memset(copy_, 0, sizeof(copy_[0]) * static_cast<std::size_t>(lanes));
  if (f.row_step == 1) {
    if constexpr (sizeof(Element) == 1) {
      layout_kernels(isa).transpose_bytes(from, f.step, copy_[0], kRun, count, lanes,
                                          Stores::cached);
    } else {
      layout_kernels(isa).transpose_words(from, f.step, copy_[0], kRun, count, lanes,
                                          Stores::cached);
    }
    return;
  }
  for (int i = 0; i < lanes; ++i) {
    for (int c = 0; c < count; ++c) copy_[i][c] = from[i * f.row_step + c * f.step];
  }
}

template class Fetched<std::uint8_t>;
template class Fetched<std::uint16_t>;

}  // namespace mxo::cpu
