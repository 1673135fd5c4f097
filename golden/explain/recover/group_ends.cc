// Ends of groups that moved, in operators of which only the rows that differ are known.
#include <string>

#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

/// Group to its new end.
using Ends = std::map<Index, Index>;

/// Where the run of rows that differ ends which begins at `row` and goes on by `step`.
Index end_of_run(const Output& o, Index row, Index step) {
  while (row >= 0 && row < o.owed && o.differs_in(row * o.columns, o.columns)) row += step;
  return row;
}

bool move_ends(Call& call, const Ends& moved) {
  Tensor ends = call.input("group_ends");
  if (ends.dtype() != Dtype::i32) return false;
  for (const auto& [g, row] : moved) {
    ends.as<std::int32_t>()[g] = static_cast<std::int32_t>(row);
  }
  for (Index g = 1; g < ends.elements(); ++g) {
    if (ends.as<std::int32_t>()[g] < ends.as<std::int32_t>()[g - 1]) return false;
  }
  call.replace("group_ends", std::move(ends));
  return true;
}

void add(const Output& o, const Ends& moved, std::vector<Hypothesis>& list) {
  std::string text;
  for (const auto& [g, row] : moved) {
    text += (text.empty() ? "" : " and ") + std::string("group ") + std::to_string(g) +
            " ends at row " + std::to_string(row) + " rather than " +
            std::to_string(o.ends[static_cast<std::size_t>(g)]);
  }
  list.push_back({"group_ends=moved", std::move(text), Stage::input,
                  [moved](Call& c) { return move_ends(c, moved); }});
  list.back().target = Target::group_ends;
}

}  // namespace

void add_measured_ends(const Call& call, const Output& o, std::vector<Hypothesis>& list) {
  if (!call.has("group_ends") || o.group != "group" || o.left == 0) return;
  if (static_cast<Index>(o.ends.size()) != call.input("group_ends").elements()) return;
  Ends all;
  for (std::size_t g = 0; g + 1 < o.ends.size(); ++g) {
    const Index end = o.ends[g];
    if (end == 0 || end == o.ends[g + 1]) continue;
    const Index before = end_of_run(o, end - 1, -1) + 1;
    const Index after = end_of_run(o, end, 1);
    // Rows that differ on both sides, or up to another end, say nothing of this one.
    const Index first = g == 0 ? 0 : o.ends[g - 1];
    const bool early = before < end && before > first && after == end;
    const bool late = after > end && after < o.ends[g + 1] && before == end;
    if (!early && !late) continue;
    const Index row = early ? before : after;
    add(o, {{static_cast<Index>(g), row}}, list);
    all[static_cast<Index>(g)] = row;
  }
  if (all.size() > 1) add(o, all, list);
}

}  // namespace mxo
