// NaN that gates, rows and routers make of NaN of any sign and payload: the canonical one.
#include <algorithm>

#include <gtest/gtest.h>

#include "formats/tensor.h"
#include "ops/combine_rows.h"
#include "ops/router_gradients.h"
#include "ops/swiglu.h"
#include "tests/support/contestants.h"

namespace mxo::test::canonical_nan_test {
namespace {

Tensor nans(std::vector<Index> shape) {
  Tensor t(Dtype::f32, std::move(shape));
  std::fill_n(t.as<std::uint32_t>(), t.elements(), 0xFFC00001u);
  return t;
}

TEST(CanonicalNan, IsAllThatIsMadeOfNan) {
  const Tensor x = nans({1, 2}), dy = nans({1, 1}), probs = nans({1});
  const Tensor dlogits = nans({2, 3}), router = nans({3, 5}), tokens = nans({2, 5});
  const Tensor slots(Dtype::i32, {1, 1});
  for (const std::string& name : every_backend()) {
    const auto backend = make_backend(name, 2);
    Tensor y(Dtype::f32, {1, 1}), dx(Dtype::f32, {1, 2}), dprobs(Dtype::f32, {1});
    swiglu(*backend, {x.operand(), probs.operand(), y.result()});
    swiglu_backward(*backend,
                    {x.operand(), probs.operand(), dy.operand(), dx.result(), dprobs.result()});
    Tensor of_tokens(Dtype::f32, {2, 5}), drouter(Dtype::f32, {3, 5});
    router_gradients(*backend, {dlogits.operand(), router.operand(), tokens.operand(),
                                of_tokens.result(), drouter.result()});
    Tensor drows(Dtype::f32, {1, 2}), dweights(Dtype::f32, {1, 1});
    combine_rows_backward(*backend, {x.operand(), slots.operand(), dy.operand(), x.operand(),
                                     drows.result(), dweights.result()});
    for (const Tensor* made : {&y, &dx, &dprobs, &of_tokens, &drouter, &drows, &dweights}) {
      const auto* words = made->as<std::uint32_t>();
      EXPECT_EQ(std::count(words, words + made->elements(), 0x7FC00000u), made->elements())
          << name << " " << describe(made->operand());
    }
  }
}

}  // namespace
}  // namespace mxo::test::canonical_nan_test
