// Calls from operands, outputs from calls; rows of matrices through their sources.
#include "golden/explain/case/call.h"

#include "formats/error.h"
#include "golden/explain/case/output.h"
#include "golden/explain/case/product.h"

namespace mxo {
namespace {

Tensor narrowed(const Tensor& wide) {
  Tensor narrow(Dtype::i32, wide.shape());
  for (Index i = 0; i < wide.elements(); ++i) {
    const std::int64_t value = wide.as<std::int64_t>()[i];
    if (value != static_cast<std::int32_t>(value))
      throw Error(Fault::shape,
                  "group_ends: found " + std::to_string(value) + ", needs a row that an i32 holds");
    narrow.as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
  }
  return narrow;
}

}  // namespace

const Tensor& Call::input(std::string_view name) const {
  const auto found = inputs.find(name);
  if (found != inputs.end()) return *found->second;
  throw Error(Fault::argument, op + ": operand '" + std::string(name) + "' is missing");
}

Call make_call(std::string_view op, NamedTensors inputs, const Parameters& set) {
  Call call{std::string(op), {}, set.as_listed(catalogue_entry(op).parameters), nullptr, nullptr};
  for (auto& [name, tensor] : inputs) {
    const bool wide = name == "group_ends" && tensor.dtype() == Dtype::i64;
    call.replace(name, wide ? narrowed(tensor) : std::move(tensor));
  }
  return call;
}

NamedTensors run_call(Backend& backend, const Call& call) {
  if (is_biased_product(call)) {
    Call product = call;
    product.inputs.erase("bias");
    NamedTensors out = run_call(backend, product);
    add_bias(call, out.at("y"));
    return out;
  }
  NamedViews inputs;
  for (const auto& [name, tensor] : call.inputs) {
    inputs.set(name, *tensor);
    if (call.work != nullptr) call.work->left -= static_cast<double>(tensor->elements());
  }
  if (call.work != nullptr && call.work->left < 0) throw OutOfWork{};
  return call_operator(backend, call.op, inputs, call.set, call.world);
}

Matrices matrices_of(const Tensor& tensor) {
  const std::vector<Index>& shape = tensor.shape();
  return {shape.size() < 2 ? 1 : shape[shape.size() - 2], shape.back(), tensor.elements()};
}

bool applies(const Reading& reading, const Call& call) {
  if (!call.has(reading.operand)) return false;
  const Tensor& given = call.input(reading.operand);
  if (given.rank() < reading.least_rank) return false;
  const Matrices m = matrices_of(given);
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
  nth(shape, axis) = static_cast<Index>(kept.size());
  Tensor seen(given.dtype(), shape);
  const std::vector<Index> columns = axis == last ? kept : range_of(m.columns);
  // Rows before the last axis: all of them, those kept, or those of the matrices kept.
  Index inner = 1;
  for (int a = axis + 1; a < last; ++a) inner *= given.extent(a);
  const Index rows = m.elements / m.columns;
  const Index extent = axis == last ? rows : given.extent(axis);
  const std::vector<Index>& lines = axis == last ? range_of(rows) : kept;
  std::vector<Index> kept_rows;
  for (Index outer = 0; outer < rows / (extent * inner); ++outer) {
    for (const Index k : lines)
      for (Index i = 0; i < inner; ++i) kept_rows.push_back((outer * extent + k) * inner + i);
  }
  reading.read(given, {kept_rows, columns}, seen.data());
  return seen;
}

Reading read_lines(std::string operand, int axis, std::function<Index(Index i)> source) {
  const auto any = [](const Matrices&) { return true; };
  Reading reading{std::move(operand), any, {}, axis < 0 ? -axis : axis + 1};
  reading.read = [any, axis, source = std::move(source)](const Tensor& given, const Cells& cells,
                                                         std::byte* to) {
    const int along = axis < 0 ? given.rank() + axis : axis;
    Index inner = 1;  // elements from one line to the next
    for (int a = along + 1; a < given.rank(); ++a) inner *= given.extent(a);
    const Index lines = given.extent(along);
    const bool by_column = along == given.rank() - 1;
    std::vector<Index> sources;  // of columns, the same for every row
    for (const Index c : by_column ? cells.columns : std::span<const Index>{}) {
      sources.resize(std::max(sources.size(), static_cast<std::size_t>(c) + 1));
      nth(sources, c) = source(c);
    }
    std::vector<Index> runs(sources.size(), 1);  // of neighbours whose sources are neighbours, too
    for (std::size_t c = runs.size(); c-- > 1;) {
      const bool next = sources[c] == sources[c - 1] + 1 && sources[c - 1] >= 0;
      if (next && sources[c] < lines) runs[c - 1] = runs[c] + 1;
    }
    const auto run = [&](const Matrices& m, Index matrix, Index row, Index column) -> SourceRun {
      const Index first = (matrix * m.rows + row) * m.columns;
      const Index line = by_column ? column : first / inner % lines;
      const Index from = by_column ? nth(sources, column) : source(line);
      const Index known =
          from >= 0 && from < lines ? first + column + (from - line) * inner : m.elements;
      return {known, by_column ? nth(runs, column) : m.columns};
    };
    make_reading({}, any, run).read(given, cells, to);
  };
  return reading;
}

Reading read_transposed(std::string operand) {
  return make_reading(
      std::move(operand), [](const Matrices& m) { return m.rows > 1 && m.columns > 1; },
      [](const Matrices& m, Index matrix, Index row, Index column) {
        return matrix * m.rows * m.columns + column * m.rows + row;
      });
}

}  // namespace mxo
