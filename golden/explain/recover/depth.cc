// Blocks along K that all measured lines miss, or sum twice.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "golden/explain/name/places.h"
#include "golden/explain/recover/scales.h"

namespace mxo {
namespace {

/// Rows of x of one group, from the first to the last but one named.
struct Rows {
  Index first;
  Index last;
};

/// Blocks of a group that all measured lines of it miss.
void add_depth_of_groups(const Product& p, const std::vector<Effective>& lines,
                         std::vector<Hypothesis>& list) {
  std::vector<Rows> missing;
  std::vector<Index> rows;
  for (Index g = 0; g < p.groups(); ++g) {
    for (Index b = 0; b < ceil_div(p.depth(g), p.block); ++b) {
      Index zero = 0;
      Index known = 0;
      for (const Effective& e : lines) {
        const auto at = static_cast<std::size_t>(b);
        if (e.group != g || at >= e.ratio.size() || e.sigma[at] > 0.1) continue;
        ++known;
        zero += std::abs(e.ratio[at]) < 0.1;
      }
      if (zero * 4 <= known * 3) continue;
      const Index first = p.begin(g) + b * p.block;
      missing.push_back({first, std::min(first + p.block, p.end(g))});
      for (Index r = missing.back().first; r < missing.back().last; ++r) rows.push_back(r);
    }
  }
  if (missing.empty() || static_cast<Index>(rows.size()) == p.ends.back()) return;
  list.push_back({"k.missing",
                  "the products of " + ranges_in_words("row", rows) + " of " + p.a.name + " and " +
                      p.b.name + " are left out",
                  Stage::input,
                  [name = p.a.codes_name, missing](Call& c) {
                    Tensor codes = c.input(name);
                    const std::size_t row =
                        codes.bytes() / static_cast<std::size_t>(codes.extent(0));
                    for (const Rows& r : missing) {
                      std::memset(codes.data() + static_cast<std::size_t>(r.first) * row, 0,
                                  static_cast<std::size_t>(r.last - r.first) * row);
                    }
                    c.replace(name, std::move(codes));
                    return true;
                  },
                  {},
                  true});
}

}  // namespace

std::string k_in_words(const std::vector<Index>& depths) {
  const std::string words = ranges_in_words("k", depths);
  if (!words.starts_with("k")) return words;
  return "k = " + words.substr(words.starts_with("ks ") ? 3 : 2);
}

void add_measured_depth(const Product& p, const std::vector<Effective>& lines,
                        std::vector<Hypothesis>& list) {
  if (lines.empty()) return;
  if (p.wgrad) return add_depth_of_groups(p, lines, list);
  const std::size_t blocks = lines.front().ratio.size();
  std::vector<Index> missing;
  std::vector<Index> twice;
  for (std::size_t b = 0; b < blocks; ++b) {
    Index zero = 0;
    Index two = 0;
    Index known = 0;
    for (const Effective& e : lines) {
      if (e.sigma[b] > 0.1) continue;
      ++known;
      zero += std::abs(e.ratio[b]) < 0.1;
      two += std::abs(e.ratio[b] - 2.0) < 0.1;
    }
    if (zero * 4 > known * 3) missing.push_back(static_cast<Index>(b));
    if (two * 4 > known * 3) twice.push_back(static_cast<Index>(b));
  }
  const Index block = p.block;
  const auto where = [&p](const std::vector<Index>& of) {
    std::vector<Index> k;
    for (const Index b : of) {
      for (Index d = b * p.block; d < std::min(p.k, (b + 1) * p.block); ++d) k.push_back(d);
    }
    return k_in_words(k);
  };
  const std::string name = p.a.codes_name;
  if (!missing.empty() && missing.size() < blocks) {
    list.push_back(
        {"k.missing",
         "the products of " + where(missing) + " are left out",
         Stage::input,
         [name, missing, block](Call& c) {
           Tensor x = c.input(name);
           const std::size_t size = size_of(x.dtype());
           for (Index r = 0; r < x.extent(0); ++r) {
             for (const Index b : missing) {
               const Index n = std::min(block, x.extent(1) - b * block);
               std::memset(x.data() + static_cast<std::size_t>(r * x.extent(1) + b * block) * size,
                           0, static_cast<std::size_t>(n) * size);
             }
           }
           c.replace(name, std::move(x));
           return true;
         },
         {},
         true});
  }
  if (!twice.empty() && twice.size() < blocks) {
    list.push_back({"k.twice",
                    "the products of " + where(twice) + " are added twice",
                    Stage::input,
                    [twice, block](Call& c) { return append_blocks(c, twice, block); },
                    {},
                    true});
  }
}

bool append_blocks(Call& call, const std::vector<Index>& blocks, Index block) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad) return false;
  // A block begins where a scale does: zeros fill up the last one.
  const Index whole = ceil_div(p->k, block);
  const auto wider = [&](const Tensor& t, Index run) {
    // Along the last axis: the runs named are appended, in order.
    std::vector<Index> shape = t.shape();
    const Index columns = shape.back();
    std::vector<Index> kept = range_of(whole * run);
    for (const Index b : blocks) {
      for (Index c = b * run; c < (b + 1) * run; ++c) kept.push_back(c);
    }
    shape.back() = static_cast<Index>(kept.size());
    Tensor out(t.dtype(), shape);
    const std::size_t size = size_of(t.dtype());
    std::byte* to = out.data();
    for (Index row = 0; row < t.elements(); row += columns) {
      for (const Index c : kept) {
        if (c < columns) std::memcpy(to, t.data() + static_cast<std::size_t>(row + c) * size, size);
        to += size;
      }
    }
    return out;
  };
  for (const ProductSide* f : {&p->a, &p->b}) {
    Tensor codes = wider(*f->codes, block);
    if (f->scales != nullptr && f->scales->shape().back() > 1 &&
        f->scales->rank() == f->codes->rank()) {
      const Index scales = f->scales->shape().back();
      const Index run = block_of(p->k, scales);
      if (block % run != 0) return false;
      Tensor wide = wider(*f->scales, block / run);
      call.replace(f->scales_name, std::move(wide));
    }
    call.replace(f->codes_name, std::move(codes));
  }
  return true;
}

}  // namespace mxo
