// Products whose operands number their lines, and hypotheses that say what comes of a line.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "tests/golden/small_bench.h"

namespace mxo {

/// x [rows, k] and w [1, n, k] of bytes: every line begins with its number, low byte first.
inline Call numbered_product(Index rows, Index n, Index k = 2) {
  Call call{"grouped_matmul", {}, {}};
  const auto numbered = [k](std::vector<Index> shape, Index lines) {
    Tensor t(Dtype::u8, std::move(shape));
    for (Index i = 0; i < lines; ++i) {
      t.as<std::uint8_t>()[i * k] = static_cast<std::uint8_t>(i % 256);
      t.as<std::uint8_t>()[i * k + 1] = static_cast<std::uint8_t>(i / 256);
    }
    return t;
  };
  call.replace("x", numbered({rows, k}, rows));
  call.replace("w", numbered({1, n, k}, n));
  call.replace("group_ends", ends_at({rows}));
  return call;
}

/// The numbers of the lines of an operand that was cut, in its first group.
inline std::vector<Index> numbers_of(const Tensor& t) {
  const Index k = t.shape().back();
  std::vector<Index> numbers;
  for (Index i = 0; i < t.extent(t.rank() - 2) * k; i += k) {
    numbers.push_back(t.as<std::uint8_t>()[i] + 256 * t.as<std::uint8_t>()[i + 1]);
  }
  return numbers;
}

using Value = std::function<float(Index row, Index column)>;

/// A cause that gives value(row, column), and runs in place of a numbered product.
inline Hypothesis that_gives(std::string name, Value value) {
  Hypothesis h{name, ""};
  h.phrase = "it is " + name;
  h.run = [value = std::move(value)](Backend&, const Call& call) {
    const std::vector<Index> rows = numbers_of(call.input("x"));
    const std::vector<Index> columns = numbers_of(call.input("w"));
    Tensor y(Dtype::f32, {static_cast<Index>(rows.size()), static_cast<Index>(columns.size())});
    float* to = y.as<float>();
    for (const Index r : rows) {
      for (const Index c : columns) *to++ = value(r, c);
    }
    NamedTensors out;
    out.emplace("y", std::move(y));
    return out;
  };
  return h;
}

/// A numbered product that expects zeros, of which value(row, column) came.
inline SmallBench of_zeros(Index rows, Index n, const Value& value, Index k = 2) {
  Tensor got(Dtype::f32, {rows, n});
  for (Index i = 0; i < got.elements(); ++i) got.as<float>()[i] = value(i / n, i % n);
  return {numbered_product(rows, n, k), Tensor(Dtype::f32, {rows, n}), std::move(got)};
}

}  // namespace mxo
