// From outputs alone back to the accumulation: every machine of the table.
#include <gtest/gtest.h>

#include <algorithm>

#include "emu/backends.h"
#include "golden/fingerprint/fit.h"
#include "golden/fingerprint/probes.h"

namespace mxo {
namespace {

bool named(const Fingerprint& f, std::string_view machine) {
  return std::find(f.machines.begin(), f.machines.end(), machine) != f.machines.end();
}

const ParameterFit& parameter(const Fingerprint& f, std::string_view name) {
  for (const ParameterFit& p : f.parameters) {
    if (p.name == name) return p;
  }
  throw std::out_of_range(std::string(name));
}

TEST(Fingerprint, RecoversEveryMachineOfTheTableFromItsOutputs) {
  const auto backend = make_cpu_backend();
  for (const ProbeKind& kind : probe_kinds()) {
    const NamedTensors probe = make_probe(kind);
    for (const SumRow& row : sums()) {
      if (row.kind != kind.kind || !is_machine(row.sum) || row.sum.block > 0) continue;
      Parameters set = probe_parameters(kind, Dtype::f32);
      set.set("sum", row.name);
      const Tensor y = call_operator(*backend, kind.op, probe, set).at("y");
      const Call call = make_call(kind.op, probe, probe_parameters(kind, Dtype::f32));
      const Fingerprint f = fit_sum(*backend, call, kind.kind, y);
      EXPECT_TRUE(named(f, row.name)) << kind.name << " " << row.name << ": " << f.sentence;
      if (row.sum.family != SumFamily::fused_dot) continue;
      EXPECT_EQ(parameter(f, "fraction bits").values,
                std::vector<std::string>{std::to_string(row.sum.bits)})
          << kind.name << " " << row.name;
      EXPECT_EQ(parameter(f, "chunk").values,
                std::vector<std::string>{std::to_string(row.sum.chunk) + " k"})
          << kind.name << " " << row.name;
      EXPECT_EQ(parameter(f, "promotion").values.size(), 1u) << kind.name << " " << row.name;
      // Promoted partial sums add up the same whichever part of K they belong to.
      if (row.sum.promote == 0) {
        EXPECT_EQ(parameter(f, "split of K").values, std::vector<std::string>{"1"});
      }
      EXPECT_GT(parameter(f, "fraction bits").nearest_other, 0);
    }
  }
}

}  // namespace
}  // namespace mxo
