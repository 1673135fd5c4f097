// From outputs alone back to the accumulation: every machine of the table.
#include <gtest/gtest.h>

#include <algorithm>

#include "emu/backends.h"
#include "golden/fingerprint/probes.h"
#include "ops/checked.h"
#include "ops/grouped_matmul.h"
#include "tests/golden/fitted.h"

namespace mxo {
namespace {

/// Multiplies, and gives again what it gave for the same operands and sum: most of what is tried
/// for one machine is tried for the others.
class Remembering : public Backend {
 public:
  explicit Remembering(Backend& inner) : inner_(inner) {}
  std::string_view name() const override { return inner_.name(); }
  bool honours(const Accumulation& how) const override { return inner_.honours(how); }

 protected:
  void run(const GroupedMatmul& op) override {
    std::string operands = bytes_of(op.group_ends);
    for (const ScaledTensor& side : {op.x, op.w}) {
      operands += bytes_of(side.codes);
      if (side.scales.data != nullptr) operands += bytes_of(side.scales);
    }
    std::vector<Product>& known = known_[operands];
    auto found = std::find_if(known.begin(), known.end(), [&](const Product& p) {
      return p.sum == op.sum && p.y.dtype() == op.y.dtype;
    });
    if (found == known.end()) {
      Tensor y(op.y.dtype, {op.y.extent[0], op.y.extent[1]});
      GroupedMatmul asked = op;
      asked.y = y.result();
      Checked::run(inner_, asked);
      found = known.insert(known.end(), {op.sum, std::move(y)});
    }
    copy_elements(found->y.operand(), op.y);
  }

 private:
  struct Product {
    Accumulation sum;
    Tensor y;
  };

  static std::string bytes_of(const Operand& view) {
    Tensor copy(view.dtype, {view.extent, view.extent + view.rank});
    copy_elements(view, copy.result());
    return describe(view) +
           std::string(reinterpret_cast<const char*>(copy.data()),
                       static_cast<std::size_t>(copy.elements()) * size_of(copy.dtype()));
  }

  Backend& inner_;
  std::map<std::string, std::vector<Product>> known_;
};

TEST(Fingerprint, RecoversEveryMachineOfTheTableFromItsOutputs) {
  const auto cpu = make_cpu_backend();
  for (const ProbeKind& kind : probe_kinds()) {
    Remembering backend(*cpu);
    const NamedTensors probe = make_probe(kind);
    for (const SumRow& row : sums()) {
      if (row.kind != kind.kind || !is_machine(row.sum) || row.sum.block > 0) continue;
      Parameters set = probe_parameters(kind, Dtype::f32);
      set.set("sum", row.name);
      const Tensor y = call_operator(*cpu, kind.op, probe, set).at("y");
      const Call call = make_call(kind.op, probe, probe_parameters(kind, Dtype::f32));
      const Fingerprint f = fit_sum(backend, call, kind.kind, y);
      EXPECT_TRUE(says_machine(f, row.name)) << kind.name << " " << row.name << ": " << f.sentence;
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
