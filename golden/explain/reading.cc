// Rows of matrices through their sources.
#include "golden/explain/reading.h"

#include <algorithm>

#include "golden/explain/output.h"

namespace mxo {

Matrices matrices_of(const Tensor& tensor) {
  const std::vector<Index>& shape = tensor.shape();
  return {shape[shape.size() - 2], shape.back(), tensor.elements()};
}

bool applies(const Reading& reading, const Call& call) {
  if (!call.has(reading.operand) || call.input(reading.operand).rank() < 2) return false;
  const Matrices m = matrices_of(call.input(reading.operand));
  return m.elements > 0 && reading.applies(m);
}

bool read_whole(Call& call, const Reading& reading) {
  if (!applies(reading, call)) return false;
  const Tensor& given = call.input(reading.operand);
  call.replace(reading.operand, read_gathered(reading, given, 0, range_of(given.extent(0))));
  return true;
}

Tensor read_gathered(const Reading& reading, const Tensor& given, int axis,
                     const std::vector<Index>& kept) {
  std::vector<Index> shape = given.shape();
  const auto last = static_cast<int>(shape.size()) - 1;
  const Matrices m = matrices_of(given);
  shape[static_cast<std::size_t>(axis)] = static_cast<Index>(kept.size());
  Tensor seen(given.dtype(), shape);
  const std::vector<Index> columns = axis == last ? kept : range_of(m.columns);
  const std::size_t bytes = columns.size() * size_of(given.dtype());
  std::byte* to = seen.data();
  const auto read = [&](Index matrix, Index row) {
    reading.read(given, {matrix, row, columns}, to);
    to += bytes;
  };
  // Rows before the last axis: all of them, those kept, or those of the matrices kept.
  Index inner = 1;
  for (int a = axis + 1; a < last; ++a) inner *= given.extent(a);
  const Index rows = m.elements / m.columns;
  const Index extent = axis == last ? rows : given.extent(axis);
  const std::vector<Index>& lines = axis == last ? range_of(rows) : kept;
  for (Index outer = 0; outer < rows / (extent * inner); ++outer) {
    for (const Index k : lines) {
      for (Index i = 0; i < inner; ++i) {
        const Index row = (outer * extent + k) * inner + i;
        read(row / m.rows, row % m.rows);
      }
    }
  }
  return seen;
}

Reading read_transposed(std::string operand) {
  return make_reading(
      std::move(operand), [](const Matrices& m) { return m.rows > 1 && m.columns > 1; },
      [](const Matrices& m, Index matrix, Index row, Index column) {
        return matrix * m.rows * m.columns + column * m.rows + row;
      });
}

}  // namespace mxo
