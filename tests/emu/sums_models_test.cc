// Machine models on every instruction set, and their f16 accumulator.
#include <cmath>

#include "tests/support/captures.h"
#include "tests/support/models_agree.h"

namespace mxo::test::sums_models_test {
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

struct CapturedUnit {
  const char* name;
  Dtype a;
  Dtype b;
  const char* sum;
};

/// Bits of an f16 result that came back in an f32 word; the unit's NaN is 7FFF.  -1: no f16.
int f16_bits(float d) {
  return std::isnan(d) ? 0x7FFF : decode(encode<kF16>(d)) == d ? encode<kF16>(d).bits : -1;
}

class F16Accumulators : public testing::TestWithParam<CapturedUnit> {};

TEST_P(F16Accumulators, AreTheF32ModelRoundedToNearestF16AfterEveryChunk) {
  const CapturedUnit unit = GetParam();
  const TensorFile& file = test::capture("h200_f16_accumulators");
  const std::string name = unit.name;
  const Tensor& c16 = test::tensor_of(file, name + ".c");
  const Tensor& d16 = test::tensor_of(file, name + ".d");
  NamedTensors in{{"a", unit.a == Dtype::f16 ? test::retyped(file, name + ".a", Dtype::f16)
                                             : test::tensor_of(file, name + ".a")},
                  {"b", unit.b == Dtype::f16 ? test::retyped(file, name + ".b", Dtype::f16)
                                             : test::tensor_of(file, name + ".b")}};
  Tensor c(Dtype::f32, c16.shape());
  for (Index i = 0; i < c.elements(); ++i)
    c.as<float>()[i] = decode(F16{c16.as<std::uint16_t>()[i]});
  in.emplace("c", std::move(c));
  Parameters set;
  set.set("sum", unit.sum);
  set.set("sum.output", "rne_f16");
  if (unit.a != Dtype::f16) {
    set.set("format_a", name_of(unit.a));
    set.set("format_b", name_of(unit.b));
  }
  for (const char* backend : {"reference", "cpu"}) {
    const NamedTensors out = call_operator(*make_backend(backend), "fused_dot", in, set);
    const Tensor& d = out.find("d")->second;
    Index differing = 0;
    for (Index i = 0; i < d.elements(); ++i)
      differing += f16_bits(d.as<float>()[i]) != d16.as<std::uint16_t>()[i] ? 1 : 0;
    EXPECT_EQ(differing, 0) << backend << ": of " << d.elements();
  }
}

INSTANTIATE_TEST_SUITE_P(
    OfAnH200, F16Accumulators,
    testing::Values(CapturedUnit{"wgmma_e4m3_f16", Dtype::e4m3, Dtype::e4m3, "h200_wgmma_fast"},
                    CapturedUnit{"wgmma_e5m2_e4m3_f16", Dtype::e5m2, Dtype::e4m3,
                                 "h200_wgmma_fast"},
                    CapturedUnit{"wgmma_f16_f16", Dtype::f16, Dtype::f16, "h200_wgmma_fast"},
                    CapturedUnit{"mma_sync_e4m3_f16", Dtype::e4m3, Dtype::e4m3, "h200_mma_sync"}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace mxo::test::sums_models_test
