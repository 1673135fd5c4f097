// Weights that many products read, packed once.
// Thread safety: any threads may multiply by them at once; none may while they are destroyed.
#pragma once

#include <cstddef>
#include <memory>

#include "formats/tensor.h"

namespace mxo {

namespace cpu {
class KeptPanels;
}

/// A copy of w, codes and scales, for as many products as you like.  Hand codes() and scales() to
/// grouped_matmul or any operator that multiplies by w: the first product of a kind on a backend
/// `cpu`, exact or fma_chain, keeps what it packs, and later ones pack nothing of w.  The bits are
/// those of w itself.
///
///   codes    [.., N, K]   as the operator takes them: 8-bit codes, bf16, f16 or f32; any strides
///   scales   as the operator takes them; not given for a plain tensor
///
/// Packed for an exact sum, an 8-bit code takes 2.3 bytes and a bf16 element three with AMX, eight
/// without; for fma_chain each takes four.  A transposed view or another type of result is another
/// kind.  To other backends the copy is plain host memory.
///
/// Throws std::bad_alloc.
class PreparedWeights {
 public:
  explicit PreparedWeights(const Operand& codes, const Operand& scales = {});
  ~PreparedWeights();
  PreparedWeights(const PreparedWeights&) = delete;
  PreparedWeights& operator=(const PreparedWeights&) = delete;

  /// Row-major, in memory of this object.
  Operand codes() const { return codes_.operand(); }
  /// Not given where w has none.
  Operand scales() const { return scales_.rank() > 0 ? scales_.operand() : Operand{}; }
  /// Of what products have packed so far.
  std::size_t packed_bytes() const;

 private:
  Tensor codes_;
  Tensor scales_;
  std::unique_ptr<cpu::KeptPanels> panels_;  // forgets both before they are freed
};

}  // namespace mxo
