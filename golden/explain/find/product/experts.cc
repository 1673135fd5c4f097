// Which expert's weights, or which row of x, a row of the output was made of.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>

#include "golden/explain/find/product/finders.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kRows = 48;     ///< that are looked at
constexpr Index kColumns = 12;  ///< of each
constexpr std::size_t kLeastColumns = 4;
constexpr Index kShifted = 8;  ///< rows, of those looked at, of which other rows are tried
constexpr Index kMostShift = 128;
constexpr double kFit = 0.02;  ///< of the root mean square: bf16 and any accumulation

using ExpertOfRow = std::map<Index, Index>;

class Rows {
 public:
  Rows(const Product& p, const Output& y)
      : p_(p), y_(y), read_(y.expected->dtype()), weights_({p, Side::b}) {}

  /// Columns of a row that differ, spread; none where they are too few to tell.
  std::vector<Index> columns_of(Index row) const {
    std::vector<Index> columns =
        evenly_spread(Sides{p_, Side::a}.differing(y_, group_of_row(p_, row), row), kColumns);
    return columns.size() < kLeastColumns ? std::vector<Index>{} : columns;
  }

  /// Whether row `row` of the output is row `source` of x times expert `expert`.
  bool fits(Index row, Index source, Index expert, const std::vector<Index>& columns) {
    const Sides::Line x = p_.line_a(group_of_row(p_, source), source);
    Sides::Line came;
    double left = 0.0;
    for (const Index c : columns) {
      const Element y = read_(y_.came(row * y_.columns + c));
      if (y.nan || y.infinite) return false;
      came.push_back(y.value);
      left += kFit * kFit * y.value * y.value;
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const Sides::Line& w = weights_(expert, columns[i]);
      left -= std::pow(came[i] - std::inner_product(x.begin(), x.end(), w.begin(), 0.0), 2.0);
      if (!(left > 0.0)) return false;
    }
    return !columns.empty();
  }

  /// The nearest other expert whose weights a row was made with, those before and after by turns.
  std::optional<Index> expert_of(Index row, const std::vector<Index>& columns) {
    const Index own = group_of_row(p_, row);
    for (Index d = 1; d < p_.groups(); ++d) {
      const Index e = (own + (d % 2 ? (d + 1) / 2 : p_.groups() - d / 2)) % p_.groups();
      if (e != own && fits(row, row, e, columns)) return e;
    }
    return std::nullopt;
  }

  /// How far from its own the row of x lies that a row was made of.
  std::optional<Index> shift_of(Index row, const std::vector<Index>& columns) {
    for (Index far = 1; far <= kMostShift; far *= 2) {
      for (const Index from : {row - far, row + far}) {
        if (from < 0 || from >= p_.a_lines) continue;
        if (fits(row, from, group_of_row(p_, row), columns)) return from - row;
      }
    }
    return std::nullopt;
  }

 private:
  const Product& p_;
  const Output& y_;
  ElementReader read_;
  DecodedLines weights_;
};

/// Runs of rows of one expert end between rows that were looked at.
void add_rows_between(const Product& p, Rows& rows, const std::vector<Index>& failing,
                      ExpertOfRow& expert_of_row) {
  const std::vector<Index> looked = evenly_spread(0, static_cast<Index>(failing.size()), kRows);
  const ExpertOfRow seen = expert_of_row;
  const auto expert_at = [&](Index at) {
    const auto found = seen.find(failing[static_cast<std::size_t>(at)]);
    return found == seen.end() ? Index{-1} : found->second;
  };
  const auto walk = [&](Index from, Index to, Index step) {
    const Index expert = expert_at(from);
    if (expert < 0) return;
    for (Index at = from + step; at != to; at += step) {
      const Index row = failing[static_cast<std::size_t>(at)];
      if (expert == group_of_row(p, row) || !rows.fits(row, row, expert, rows.columns_of(row))) {
        return;
      }
      expert_of_row[row] = expert;
    }
  };
  for (std::size_t i = 0; i < looked.size(); ++i) {
    const bool last = i + 1 == looked.size();
    const Index next = last ? static_cast<Index>(failing.size()) : looked[i + 1];
    if (!last && expert_at(looked[i]) == expert_at(next)) continue;
    walk(looked[i], next, 1);
    if (!last) walk(next, looked[i], -1);
  }
}

