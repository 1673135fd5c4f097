// The copy of w and its panels.
#include "emu/prepared.h"

#include <cstring>

#include "emu/cpu/gemm/plan/kept_panels.h"
#include "formats/tensor.h"

namespace mxo {
namespace {

Tensor row_major(const Operand& view) {
  if (!view.given()) return {};
  Tensor copy(view.dtype, {view.extent, view.extent + view.rank});
  const std::size_t size = size_of(view.dtype);
  std::byte* to = copy.data();
  if (view.contiguous()) {
    std::memcpy(to, view.data, copy.bytes());
    return copy;
  }
  for (Index i = 0; i < copy.elements(); ++i, to += size) {
    Index left = i;
    Index at = 0;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      at += left % view.extent[axis] * view.stride[axis];
      left /= view.extent[axis];
    }
    std::memcpy(to, static_cast<const std::byte*>(view.data) + at * static_cast<Index>(size), size);
  }
  return copy;
}

}  // namespace

struct PreparedWeights::Copy {
  Copy(const Operand& of_codes, const Operand& of_scales)
      : codes(row_major(of_codes)),
        scales(row_major(of_scales)),
        panels({codes.data(), codes.bytes()}, {scales.data(), scales.bytes()}) {}

  Tensor codes;
  Tensor scales;
  cpu::KeptPanels panels;  // forgets them before they are freed
};

PreparedWeights::PreparedWeights(const Operand& codes, const Operand& scales)
    : copy_(std::make_unique<Copy>(codes, scales)) {}
PreparedWeights::~PreparedWeights() = default;

Operand PreparedWeights::codes() const { return copy_->codes.operand(); }
Operand PreparedWeights::scales() const {
  return copy_->scales.rank() > 0 ? copy_->scales.operand() : Operand{};
}
std::size_t PreparedWeights::packed_bytes() const { return copy_->panels.bytes(); }

}  // namespace mxo
