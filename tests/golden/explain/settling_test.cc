// Causes confirmed and placed piece by piece of a product.
#include <gtest/gtest.h>

#include "golden/explain/confirm/settling.h"
#include "tests/golden/numbered_product.h"
#include "tests/golden/small_bench.h"

namespace mxo {
namespace {

/// What a cause that gives `model` explains of a product of which `came` came, and the windows.
struct Pieces {
  Pieces(Index rows, Index n, Value got, const Value& model, Stage stage = Stage::rule)
      : b(of_zeros(rows, n, got)), h(that_gives("a", model)) {
    h.stage = stage;
    h.local = true;
    h.alter = [this](Call& call) {
      windows.push_back({numbers_of(call.input("x")), numbers_of(call.input("w"))});
      return true;
    };
    claims = mark_explained(*b.runner, {{&h}, {}});
  }
  std::string sentence() const { return claims.empty() ? "" : claims[0].sentence; }
  SmallBench b;
  Hypothesis h;
  std::vector<Window> windows;
  std::vector<Claim> claims;
};

/// Ones in rows from `row` on and columns from `column` on.
Value from(Index row, Index column) {
  return [=](Index r, Index c) { return r >= row && c >= column ? 1.0f : 0.0f; };
}

TEST(SettlingPieces, LeaveWhatDoesNotFit) {
  const Value twos = [](Index r, Index c) { return r == 1 && c == 1 ? 2.0f : 1.0f; };
  Pieces p(3, 4, twos, from(0, 0));
  EXPECT_EQ(p.sentence(), "it is a, in rows 0 and 2 of y") << "row 1 is no unit";
  EXPECT_EQ(p.b.output().left, 4);
  Pieces none(3, 4, from(0, 0), [](Index, Index) { return 3.0f; });
  EXPECT_TRUE(none.claims.empty());
  EXPECT_EQ(none.b.output().left, 12);
  EXPECT_EQ(none.windows.size(), 1u) << "each was computed: nothing is extended";
}

/// Columns from 32 on of row 1 are right: a cause that alters them is not that of the whole.
TEST(SettlingPieces, ThatAlterWhatIsRightArePlaces) {
  const Value got = [](Index r, Index c) { return r == 0 || c < 32 ? 1.0f : 0.0f; };
  EXPECT_EQ(Pieces(2, 64, got, got).sentence(), "it is a");
  EXPECT_EQ(Pieces(2, 64, got, from(0, 0)).sentence(), "it is a, in all of y");
}

}  // namespace
}  // namespace mxo
