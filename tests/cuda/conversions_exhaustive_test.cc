// Every float there is through the device's converters, its exp and its erf, against the host's,
// and through approximate functions, against the instructions themselves.
#include "formats/erf.h"
#include "ops/convert.h"
#include "ops/elementwise.h"
#include "tests/cuda/approximate_functions.h"
#include "tests/cuda/float_functions.h"
#include "tests/cuda/twin.h"

namespace mxo {
namespace {

class CudaEveryFloat : public test::OnDevice {
 protected:
  static constexpr Index kChunk = Index{1} << 26;

  /// Calls run(x, y) for x = all floats, a chunk at a time, and compares y with host(word).
  template <typename Y, typename Run, typename Host>
  void compare(Dtype dtype, Run run, Host host) {
    std::vector<float> words(kChunk);
    std::vector<Y> found(kChunk);
    std::byte* x = device_->allocate(kChunk * 4);
    std::byte* y = device_->allocate(kChunk * sizeof(Y));
    for (Index first = 0; first < Index{1} << 32; first += kChunk) {
#pragma omp parallel for
      for (Index i = 0; i < kChunk; ++i) {
        words[static_cast<std::size_t>(i)] = bit_cast<float>(static_cast<std::uint32_t>(first + i));
      }
      device_->upload(x, reinterpret_cast<const std::byte*>(words.data()), kChunk * 4);
      run(Operand{x, Dtype::f32, 2, {1 << 16, kChunk >> 16}, {kChunk >> 16, 1}},
          Result{y, dtype, 2, {1 << 16, kChunk >> 16}, {kChunk >> 16, 1}});
      device_->download(reinterpret_cast<std::byte*>(found.data()), y, kChunk * sizeof(Y));
      std::int64_t differing = 0;
#pragma omp parallel for reduction(+ : differing)
      for (Index i = 0; i < kChunk; ++i) {
        const Y want = host(bit_cast<float>(static_cast<std::uint32_t>(first + i)));
        differing += std::memcmp(&want, &found[static_cast<std::size_t>(i)], sizeof(Y)) != 0;
      }
      ASSERT_EQ(differing, 0) << "from word " << first << " on";
    }
    device_->release(x);
    device_->release(y);
  }
};

/// The saturating conversions are the chip's own instruction, which every quantiser ends with.
TEST_F(CudaEveryFloat, EncodesAsOnTheHost) {
  const auto run = [&](const Operand& x, const Result& y) { encode(*device_, {x, y}); };
  compare<E4M3>(Dtype::e4m3, run, [](float x) { return encode<kE4M3>(x, Overflow::saturate); });
  compare<E5M2>(Dtype::e5m2, run, [](float x) { return encode<kE5M2>(x, Overflow::saturate); });
}

TEST_F(CudaEveryFloat, RoundsToBf16AsOnTheHost) {
  const auto run = [&](const Operand& x, const Result& y) { cast(*device_, {x, y}); };
  compare<BF16>(Dtype::bf16, run, [](float x) { return encode<kBF16>(x); });
}

TEST_F(CudaEveryFloat, HasTheHostsExpSigmaErfAndTanh) {
  const auto by = [&](test::FloatFunction function) {
    return [&, function](const Operand& x, const Result& y) {
      device_->synchronize();
      test::on_device(function, static_cast<const float*>(x.data), static_cast<float*>(y.data),
                      x.elements());
    };
  };
  compare<float>(Dtype::f32, by(test::FloatFunction::exp), exp_rn);
  compare<float>(Dtype::f32, by(test::FloatFunction::sigma), sigmoid_rn);
  compare<float>(Dtype::f32, by(test::FloatFunction::erf), erf_rn);
  compare<float>(Dtype::f32, by(test::FloatFunction::tanh), tanh_rn);
}

class CudaApproximate : public test::OnDevice {};

TEST_F(CudaApproximate, EveryFloatIsTheInstructions) {
  using test::Approximate;
  for (const Approximate f :
       {Approximate::rcp_ftz, Approximate::rsqrt_ftz, Approximate::sqrt_ftz, Approximate::ex2_ftz,
        Approximate::rcp, Approximate::rsqrt, Approximate::sqrt, Approximate::ex2,
        Approximate::lg2_ftz, Approximate::lg2, Approximate::tanh}) {
    EXPECT_EQ(test::differing(f), 0) << "function " << static_cast<int>(f);
  }
}

TEST_F(CudaApproximate, RandomQuotientsAreTheInstructions) {
  EXPECT_EQ(test::differing_quotients(std::int64_t{1} << 30), 0);
}

}  // namespace
}  // namespace mxo
