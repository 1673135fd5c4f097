// A large call as calls that give parts of its outputs, each made without the rest.
// Thread safety: a Slicer is used by one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "golden/judge/output_shape.h"
#include "golden/suites/shapes/shaped_call.h"
#include "ops/named_views.h"

namespace mxo {

/// Rows, columns or features [begin, end); rows and features within a group or a matrix.
struct CallSlice {
  Index group = 0;
  Index begin = 0;
  Index end = 0;
};

/// Elements of the widest operand in one slice, about; blocks and tiles are whole.
inline constexpr Index kSliceElements = Index{1} << 20;

class Slicer {
 public:
  /// `threads` make operands (0: as many as the machine has).
  explicit Slicer(const ShapedCall& call, Index elements = kSliceElements, int threads = 0)
      : call_(call), elements_(elements), threads_(threads) {}

  /// All slices, in order.
  std::vector<CallSlice> slices() const;

  /// Operands of the call that gives this slice, until the next is asked for: what stays is kept,
  /// and memory is used again.
  const NamedTensors& inputs(const CallSlice& slice);
  /// Bytes of the largest of them, all operands together.
  double most_bytes() const;

  /// Where a tensor of shape `part` that the slice gives lies in the whole output; nothing where
  /// the first slice gives it as well.  Throws Error(internal) where it does not fit.
  std::optional<Box> place(const OutputShape& whole, const CallSlice& slice,
                           const std::vector<Index>& part) const;

 private:
  std::vector<Index> row_segments() const;
  Index blocks_before(Index row, Index block) const;
  std::pair<Box, std::vector<Index>> part_of(const ShapedInput& input,
                                             const CallSlice& slice) const;

  const ShapedCall& call_;
  Index elements_;
  int threads_;
  NamedTensors made_;
  std::map<std::string, Box> boxes_;  ///< of `made_`
};

}  // namespace mxo
