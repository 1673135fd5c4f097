// How many scales, or choices of experts, tell that a call took others: all elements of a line
// follow from a few of them.
#include <limits>
#include <set>

#include "formats/error.h"
#include "golden/explain/confirm/score.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/product/sides.h"

namespace mxo {
namespace {

constexpr double kOfLine = 6.0;   ///< bits of a line whose scales lie in another way
constexpr double kOfPower = 4.0;  ///< bits of a power of two
constexpr double kMany = 1000.0;  ///< bits that no cost exceeds
constexpr double kAny = std::numeric_limits<double>::infinity();

/// Bits of scales that may each come by chance: as they are rare.
class Rarity {
 public:
  explicit Rarity(const Tensor& scales) : n_(static_cast<double>(scales.elements())) {
    for (Index i = 0; i < scales.elements(); ++i) ++counts_[bits_at(scales, i)];
  }
  /// Whether no two scales are this one.
  bool is_one(std::uint64_t value) const {
    const auto at = counts_.find(value);
    return at == counts_.end() || at->second == 1;
  }
  double bits(std::uint64_t value) const {
    const auto at = counts_.find(value);
    return std::log2((n_ + 1.0) / (at == counts_.end() ? 1.0 : static_cast<double>(at->second)));
  }

 private:
  double n_;
  std::map<std::uint64_t, Index> counts_;
};

/// Bits of an f32 scale that so many outputs show: the more there are, the nearer some are to where
/// another scale rounds them otherwise.
double bits_of_number(double elements) { return 20.0 + std::log2(elements); }

/// Lines of a side in which elements were explained, with their groups.
std::set<std::pair<Index, Index>> lines_of(const ProductSides& s, const Output& y,
                                           const std::vector<Index>& explained) {
  std::set<std::pair<Index, Index>> lines;
  std::map<Index, std::vector<std::uint8_t>> columns;  // of y, by group
  std::vector<std::uint8_t>* seen = nullptr;
  Index last = -1;
  Index group = 0;
  for (const Index i : explained) {
    const Index row = i / y.columns;
    if (row != last) {
      last = row;
      group = s.p.wgrad ? row / s.p.a_lines : group_of_row(s.p, row);
      seen = &columns.try_emplace(group, y.columns).first->second;
      if (s.side == Side::a) lines.emplace(group, s.p.wgrad ? row % s.p.a_lines : row);
    }
    if (s.side == Side::b && std::exchange(nth(*seen, i % y.columns), 1) == 0)
      lines.emplace(group, i % y.columns);
  }
  return lines;
}

/// Whether scales are altered, and nothing else of the operands.
bool alters_scales_alone(const Call& call, const Call& altered, const Product& p) {
  bool any = false;
  for (const auto& [name, tensor] : call.inputs) {
    if (!altered.has(name)) return false;
    if (&altered.input(name) == tensor.get()) continue;
    if (name != p.a.scales_name && name != p.b.scales_name) return false;
    any = true;
  }
  return any && altered.inputs.size() == call.inputs.size();
}

/// Rows of a layer whose tokens take one expert each, all with the weight 1: what another router
/// gives of them may have come of any other choice.
double bits_of_choices(const Call& call, const Output& y, const std::vector<Index>& explained) {
  const bool weights_are_1 =
      call.set.flag("normalize", true) || call.set.text("score", "softmax") == "softmax_of_chosen";
  const bool are_tokens = y.name.ends_with(".y") || y.name.ends_with(".dx");
  if (call.op != "moe_layer" || call.set.integer("top_k", 1) > 1 || !weights_are_1 || !are_tokens)
    return kAny;
  std::set<Index> rows;
  for (const Index i : explained) rows.insert(i / y.columns);
  return static_cast<double>(rows.size()) *
         std::log2(static_cast<double>(call.input("router").extent(0)));
}

/// Of rows that an altered gradient took for others of its operand, whole, in the groups of some
/// lines: whatever they hold, each is one of so many.  None where a row is no other one.
std::optional<double> bits_of_rows(const ProductSides& was, const ProductSides& now,
                                   const std::set<std::pair<Index, Index>>& lines) {
  const Tensor& before = *was.factor().codes;
  const Tensor& after = *now.factor().codes;
  if (!was.p.wgrad || before.shape() != after.shape() || before.dtype() != after.dtype())
    return std::nullopt;
  const auto row = [n = before.shape().back()](const Tensor& t, Index r) {
    return bytes_of(t, r * n, n);
  };
  std::set<std::string_view> rows;
  for (Index r = 0; r < before.extent(0); ++r) rows.insert(row(before, r));
  Index changed = 0;
  Index group = -1;
  for (const auto& [g, line] : lines) {
    if (std::exchange(group, g) == g) continue;
    for (Index r = 0; r < before.extent(0); ++r) {
      const auto in = [&, g = g](const ProductSides& s) {
        return r >= s.p.begin(g) && r < s.p.begin(g) + s.p.depth(g);
      };
      if (!in(was) && !in(now)) continue;
      if (!rows.contains(row(after, r))) return std::nullopt;
      changed += in(was) != in(now) || row(before, r) != row(after, r);
    }
  }
  if (changed == 0) return std::nullopt;
  return static_cast<double>(changed) * std::log2(static_cast<double>(before.extent(0)) + 1.0);
}

/// Of values that an altered call took for others, in the lines that it explains: all elements of a
/// line follow from these, each of which is worth its place in the line.  Where both sides of a
/// product are altered, the one that tells less.
double bits_of_values(const Call& altered, const Product& p, const Output& y,
                      const std::vector<Index>& explained) {
  const std::optional<Product> now = product_of(altered);
  if (!now || now->groups() != p.groups() || now->a_lines != p.a_lines || now->n != p.n)
    return kAny;
  double least = kAny;
  for (const Side side : kSides) {
    const ProductSides s{p, side};
    const ProductSides t{*now, side};
    const auto lines = lines_of(s, y, explained);
    if (const auto rows = bits_of_rows(s, t, lines)) {
      least = std::min(least, *rows);
      continue;
    }
    double sum = 0.0;
    for (const auto& [g, line] : lines) {
      std::map<Index, std::pair<double, double>> values;  // by row of a gradient, or depth
      const ProductSides::Line was = s.line(g, line);
      const ProductSides::Line is = t.line(g, line);
      for (Index d = 0; d < std::ssize(was); ++d)
        values[d + (p.wgrad ? p.begin(g) : 0)].first = nth(was, d);
      for (Index d = 0; d < std::ssize(is); ++d)
        values[d + (p.wgrad ? now->begin(g) : 0)].second = nth(is, d);
      const auto changed = std::ranges::count_if(
          values, [](const auto& at) { return at.second.first != at.second.second; });
      sum += static_cast<double>(changed) * std::log2(static_cast<double>(values.size()) + 1.0);
      if (sum > kMany) break;
    }
    if (sum > 0.0 && sum <= kMany) least = std::min(least, sum);
  }
  return least;
}

/// Of what one hypothesis alters.
double bits_of_one(const Call& call, const Product& p, const Hypothesis& made_by, const Output& y,
                   const std::vector<Index>& explained) {
  Call altered = call;
  try {
    if (made_by.rewrite || !made_by.alter(altered)) return kAny;
  } catch (const Error&) {
    return kAny;
  }
  if (!alters_scales_alone(call, altered, p)) return bits_of_values(altered, p, y, explained);
  double most = 0.0;  // one factor of an output tells of one side
  for (const Side side : kSides) {
    const ProductSides s{p, side};
    const ProductSide& f = s.factor();
    if (f.scales == nullptr) continue;
    const Tensor& now = altered.input(f.scales_name);
    const auto lines = lines_of(s, y, explained);
    if (now.dtype() != f.scales->dtype() || now.shape() != f.scales->shape()) {
      most = std::max(most, kOfLine * static_cast<double>(lines.size()));
      continue;
    }
    const Rarity rarity(*f.scales);
    std::vector<std::uint8_t> changed(static_cast<std::size_t>(now.elements()));
    for (const auto& [g, line] : lines) {
      for (Index d = 0; d < p.depth(g); d += p.block) {
        const Index at = s.scale(g, line, d);
        if (at >= 0 && bits_at(now, at) != bits_at(*f.scales, at)) nth(changed, at) = 1;
      }
    }
    const double each =
        static_cast<double>(explained.size()) / static_cast<double>(std::ranges::count(changed, 1));
    double sum = 0.0;
    for (Index at = 0; at < now.elements(); ++at)
      if (nth(changed, at))
        sum += size_of(now.dtype()) == 1 || !rarity.is_one(bits_at(now, at))
                   ? rarity.bits(bits_at(now, at))
                   : bits_of_number(each);
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

double bits_of_operands(const Call& call, const std::vector<const Hypothesis*>& made_by,
                        const Output& y, const std::vector<Index>& explained) {
  const std::optional<Product> p = product_of(call);
  if (!p) return bits_of_choices(call, y, explained);
  double least = kAny;
  for (const Hypothesis* h : made_by)
    if (y.name == p->output) least = std::min(least, bits_of_one(call, *p, *h, y, explained));
  return least;
}

bool is_of_one_scale(const Output& scales, const Variant& patch, const VariantMatch& given) {
  if (scales.expected->dtype() != Dtype::e8m0) return false;
  std::set<std::uint64_t> expected;  // of rows in which it gives some
  bool all = true;
  const auto columns = std::ssize(patch.columns);
  for (Index r = 0; r < std::ssize(patch.rows); ++r) {
    const auto gives = [&](Index c) { return nth(given.mask, r * columns + c) != 0; };
    const std::vector<Index> places = range_of(columns);
    if (std::ranges::none_of(places, gives)) continue;
    all = all && std::ranges::all_of(places, gives);
    for (const Index c : patch.columns)
      expected.insert(scales.expected_bits(nth(patch.rows, r) * scales.columns + c));
  }
  return expected.size() == 1 && (all || given.broken > 0);
}

double bits_of_powers(const Output& y, const std::vector<Index>& explained) {
  if (!is_wide_float(y.expected->dtype())) return kAny;
  const auto is_first = [&](Index i) {
    return y.expected_bits(i) == y.expected_bits(explained.front()) &&
           y.actual_bits(i) == y.actual_bits(explained.front());
  };
  if (explained.size() > 1 && std::ranges::all_of(explained, is_first)) return kOfPower;
  const auto exponent = [&](Index i) -> std::optional<int> {
    const double ratio = y.came(i).value / y.wanted(i).value;
    int e = 0;
    return std::frexp(ratio, &e) == 0.5 ? std::optional(e) : std::nullopt;
  };
  for (const bool by_row : {true, false}) {
    std::map<Index, std::optional<int>> lines;
    const bool all = std::ranges::all_of(explained, [&](Index i) {
      const std::optional<int> own = exponent(i);
      const auto at = lines.try_emplace(by_row ? i / y.columns : i % y.columns, own).first;
      return own && at->second == own;
    });
    if (!all) continue;
    // Some of the lines that differ which share one power are one witness.
    const bool one = y.left > 0 && std::ranges::all_of(lines, [&](const auto& line) {
                       return line.second == lines.begin()->second;
                     });
    return kOfPower * (one ? 1.0 : static_cast<double>(lines.size()));
  }
  return kAny;
}

}  // namespace mxo
