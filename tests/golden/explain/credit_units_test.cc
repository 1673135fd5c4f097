// Units of a model: which columns make one, which it gives, and what lies beside them.
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/explain/case/output.h"

namespace mxo {
namespace {

/// Ones of which some came as others, and a model that begins as the actual output.
struct Modelled {
  Modelled(Index rows, Index n)
      : columns(n), expected(Dtype::f32, {rows, n}), actual(Dtype::f32, {rows, n}) {
    std::fill_n(expected.as<float>(), expected.elements(), 1.0f);
    std::fill_n(actual.as<float>(), actual.elements(), 1.0f);
  }
  void actual_bits(Index r, Index c, float value) { actual.as<float>()[r * columns + c] = value; }
  /// The model gives another value there than came.
  void wrong(Index r, Index c, float value = 9) { others.push_back({r * columns + c, value}); }
  Output output() const { return make_output(Call{"op", {}, {}}, "y", expected, actual); }
  VariantMatch credited(Unit least, const UnexplainedRegion& live = {}) const {
    Output y = output();
    y.live = live;
    Variant patch{range_of(y.rows), range_of(columns), actual};
    for (const auto& [i, value] : others) patch.model.as<float>()[i] = value;
    return credit(y, patch, least);
  }
  Index columns;
  Tensor expected;
  Tensor actual;
  std::vector<std::pair<Index, float>> others;
};

TEST(CreditUnits, AreHitsOrMissesWhereTheModelAltersThem) {
  Modelled t(5, 8);
  t.actual_bits(0, 3, 2);  // one element altered, and given
  t.actual_bits(1, 0, 2);
  t.actual_bits(1, 1, 3);  // of two altered one is not given
  t.wrong(1, 1);
  t.wrong(2, 6);           // the actual output right is altered
  t.actual_bits(3, 5, 4);  // not altered: the model is what is expected
  t.wrong(3, 5, 1);
  const VariantMatch rows = t.credited(Unit::row);
  EXPECT_EQ(rows.hits, 1) << "row 0";
  EXPECT_EQ(rows.misses, 2) << "rows 1 and 2; row 3 is not altered, row 4 right";
  EXPECT_EQ(rows.broken, 3);
}

}  // namespace
}  // namespace mxo
