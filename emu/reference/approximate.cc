// approximate, one element at a time.
#include "emu/reference/approximate.h"

#include "emu/reference/elements.h"
#include "emu/reference/reference_backend.h"

namespace mxo {

void ReferenceBackend::run(const Approximate& op) {
  const auto* x = static_cast<const float*>(op.x.data);
  const auto* b = static_cast<const float*>(op.b.data);
  auto* y = static_cast<float*>(op.y.data);
  const Index n = op.x.elements();
  visit_on_chip(op, [&](auto function) {
    for (Index i = 0; i < n; ++i) {
      const float operand = x[offset_of(op.x, i)];
      float& result = y[offset_of(op.y, i)];
      if constexpr (decltype(function)::kDivides) {
        result = function(operand, b[offset_of(op.b, i)]);
      } else {
        result = function(operand);
      }
    }
  });
}

}  // namespace mxo
