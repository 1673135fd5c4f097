// Multiply-adds a second of every machine model, on one core, per instruction set.
//
//   M x K x N = 256 x 2048 x 512, normal deviates.  Before timing, a small product is compared
//   with the reference backend, bit for bit.
#include <cstring>
#include <random>

#include <benchmark/benchmark.h>

#include "emu/backends.h"
#include "emu/cpu/isa.h"
#include "ops/catalogue.h"
#include "ops/fused_dot.h"

namespace mxo {
namespace {

constexpr Index kM = 256;
constexpr Index kN = 512;

Dtype type_of(OperandKind kind) {
  switch (kind) {
    case OperandKind::bf16: return Dtype::bf16;
    case OperandKind::f16: return Dtype::f16;
    case OperandKind::fp8_fnuz:
    case OperandKind::mx_fnuz: return Dtype::e4m3fnuz;
    default: return Dtype::e4m3;
  }
}

/// Normal deviates, encoded.
Tensor operand(Dtype dtype, Index rows, Index k, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  Tensor tensor(dtype, {1, rows, k});
  const auto fill = [&](auto tag) {
    using Element = typename decltype(tag)::type;
    for (Index i = 0; i < tensor.elements(); ++i) {
      tensor.as<Element>()[i] = from_float<Element>(normal(generator));
    }
  };
  if (dtype == Dtype::bf16) {
    fill(TypeTag<BF16>{});
  } else if (dtype == Dtype::f16) {
    fill(TypeTag<F16>{});
  } else {
    visit_minifloat8(dtype, fill);
  }
  return tensor;
}

Tensor scales(Index rows, Index k) {
  Tensor tensor(Dtype::e8m0, {1, rows, k / 32});
  for (Index i = 0; i < tensor.elements(); ++i) {
    tensor.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(123 + i * 7 % 9);
  }
  return tensor;
}

/// The inputs of one product, and views of them.
struct Problem {
  Tensor a;
  Tensor b;
  Tensor c;
  Tensor a_scales;
  Tensor b_scales;
  Tensor d;
  FusedDot op;

  Problem(const SumRow& row, Index m, Index n, Index k)
      : a(operand(type_of(row.kind), m, k, 1)),
        b(operand(type_of(row.kind), n, k, 2)),
        c(Dtype::f32, {1, m, n}),
        a_scales(scales(m, k)),
        b_scales(scales(n, k)),
        d(Dtype::f32, {1, m, n}) {
    op.a = a.operand();
    op.b = b.operand();
    op.c = c.operand();
    if (row.kind == OperandKind::mx || row.kind == OperandKind::mx_fnuz) {
      op.a_scales = a_scales.operand();
      op.b_scales = b_scales.operand();
    }
    op.sum = row.sum;
    op.d = d.result();
  }
};

bool agrees(const SumRow& row, Backend& backend) {
  Problem expected(row, 8, 96, 256);
  Problem actual(row, 8, 96, 256);
  fused_dot(*make_reference_backend(), expected.op);
  fused_dot(backend, actual.op);
  return std::memcmp(expected.d.data(), actual.d.data(), actual.d.bytes()) == 0;
}

void time_model(benchmark::State& state, const SumRow& row, cpu::Isa isa, Index k) {
  const auto backend = make_cpu_backend({std::string(name_of(isa)), 1});
  if (!agrees(row, *backend)) {
    state.SkipWithError("differs from the reference");
    return;
  }
  const bool scalar = isa == cpu::Isa::scalar;
  const Index m = scalar ? 8 : kM;
  const Index n = scalar ? 64 : kN;
  Problem problem(row, m, n, k);
  for (auto _ : state) {
    fused_dot(*backend, problem.op);
    benchmark::ClobberMemory();
  }
  state.counters["MAC/s"] = benchmark::Counter(static_cast<double>(m * n * k),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

[[maybe_unused]] const bool registered = [] {
  for (const SumRow& row : sums()) {
    if (!is_machine(row.sum)) continue;
    for (const cpu::Isa isa : cpu::machine_isas()) {
      if (isa > cpu::Isa::avx512) continue;  // no kernels of their own
      const std::string name =
          std::string(row.name) + "/" + std::string(row.operands) + "/" + std::string(name_of(isa));
      benchmark::RegisterBenchmark(name.c_str(), [row, isa](benchmark::State& state) {
        time_model(state, row, isa, isa == cpu::Isa::scalar ? 512 : 2048);
      })->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace mxo
