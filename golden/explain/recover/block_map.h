// Which block's scale each block along the depth was multiplied by.
#pragma once

#include "golden/explain/hypotheses.h"
#include "golden/explain/find/quantiser/seen.h"

namespace mxo {

/// The map from blocks to the blocks whose scales they took, the same on all measured lines: stuck,
/// restarted, first of every few, exchanged, or block by block.
void add_block_map(const Seen& seen, std::vector<Hypothesis>& list);

/// Which of the given scales each line took, blocks and lines at one stride: those of another row,
/// block, expert, axis or stride.
void add_scale_sources(const Seen& seen, std::vector<Hypothesis>& list);

/// The lines whose scales were taken, where one scale covers the whole depth of a line.
void add_line_sources(const Seen& seen, std::vector<Hypothesis>& list);

}  // namespace mxo
