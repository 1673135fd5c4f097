// Scales that lie at one stride, by rows or columns, and are read at another: padded, or not.
#include <cstring>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/output/slots.h"

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

/// Distances at which rows of so many scales may lie: padded to so many bytes.
std::set<Index> padded(Index columns) {
  std::set<Index> found;
  for (const Index to : {4, 16, 32}) found.insert(round_up(columns, to));
  found.erase(columns);
  return found;
}

/// Rows that lie `lie` apart and are read one after the other; between them there is `between`,
/// a scale of 1 or zero.
Tensor read_on(const Tensor& given, Index lie, float between) {
  const Matrices m = matrices_of(given);
  const std::size_t size = size_of(given.dtype());
  Tensor seen = given;
  for (Index i = 0; i < given.elements(); ++i) {
    const Index at = i % (m.rows * m.columns);
    const Index from = i - at + at / lie * m.columns + at % lie;
    std::byte* to = seen.data() + static_cast<std::size_t>(i) * size;
    if (at % lie < m.columns) {
      std::memcpy(to, given.data() + static_cast<std::size_t>(from) * size, size);
    } else if (size == sizeof(float)) {
      std::memcpy(to, &between, size);
    } else {
      *to = std::byte{static_cast<std::uint8_t>(between == 0.0f ? 0 : 127)};
    }
  }
  return seen;
}

/// Columns whose neighbours are taken for one element apart: element (r, c) is that of row r + c.
Tensor read_down(const Tensor& given, Index, float) {
  const Matrices m = matrices_of(given);
  Call call{"", {{"scales", std::make_shared<const Tensor>(given)}}, {}};
  read_whole(call, read_elements("scales", [m](Index i) {
               const Index at = i / m.columns + i % m.columns;
               return at % m.rows * m.columns + at / m.rows;
             }));
  return call.input("scales");
}

/// The codes and scales of every rank where its rows are given.
Call with_codes(Backend& backend, const Call& call) {
  Call made = call;
  const bool blocks = call.set.text("precision", "mxfp8") == "fp8_blockwise";
  for (const std::string& name : names_ending(call.inputs, ".x")) {
    Call quantize{"quantize", {{"x", call.inputs.at(name)}}, {}, nullptr};
    for (const char* key : {"format", "scale_mode"}) {
      if (call.set.has(key)) quantize.set.set(key, std::string(call.set.text(key, "")));
    }
    for (const auto& [key, value] :
         {std::pair{"block", "1x128"}, {"scale", "f32"}, {"rule", "flow"}}) {
      if (blocks) quantize.set.set(key, value);
    }
    NamedTensors parts = run_call(backend, quantize);
    made.replace(rank_of(name) + "codes", std::move(parts.at("codes")));
    made.replace(rank_of(name) + "scales", std::move(parts.at("scales")));
    made.inputs.erase(name);
  }
  return made;
}

/// Scales of rows that travel.
void add_sent_scales(const Call& call, List& list) {
  const std::string_view precision = call.set.text("precision", "mxfp8");
  const std::vector<std::string> scales = names_ending(call.inputs, ".scales");
  const std::vector<std::string> rows = names_ending(call.inputs, ".x");
  if (precision == "bf16" || (scales.empty() && rows.empty())) return;
  const auto add = [&](const std::string& phrase, auto read, Index lie) {
    add_run(
        list, "scales=misread", phrase,
        [read, lie](Backend& backend, const Call& c) {
          Call altered = with_codes(backend, c);
          for (const std::string& name : names_ending(altered.inputs, ".scales"))
            altered.replace(name, read(altered.input(name), lie, 0.0f));
          return run_call(backend, altered);
        },
        Stage::input);
  };
  const Index columns =
      scales.empty() ? ceil_div(call.input(rows[0]).shape().back(), precision == "mxfp8" ? 32 : 128)
                     : call.input(scales[0]).shape().back();
  for (const Index lie : padded(columns))
    add(filled("scales of rows that lie {} apart are read {} apart", lie, columns), read_on, lie);
  add("scales lie column by column, and the stride from column to column is taken for 1", read_down,
      0);
}

}  // namespace

void add_padded_columns(const Call& call, List& list) {
  if (call.op == "dispatch") return add_sent_scales(call, list);
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad) return;
  for (const ProductSide* side : {&p->a, &p->b}) {
    if (side->scales == nullptr || side->scales->rank() < 2) continue;
    const Index rows = side->scales->extent(side->scales->rank() - 2);
    const Index columns = side->scales->shape().back();
    std::set<Index> heights = padded(rows);
    for (const Index to : {64, 128}) heights.insert(round_up(rows, to));
    heights.erase(rows);
    for (const Index more : heights) {
      add_stride(*side, rows, more, list);
      add_stride(*side, more, rows, list);
    }
    for (const Index lie : padded(columns)) {
      for (const float between : {1.0f, 0.0f}) {
        if (rows < 2 || columns < 2) continue;
        add_altered(list, side->scales_name + "=row_stride",
                    filled("rows of the scales of {} lie {} apart and are read {} apart, with {} "
                           "between them",
                           side->name, lie, columns, between == 0.0f ? "zeros" : "scales of 1"),
                    [name = side->scales_name, lie, between](Call& c) {
                      c.replace(name, read_on(c.input(name), lie, between));
                      return true;
                    });
      }
    }
  }
}

}  // namespace mxo
