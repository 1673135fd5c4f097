// The operator `encode` on every backend, at both ends of every run of every captured table.
#include <cstring>

#include <gtest/gtest.h>

#include "ops/convert.h"
#include "tests/support/contestants.h"
#include "tests/support/conversions.h"

namespace mxo::test {
namespace {

class CapturedEncode : public testing::TestWithParam<Conversion> {};

TEST_P(CapturedEncode, IsRepeatedByEveryBackendAtBothEndsOfEveryRun) {
  const Conversion& which = GetParam();
  const RunTable table = which.load();
  std::vector<std::uint64_t> inputs;
  for (std::size_t run = 0; run < table.start.size(); ++run) {
    inputs.push_back(table.start[run]);
    inputs.push_back(table.end_of(run) - 1);
  }
  const auto n = static_cast<Index>(inputs.size());
  Tensor x(which.from, {n});
  for (std::size_t i = 0; i < inputs.size(); ++i) {  // little endian
    std::memcpy(x.data() + i * size_of(which.from), &inputs[i], size_of(which.from));
  }
  for (const std::string& name : every_backend()) {
    Tensor codes(which.to, {n});
    encode(*make_backend(name), {.x = x.operand(),
                                 .codes = codes.result(),
                                 .overflow = which.overflow,
                                 .nan = which.nan,
                                 .rounding = which.rounding});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_EQ(codes.as<std::uint8_t>()[i], table.code[i / 2])
          << name << std::hex << " input 0x" << inputs[i];
    }
  }
}

TEST(EncodeScales, GiveTheCodecsByteForEveryHalf) {
  constexpr Index kHalves = 1 << 16;
  for (const Dtype from : {Dtype::bf16, Dtype::f16}) {
    Tensor x(from, {kHalves});
    for (Index i = 0; i < kHalves; ++i) x.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i);
    for (const auto rounding : {E8M0Rounding::nearest, E8M0Rounding::up, E8M0Rounding::zero}) {
      for (const Overflow overflow : {Overflow::saturate, Overflow::nonfinite}) {
        Tensor expected(Dtype::e8m0, {kHalves});
        for (Index i = 0; i < kHalves; ++i) {
          const float value =
              from == Dtype::bf16 ? to_float(x.as<BF16>()[i]) : to_float(x.as<F16>()[i]);
          expected.as<E8M0>()[i] = encode_e8m0(value, rounding, overflow == Overflow::saturate);
        }
        for (const std::string& name : every_backend()) {
          Tensor codes(Dtype::e8m0, {kHalves});
          encode(*make_backend(name), {.x = x.operand(),
                                       .codes = codes.result(),
                                       .overflow = overflow,
                                       .rounding = rounding});
          EXPECT_EQ(std::memcmp(codes.data(), expected.data(), kHalves), 0)
              << name << " from " << name_of(from) << " by rounding " << static_cast<int>(rounding);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CapturedEncode,
                         testing::ValuesIn(captured_conversions().begin(),
                                           captured_conversions().end()),
                         conversion_name);

}  // namespace
}  // namespace mxo::test
