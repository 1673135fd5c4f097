// A bench of small calls whose answers are seen at a glance.
#pragma once

#include "emu/backends.h"
#include "golden/explain/confirm/altered_call_runner.h"
#include "tests/golden/tensors.h"

namespace mxo {

/// A call, one output of it as it is expected and as it came, and the bench of both.
struct SmallBench {
  SmallBench(Call c, Tensor e, Tensor a, const char* name = "y")
      : call(std::move(c)), expected(std::move(e)), actual(std::move(a)) {
    outputs.push_back(make_output(call, name, expected, actual));
    runner = std::make_unique<AlteredCallRunner>(*backend, call, outputs);
  }
  SmallBench(const SmallBench&) = delete;  // the bench refers to the rest
  SmallBench& operator=(const SmallBench&) = delete;
  Output& output() { return outputs.front(); }
  std::unique_ptr<Backend> backend = make_reference_backend();
  Call call;
  Tensor expected;
  Tensor actual;
  std::vector<Output> outputs;
  std::unique_ptr<AlteredCallRunner> runner;
};

/// f32 numbers that count in steps, from one step on.
inline Tensor steps(std::vector<Index> shape, float step) {
  Tensor t(Dtype::f32, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = step * static_cast<float>(i + 1);
  return t;
}

/// x[r, 0] = r + 1 and w[g, n, 0] = 1000 (g N + n + 1), with a depth of 1.
inline Call lines_by_lines(const std::vector<Index>& ends, Index rows, Index n) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("x", steps({rows, 1}, 1));
  call.replace("w", steps({static_cast<Index>(ends.size()), n, 1}, 1000));
  call.replace("group_ends", ends_at(ends));
  return call;
}

/// One-byte operands with f32 scales: of w one for `run` columns.
inline Call coded_product(Index rows, Index n, Index run, Index k = 1) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("x.codes", Tensor(Dtype::u8, {rows, k}));
  call.replace("x.scales", Tensor(Dtype::f32, {rows, 1}));
  call.replace("w.codes", Tensor(Dtype::u8, {1, n, k}));
  call.replace("w.scales", Tensor(Dtype::f32, {1, (n + run - 1) / run, 1}));
  call.replace("group_ends", ends_at({rows}));
  return call;
}

/// In place of a product: y[r, n] = x[r, 0] + w[g, n, 0], which tells both lines.
inline NamedTensors lines_added(Backend&, const Call& call) {
  const Tensor& x = call.input("x");
  const Tensor& w = call.input("w");
  const auto* ends = call.input("group_ends").as<std::int32_t>();
  Tensor y(Dtype::f32, {x.extent(0), w.extent(1)});
  for (Index r = 0, g = 0; r < y.extent(0); ++r) {
    while (g < w.extent(0) && r >= ends[g]) ++g;
    for (Index j = 0; g < w.extent(0) && j < y.extent(1); ++j) {
      const float of_w = w.as<float>()[(g * w.extent(1) + j) * w.extent(2)];
      y.as<float>()[r * y.extent(1) + j] = x.as<float>()[r * x.extent(1)] + of_w;
    }
  }
  NamedTensors out;
  out.emplace("y", std::move(y));
  return out;
}

/// `given` with other numbers in rows by columns of a matrix.
inline Tensor with_other(Tensor given, const std::vector<Index>& rows,
                         const std::vector<Index>& columns, float by = 0.5f) {
  for (const Index r : rows) {
    for (const Index c : columns) given.as<float>()[r * given.shape().back() + c] += by;
  }
  return given;
}

}  // namespace mxo
