// How many scales, or choices of experts, tell that a call took others: all elements of a line
// follow from a few of them.
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "formats/error.h"
#include "golden/explain/confirm/score.h"
#include "golden/explain/find/product/sides.h"

namespace mxo {
namespace {

constexpr double kOfNumber = 12.0;  ///< bits of an f32 scale that a line of outputs shows
constexpr double kAny = std::numeric_limits<double>::infinity();

/// Bits of scales that may each come by chance: as they are rare.
class Rarity {
 public:
  explicit Rarity(const Tensor& scales) : n_(static_cast<double>(scales.elements())) {
    for (Index i = 0; i < scales.elements(); ++i) ++counts_[bits_at(scales, i)];
  }
  double bits(std::uint64_t value) const {
    const auto at = counts_.find(value);
    return std::log2((n_ + 1.0) / (at == counts_.end() ? 1.0 : static_cast<double>(at->second)));
  }

 private:
  double n_;
  std::map<std::uint64_t, Index> counts_;
};

/// Lines of a side in which elements were explained, with their groups.
std::set<std::pair<Index, Index>> lines_of(const ProductSides& s, const Output& y,
                                           const std::vector<Index>& explained) {
  std::set<std::pair<Index, Index>> lines;
  for (const Index i : explained) {
    const Index row = i / y.columns;
    const Index group = s.p.wgrad ? row / s.p.a_lines : group_of_row(s.p, row);
    const Index own = s.p.wgrad ? row % s.p.a_lines : row;
    lines.emplace(group, s.side == Side::a ? own : i % y.columns);
  }
  return lines;
}

/// What is altered, where that is scales alone, of the types and shapes that they had.
bool alters_scales_alone(const Call& call, const Call& altered, const Product& p) {
  if (altered.set.all() != call.set.all() || altered.inputs.size() != call.inputs.size())
    return false;
  for (const auto& [name, tensor] : call.inputs) {
    if (!altered.has(name)) return false;
    const Tensor& now = altered.input(name);
    const bool scales = name == p.a.scales_name || name == p.b.scales_name;
    if (scales ? now.dtype() != tensor->dtype() || now.shape() != tensor->shape()
               : &now != tensor.get())
      return false;
  }
  return true;
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

}  // namespace

double bits_of_operands(const Call& call, const std::vector<const Hypothesis*>& made_by,
                        const Output& y, const std::vector<Index>& explained) {
  const std::optional<Product> p = product_of(call);
  if (!p) return bits_of_choices(call, y, explained);
  if (y.name != p->output || made_by.empty()) return kAny;
  Call altered = call;
  try {
    for (const Hypothesis* h : made_by) {
      if (h->run || h->rewrite || !h->alter(altered)) return kAny;
    }
  } catch (const Error&) {
    return kAny;
  }
  if (!alters_scales_alone(call, altered, *p)) return kAny;
  double sum = 0.0;
  for (const Side side : kSides) {
    const ProductSides s{*p, side};
    const ProductSide& f = s.factor();
    if (f.scales == nullptr) continue;
    const Tensor& now = altered.input(f.scales_name);
    const Rarity rarity(*f.scales);
    std::set<Index> changed;
    for (const auto& [g, line] : lines_of(s, y, explained)) {
      for (Index d = 0; d < p->depth(g); d += p->block) {
        const Index at = s.scale(g, line, d);
        if (at >= 0 && bits_at(now, at) != bits_at(*f.scales, at)) changed.insert(at);
      }
    }
    for (const Index at : changed)
      sum += size_of(now.dtype()) == 1 ? rarity.bits(bits_at(now, at)) : kOfNumber;
  }
  return sum;
}

}  // namespace mxo
