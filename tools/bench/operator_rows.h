// Tables whose rows are one operator each: timed against memcpy, beside rivals and what was
// published.
#pragma once

#include "tools/bench/bench.h"

namespace mxo::tools {

/// One row: what it is called, what is timed, what others published and are asked.
struct OperatorRow {
  Cells labels;
  std::function<TimedCall(Backend&)> make;  ///< makes the operands, which the call then owns
  double flops = 0.0;
  double need = 0.0;  ///< bytes of operands, results and memcpy
  Cells published;
  nlohmann::json question = nlohmann::json::object();  ///< of bench/rival_tables.py
};

/// Times what `rows_of` gives and adds it to the table.  Throws Error(unsupported) naming the
/// greatest scale that fits where there is too little memory.
void time_rows(const Bench& bench, std::vector<OperatorRow> (*rows_of)(const Bench&), Table& table);

template <typename Void>
double bytes_of(const AnyView<Void>& view) {
  if (!view.given()) return 0.0;
  return static_cast<double>(view.elements()) * static_cast<double>(size_of(view.dtype));
}

}  // namespace mxo::tools
