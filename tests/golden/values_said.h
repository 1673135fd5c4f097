// Outputs whose values are a function of what is expected, and what is said of them.
#pragma once

#include "golden/explain/find/output/recover.h"
#include "tests/golden/claims_said.h"

namespace mxo::values_said {

using Find = std::vector<Claim> (*)(Output&);
using Value = std::function<double(Index row, Index column, double want)>;

/// From 1 to 2, of either sign, and no two neighbours alike.
inline double number(Index i) {
  const auto f = static_cast<double>(static_cast<std::uint32_t>(i + 1) * 2654435761u) * 0x1p-32;
  return (1.0 + f) * (i % 3 == 0 ? -1.0 : 1.0);
}

inline Tensor numbers(Dtype dtype, std::vector<Index> shape, const Value& value) {
  const Index columns = shape.back();
  Tensor t(dtype, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    const auto v = static_cast<float>(value(i / columns, i % columns, number(i)));
    if (dtype == Dtype::f32) t.as<float>()[i] = v;
    if (dtype == Dtype::bf16) t.as<BF16>()[i] = encode<kBF16>(v);
    if (dtype == Dtype::f16) t.as<F16>()[i] = encode<kF16>(v);
  }
  return t;
}

inline double as_it_is(Index, Index, double v) { return v; }

/// Numbers, each rounded on its own, that came as value(row, column, number).
struct ValueRow {
  std::vector<Index> shape;
  Value value;
  std::string said;
  Dtype dtype = Dtype::f32;
  Value want = as_it_is;
};

inline void expect_said(Find find, const std::vector<ValueRow>& table) {
  for (std::size_t n = 0; n < table.size(); ++n) {
    const ValueRow& v = table[n];
    Differing got(numbers(v.dtype, v.shape, v.want), numbers(v.dtype, v.shape, v.value));
    EXPECT_EQ(said(got.output, find), v.said) << "row " << n;
  }
}

}  // namespace mxo::values_said
