// Ends of groups that moved, in operators of which only the rows that differ are known.
#include <algorithm>
#include <map>

#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

/// Group to its new end.
using Ends = std::map<Index, Index>;

bool move_ends(Call& call, const Ends& moved) {
  Tensor ends = call.input("group_ends");
  if (ends.dtype() != Dtype::i32) return false;
  for (const auto& [g, row] : moved) ends.as<std::int32_t>()[g] = static_cast<std::int32_t>(row);
  if (!std::is_sorted(ends.as<std::int32_t>(), ends.as<std::int32_t>() + ends.elements()))
    return false;
  call.replace("group_ends", std::move(ends));
  return true;
}

}  // namespace

void add_measured_ends(const Call& call, const Output& o, std::vector<Hypothesis>& list) {
  if (!call.has("group_ends") || o.group != "group" || o.left == 0) return;
  if (static_cast<Index>(o.ends.size()) != call.input("group_ends").elements()) return;
  // Where the run of rows that differ ends which begins at `row` and goes on by `step`.
  const auto end_of_run = [&](Index row, Index step) {
    while (row >= 0 && row < o.owed && o.differs_in(row * o.columns, o.columns)) row += step;
    return row;
  };
  const auto add = [&](const Ends& moved) {
    std::string text;
    for (const auto& [g, row] : moved) {
      text += (text.empty() ? "group " : " and group ") + std::to_string(g) + " ends at row " +
              std::to_string(row) + " rather than " +
              std::to_string(o.ends[static_cast<std::size_t>(g)]);
    }
    list.push_back({"group_ends=moved", std::move(text), Stage::input,
                    [moved](Call& c) { return move_ends(c, moved); }});
    list.back().target = Target::group_ends;
  };
  Ends all;
  for (std::size_t g = 0; g + 1 < o.ends.size(); ++g) {
    const Index end = o.ends[g];
    if (end == 0 || end == o.ends[g + 1]) continue;
    const Index before = end_of_run(end - 1, -1) + 1;
    const Index after = end_of_run(end, 1);
    // Rows that differ on both sides, or up to another end, say nothing of this one.
    const bool early = before < end && before > (g == 0 ? 0 : o.ends[g - 1]) && after == end;
    const bool late = after > end && after < o.ends[g + 1] && before == end;
    if (!early && !late) continue;
    all[static_cast<Index>(g)] = early ? before : after;
    add({*all.rbegin()});
  }
  if (all.size() > 1) add(all);
}

}  // namespace mxo
