// Which expert's weights, or which row of x, a row of the output was made of.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "golden/explain/name/places.h"
#include "golden/explain/recover/scales.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kRows = 48;     ///< that are looked at
constexpr Index kColumns = 12;  ///< of each
constexpr std::size_t kLeastColumns = 4;
constexpr double kFit = 0.02;  ///< of the root mean square: bf16 and any accumulation

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Columns of a row that came and differ, spread.
std::vector<Index> columns_of(const Output& out, Index row) {
  std::vector<Index> all;
  for (Index c = 0; c < out.columns; ++c) {
    if (out.mark(row, c) == Mark::differs) all.push_back(c);
  }
  const auto n = static_cast<Index>(all.size());
  if (n <= kColumns) return all;
  std::vector<Index> kept;
  for (Index i = 0; i < kColumns; ++i)
    kept.push_back(all[static_cast<std::size_t>(i * n / kColumns)]);
  return kept;
}

class Rows {
 public:
  Rows(const Product& p, const Output& out) : p_(p), out_(out), read_(out.expected->dtype()) {}

  /// Whether row `row` of the output is row `source` of x times expert `expert`.
  bool fits(Index row, Index source, Index expert, const std::vector<Index>& columns) {
    const std::vector<double> x = p_.line_a(group_of(source), source);
    std::vector<double> came;
    double signal = 0.0;
    for (const Index c : columns) {
      const Element y = read_(out_.came(row * out_.columns + c));
      if (y.nan || y.infinite) return false;
      came.push_back(y.value);
      signal += y.value * y.value;
    }
    double noise = 0.0;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto [at, fresh] = lines_.try_emplace({expert, columns[i]});
      if (fresh) at->second = p_.line_b(expert, columns[i]);
      const double off = came[i] - dot(x, at->second);
      noise += off * off;
      if (!(noise < kFit * kFit * signal)) return false;
    }
    return !columns.empty();
  }

  Index group_of(Index row) const {
    for (Index g = 0; g < p_.groups(); ++g) {
      if (row < p_.end(g)) return g;
    }
    return p_.groups() - 1;
  }

 private:
  const Product& p_;
  const Output& out_;
  ElementReader read_;
  std::map<std::pair<Index, Index>, std::vector<double>> lines_;
};

/// Which failing rows are looked at, of more than kRows.
Index looked_at(Index i, Index n) { return i * n / kRows; }

/// The first failing row of every group of which none is looked at.
std::vector<Index> first_of_others(const Rows& rows, const std::vector<Index>& failing,
                                   const std::vector<Index>& looked) {
  std::set<Index> groups;
  for (const Index row : looked) groups.insert(rows.group_of(row));
  std::vector<Index> found;
  for (const Index row : failing) {
    if (groups.insert(rows.group_of(row)).second) found.push_back(row);
  }
  return found;
}

/// Runs of rows of one expert end between rows that were looked at.
void add_rows_between(Rows& rows, const Output& out, const std::vector<Index>& failing,
                      std::map<Index, Index>& expert_of_row) {
  const auto n = static_cast<Index>(failing.size());
  const std::map<Index, Index> seen = expert_of_row;
  const auto expert_at = [&](Index at) {
    const auto found = seen.find(failing[static_cast<std::size_t>(at)]);
    return found == seen.end() ? Index{-1} : found->second;
  };
  for (Index i = 0; i < kRows; ++i) {
    const Index expert = expert_at(looked_at(i, n));
    if (expert < 0) continue;
    for (const Index step : {-1, 1}) {
      const Index beside = looked_at(i + step, n);
      if (beside >= 0 && beside < n && expert_at(beside) == expert) continue;
      for (Index at = looked_at(i, n) + step; at >= 0 && at < n && at != beside; at += step) {
        const Index row = failing[static_cast<std::size_t>(at)];
        const std::vector<Index> columns = columns_of(out, row);
        if (columns.size() < kLeastColumns || expert == rows.group_of(row) ||
            !rows.fits(row, row, expert, columns)) {
          break;
        }
        expert_of_row[row] = expert;
      }
    }
  }
}