/// The first axis of a side of a call read elsewhere: experts, or rows; its scales, too, if they
/// have one for each.
bool read_first_axis(Call& call, Side side, const std::function<Index(Index)>& source) {
  const std::optional<Product> p = product_of(call);
  if (!p) return false;
  const ProductSide& f = Sides{*p, side}.factor();
  const bool scaled = f.scales != nullptr && f.scales->elements() > 1;
  return read_whole(call, read_axis(f.codes_name, *f.codes, 0, source)) &&
         (!scaled || read_whole(call, read_axis(f.scales_name, *f.scales, 0, source)));
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

/// "1 row", "3 rows".
std::string rows_in_words(Index n) { return std::to_string(n) + (n == 1 ? " row" : " rows"); }

/// Rows next to an end of their group that were multiplied by the neighbour's weights.
/// With them the last group, where rows up to the end of the output hold zeros.
void add_ends(const Product& p, const Output& out, const ExpertOfRow& expert_of_row,
              std::vector<Hypothesis>& list) {
  std::map<Index, Index> moved;  // end -> its new row
  for (const auto& [row, expert] : expert_of_row) {
    const Index own = group_of_row(p, row);
    for (Index g = own; g < expert; ++g) {
      const auto at = moved.try_emplace(g, row).first;
      at->second = std::min(at->second, row);
    }
    for (Index g = expert; g < own; ++g) {
      const auto at = moved.try_emplace(g, row + 1).first;
      at->second = std::max(at->second, row + 1);
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
  const Index by = moved.begin()->second - p.end(moved.begin()->first);
  bool alike = moved.size() > 1 && static_cast<Index>(moved.size()) + 1 == p.groups();
  for (const auto& [g, row] : moved) {
    alike = alike && row - p.end(g) == by;
    text += (text.empty() ? "" : " and ") + std::string("group ") + std::to_string(g) +
            " ends at row " + std::to_string(row) + " rather than " + std::to_string(p.end(g));
  }
  if (alike) {
    text = "groups end " + rows_in_words(std::abs(by)) + (by < 0 ? " early" : " late");
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

/// Groups multiplied by the weights of source[group].
void add_experts(const Product& p, const std::map<Index, Index>& source,
                 std::vector<Hypothesis>& list) {
  const Index n = p.groups();
  std::set<Index> steps;
  std::set<Index> experts;
  std::string text;
  for (const auto& [g, e] : source) {
    steps.insert((e - g + n) % n);
    experts.insert(e);
    text += (text.empty() ? "" : " and ") + std::string("group ") + std::to_string(g) +
            " is multiplied by the weights of expert " + std::to_string(e);
  }
  if (source.size() > 1 && experts.size() == 1) {
    text = "groups are multiplied by the weights of expert " + std::to_string(*experts.begin());
  } else if (source.size() > 1 && steps == std::set<Index>{1}) {
    text = "groups are multiplied by the next expert's weights";
  } else if (source.size() > 1 && steps == std::set<Index>{n - 1}) {
    text = "groups are multiplied by the previous expert's weights";
  }
  list.push_back({"w=other_expert",
                  text,
                  Stage::input,
                  [source](Call& c) {
                    return read_first_axis(c, Side::b, [&](Index g) {
                      const auto other = source.find(g);
                      return other == source.end() ? g : other->second;
                    });
                  },
                  {},
                  true});
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
  for (Index g = 0; g < p->groups(); ++g) {
    for (const Index row : Sides{*p, Side::a}.failing(output, g)) failing.push_back(row);
  }
  std::vector<Index> looked = evenly_spread(failing, kRows);
  // And the first of every group of which none is looked at.
  std::set<Index> groups;
  for (const Index row : looked) groups.insert(group_of_row(*p, row));
  for (const Index row : failing) {
    if (groups.insert(group_of_row(*p, row)).second) looked.push_back(row);
  }
  Rows rows(*p, output);
  ExpertOfRow expert_of_row;
  std::map<Index, Index> shift_votes;
  std::map<Index, std::map<Index, Index>> votes;  // group -> expert -> rows
  for (std::size_t i = 0; i < looked.size(); ++i) {
    const Index row = looked[i];
    const std::vector<Index> columns = rows.columns_of(row);
    if (columns.empty()) continue;
    if (const auto expert = rows.expert_of(row, columns)) {
      expert_of_row[row] = *expert;
      ++votes[group_of_row(*p, row)][*expert];
    } else if (static_cast<Index>(i) < kShifted) {
      if (const auto by = rows.shift_of(row, columns)) ++shift_votes[*by];
    }
  }
  if (static_cast<Index>(failing.size()) > kRows) {
    add_rows_between(*p, rows, failing, expert_of_row);
  }
  if (!expert_of_row.empty()) {
    std::map<Index, Index> source;
    for (const auto& [g, experts] : votes) {
      source[g] =
          std::max_element(experts.begin(), experts.end(), [](const auto& a, const auto& b) {
            return a.second < b.second;
          })->first;
    }
    add_ends(*p, output, expert_of_row, list);
    add_experts(*p, source, list);
  }
  for (const auto& [by, count] : shift_votes) {
    if (count < 2) continue;
    list.push_back({"x=shifted",
                    "rows are made of the rows of x " + std::to_string(std::abs(by)) +
                        (by < 0 ? " before" : " after") + " them",
                    Stage::input, [by = by, last = p->a_lines - 1](Call& c) {
                      return read_first_axis(c, Side::a, [by, last](Index r) {
                        return std::clamp<Index>(r + by, 0, last);
                      });
                    }});
  }
}

}  // namespace mxo
