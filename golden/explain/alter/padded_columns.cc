// Scales that lie column by column, at one stride, and are read at another: padded, or not.
#include <set>

#include "golden/explain/alter/alterations.h"

namespace mxo {
namespace {

/// `lie` and `read`: rows from one column to the next in the buffer, and as a kernel has it.
void add_stride(const ProductSide& side, Index lie, Index read, List& list) {
  add_read(list, side.scales_name + "=column_stride",
           filled("columns of the scales of {} lie {} rows apart and are read {} apart", side.name,
                  lie, read),
           {make_reading(
               side.scales_name, [](const Matrices& m) { return m.rows > 1 && m.columns > 1; },
               [=](const Matrices& m, Index matrix, Index row, Index column) {
                 const Index at = column * read + row;
                 const bool inside = at % lie < m.rows && at / lie < m.columns;
                 return inside ? (matrix * m.rows + at % lie) * m.columns + at / lie : m.elements;
               })});
}

}  // namespace

void add_padded_columns(const Call& call, List& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad) return;
  for (const ProductSide* side : {&p->a, &p->b}) {
    if (side->scales == nullptr || side->scales->rank() < 2) continue;
    const Index rows = side->scales->extent(side->scales->rank() - 2);
    std::set<Index> padded;
    for (const Index to : {4, 16, 32, 64, 128}) padded.insert(ceil_div(rows, to) * to);
    padded.erase(rows);
    for (const Index more : padded) {
      add_stride(*side, rows, more, list);
      add_stride(*side, more, rows, list);
    }
  }
}

}  // namespace mxo
