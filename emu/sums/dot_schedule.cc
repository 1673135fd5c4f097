// Laying out K for a machine.
#include "emu/sums/dot_schedule.h"

#include <algorithm>

namespace mxo {
namespace {

void append_instruction(DotSchedule& schedule, const Accumulation& how, Index first, Index past) {
  for (Index i = 0; i < how.instruction; ++i) {
    const Index k = first + term_in_order(how, i);
    schedule.k.push_back(k < past ? k : -1);
  }
  schedule.after.insert(schedule.after.end(), static_cast<std::size_t>(how.instruction / how.chunk),
                        0);
}

/// A chain of instructions from a zero accumulator.
void append_chain(DotSchedule& schedule, const Accumulation& how, Index first, Index past) {
  int since = 0;
  for (Index k = first; k < past; k += how.instruction) {
    append_instruction(schedule, how, k, past);
    if (how.promote > 0 && (++since == how.promote || k + how.instruction >= past)) {
      schedule.after.back() |= kPromote;
      since = 0;
    }
  }
}

}  // namespace

DotSchedule make_schedule(const Accumulation& how, Index terms) {
  DotSchedule schedule;
  schedule.chunk = how.chunk;
  schedule.promotes = how.promote > 0;
  const Index tiles = ceil_div(terms, how.tile);
  const Index part = std::max<Index>(ceil_div(tiles, how.split), 1) * how.tile;
  for (Index first = 0; first < terms; first += part) {
    const Index past = std::min(first + part, terms);
    const Index step = how.block > 0 ? how.block : past - first;
    for (Index k = first; k < past; k += step) {
      append_chain(schedule, how, k, std::min(k + step, past));
      if (how.block == 0) continue;
      schedule.after.back() |= kBlockEnd;
      schedule.block_first.push_back(k);
    }
    schedule.after.back() |= kPartEnd;
  }
  return schedule;
}

}  // namespace mxo
