// From outputs alone back to the accumulation: defined sums, splits, and captured kernels.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/fingerprint/probes.h"
#include "tests/golden/fitted.h"
#include "tests/golden/tensors.h"
#include "tests/support/captures.h"
#include "tests/support/products.h"

namespace mxo::fingerprint_test {
namespace {

TEST(Fingerprint, RecoversTheExactSumTheChainAndASplit) {
  const auto backend = make_cpu_backend();
  const ProbeKind& kind = probe_kind("fp8");
  const NamedTensors probe = make_probe(kind);
  const Call call = make_call(kind.op, probe, probe_parameters(kind, Dtype::f32));
  for (const char* sum : {"exact", "fma_chain"}) {
    Parameters set = probe_parameters(kind, Dtype::f32);
    set.set("sum", sum);
    const Tensor y = call_operator(*backend, kind.op, probe, set).at("y");
    const Fingerprint f = fit_sum(*backend, call, kind.kind, y);
    EXPECT_EQ(f.machines, std::vector<std::string>{sum}) << f.sentence;
  }
  Parameters set = probe_parameters(kind, Dtype::f32);
  set.set("sum", "h200_wgmma_fast");
  set.set("sum.split", "3");
  const Tensor y = call_operator(*backend, kind.op, probe, set).at("y");
  const Fingerprint f = fit_sum(*backend, call, kind.kind, y);
  EXPECT_TRUE(f.machines.empty());
  EXPECT_EQ(parameter(f, "split of K").values, std::vector<std::string>{"3"}) << f.sentence;
}

TEST(Fingerprint, RefusesAnOutputOfAnotherShape) {
  const auto backend = make_cpu_backend();
  const ProbeKind& kind = probe_kind("bf16");
  const Call call = make_call(kind.op, make_probe(kind), probe_parameters(kind, Dtype::f32));
  for (const std::vector<Index>& shape : {std::vector<Index>{1152}, {24, 48}, {48, 0}, {0}})
    EXPECT_THROW(fit_sum(*backend, call, kind.kind, Tensor(Dtype::f32, shape)), Error);
  EXPECT_THROW(fit_sum(*backend, call, kind.kind, Tensor(Dtype::f64, {48, 24})), Error);
  const Call halves = make_call(kind.op, make_probe(kind), probe_parameters(kind, Dtype::bf16));
  EXPECT_THROW(fit_sum(*backend, halves, kind.kind, Tensor(Dtype::f16, {48, 24})), Error);
}

TEST(Fingerprint, SaysSoWhenNoAccumulationFits) {
  const auto backend = make_cpu_backend();
  const ProbeKind& kind = probe_kind("bf16");
  const NamedTensors probe = make_probe(kind);
  const Call call = make_call(kind.op, probe, probe_parameters(kind, Dtype::f32));
  Tensor y = run_call(*backend, call).at("y");
  for (Index i = 0; i < y.elements(); i += 3) y.as<std::uint32_t>()[i] ^= 1;
  const Fingerprint f = fit_sum(*backend, call, kind.kind, y);
  EXPECT_TRUE(f.fits.empty());
  EXPECT_TRUE(f.sentence.starts_with("no accumulation of the ")) << f.sentence;
}

/// A sampled library product as a call with unit scales.
Call captured_product(const TensorFile& file, const std::string& operands) {
  const NamedTensors in = test::plain_product(test::tensor_of(file, operands + ".a"),
                                              test::tensor_of(file, operands + ".b"));
  return make_call("grouped_matmul", in, test::parameters("out=f32"));
}

TEST(Fingerprint, RecoversTheSchedulesOfCapturedKernels) {
  const auto backend = make_cpu_backend();
  const TensorFile& file = test::capture("gemm_samples");
  const std::pair<const char*, const char*> kernels[] = {
      {"fp8.fast1.4096x7168x2048", "h200_wgmma_fast"},
      {"fp8.fast0.4096x7168x2048", "h200_wgmma_promote4"},
  };
  for (const auto& [name, machine] : kernels) {
    const Call call = captured_product(file, "fp8.4096x7168x2048");
    const Fingerprint f =
        fit_sum(*backend, call, OperandKind::fp8, test::tensor_of(file, std::string(name) + ".y"));
    EXPECT_TRUE(says_machine(f, machine)) << name << ": " << f.sentence;
    EXPECT_EQ(parameter(f, "fraction bits").values, std::vector<std::string>{"13"});
  }
  const Call split = captured_product(file, "fp8.64x16384x512");
  const Fingerprint f =
      fit_sum(*backend, split, OperandKind::fp8, test::tensor_of(file, "fp8.fast1.64x16384x512.y"));
  EXPECT_EQ(parameter(f, "split of K").values, std::vector<std::string>{"6"}) << f.sentence;
}

}  // namespace
}  // namespace mxo::fingerprint_test
