// What fuzz targets found, as calls that anybody can read.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/museum/operands.h"
#include "tests/support/operands_of.h"

namespace mxo::found_by_fuzzing_test {
namespace {

/// One scale for all lines; f32 scales on one side and e8m0 on the other.
TEST(FoundByFuzzing, ScalesThatDifferInKindAreExplained) {
  const auto backend = make_cpu_backend({.threads = 1});
  for (const char* scales :
       {"x.scales e8m0 3 1, w.scales e8m0 1", "x.scales f32 3 1, w.scales e8m0 2 3 1"}) {
    NamedTensors inputs = operands_of("x.codes e4m3 3 32, w.codes e4m3 2 3 32, group_ends = 1 3, " +
                                      std::string(scales));
    for (auto& [name, tensor] : inputs) {
      for (std::size_t i = 0; i < tensor.bytes() && name.ends_with("codes"); ++i)
        tensor.data()[i] = static_cast<std::byte>(i * 11 % 112);
      if (name.ends_with("scales"))
        std::memset(tensor.data(), tensor.dtype() == Dtype::f32 ? 63 : 127, tensor.bytes());
    }
    const Call call = make_call("grouped_matmul", inputs, {});
    const NamedTensors expected = run_call(*backend, call);
    NamedTensors actual = expected;
    actual.at("y").as<std::uint16_t>()[4] ^= 0x100;
    const Explanation why = explain(*backend, call, expected, actual);
    EXPECT_EQ(why.differing, 1);
    EXPECT_NE(why.verdict, ExplainVerdict::same);
  }
}

/// Sums of no products at all: K of 0, and weight gradients of a group without rows.
TEST(FoundByFuzzing, OutputsThatSumNothingAreExplained) {
  const auto backend = make_cpu_backend({.threads = 1});
  const NamedTensors none = operands_of(
      "x.codes e4m3 64 0, x.scales e8m0 64 0, w.codes e4m3 1 64 0, w.scales e8m0 1 64 0, "
      "group_ends = 64");
  NamedTensors rows{{"dy", random_floats({64, 32}, 7)},
                    {"x", random_floats({64, 48}, 8)},
                    {"group_ends", ends_of({64, 64})}};
  for (const auto& [op, inputs] :
       {std::pair{"grouped_matmul", none}, {"grouped_matmul_wgrad", rows}}) {
    const Call call = make_call(op, inputs, {});
    const NamedTensors expected = run_call(*backend, call);
    NamedTensors actual = expected;
    Tensor& last = actual.begin()->second;
    std::memset(last.data() + last.bytes() / 2, 63, last.bytes() / 2);
    const Explanation why = explain(*backend, call, expected, actual);
    EXPECT_NE(why.verdict, ExplainVerdict::same);
    EXPECT_EQ(why.differing, last.elements() / 2);
  }
}

/// Ends of groups that came as U32.
TEST(FoundByFuzzing, IntegersOfAnotherTypeAreRead) {
  const auto backend = make_cpu_backend({.threads = 1});
  const Call call = make_call(
      "pad_groups", {{"x", random_floats({16, 32}, 7)}, {"group_ends", ends_of({16})}}, {});
  const NamedTensors expected = run_call(*backend, call);
  NamedTensors actual = expected;
  for (const char* name : {"padded_starts", "padded_ends"}) {
    actual.at(name).reinterpret_as(Dtype::u32);
    actual.at(name).as<std::int32_t>()[0] = -5;
  }
  const std::string said = explain(*backend, call, expected, actual).sentence();
  EXPECT_NE(said.find("ends at -5 rather than 32"), std::string::npos) << said;
}

}  // namespace
}  // namespace mxo::found_by_fuzzing_test
