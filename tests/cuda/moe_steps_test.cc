// What a layer needs besides products, on the device: the host's bytes, sums in the stated order.
#include <numeric>

#include "ops/combine_rows.h"
#include "ops/elementwise.h"
#include "ops/router_gradients.h"
#include "ops/scaling_aware_transpose.h"
#include "tests/cuda/twin.h"

namespace mxo::test {
namespace {

class CudaMoeSteps : public OnDevice {};

constexpr Dtype kWide[] = {Dtype::bf16, Dtype::f32};

TEST_F(CudaMoeSteps, CastAgrees) {
  std::uint32_t seed = 1;
  for (const Lie& lie : lies()) {
    for (const Dtype from : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
      for (const Dtype to : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        for (const auto& shape : {std::vector<Index>{0}, {77}, {3, 40, 16}, {2, 3, 5, 7}}) {
          Strided x = filled(from, shape, lie, Fill::anything, ++seed);
          Strided y(to, shape, lie);
          ASSERT_TRUE(agrees({&x}, {&y}, [](auto& b, auto& in, auto& out) {
            cast(b, {in[0], out[0]});
          })) << lie.name;
        }
      }
    }
  }
}

TEST_F(CudaMoeSteps, BiasAndColumnSumsAgree) {
  std::uint32_t seed = 100;
  for (const Index groups : {0, 1, 5, 200}) {
    for (const auto& shape : {std::vector<Index>{0, 7}, {9, 0}, {301, 17}, {70, 1030}}) {
      for (const Lie& lie : lies()) {
        for (const bool each : {false, true}) {
          const Dtype dtype = kWide[++seed % 2];
          Strided y = filled(dtype, shape, lie, Fill::edges, seed);
          std::vector<Index> vector = {shape[1]};
          if (each) vector.insert(vector.begin(), groups);
          Strided bias = filled(kWide[seed / 2 % 2], vector, {"contiguous"}, Fill::noise, seed);
          Strided ends = integers(random_ends(groups, shape[0], seed));
          Strided out(kWide[seed / 4 % 2], shape, lie);
          const bool given = each || seed % 3 != 0;
          ASSERT_TRUE(agrees({&y, &bias, &ends}, {&out},
                             [&](auto& b, auto& in, auto& o) {
                               add_bias(b, {in[0], in[1], given ? in[2] : Operand{}, o[0]});
                             }))
              << lie.name << " " << groups;
          Strided sum(kWide[seed / 8 % 2], vector, {"offset", 1, 0, 1});
          ASSERT_TRUE(agrees({&y, &ends}, {&sum},
                             [&](auto& b, auto& in, auto& o) {
                               column_sum(b, {in[0], given ? in[1] : Operand{}, o[0]});
                             }))
              << lie.name << " " << groups;
        }
      }
    }
  }
}

TEST_F(CudaMoeSteps, CombineAndItsGradientsAgree) {
  std::uint32_t seed = 300;
  for (const auto& [tokens, k, width] : {std::tuple<Index, Index, Index>{0, 2, 5},
                                         {5, 0, 8},
                                         {7, 3, 0},
                                         {61, 3, 77},
                                         {130, 8, 264},
                                         {33, 1, 2056}}) {
    for (const Lie& lie : lies()) {
      const bool weighted = ++seed % 2 == 0;
      const auto steps = static_cast<CombineSteps>(seed / 3 % 3);
      const Index rows = tokens * k + 9;
      std::minstd_rand random(seed);
      std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      Strided slots(Dtype::i32, {tokens, k}, lie);
      for (Index i = 0; i < tokens * k; ++i) {
        const std::int32_t row = random() % 7 == 0 ? -1 : order[static_cast<std::size_t>(i)];
        std::memcpy(slots.at(i), &row, sizeof row);
      }
      const Fill how = seed % 3 == 0 ? Fill::edges : Fill::noise;
      Strided from = filled(kWide[seed / 2 % 2], {rows, width}, lie, how, seed);
      Strided weights = filled(Dtype::f32, {tokens, k}, lie, Fill::noise, seed);
      Strided out(kWide[seed / 4 % 2], {tokens, width}, lie);
      ASSERT_TRUE(agrees({&from, &slots, &weights}, {&out}, [&](auto& b, auto& in, auto& o) {
        combine_rows(b, {in[0], in[1], weighted ? in[2] : Operand{}, o[0], steps});
      })) << lie.name;
      Strided dout = filled(kWide[seed / 4 % 2], {tokens, width}, lie, how, seed);
      Strided drows(kWide[seed / 8 % 2], {rows, width}, lie);
      Strided dweights(Dtype::f32, {tokens, k}, lie);
      ASSERT_TRUE(agrees({&from, &slots, &weights, &dout}, {&drows, &dweights},
                         [&](auto& b, auto& in, auto& o) {
                           combine_rows_backward(b, {in[0], in[1], weighted ? in[2] : Operand{},
                                                     in[3], o[0], weighted ? o[1] : Result{}});
                         }))
          << lie.name;
    }
  }
}

TEST_F(CudaMoeSteps, RoutingAndItsGradientsAgree) {
  struct Shape {
    Index tokens, experts, k, groups, limited;
  };
  std::uint32_t seed = 400;
  for (const Shape& s :
       {Shape{0, 4, 1, 1, 1}, Shape{1, 1, 1, 1, 1}, Shape{77, 60, 6, 1, 1},
        Shape{130, 256, 8, 8, 4}, Shape{33, 40, 3, 40, 7}, Shape{20, 1000, 32, 10, 3},
        Shape{5, 33, 33, 3, 3}, Shape{33, 40, 3, 8, 1}, Shape{5, 33, 11, 3, 1}}) {
    for (const RouterScore score : {RouterScore::softmax, RouterScore::sigmoid,
                                    RouterScore::softmax_of_chosen, RouterScore::sqrtsoftplus}) {
      for (const Lie& lie : lies()) {
        for (const Fill how : {Fill::noise, Fill::edges, Fill::anything}) {
          ++seed;
          const auto by_group = static_cast<GroupScore>(seed / 2 % 2);
          const auto others = static_cast<OtherGroups>(seed / 4 % 2);
          Strided logits = filled(kWide[seed / 8 % 2], {s.tokens, s.experts}, lie, how, seed);
          Strided bias = filled(Dtype::f32, {s.experts}, {"apart", 2, 0, 1}, Fill::noise, seed);
          Strided experts(Dtype::i32, {s.tokens, s.k}, lie);
          Strided weights(Dtype::f32, {s.tokens, s.k}, lie);
          Strided counts(Dtype::i32, {s.experts}, {"apart", 2, 0, 1});
          ASSERT_TRUE(agrees({&logits, &bias}, {&experts, &weights, &counts},
                             [&](auto& b, auto& in, auto& out) {
                               route(b, {in[0], seed % 2 == 0 ? in[1] : Operand{}, out[0], out[1],
                                         out[2], score, s.groups, s.limited, seed % 3 != 0, 2.5f,
                                         by_group, others});
                             }))
              << s.experts << " experts, " << lie.name << ", fill " << static_cast<int>(how);
          Strided dweights = filled(Dtype::f32, {s.tokens, s.k}, lie, how, seed + 7);
          Strided dlogits(Dtype::f32, {s.tokens, s.experts}, lie);
          ASSERT_TRUE(
              agrees({&logits, &experts, &dweights}, {&dlogits},
                     [&](auto& b, auto& in, auto& out) {
                       route_backward(b, {in[0], in[1], in[2], out[0], score, seed % 3 != 0, 2.5f});
                     }))
              << s.experts << " experts, " << lie.name << ", fill " << static_cast<int>(how);
        }
      }
    }
  }
}

TEST_F(CudaMoeSteps, RouterMatrixGradientsAgree) {
  std::uint32_t seed = 500;
  for (const auto& [tokens, experts, width] : {std::tuple<Index, Index, Index>{0, 3, 4},
                                               {3, 0, 4},
                                               {3, 4, 0},
                                               {130, 67, 77},
                                               {70, 5, 300},
                                               {1000, 8, 96},
                                               {300, 16, 136},
                                               {257, 4, 64},
                                               {129, 17, 33}}) {
    for (const Lie& lie : lies()) {
      for (const Dtype dtype : kWide) {
        const Fill how = ++seed % 3 == 0 ? Fill::edges : Fill::noise;
        Strided dlogits = filled(Dtype::f32, {tokens, experts}, lie, how, seed);
        Strided router = filled(dtype, {experts, width}, lie, Fill::noise, seed);
        Strided x = filled(dtype, {tokens, width}, lie, how, seed);
        Strided dx(Dtype::f32, {tokens, width}, lie);
        Strided drouter(Dtype::f32, {experts, width}, lie);
        ASSERT_TRUE(agrees({&dlogits, &router, &x}, {&dx, &drouter},
                           [&](auto& b, auto& in, auto& out) {
                             router_gradients(b, {in[0], in[1], in[2], out[0], out[1]});
                           }))
            << lie.name << " " << tokens << " tokens";
      }
    }
  }
}

TEST_F(CudaMoeSteps, TheScalingAwareTransposeAgrees) {
  std::uint32_t seed = 600;
  for (const Index groups : {0, 1, 5, 300}) {
    for (const auto& shape : {std::vector<Index>{0, 9}, {9, 0}, {1, 1}, {300, 200}, {515, 256}}) {
      for (const Underflow underflow :
           {Underflow::round, Underflow::keep_mantissa, Underflow::flush}) {
        for (const Lie& lie : lies()) {
          std::minstd_rand random(++seed);
          Strided codes(Dtype::e4m3, shape, lie);
          fill_bytes(codes, seed);
          const Index blocks = ceil_div(shape[1], kScaledBlock);
          Strided scales(Dtype::f32, {shape[0], blocks}, lie);
          for (Index i = 0; i < scales.elements(); ++i) {
            const float value =
                random() % 9 == 0 ? 0.0f : std::ldexp(1.0f, static_cast<int>(random() % 12) - 6);
            std::memcpy(scales.at(i), &value, sizeof value);
          }
          Strided ends = integers(random_ends(groups, shape[0], seed), {"apart", 2, 0, 1});
          Strided turned(Dtype::e4m3, {shape[1], shape[0]}, lie);
          Strided scales_out(Dtype::f32, {ceil_div(shape[0], kScaledBlock) + groups, shape[1]},
                             lie);
          ASSERT_TRUE(
              agrees({&codes, &scales, &ends}, {&turned, &scales_out},
                     [&](auto& b, auto& in, auto& out) {
                       scaling_aware_transpose(b, {in[0], in[1], in[2], out[0], out[1], underflow});
                     }))
              << lie.name << " " << groups << " groups " << describe(codes.operand());
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test
