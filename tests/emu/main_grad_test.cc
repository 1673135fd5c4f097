// A weight gradient that joins an f32 main gradient: one f32 addition to the product.
#include <gtest/gtest.h>

#include "tests/support/contestants.h"
#include "tests/support/products.h"
#include "tests/support/random_tensors.h"

namespace mxo::test::main_grad_test {
namespace {

constexpr Index kGroups = 3;
constexpr Index kN = 24;
constexpr Index kK = 40;

NamedTensors operands() {
  NamedTensors in{{"dy", random_floats(Dtype::bf16, {70, kN}, 1, 2)},
                  {"x", random_floats(Dtype::bf16, {70, kK}, 2, 2)},
                  {"group_ends", group_ends_of({33, 33, 66})}};
  return in;
}

/// Every element of a as f32(main + a), by the host's own addition.
Tensor added(const Tensor& main, const Tensor& product) {
  Tensor sum(Dtype::f32, main.shape());
  for (Index i = 0; i < sum.elements(); ++i) {
    const float p =
        product.dtype() == Dtype::f32 ? product.as<float>()[i] : decode(product.as<BF16>()[i]);
    sum.as<float>()[i] = main.as<float>()[i] + p;
  }
  return sum;
}

TEST(MainGrad, WgradAddsTheProductRoundedAsSaid) {
  NamedTensors in = operands();
  const Tensor main = random_floats(Dtype::f32, {kGroups, kN, kK}, 3, 0);
  for (const std::string& name : every_backend()) {
    const auto backend = make_backend(name, 2);
    Index parted = 0;
    Tensor first;
    for (const char* product : {"f32", "bf16"}) {
      const Tensor alone = call_operator(*backend, "grouped_matmul_wgrad", in,
                                         settings({std::string("out=") + product}))
                               .at("dw");
      NamedTensors with = in;
      with["main_grad"] = main;
      const Tensor dw = call_operator(*backend, "grouped_matmul_wgrad", with,
                                      settings({std::string("product=") + product}))
                            .at("dw");
      ASSERT_EQ(dw.dtype(), Dtype::f32);
      EXPECT_EQ(differing(added(main, alone), dw), 0) << name << " " << product;
      if (first.elements() > 0) parted = differing(first, dw);
      first = dw;
    }
    EXPECT_GT(parted, 0) << "the two roundings give the same";
  }
}

TEST(MainGrad, LinearAddsItsWeightGradientAlone) {
  NamedTensors in = operands();
  in["w"] = random_floats(Dtype::bf16, {kGroups, kN, kK}, 4, 2);
  const Tensor main = random_floats(Dtype::f32, {kGroups, kN, kK}, 3, 0);
  for (const char* backend : {"reference", "cpu"}) {
    const auto at = make_backend(backend, 2);
    const NamedTensors plain =
        call_operator(*at, "grouped_linear", in, settings({"recipe=bf16", "out=f32"}));
    NamedTensors with = in;
    with["main_grad"] = main;
    const NamedTensors out =
        call_operator(*at, "grouped_linear", with, settings({"recipe=bf16", "out=f32"}));
    EXPECT_EQ(differing(added(main, plain.at("dw")), out.at("dw")), 0) << backend;
    EXPECT_EQ(differing(plain.at("dx"), out.at("dx")), 0) << backend;
    EXPECT_EQ(differing(plain.at("y"), out.at("y")), 0) << backend;
  }
}

TEST(MainGrad, MayBeWrittenInPlace) {
  const NamedTensors in = operands();
  Tensor main = random_floats(Dtype::f32, {kGroups, kN, kK}, 3, 0);
  const auto backend = make_backend("cpu", 2);
  NamedTensors with = in;
  with["main_grad"] = main;
  const Tensor want = call_operator(*backend, "grouped_matmul_wgrad", with, {}).at("dw");
  NamedViews views(in);
  views.set("main_grad", main);
  views.write_to("dw", main);
  call_operator(*backend, "grouped_matmul_wgrad", views, {});
  EXPECT_EQ(differing(want, main), 0);
}

}  // namespace
}  // namespace mxo::test::main_grad_test
