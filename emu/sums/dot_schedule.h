// The order in which a machine walks K: parts, blocks, instructions, chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/sums.h"

namespace mxo {

/// What happens after a chunk; several may hold at once, in this order.
enum AfterChunk : std::uint8_t {
  kPromote = 1,   ///< the accumulator joins the f32 sum and starts again from zero
  kBlockEnd = 2,  ///< the sum is scaled, joins the block-wise sum, and starts again
  kPartEnd = 4,   ///< what there is joins the parts before
};

/// K cut into chunks of equal length, in machine order.
struct DotSchedule {
  int chunk = 0;
  bool promotes = false;
  bool blockwise = false;
  std::vector<Index> k;             ///< of every term, chunk after chunk; -1 a zero product
  std::vector<std::uint8_t> after;  ///< of every chunk, the AfterChunk flags

  Index chunks() const { return static_cast<Index>(after.size()); }
  Index terms() const { return static_cast<Index>(k.size()); }
};

/// The schedule of `how` over K terms; with `block` > 0 sums restart every so many k and are
/// scaled there.  An instruction that K or a block ends early is filled with zero products.
DotSchedule make_schedule(const Accumulation& how, Index terms, Index block);

}  // namespace mxo
