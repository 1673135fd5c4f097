// Products, and the layers around them.
#include "golden/suites/shapes/operator_shapes.h"

namespace mxo {

std::vector<OperatorShape> product_shapes() {
  using enum InputKind;
  constexpr Dtype any = Dtype::u8;
  return {
      {"grouped_matmul",
       Cut::rows,
       Ends::needed,
       {{"x", "M,K", values, any, When::plain},
        {"x.codes", "M,K", codes, any, When::coded},
        {"x.scales", "M/r,K/c", scales, any, When::coded},
        {"w", "G,N,K", values, any, When::plain},
        {"w.codes", "G,N,K", codes, any, When::coded},
        {"w.scales", "G,N/r,K/c", scales, any, When::coded}}},
      {"grouped_matmul_wgrad",
       Cut::features,
       Ends::needed_restart,
       {{"dy", "M,N", values, any, When::plain},
        {"dy.codes", "M,N", codes, any, When::coded},
        {"dy.scales", "M/r,N/c", scales, any, When::coded},
        {"x", "M,K", values, any, When::plain},
        {"x.codes", "M,K", codes, any, When::coded},
        {"x.scales", "M/r,K/c", scales, any, When::coded}}},
      {"fused_dot",
       Cut::whole,
       Ends::none,
       {{"a", "B,M,K"}, {"b", "B,N,K"}, {"c", "B,M,N", values, Dtype::f32}}},
      {"grouped_linear", Cut::rows, Ends::needed, {{"x", "M,K"}, {"w", "G,N,K"}, {"dy", "M,N"}}},
      {"moe_layer",
       Cut::whole,
       Ends::none,
       {{"x", "M,K"}, {"dy", "M,K"}, {"router", "X,K"}, {"w1", "X,2N,K"}, {"w2", "X,K,N"}},
       {{"top_k", 'S'}}},
  };
}

}  // namespace mxo
