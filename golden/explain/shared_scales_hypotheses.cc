// Scales joined after the codes were made: the largest of several stands for all of them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "golden/explain/hypotheses.h"
#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

/// The scales of one side: [outer, lines, blocks].
struct ScaleGrid {
  Index outer = 1;
  Index lines = 1;
  Index blocks = 1;
};

ScaleGrid grid_of(const Tensor& scales, bool experts) {
  ScaleGrid grid;
  const int line_axis = experts ? 1 : 0;
  for (int axis = 0; axis < scales.rank(); ++axis) {
    Index& extent = axis < line_axis ? grid.outer : axis == line_axis ? grid.lines : grid.blocks;
    extent *= scales.extent(axis);
  }
  return grid;
}

/// Which scales are joined: those of one number.
using SetOf = Index (*)(const ScaleGrid&, Index outer, Index line, Index block);

struct Sharing {
  const char* id;
  const char* before;  ///< the operand's name
  const char* after;
  SetOf set;
  bool of_weights;  ///< asks for experts
};

Index of_halves(const ScaleGrid& g, Index outer, Index line, Index block) {
  const Index half = g.lines % 2 == 0 ? g.lines / 2 : g.lines;
  return (outer * g.lines + line % half) * g.blocks + block;
}
Index of_pairs(const ScaleGrid& g, Index outer, Index line, Index block) {
  return (outer * g.lines + line / 2) * g.blocks + block;
}
Index of_line(const ScaleGrid& g, Index outer, Index line, Index) { return outer * g.lines + line; }
Index of_expert(const ScaleGrid&, Index outer, Index, Index) { return outer; }
Index of_all(const ScaleGrid&, Index, Index, Index) { return 0; }

constexpr Sharing kSharings[] = {
    {"halves", "both halves of ", " take the larger of their scales, codes as they are", of_halves,
     true},
    {"pairs", "lines 2 i and 2 i + 1 of ", " take the larger of their scales, codes as they are",
     of_pairs, true},
    {"line", "every row of ", " takes the largest of its scales, codes as they are", of_line,
     false},
    {"expert", "every expert of ", " takes the largest of its scales, codes as they are", of_expert,
     true},
    {"tensor", "all of ", " takes the largest of its scales, codes as they are", of_all, false},
};

/// Every scale replaced by the largest of its set; false where none changes.
bool take_largest(Call& call, const std::string& name, const Sharing& sharing, bool experts) {
  const Tensor& given = call.input(name);
  const ScaleGrid grid = grid_of(given, experts);
  const std::size_t size = size_of(given.dtype());
  std::vector<Index> sets;
  for (Index o = 0; o < grid.outer; ++o) {
    for (Index l = 0; l < grid.lines; ++l) {
      for (Index b = 0; b < grid.blocks; ++b) sets.push_back(sharing.set(grid, o, l, b));
    }
  }
  std::vector<Index> largest(sets.size(), -1);  // by set: where it lies
  for (std::size_t i = 0; i < sets.size(); ++i) {
    Index& at = largest[static_cast<std::size_t>(sets[i])];
    const double value = scale_value(given, static_cast<Index>(i));
    if (!std::isnan(value) && (at < 0 || value > scale_value(given, at)))
      at = static_cast<Index>(i);
  }
  Tensor joined = given;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const Index from = largest[static_cast<std::size_t>(sets[i])];
    if (from < 0) continue;
    std::memcpy(joined.data() + i * size, given.data() + static_cast<std::size_t>(from) * size,
                size);
  }
  if (std::memcmp(joined.data(), given.data(), given.bytes()) == 0) return false;
  call.replace(name, std::move(joined));
  return true;
}

}  // namespace

void add_shared_scales(const Call& call, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad) return;
  for (const ProductSide* f : {&p->a, &p->b}) {
    const bool experts = f == &p->b;
    if (f->scales == nullptr || f->scales->rank() < (experts ? 2 : 1)) continue;
    for (const Sharing& sharing : kSharings) {
      if (sharing.of_weights && !experts) continue;
      list.push_back({f->scales_name + "=largest_of_" + sharing.id,
                      sharing.before + f->name + sharing.after, Stage::input,
                      [name = f->scales_name, &sharing, experts](Call& c) {
                        return take_largest(c, name, sharing, experts);
                      }});
    }
  }
}

}  // namespace mxo
