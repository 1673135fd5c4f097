// Which expert's weights, or which row of x, a row of the output was made of; and ends of groups
// that moved, in operators of which only the rows that differ are known, too.
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

constexpr Index kRows = 48;     ///< that are looked at
constexpr Index kColumns = 12;  ///< of each
constexpr std::size_t kLeastColumns = 4;
constexpr double kFit = 0.02;  ///< of the root mean square: bf16 and any accumulation

/// Row to its expert, group to its new end, or to the expert whose weights it took.
using Indices = std::map<Index, Index>;

// ---- Ends of groups.

void propose_ends(const Indices& moved, std::string phrase, bool raise, List& list) {
  const auto alter = [moved, raise](Call& call) {
    Tensor ends = call.input("group_ends");
    if (ends.dtype() != Dtype::i32) return false;
    auto* end = ends.as<std::int32_t>();
    for (const auto& [g, row] : moved) end[g] = static_cast<std::int32_t>(row);
    for (Index g = 1; raise && g < ends.elements(); ++g) end[g] = std::max(end[g], end[g - 1]);
    if (!std::is_sorted(end, end + ends.elements())) return false;
    call.replace("group_ends", std::move(ends));
    return true;
  };
  add_altered(list, "group_ends=moved", std::move(phrase), alter);
  list.back().target = Target::group_ends;
}

std::string ends_in_words(const Indices& moved, const std::vector<Index>& ends) {
  std::string text;
  for (const auto& [g, row] : moved)
    list_words(text, filled("group {} ends at row {} rather than {}", g, row, nth(ends, g)),
               " and ");
  return text;
}

// ---- Rows of a product.

/// Rows of a product, as an expert's weights would have made them.
class Rows {
 public:
  Rows(const Product& p, const Output& y)
      : p_(p), y_(y), read_(y.expected->dtype()), weights_({p, Side::b}) {}

  /// Whether a row came as x times expert `expert`; not where too few columns differ to tell.
  bool fits(Index row, Index expert) {
    const std::vector<Index> columns = evenly_spread(
        ProductSides{p_, Side::a}.differing(y_, group_of_row(p_, row), row), kColumns);
    const ProductSides::Line x = p_.line_a(group_of_row(p_, row), row);
    const auto got = [&](Index c) { return read_(y_.actual_bits(row * y_.columns + c)).value; };
    double left = 0.0;
    for (const Index c : columns) left += kFit * kFit * got(c) * got(c);
    if (columns.size() < kLeastColumns || !std::isfinite(left)) return false;
    return std::ranges::all_of(columns, [&](Index c) {
      const ProductSides::Line& w = weights_(expert, c);
      left -= std::pow(got(c) - std::inner_product(x.begin(), x.end(), w.begin(), 0.0), 2.0);
      return left > 0.0;
    });
  }

