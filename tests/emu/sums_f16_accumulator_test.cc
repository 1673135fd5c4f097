// Instructions of an H200 with f16 accumulators: the same fused sums, rounded to nearest f16.
#include <gtest/gtest.h>

#include <cmath>

#include "emu/backends.h"
#include "ops/catalogue.h"
#include "tests/support/captures.h"

namespace mxo {
namespace {

struct CapturedUnit {
  const char* name;
  Dtype a;
  Dtype b;
  const char* sum;
};

/// Bits of an f16 result that came back in an f32 word; the unit's NaN is 7FFF.
std::uint16_t f16_bits(float d) { return std::isnan(d) ? 0x7FFF : encode<kF16>(d).bits; }

class F16Accumulators : public testing::TestWithParam<CapturedUnit> {};

TEST_P(F16Accumulators, AreTheF32ModelRoundedToNearestF16AfterEveryChunk) {
  const CapturedUnit unit = GetParam();
  const TensorFile& file = test::capture("h200_f16_accumulators");
  const std::string name = unit.name;
  const Tensor& c16 = test::tensor_of(file, name + ".c");
  const Tensor& d16 = test::tensor_of(file, name + ".d");
  NamedTensors in;
  in.emplace("a", unit.a == Dtype::f16 ? test::retyped(file, name + ".a", Dtype::f16)
                                       : test::tensor_of(file, name + ".a"));
  in.emplace("b", unit.b == Dtype::f16 ? test::retyped(file, name + ".b", Dtype::f16)
                                       : test::tensor_of(file, name + ".b"));
  Tensor c(Dtype::f32, c16.shape());
  for (Index i = 0; i < c.elements(); ++i) {
    c.as<float>()[i] = decode(F16{c16.as<std::uint16_t>()[i]});
  }
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
    for (Index i = 0; i < d.elements(); ++i) {
      differing += f16_bits(d.as<float>()[i]) != d16.as<std::uint16_t>()[i] ? 1 : 0;
    }
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
}  // namespace mxo
