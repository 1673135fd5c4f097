// 2^(j/32) as pairs, where vectors can load them.
#pragma once

#include "formats/exp.h"

namespace mxo::cpu {

struct Exp2Table {
  alignas(64) double high[32];
  alignas(64) double low[32];
};

inline constexpr Exp2Table kExp2Table = [] {
  Exp2Table table{};
  for (int j = 0; j < 32; ++j) {
    table.high[j] = exp2_of_32nds(j).high;
    table.low[j] = exp2_of_32nds(j).low;
  }
  return table;
}();

}  // namespace mxo::cpu