  /// The nearest other expert whose weights a row was made with, those before and after by turns.
  std::optional<Index> expert_of(Index row) {
    const Index own = group_of_row(p_, row);
    for (Index d = 1; d < p_.groups(); ++d) {
      const Index e = (own + (d % 2 ? (d + 1) / 2 : p_.groups() - d / 2)) % p_.groups();
      if (e != own && fits(row, e)) return e;
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
void add_rows_between(Rows& rows, const std::vector<Index>& failing, Indices& expert_of_row) {
  const std::vector<Index> looked = evenly_spread(0, static_cast<Index>(failing.size()), kRows);
  const Indices seen = expert_of_row;
  const auto expert_at = [&](Index at) {
    const auto found = seen.find(nth(failing, at));
    return found == seen.end() ? Index{-1} : found->second;
  };
  const auto walk = [&](Index from, Index to, Index step) {
    const Index expert = expert_at(from);
    for (Index at = from + step; expert >= 0 && at != to; at += step) {
      const Index row = nth(failing, at);
      if (!rows.fits(row, expert)) return;
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

/// The first row that differs of those at the end of an output that all hold zeros; -1: none.
Index zeros_from(const Output& out) {
  Index first = -1;
  for (Index row = out.compared_rows - 1; row >= 0; --row) {
    for (const Index i : elements_of_row(out, row))
      if (out.came(i).value != 0.0) return first;
    if (out.differs_in(row * out.columns, out.columns)) first = row;
  }
  return first;
}

/// Rows next to an end of their group that were multiplied by the neighbour's weights.
/// With them the last group, where rows up to the end of the output hold zeros.
void add_ends(const Product& p, const Output& out, const Indices& expert_of_row, List& list) {
  Indices moved;
  for (const auto& [row, expert] : expert_of_row) {
    const Index own = group_of_row(p, row);
    for (Index g = own; g < expert; ++g) {
      Index& end = moved.try_emplace(g, row).first->second;
      end = std::min(end, row);
    }
    for (Index g = expert; g < own; ++g) {
      Index& end = moved.try_emplace(g, row + 1).first->second;
      end = std::max(end, row + 1);
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
  const Index by = moved.begin()->second - p.end(moved.begin()->first);
  const bool alike = moved.size() > 1 && static_cast<Index>(moved.size()) + 1 == p.groups() &&
                     std::all_of(moved.begin(), moved.end(), [&](const auto& end) {
                       return end.second - p.end(end.first) == by;
                     });
  propose_ends(moved,
               alike ? "groups end " + counted(std::abs(by), "row") + (by < 0 ? " early" : " late")
                     : ends_in_words(moved, p.ends),
               true, list);
}

/// Groups multiplied by the weights of source[group].
void add_experts(const Product& p, const Indices& source, List& list) {
  std::set<Index> steps;
  std::set<Index> experts;
  std::string text;
  for (const auto& [g, e] : source) {
    steps.insert(modulo(e - g, p.groups()));
    experts.insert(e);
    list_words(text, filled("group {} is multiplied by the weights of expert {}", g, e), " and ");
  }
  if (source.size() > 1 && experts.size() == 1) {
    text = filled("groups are multiplied by the weights of expert {}", *experts.begin());
  } else if (source.size() > 1 && steps == std::set<Index>{1}) {
    text = "groups are multiplied by the next expert's weights";
  } else if (source.size() > 1 && steps == std::set<Index>{p.groups() - 1}) {
    text = "groups are multiplied by the previous expert's weights";
  }
  const auto expert = [source](Index g) {
    const auto other = source.find(g);
    return other == source.end() ? g : other->second;
  };
  std::vector<Reading> readings{read_lines(p.b.codes_name, 0, expert)};
  if (p.b.scales != nullptr && p.b.scales->elements() > 1)
    readings.push_back(read_lines(p.b.scales_name, 0, expert));
  add_read_in_slices(list, "w=other_expert", text, std::move(readings));
}

}  // namespace

void add_measured_rows(const Call& call, const Output& output, List& list) {
  const std::optional<Product> p = product_of(call);
  if (!p) {
    add_missing_rows(call, output, list);
    add_measured_ends(call, output, list);
    return add_column_sums(call, output, list);
  }
  if (p->wgrad || output.name != "y" || output.left == 0) return;
  std::vector<Index> failing;
  for (const LineAt& at : ProductSides{*p, Side::a}.failing(output)) failing.push_back(at.line);
  std::vector<Index> looked = evenly_spread(failing, kRows);
  // And the first of every group of which none is looked at.
  std::set<Index> groups;
  for (const Index row : looked) groups.insert(group_of_row(*p, row));
  for (const Index row : failing)
    if (groups.insert(group_of_row(*p, row)).second) looked.push_back(row);
  Rows rows(*p, output);
  Indices expert_of_row;
  std::map<Index, Indices> votes;  // group -> expert -> rows
  for (const Index row : looked) {
    if (const auto expert = rows.expert_of(row)) {
      expert_of_row[row] = *expert;
      ++votes[group_of_row(*p, row)][*expert];
    }
  }
  if (expert_of_row.empty()) return;
  if (static_cast<Index>(failing.size()) > kRows) add_rows_between(rows, failing, expert_of_row);
  Indices source;
  for (const auto& [g, experts] : votes)
    source[g] = std::ranges::max_element(experts, {}, &Indices::value_type::second)->first;
  add_ends(*p, output, expert_of_row, list);
  add_experts(*p, source, list);
  // Of experts that are alike the others, too.
  Indices others = source;
  for (const auto& [row, expert] : expert_of_row) {
    const Index own = group_of_row(*p, row);
    for (Index e = 0; e < p->groups() && others[own] == source[own]; ++e)
      if (e != own && e != source[own] && rows.fits(row, e)) others[own] = e;
  }
  if (others != source) add_experts(*p, others, list);
}

void add_measured_ends(const Call& call, const Output& o, List& list) {
  if (!call.has("group_ends") || o.group != "group" || o.left == 0) return;
  if (static_cast<Index>(o.ends.size()) != call.input("group_ends").elements()) return;
  // Where the run of rows that differ ends which begins at `row` and goes on by `step`.
  const auto end_of_run = [&](Index row, Index step) {
    while (row >= 0 && row < o.compared_rows && o.differs_in(row * o.columns, o.columns))
      row += step;
    return row;
  };
  Indices all;
  for (std::size_t g = 0; g + 1 < o.ends.size(); ++g) {
    const Index end = o.ends[g];
    if (end == 0 || end == o.ends[g + 1]) continue;
    const Index before = end_of_run(end - 1, -1) + 1;
    const Index after = end_of_run(end, 1);
    // Rows that differ on both sides, or up to another end, say nothing of this one.
    const bool early = before < end && before > (g == 0 ? 0 : o.ends[g - 1]) && after == end;
    const bool late = after > end && after < o.ends[g + 1] && before == end;
    if (!early && !late) continue;
    const Indices one{{static_cast<Index>(g), early ? before : after}};
    all.insert(one.begin(), one.end());
    propose_ends(one, ends_in_words(one, o.ends), false, list);
  }
  if (all.size() > 1) propose_ends(all, ends_in_words(all, o.ends), false, list);
}

}  // namespace mxo
