// cast, add_bias and column_sum of every instruction set against the definition.
#include <gtest/gtest.h>

#include "emu/cpu/isa.h"
#include "ops/elementwise.h"
#include "tests/support/named_calls.h"
#include "tests/support/random_tensors.h"

namespace mxo::elementwise_test {
namespace {

constexpr Dtype kFloats[] = {Dtype::f32, Dtype::bf16};

/// Any bits: NaN, infinities and subnormals among them.
Tensor any_bits(Dtype dtype, std::vector<Index> shape, std::mt19937& random) {
  Tensor t(dtype, std::move(shape));
  for (std::size_t i = 0; i < t.bytes(); i += 2) {
    const auto word = static_cast<std::uint16_t>(random() % 5 == 0 ? 0x7F80 : random());
    std::memcpy(static_cast<std::byte*>(t.data()) + i, &word, sizeof word);
  }
  return t;
}

class Elementwise : public testing::TestWithParam<cpu::Isa> {
 protected:
  /// Both backends run `call` on a result of that shape; their bytes must agree.
  template <typename Call>
  void expect_same(Dtype dtype, const std::vector<Index>& shape, const Call& call) {
    Tensor want(dtype, shape);
    Tensor found(dtype, shape);
    call(*make_reference_backend(), want);
    call(*make_cpu_backend({std::string(name_of(GetParam())), 2}), found);
    EXPECT_EQ(std::memcmp(want.data(), found.data(), want.bytes()), 0) << shape.back();
  }
};

TEST_P(Elementwise, GivesTheBytesOfTheDefinitionAtAnyLength) {
  std::mt19937 random(1);
  for (const Index columns : {1, 7, 16, 33, 1024, 1031, 40000}) {
    for (const Dtype in : kFloats) {
      const Tensor x = any_bits(in, {5, columns}, random);
      for (const Dtype out : kFloats) {
        const Tensor bias = any_bits(out, {columns}, random);
        expect_same(out, {5, columns}, [&](Backend& backend, Tensor& y) {
          cast(backend, {.x = x.operand(), .y = y.result()});
        });
        expect_same(out, {5, columns}, [&](Backend& backend, Tensor& y) {
          add_bias(backend,
                   {.y = x.operand(), .bias = bias.operand(), .group_ends = {}, .out = y.result()});
        });
        expect_same(out, {columns}, [&](Backend& backend, Tensor& sum) {
          column_sum(backend, {.x = x.operand(), .group_ends = {}, .sum = sum.result()});
        });
      }
    }
  }
}

TEST_P(Elementwise, TakesRowsThatLieAcrossMemory) {
  std::mt19937 random(2);
  const Tensor x = any_bits(Dtype::bf16, {37, 9}, random);
  Operand across = x.operand();
  std::swap(across.extent[0], across.extent[1]);
  std::swap(across.stride[0], across.stride[1]);
  const Tensor bias = any_bits(Dtype::f32, {37}, random);
  expect_same(Dtype::f32, {9, 37}, [&](Backend& backend, Tensor& y) {
    add_bias(backend, {.y = across, .bias = bias.operand(), .group_ends = {}, .out = y.result()});
  });
  expect_same(Dtype::f32, {37}, [&](Backend& backend, Tensor& sum) {
    column_sum(backend, {.x = across, .group_ends = {}, .sum = sum.result()});
  });
}

TEST_P(Elementwise, GivesEachGroupItsBiasAndItsSum) {
  const Tensor x = test::normal_floats({6, 5}, 3, 1.0f);
  const Tensor bias = test::normal_floats({3, 5}, 4, 1.0f);
  const Tensor one = test::normal_floats({5}, 5, 1.0f);
  const Tensor ends = test::group_ends_of({2, 2, 5});  // none in the middle, the last row nobody's
  const std::unique_ptr<Backend> backends[] = {
      make_reference_backend(), make_cpu_backend({std::string(name_of(GetParam())), 2})};
  for (const auto& backend : backends) {
    Tensor out(Dtype::f32, {6, 5});
    Tensor of_one(Dtype::f32, {6, 5});
    Tensor sum(Dtype::f32, {3, 5});
    Tensor whole(Dtype::f32, {5});
    add_bias(*backend, {.y = x.operand(),
                        .bias = bias.operand(),
                        .group_ends = ends.operand(),
                        .out = out.result()});
    add_bias(*backend, {.y = x.operand(),
                        .bias = one.operand(),
                        .group_ends = ends.operand(),
                        .out = of_one.result()});
    column_sum(*backend, {.x = x.operand(), .group_ends = ends.operand(), .sum = sum.result()});
    column_sum(*backend, {.x = x.operand(), .group_ends = ends.operand(), .sum = whole.result()});
    for (Index n = 0; n < 5; ++n) {
      const auto at = [&](Index row) { return x.as<float>()[row * 5 + n]; };
      for (Index row = 0; row < 5; ++row) {
        const float b = bias.as<float>()[(row < 2 ? 0 : 2) * 5 + n];
        EXPECT_EQ(out.as<float>()[row * 5 + n], at(row) + b) << row;
        EXPECT_EQ(of_one.as<float>()[row * 5 + n], at(row) + one.as<float>()[n]) << row;
      }
      EXPECT_EQ(sum.as<float>()[n], at(0) + at(1));
      EXPECT_EQ(sum.as<float>()[5 + n], 0.0f);
      EXPECT_EQ(sum.as<float>()[10 + n], at(2) + at(3) + at(4));
      EXPECT_EQ(whole.as<float>()[n], at(0) + at(1) + at(2) + at(3) + at(4));
    }
  }
}

std::string name_of_isa(const testing::TestParamInfo<cpu::Isa>& row) {
  return std::string(name_of(row.param));
}
INSTANTIATE_TEST_SUITE_P(Cpu, Elementwise, testing::ValuesIn(cpu::machine_isas()), name_of_isa);

}  // namespace
}  // namespace mxo::elementwise_test
