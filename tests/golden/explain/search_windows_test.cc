// Causes of a product, looked at in windows: few elements, some, more of them; or on some lines.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/error.h"
#include "golden/explain/confirm/altered_call_runner.h"
#include "tests/golden/numbered_product.h"

namespace mxo {
namespace {

/// Rows and columns of a window that was run, in numbers.
struct WindowSize {
  std::size_t rows;
  std::size_t columns;
  bool operator==(const WindowSize&) const = default;
};

/// A numbered product of which value(row, column) came, and causes.
struct Windowed {
  Windowed(Index rows, Index n, const Value& got) : b(of_zeros(rows, n, got)) {}
  Hypothesis& add(const std::string& name, const Value& value, Stage stage = Stage::rule) {
    Hypothesis h = that_gives(name, value);
    h.stage = stage;
    const auto run = h.run;
    h.run = [this, run](Backend& backend, const Call& call) {
      const Index rows = call.input("x").extent(0);
      const Index columns = call.input("w").extent(1);
      ran.push_back({static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)});
      if (rows > most_rows) throw Error(Fault::argument, "too many");
      return run(backend, call);
    };
    list.push_back(std::move(h));
    return list.back();
  }
  std::vector<Claim> claims(Extent extent = Extent::part) {
    return search(*b.backend, b.call, b.outputs, list, {}, nearest, extent);
  }
  std::string sentence(Extent extent = Extent::part) {
    const auto found = claims(extent);
    return found.size() == 1 ? found[0].sentence : std::to_string(found.size()) + " claims";
  }
  SmallBench b;
  std::vector<Hypothesis> list;
  std::vector<WindowSize> ran;
  Index most_rows = 1000;
  Nearest nearest;
};

float one(Index, Index) { return 1; }
float none(Index, Index) { return 0; }

/// A cause that is no call where it is looked at again, but with another is one.
TEST(SearchWindows, BothOfAPairMatter) {
  for (const bool alone : {true, false}) {
    Windowed w(200, 300, one);
    w.add("a", one);
    const auto run = w.list[0].run;
    w.list[0].run = [=](Backend& backend, const Call& call) {
      const bool fits = alone ? call.input("x").extent(0) < 20 : call.input("x").extent(0) == 6;
      if (!fits && !call.set.flag("b", false)) throw Error(Fault::argument, "too many");
      return run(backend, call);
    };
    w.add("b", none).alter = [](Call& call) {
      call.set.set("b", "true");
      return true;
    };
    EXPECT_EQ(w.sentence(), alone ? "0 claims" : "it is a and it is b");
  }
}

/// A cause that is known of some rows or columns alone is judged there.
TEST(SearchSamples, StandForTheRest) {
  Windowed w(50, 100, one);
  Hypothesis& h = w.add("a", one);
  h.only.rows = {3, 9};
  const auto claims = w.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "a");
  EXPECT_EQ(claims[0].sentence,
            "it is a, in all of y (judged on 192 of the 5000 elements that differ)");
  EXPECT_EQ(claims[0].elements, 5000);
  EXPECT_EQ(claims[0].confirmed, 192);
  EXPECT_EQ(claims[0].where.tensor, "y");
  EXPECT_EQ(w.b.output().left, 0);
  ASSERT_EQ(w.ran.size(), 1u);
  EXPECT_EQ(w.ran[0], (WindowSize{2, 96}));
  Windowed columns(50, 100, one);
  columns.add("a", one).only.columns = {3, 9, 70};
  EXPECT_EQ(columns.sentence(),
            "it is a, in all of y (judged on 72 of the 5000 elements that differ)");
  EXPECT_EQ(columns.ran[0], (WindowSize{24, 3}));
  Windowed both(50, 100, one);
  both.add("a", one).only = {{1, 2}, range_of(4)};
  EXPECT_EQ(both.sentence(), "it is a, in all of y (judged on 8 of the 5000 elements that differ)");
}

}  // namespace
}  // namespace mxo
