// The copy of w and its panels.
#include "emu/prepared.h"

#include <cstring>
#include <span>

#include "emu/cpu/gemm/plan/kept_panels.h"

namespace mxo {
namespace {

Tensor row_major(const Operand& view) {
  if (!view.given()) return {};
  Tensor copy(view.dtype, {view.extent, view.extent + view.rank});
  const std::size_t size = size_of(view.dtype);
  std::byte* to = copy.data();
  if (copy.elements() > 0 && view.contiguous()) {
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

PreparedWeights::PreparedWeights(const Operand& codes, const Operand& scales)
    : codes_(row_major(codes)),
      scales_(row_major(scales)),
      panels_(std::make_unique<cpu::KeptPanels>(std::span(codes_.data(), codes_.bytes()),
                                                std::span(scales_.data(), scales_.bytes()))) {}
PreparedWeights::~PreparedWeights() = default;

std::size_t PreparedWeights::packed_bytes() const { return panels_->bytes(); }

}  // namespace mxo
