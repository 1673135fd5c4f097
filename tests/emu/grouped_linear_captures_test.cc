// grouped_linear against torchao's emulated grouped products on an H200, forward and backward.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "tests/support/captures.h"
#include "tests/support/random_tensors.h"

namespace mxo::grouped_linear_captures_test {
namespace {

struct Capture {
  int number;
  const char* mode;
};

class GroupedLinearCaptures : public testing::TestWithParam<Capture> {
 protected:
  std::string key_ = std::to_string(GetParam().number) + "." + GetParam().mode + ".";
  const TensorFile& file_ = test::capture("grouped");
  const std::int64_t* cfg_ = test::tensor_of(file_, key_ + "cfg").as<std::int64_t>();

  NamedTensors inputs() const {
    NamedTensors in{{"x", test::retyped(file_, key_ + "x", Dtype::bf16)},
                    {"w", test::retyped(file_, key_ + "w", Dtype::bf16)},
                    {"dy", test::retyped(file_, key_ + "go", Dtype::bf16)},
                    {"group_ends", test::tensor_of(file_, key_ + "offs")}};
    return in;
  }
  NamedTensors run(Backend& backend, std::string_view sum) const {
    Parameters set;
    const std::string recipe = std::string("mxfp8_") + GetParam().mode;
    set.set("recipe", cfg_[1] != 0 ? recipe + "_wgrad_with_hp" : recipe);
    set.set("pad", cfg_[0] != 0 ? "true" : "false");
    set.set("sum", sum);
    return call_operator(backend, "grouped_linear", inputs(), set);
  }
  /// Elements of a result that the groups own.
  Index expected_output(const Tensor& tensor, const std::string& name) const {
    const Tensor& ends = test::tensor_of(file_, key_ + "offs");
    const Index rows = ends.as<std::int32_t>()[ends.elements() - 1];
    return name == "dw" ? tensor.elements() : rows * tensor.extent(1);
  }
};

INSTANTIATE_TEST_SUITE_P(Captures, GroupedLinearCaptures,
                         testing::Values(Capture{0, "rceil"}, Capture{0, "floor"},
                                         Capture{1, "rceil"}, Capture{1, "floor"},
                                         Capture{2, "rceil"}, Capture{2, "floor"}),
                         [](const auto& row) {
                           return std::string(row.param.mode) + std::to_string(row.param.number);
                         });

TEST_P(GroupedLinearCaptures, TheH200SumGivesEveryBit) {
  const auto backend = make_backend("cpu");
  const NamedTensors found = run(*backend, "h200_wgmma_fast");
  for (const std::string name : {"y", "dx", "dw"}) {
    const Tensor expected = test::retyped(file_, key_ + name, Dtype::bf16);
    Index different = 0;
    for (Index i = 0; i < expected_output(expected, name); ++i)
      different += expected.as<std::uint16_t>()[i] != found.at(name).as<std::uint16_t>()[i] ? 1 : 0;
    EXPECT_EQ(different, 0) << name << " of " << expected_output(expected, name);
  }
}

}  // namespace
}  // namespace mxo::grouped_linear_captures_test
