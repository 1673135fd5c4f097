// Products added up on the host part by part, each step of the sum as told.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "golden/explain/case/product.h"

namespace mxo {

/// A run of depth of one element: the exact sum with every scale, and, where one scale of each side
/// covers the run, the sum of products of codes and those scales.
struct Part {
  double value = 0;
  double codes = 0;
  float scale_a = 1.0f;
  float scale_b = 1.0f;
  bool first = false;  ///< of the depth
  bool last = false;
};

/// What 8-bit codes are read as, by byte.
using CodeTable = std::array<double, 256>;

/// How a product is summed.
struct HostSum {
  Index every = 1;  ///< depth of a part
  std::function<double(double sum, const Part& part)> step;
  bool backward = false;                      ///< from the last part to the first
  std::optional<CodeTable> a = std::nullopt;  ///< instead of the codes' own numbers
  std::optional<CodeTable> b = std::nullopt;
};

/// Depth over which one scale of each side stands.
Index depth_of_scales(const Product& p);

/// `v` in f32, toward zero with the last bit set where it is no f32: rounding it on to a type of at
/// most 22 bits is one rounding.
float odd_f32(double v);

/// The output of a product that is summed so, rounded once to its type.
NamedTensors host_product(const Call& call, const HostSum& sum);

}  // namespace mxo
