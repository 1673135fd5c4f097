// The copy of w and its panels.
#include "emu/prepared.h"

#include <span>

#include "emu/cpu/gemm/plan/kept_panels.h"
#include "ops/named_views.h"

namespace mxo {
namespace {

Tensor row_major(const Operand& view) {
  if (!view.given()) return {};
  Tensor copy(view.dtype, {view.extent, view.extent + view.rank});
  copy_elements(view, copy.result());
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