void replace_expert(Call& call, const std::string& name, const std::map<Index, Index>& source) {
  if (!call.has(name)) return;
  const Tensor& w = call.input(name);
  if (w.rank() < 2 || w.extent(0) == 0) return;
  Tensor seen = w;
  const std::size_t bytes = w.bytes() / static_cast<std::size_t>(w.extent(0));
  for (const auto& [to, from] : source) {
    std::memcpy(seen.data() + static_cast<std::size_t>(to) * bytes,
                w.data() + static_cast<std::size_t>(from) * bytes, bytes);
  }
  call.replace(name, std::move(seen));
}

/// The first row that differs of those at the end of an output that all hold zeros; -1: none.
Index zeros_from(const Output& out) {
  const ElementReader read(out.expected->dtype());
  Index first = -1;
  for (Index row = out.owed - 1; row >= 0; --row) {
    for (Index c = 0; c < out.columns; ++c) {
      const Element y = read(out.came(row * out.columns + c));
      if (y.nan || y.value != 0.0) return first;
    }
    if (out.differs_in(row * out.columns, out.columns)) first = row;
  }
  return first;
}

/// Rows next to an end of their group that were multiplied by the neighbour's weights.
/// With them the last group, where rows up to the end of the output hold zeros.
void add_ends(const Product& p, const Output& out, const std::map<Index, Index>& expert_of_row,
              const Rows& rows, std::vector<Hypothesis>& list) {
  std::map<Index, Index> moved;  // end -> its new row
  for (const auto& [row, expert] : expert_of_row) {
    const Index own = rows.group_of(row);
    if (expert > own) {
      for (Index g = own; g < expert; ++g) {
        const auto at = moved.try_emplace(g, row).first;
        at->second = std::min(at->second, row);
      }
    } else {
      for (Index g = expert; g < own; ++g) {
        const auto at = moved.try_emplace(g, row + 1).first;
        at->second = std::max(at->second, row + 1);
      }
    }
  }
  // A group without a row of its own is another expert's, rather than one that ends elsewhere.
  const auto is_empty = [&p](const auto& end) {
    const auto& [g, row] = end;
    return (row <= p.begin(g) && p.begin(g) < p.end(g)) ||
           (row >= p.end(g + 1) && p.end(g) < p.end(g + 1));
  };
  if (moved.empty() || std::any_of(moved.begin(), moved.end(), is_empty)) return;
  const Index zeros = zeros_from(out);
  const Index last = p.groups() - 1;
  if (zeros > p.begin(last) && zeros < p.end(last)) moved[last] = zeros;
  std::string text;
  Index by = 0;
  bool alike = true;
  for (const auto& [g, row] : moved) {
    const Index d = row - p.end(g);
    if (text.empty()) by = d;
    alike = alike && d == by;
    text += (text.empty() ? "" : " and ") + std::string("group ") + std::to_string(g) +
            " ends at row " + std::to_string(row) + " rather than " + std::to_string(p.end(g));
  }
  if (alike && moved.size() > 1 && static_cast<Index>(moved.size()) + 1 == p.groups()) {
    text = "groups end " + std::to_string(std::abs(by)) + (std::abs(by) == 1 ? " row " : " rows ") +
           (by < 0 ? "early" : "late");
  }
  list.push_back({"group_ends=moved", text, Stage::input, [moved](Call& c) {
                    Tensor ends = c.input("group_ends");
                    auto* end = ends.as<std::int32_t>();
                    for (const auto& [g, row] : moved) end[g] = static_cast<std::int32_t>(row);
                    for (Index g = 1; g < ends.elements(); ++g)
                      end[g] = std::max(end[g], end[g - 1]);
                    c.replace("group_ends", std::move(ends));
                    return true;
                  }});
  list.back().target = Target::group_ends;
}

}  // namespace

