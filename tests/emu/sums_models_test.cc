// The vectorised models have the scalar engine's bits.
#include "tests/support/models_agree.h"

namespace mxo::test {
namespace {

class SumsModels : public testing::TestWithParam<SumRow> {};

TEST_P(SumsModels, GiveTheScalarEnginesBitsOnEveryInstructionSet) {
  expect_models_agree(GetParam(), 1, 100000);
}

INSTANTIATE_TEST_SUITE_P(Machines, SumsModels, testing::ValuesIn(machines()),
                         [](const auto& row) { return machine_test_name(row.param); });

/// Parameters of a user's own, some of which no vector kernel can serve.
TEST(SumsModelsOfUsers, GiveTheScalarEnginesBitsToo) {
  const std::vector<std::vector<std::string>> changes{
      {"sum.chunk=8", "sum.bits=10"},
      {"sum.chunk=64", "sum.bits=16"},
      {"sum.bits=40", "sum.output=rne_f32"},
      {"sum.chunk=1024", "sum.bits=40"},
      {"sum.output=rne_f16"},
      {"sum.output=rz_f32", "sum.floor=-90"},
      {"sum.promote=1", "sum.split=3", "sum.tile=32"},
      {"sum.split=2", "sum.tile=64", "sum.bits=25"},
  };
  const auto reference = make_reference_backend();
  for (const std::vector<std::string>& change : changes) {
    std::vector<std::string> set{"sum=h200_wgmma_fast"};
    set.insert(set.end(), change.begin(), change.end());
    for (const Index k : {32, 203}) {
      const NamedTensors inputs = random_dots(OperandKind::fp8, 7, 14, 9, 67, k);
      const NamedTensors expected = call_operator(*reference, "fused_dot", inputs, settings(set));
      for (const cpu::Isa isa : model_isas()) {
        const auto backend = make_cpu_backend({std::string(name_of(isa)), 2});
        const NamedTensors actual = call_operator(*backend, "fused_dot", inputs, settings(set));
        EXPECT_EQ(differing(expected.find("d")->second, actual.find("d")->second), 0)
            << change[0] << ", K = " << k << ", " << backend->name();
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test
