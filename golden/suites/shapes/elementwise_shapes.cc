// Operators that look at an element, a pair of elements or a column.
#include "golden/suites/shapes/operator_shapes.h"

namespace mxo {

std::vector<OperatorShape> elementwise_shapes() {
  using enum InputKind;
  return {
      {"encode", Cut::rows, Ends::none, {{"x", "M,K"}}},
      {"decode", Cut::rows, Ends::none, {{"codes", "M,K", codes}}},
      {"cast", Cut::rows, Ends::none, {{"x", "M,K"}}},
      {"approximate", Cut::rows, Ends::none, {{"x", "M,K", values, Dtype::f32}}},
      {"add_bias", Cut::rows, Ends::none, {{"y", "M,N"}, {"bias", "N"}}},
      {"column_sum", Cut::columns, Ends::optional, {{"x", "M,K"}}},
      {"swiglu", Cut::rows, Ends::none, {{"x", "M,2N"}}},
      {"swiglu_backward", Cut::rows, Ends::none, {{"x", "M,2N"}, {"dy", "M,N"}}},
  };
}

}  // namespace mxo
