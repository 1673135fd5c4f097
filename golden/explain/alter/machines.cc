// Another accumulation: machines, promotion intervals, chunks, splits, the fma chain.
#include <algorithm>

#include "golden/explain/alter/rows.h"
#include "ops/sums.h"

namespace mxo {
namespace {

OperandKind kind_of(const Product& product) {
  const bool mx = product.a.scales != nullptr && size_of(product.a.scales->dtype()) == 1;
  return operand_kind(product.a.format, product.b.format, mx);
}

using Settings = std::vector<std::pair<std::string, std::string>>;

/// The settings in place of all that say how the call sums.
void set_sum(Call& call, const Settings& settings) {
  Parameters set;
  for (const auto& [key, value] : call.set.all()) {
    if (key != "sum" && !key.starts_with("sum.")) set.set(key, value);
  }
  for (const auto& [key, value] : settings) set.set(key, value);
  call.set = set;
}

/// Sums that return the same bits unless results underflow; machines differ there only in the
/// floor of the largest exponent.
bool alike(Accumulation a, const Accumulation& b) {
  a.exponent_floor = b.exponent_floor;
  return a == b;
}

/// The sums that have been listed, and under which entry.
class Listed {
 public:
  explicit Listed(std::vector<Hypothesis>& list) : list_(list) {}
  /// The sum of the call itself is nobody's entry.
  void exclude(const Accumulation& sum) { seen_.push_back({sum, kNone}); }
  /// Adds the hypothesis, or `alias` to the entry of a sum that is alike.
  void add(const Accumulation& sum, std::string name, const std::string& alias,
           const std::string& words, const std::string& instead, Settings settings) {
    for (const auto& [other, entry] : seen_) {
      if (!alike(sum, other)) continue;
      if (entry != kNone && !alias.empty() && alias != last_alias_) {
        std::string& phrase = list_[entry].phrase;
        // Where the machine is the call's own, `instead` is not what its phrase ends with.
        const std::size_t at = phrase.rfind(instead);
        if (at != std::string::npos) phrase.insert(at, " or " + alias);
        last_alias_ = alias;
      }
      return;
    }
    seen_.push_back({sum, list_.size()});
    last_alias_ = alias;
    list_.push_back({std::move(name), filled("products are summed as {}{}", words, instead),
                     Stage::sum, [settings = std::move(settings)](Call& c) {
                       set_sum(c, settings);
                       return true;
                     }});
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<Hypothesis>& list_;
  std::vector<std::pair<Accumulation, std::size_t>> seen_;
  std::string last_alias_;
};

/// What else one machine could have been set to do over K terms.
void add_variants(const std::string& machine, const Accumulation& base, Index k,
                  const std::string& instead, Listed& listed) {
  const auto variant = [&](int Accumulation::*field, const char* key, int value,
                           const std::string& words) {
    Accumulation sum = base;
    sum.*field = value;
    const std::string setting = std::string("sum.") + key;
    listed.add(sum, filled("sum={} {}={}", machine, setting, value), "", machine + " with " + words,
               instead, {{"sum", machine}, {setting, std::to_string(value)}});
  };
  // Several S cut K alike: the first of each length stands for them, and of NVIDIA's the machine
  // that promotes every 4 instructions for parts of that length.
  const bool fused = base.family == SumFamily::fused_dot;
  const Index tiles = ceil_div(k, std::max(base.tile, 1));
  Index length = tiles;
  std::vector<Index> parts;
  for (int split = 2; split <= 8; ++split) {
    const bool promoted = fused && ceil_div(tiles, split) * base.tile == 4 * base.instruction;
    if (ceil_div(tiles, split) == length || promoted) continue;
    length = ceil_div(tiles, split);
    parts.push_back(length * base.tile);
    variant(&Accumulation::split, "split", split, filled("K split into {} parts", split));
  }
  if (!fused) return;
  for (const int promote : {1, 2, 4, 8, 16}) {
    const Index every = Index{promote} * base.instruction;
    // Promotion at the ends of the parts of a split adds the same partial sums.
    if (every >= k || std::find(parts.begin(), parts.end(), every) != parts.end()) continue;
    variant(&Accumulation::promote, "promote", promote, filled("promotion every {} k", every));
  }
  for (const int bits : {12, 14, 24, 26})
    variant(&Accumulation::bits, "bits", bits, filled("{} fraction bits", bits));
  for (const int chunk : {4, 8, 16}) {
    if (base.instruction % chunk == 0)
      variant(&Accumulation::chunk, "chunk", chunk, filled("chunks of {}", chunk));
  }
}

/// The same sum with its f32 scales multiplied elsewhere: those that are refused say nothing.
void add_folds(const Call& call, const Product& product, const Accumulation& sum,
               std::vector<Hypothesis>& list) {
  const auto numbers = [](const ProductSide& side) {
    return side.scales != nullptr && size_of(side.scales->dtype()) == 4;
  };
  if (sum.family == SumFamily::exact || (!numbers(product.a) && !numbers(product.b))) return;
  constexpr std::pair<Fold, const char*> kPlaces[] = {
      {Fold::x_then_w, "by the scale of one side, then fused by that of the other into the sum"},
      {Fold::joint, "by the product of both scales, fused into the sum"},
      {Fold::joint_add, "by the product of both scales, then added"},
      {Fold::after, "after the whole sum"}};
  for (const auto& [fold, where] : kPlaces) {
    if (fold == sum.fold) continue;
    const std::string name(name_of(fold));
    list.push_back(set_to("sum.fold", name,
                          filled("blocks are multiplied {} (sum.fold={} of {})", where, name,
                                 call.set.text("sum", "exact")),
                          Stage::sum));
  }
}

}  // namespace

void add_sum_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  const std::optional<Product> product = product_of(call);
  if (!product) return;
  const OperandKind kind = kind_of(*product);
  const std::string instead = " rather than " + std::string(call.set.text("sum", "exact"));
  const Index k = product->k;
  Listed listed(list);
  const Accumulation own = sum_from(call.set, kind);
  listed.exclude(own);
  const SumRow* first = nullptr;
  for (const SumRow& row : sums()) {
    if (row.kind != kind && row.operands != "any") continue;
    const std::string name(row.name);
    const bool same = call.set.text("sum", "exact") == name;
    Accumulation folded = row.sum;
    folded.fold = own.fold;
    if (same && alike(folded, own)) continue;  // it is a fold that differs
    listed.add(row.sum, "sum=" + name, name, name + (same ? " has them" : ""),
               same ? " rather than with the parameters given" : instead, {{"sum", name}});
    if (first == nullptr && is_machine(row.sum)) first = &row;
  }
  add_folds(call, *product, own, list);
  if (first != nullptr) add_variants(std::string(first->name), first->sum, k, instead, listed);
}

}  // namespace mxo
