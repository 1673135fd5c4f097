// The vectorised models against the scalar engine, over random dots.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/contestants.h"
#include "tests/support/products.h"
#include "tests/support/random_dots.h"

namespace mxo {

inline void PrintTo(const SumRow& row, std::ostream* os) { *os << row.name << " " << row.operands; }

}  // namespace mxo

namespace mxo::test {

/// The instruction sets with kernels of their own; those beyond AVX-512 use its.
inline std::vector<cpu::Isa> model_isas() {
  std::vector<cpu::Isa> isas = cpu::machine_isas();
  std::erase_if(isas, [](cpu::Isa isa) { return isa > cpu::Isa::avx512; });
  return isas;
}

/// Every machine of the table over `dots` dots or more; every instruction set on 1 and 2 threads.
inline void expect_models_agree(const SumRow& row, std::uint64_t seed, Index dots) {
  constexpr Index kBatch = 32;  // every style four times
  constexpr Index kRows = 13;
  constexpr Index kColumns = 70;  // a panel and a part of one
  const auto reference = make_reference_backend();
  const Index chain = row.sum.promote > 0 ? row.sum.promote + 2 : 3;
  Index done = 0;
  for (int round = 0; done < dots; ++round) {
    // One instruction, a chain, and a chain that ends within an instruction.
    const bool scaled = row.kind == OperandKind::mx || row.kind == OperandKind::mx_fnuz;
    const Index instruction = scaled ? 32 : row.sum.instruction;
    Index k = round % 3 == 1 ? instruction * chain : instruction;
    if (round % 3 == 2) k = instruction * (chain - 1) + (scaled ? 0 : 5);
    const NamedTensors inputs =
        random_dots(row.kind, seed + static_cast<std::uint64_t>(round), kBatch, kRows, kColumns, k);
    const Parameters set = settings(settings_of(row, round % 2 == 1));
    const NamedTensors expected = call_operator(*reference, "fused_dot", inputs, set);
    for (const cpu::Isa isa : model_isas()) {
      for (const int threads : {1, 2}) {
        const auto backend = make_cpu_backend({std::string(name_of(isa)), threads});
        const NamedTensors actual = call_operator(*backend, "fused_dot", inputs, set);
        ASSERT_EQ(differing(expected.find("d")->second, actual.find("d")->second), 0)
            << row.name << " " << row.operands << ", K = " << k << ", " << backend->name() << ", "
            << threads << " threads, round " << round;
      }
    }
    done += kBatch * kRows * kColumns;
  }
}

inline std::vector<SumRow> machines() {
  std::vector<SumRow> rows;
  for (const SumRow& row : sums())
    if (is_machine(row.sum)) rows.push_back(row);
  return rows;
}

inline std::string machine_test_name(const SumRow& row) {
  std::string name = std::string(row.name) + "_" + std::string(row.operands);
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
}

}  // namespace mxo::test
