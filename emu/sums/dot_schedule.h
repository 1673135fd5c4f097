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

/// Position within an instruction of `length` k of the term that is added i-th.
MXO_HD constexpr Index term_in_order(const Accumulation& how, Index i) {
  switch (how.order) {
    case ChunkOrder::ascending: break;
    case ChunkOrder::pairs_apart: {
      const Index half = how.instruction / 2;
      const Index pair = i % half / 2;
      return pair * 4 + i / half * 2 + i % 2;
    }
    case ChunkOrder::parity_apart: {
      const Index half = how.chunk / 2;
      const Index in_chunk = i % how.chunk;
      return i - in_chunk + in_chunk % half * 2 + in_chunk / half;
    }
  }
  return i;
}

/// K cut into chunks of equal length, in machine order.
struct DotSchedule {
  int chunk = 0;
  bool promotes = false;
  std::vector<Index> k;             ///< of every term, chunk after chunk; -1 a zero product
  std::vector<std::uint8_t> after;  ///< of every chunk, the AfterChunk flags
  std::vector<Index> block_first;   ///< of every block, its first k

  Index chunks() const { return static_cast<Index>(after.size()); }
  Index terms() const { return static_cast<Index>(k.size()); }
};

/// The schedule of `how` over K terms; with how.block > 0 sums restart every so many k.  An
/// instruction that K or a block ends early is filled with zero products.
DotSchedule make_schedule(const Accumulation& how, Index terms);

}  // namespace mxo
