// Backends and operators refuse arithmetic that is not IEEE's, whenever it was set, and write
// nothing; threads of a team that somebody left flushing subnormals compute as ever.
#include "ops/float_environment.h"

#include <omp.h>

#include <functional>

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "formats/tensor.h"
#include "ops/convert.h"
#include "ops/swiglu.h"
#include "tests/support/float_state.h"

namespace mxo {
namespace {

TEST(FloatEnvironment, FusesNothingInThisTranslationUnit) {
  volatile float a = 1.0f + 0x1p-12f;
  volatile float c = -(1.0f + 0x1p-11f);
  EXPECT_EQ(a * a + c, 0.0f) << "the product was not rounded before the sum";
}

TEST(FloatEnvironment, KeepsTheSubnormalDescaleThatDecidesAScale) {
  volatile float amax = 0x1.5p-118f;  // 1.5 * 448 * 2^-127, so the descale is 1.5 * 2^-127
  EXPECT_EQ(shared_scale<kE4M3>(amax, ScaleMode::rceil, kTorchao).bits, 1);
}

/// The fault of `act` in a foreign state.
Fault fault_in(test::FloatState state, const std::function<void()>& act) {
  const test::WithFloatState foreign(state);
  try {
    act();
  } catch (const Error& error) {
    return error.fault();
  }
  return Fault::internal;
}

TEST(FloatEnvironment, OperatorsRefuseWhatWasSetAfterTheBackend) {
  for (const char* name : {"reference", "cpu"}) {
    const auto backend = make_backend(name);
    for (const test::FloatState state : test::kForeignStates) {
      Tensor x(Dtype::f32, {2, 64});
      Tensor codes(Dtype::e4m3, {2, 64});
      std::memset(codes.data(), 0x5A, codes.bytes());
      const Fault before = fault_in(state, [&] { make_backend(name); });
      const Fault fault =
          fault_in(state, [&] { encode(*backend, {.x = x.operand(), .codes = codes.result()}); });
      EXPECT_EQ(before, Fault::unsupported) << name << ", state " << static_cast<int>(state);
      EXPECT_EQ(fault, Fault::unsupported) << name << ", state " << static_cast<int>(state);
      for (std::size_t i = 0; i < codes.bytes(); ++i) {
        ASSERT_EQ(codes.data()[i], std::byte{0x5A}) << "byte " << i << " was written";
      }
    }
  }
}

/// Leaves the threads of OpenMP's pool flushing, but not the caller.
void spoil_the_pool(int threads) {
  const int caller = omp_get_thread_num();
#pragma omp parallel num_threads(threads)
  if (omp_get_thread_num() != caller) test::set_float_state(test::FloatState::flush_results);
}

TEST(FloatEnvironment, ThreadsLeftFlushingStillComputeSubnormals) {
  constexpr int kThreads = 4;
  const auto cpu = make_backend("cpu", kThreads);
  Tensor x(Dtype::f32, {512, 512});
  for (Index i = 0; i < x.elements(); ++i) {
    // 1 * sigma(1) and b subnormal, or near it
    x.as<float>()[i] = i % 512 < 256 ? 1.0f : 0x1p-126f * static_cast<float>(1 + i % 3);
  }
  Tensor wanted(Dtype::f32, {512, 256});
  Tensor found(Dtype::f32, {512, 256});
  swiglu(*make_reference_backend(), {.x = x.operand(), .probs = {}, .y = wanted.result()});
  spoil_the_pool(kThreads);
  swiglu(*cpu, {.x = x.operand(), .probs = {}, .y = found.result()});
  EXPECT_EQ(std::memcmp(wanted.data(), found.data(), wanted.bytes()), 0);
}

}  // namespace
}  // namespace mxo