void add_measured_rows(const Call& call, const Output& output, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p) {
    add_missing_rows(call, output, list);
    add_measured_ends(call, output, list);
    return add_column_sums(call, output, list);
  }
  if (p->wgrad || output.name != "y" || output.left == 0) return;
  std::vector<Index> failing;
  for (Index r = 0; r < output.owed; ++r) {
    for (Index c = 0; c < output.columns; ++c) {
      if (output.mark(r, c) != Mark::differs) continue;
      failing.push_back(r);
      break;
    }
  }
  Rows rows(*p, output);
  const auto n = static_cast<Index>(failing.size());
  std::map<Index, Index> expert_of_row;
  std::map<Index, Index> shift_votes;
  std::map<Index, std::map<Index, Index>> votes;  // group -> expert -> rows
  std::vector<Index> looked;
  for (Index i = 0; i < std::min(n, kRows); ++i)
    looked.push_back(failing[static_cast<std::size_t>(n <= kRows ? i : looked_at(i, n))]);
  for (const Index row : first_of_others(rows, failing, looked)) looked.push_back(row);
  for (Index i = 0; i < static_cast<Index>(looked.size()); ++i) {
    const Index row = looked[static_cast<std::size_t>(i)];
    const std::vector<Index> columns = columns_of(output, row);
    if (columns.size() < kLeastColumns) continue;
    const Index own = rows.group_of(row);
    for (Index d = 1; d < p->groups(); ++d) {  // neighbours first
      const Index e = (own + (d % 2 ? (d + 1) / 2 : p->groups() - d / 2)) % p->groups();
      if (e == own || !rows.fits(row, row, e, columns)) continue;
      expert_of_row[row] = e;
      ++votes[own][e];
      break;
    }
    if (expert_of_row.count(row) > 0 || i >= 8) continue;
    for (const Index by : {-1, 1, -2, 2, -4, 4, -8, 8, -16, 16, -32, 32, -64, 64, -128, 128}) {
      const Index from = row + by;
      if (from < 0 || from >= p->a_lines) continue;
      if (!rows.fits(row, from, own, columns)) continue;
      ++shift_votes[by];
      break;
    }
  }
  if (n > kRows) add_rows_between(rows, output, failing, expert_of_row);
  std::map<Index, Index> source;
  for (const auto& [g, experts] : votes) {
    const auto best =
        std::max_element(experts.begin(), experts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    source[g] = best->first;
  }
  if (!expert_of_row.empty()) {
    add_ends(*p, output, expert_of_row, rows, list);
    std::string text;
    bool same_step = source.size() > 1;
    bool same_expert = source.size() > 1;
    const Index step = source.begin()->second - source.begin()->first;
    for (const auto& [g, e] : source) {
      same_step = same_step && (e - g - step) % p->groups() == 0;
      same_expert = same_expert && e == source.begin()->second;
      text += (text.empty() ? "" : " and ") + std::string("group ") + std::to_string(g) +
              " is multiplied by the weights of expert " + std::to_string(e);
    }
    if (same_expert) {
      text = "groups are multiplied by the weights of expert " +
             std::to_string(source.begin()->second);
    } else if (same_step && (step - 1) % p->groups() == 0) {
      text = "groups are multiplied by the next expert's weights";
    } else if (same_step && (step + 1) % p->groups() == 0) {
      text = "groups are multiplied by the previous expert's weights";
    }
    list.push_back({"w=other_expert",
                    text,
                    Stage::input,
                    [source](Call& c) {
                      for (const char* name : {"w", "w.codes", "w.scales"}) {
                        replace_expert(c, name, source);
                      }
                      return true;
                    },
                    {},
                    true});
  }
  for (const auto& [by, count] : shift_votes) {
    if (count < 2) continue;
    const std::string names[] = {p->a.codes_name, p->a.scales_name};
    list.push_back({"x=shifted",
                    "rows are made of the rows of x " + std::to_string(std::abs(by)) +
                        (by < 0 ? " before" : " after") + " them",
                    Stage::input, [names, by = by](Call& c) {
                      for (const std::string& name : names) {
                        if (name.empty() || !c.has(name)) continue;
                        Tensor x = c.input(name);
                        const Tensor& from = c.input(name);
                        const Index lines = x.extent(0);
                        if (lines == 0) continue;
                        const std::size_t bytes = x.bytes() / static_cast<std::size_t>(lines);
                        for (Index r = 0; r < lines; ++r) {
                          const Index made_of = std::clamp<Index>(r + by, 0, lines - 1);
                          std::memcpy(x.data() + static_cast<std::size_t>(r) * bytes,
                                      from.data() + static_cast<std::size_t>(made_of) * bytes,
                                      bytes);
                        }
                        c.replace(name, std::move(x));
                      }
                      return true;
                    }});
  }
}

}  // namespace mxo
