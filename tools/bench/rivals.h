// What other libraries on this machine take for the same: rival_tables.py and, for products on a
// CPU, rival_onednn, in one process a table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/bench/bench.h"

namespace mxo::tools {

inline constexpr const char* kRivals[] = {"torch", "torchao", "oneDNN"};

/// Answers in the order of the questions: of each rival that could, by name.
struct RivalAnswers {
  std::vector<std::map<std::string, Sample>> rows;
  std::string note;  ///< who answered, or why none did
};
/// A question is an object with "kind" and its sizes (bench/rival_tables.py,
/// bench/rival_onednn_tables.cc).  Never throws for a rival: what is not installed, or fails, is in
/// the note.
RivalAnswers ask_rivals(const Bench& bench, const std::vector<nlohmann::json>& questions);

}  // namespace mxo::tools
