// A product so small that its sums are known.
#pragma once

#include "ops/named_views.h"
#include "tests/golden/tensors.h"

namespace mxo {

/// x [2, 32] by w [1, 1, 32], all ones.
inline NamedTensors product_inputs() {
  NamedTensors in{{"x.codes", Tensor(Dtype::u8, {2, 32})},
                  {"x.scales", Tensor(Dtype::u8, {2, 1})},
                  {"w.codes", Tensor(Dtype::u8, {1, 1, 32})},
                  {"w.scales", Tensor(Dtype::u8, {1, 1, 1})},
                  {"group_ends", tensor_from<std::int32_t>(Dtype::i32, {1}, {2})}};
  for (auto& [name, tensor] : in) {
    const bool codes = name.ends_with("codes");
    if (name == "group_ends") continue;
    for (Index i = 0; i < tensor.elements(); ++i) {
      tensor.as<std::uint8_t>()[i] = codes ? 0x38 : 127;  // 1.0 and 2^0
    }
  }
  return in;
}

}  // namespace mxo
