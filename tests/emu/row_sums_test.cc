// Sums of scaled rows (combine_rows, the router's gradients): every instruction set and number of
// threads gives the reference's bytes, wherever rows lie.
#include <gtest/gtest.h>

#include "ops/combine_rows.h"
#include "ops/router_gradients.h"
#include "tests/support/contestants.h"
#include "tests/support/random_tensors.h"
#include "tests/support/strided.h"

namespace mxo::test::row_sums_test {
namespace {

using Bytes = std::vector<std::vector<std::byte>>;

/// Distinct rows, a few of them left out.
Tensor slots_of(Index tokens, Index k, Index rows) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  Tensor slots(Dtype::i32, {tokens, k});
  for (Index i = 0; i < tokens * k; ++i)
    slots.as<std::int32_t>()[i] = i % 7 == 3 ? -1 : order[static_cast<std::size_t>(i)];
  return slots;
}

struct Shape {
  Index tokens, k, width;
};

Bytes combine_both_ways(Backend& backend, const Shape& s, const Strided& rows, const Strided& dout,
                        const Tensor& weights, Dtype out_type, bool weighs, const Lie& lie,
                        CombineSteps steps) {
  const Tensor slots = slots_of(s.tokens, s.k, rows.operand().extent[0]);
  const Operand w = weighs ? weights.operand() : Operand{};
  Strided out(out_type, {s.tokens, s.width}, lie);
  combine_rows(backend, {rows.operand(), slots.operand(), w, out.result(), steps});
  Strided drows(out_type, {rows.operand().extent[0], s.width}, lie);
  Tensor dweights(Dtype::f32, {s.tokens, s.k});
  combine_rows_backward(backend,
                        {weighs ? rows.operand() : Operand{}, slots.operand(), w, dout.operand(),
                         drows.result(), weighs ? dweights.result() : Result{}});
  return {out.bytes(), drows.bytes(), {dweights.data(), dweights.data() + dweights.bytes()}};
}

TEST(RowSums, CombineAndItsGradientsGiveTheReferencesBytes) {
  const auto reference = make_reference_backend();
  const auto backends = all_backends();
  const std::vector<Lie> lies = test::lies();
  std::size_t number = 0;
  for (const Shape& s : {Shape{5, 3, 40}, {3, 11, 1030}, {1, 1, 1}, {0, 2, 8}, {4, 2, 0}}) {
    for (const Dtype type : {Dtype::bf16, Dtype::f32, Dtype::f16}) {
      for (const bool weighs : {true, false}) {
        for (const Fill how : {Fill::noise, Fill::edges}) {
          const Lie& lie = lies[number++ % lies.size()];
          const auto steps = static_cast<CombineSteps>(number % 3);
          Strided rows(type, {s.tokens * s.k + 2, s.width}, lie);
          Strided dout(weighs ? type : Dtype::f32, {s.tokens, s.width}, lie);
          fill(rows, how, static_cast<std::uint32_t>(number));
          fill(dout, how, static_cast<std::uint32_t>(number + 100));
          const Tensor weights = random_floats(Dtype::f32, {s.tokens, s.k}, number);
          const Bytes want =
              combine_both_ways(*reference, s, rows, dout, weights, type, weighs, lie, steps);
          for (const auto& backend : backends) {
            EXPECT_TRUE(want == combine_both_ways(*backend, s, rows, dout, weights, type, weighs,
                                                  lie, steps))
                << backend->name() << ", " << s.tokens << " tokens of " << s.width << ", "
                << lie.name << ", fill " << static_cast<int>(how) << ", weights " << weighs;
          }
        }
      }
    }
  }
}

TEST(RowSums, RouterGradientsGiveTheReferencesBytes) {
  const auto reference = make_reference_backend();
  const auto backends = all_backends();
  const std::vector<Lie> lies = test::lies();
  std::size_t number = 0;
  for (const Shape& s : {Shape{21, 9, 50}, {3, 17, 1100}, {0, 4, 16}, {6, 1, 0}}) {
    for (const Dtype type : {Dtype::bf16, Dtype::f32, Dtype::f16}) {
      for (const Fill how : {Fill::noise, Fill::edges}) {
        for (const Lie& lie : {lies[0], lies[++number % lies.size()]}) {
          Strided x(type, {s.tokens, s.width}, lie);
          Strided router(type, {s.k, s.width}, lie);
          fill(x, how, static_cast<std::uint32_t>(number));
          fill(router, how, static_cast<std::uint32_t>(number + 50));
          const Tensor dlogits = random_floats(Dtype::f32, {s.tokens, s.k}, number);
          const auto ask = [&](Backend& backend) {
            Strided dx(Dtype::f32, {s.tokens, s.width}, lie);
            Strided drouter(Dtype::f32, {s.k, s.width}, lie);
            router_gradients(backend, {dlogits.operand(), router.operand(), x.operand(),
                                       dx.result(), drouter.result()});
            return Bytes{dx.bytes(), drouter.bytes()};
          };
          const Bytes want = ask(*reference);
          for (const auto& backend : backends)
            EXPECT_TRUE(want == ask(*backend))
                << backend->name() << ", " << s.tokens << " x " << s.k << " x " << s.width << ", "
                << lie.name << ", fill " << static_cast<int>(how);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test::row_sums_test
