// Finders, each asked in its turn: what is found first, what is left, and near misses.
#include "golden/explain/finders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "golden/museum/operands.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

/// Two codes of a block whose scale differs, too, are one bit away.
TEST(Finders, CodesOfOtherScalesLookLikeNothing) {
  const auto backend = make_cpu_backend();
  for (const std::uint8_t step : {std::uint8_t{0}, std::uint8_t{3}}) {
    const Planted p = spoiled(*backend, quantize_call("1x32"), [&](NamedTensors& out) {
      out.at("scales").as<std::uint8_t>()[77] += step;
      for (const Index i : {77 * 32 + 3, 77 * 32 + 9})
        out.at("codes").as<std::uint8_t>()[i] ^= 0x10;
    });
    const Explanation e = explain(*backend, p.call, p.expected, p.actual);
    const bool flipped = std::any_of(e.causes.begin(), e.causes.end(),
                                     [](const Cause& c) { return c.id == "bit.flipped"; });
    EXPECT_EQ(flipped, step == 0) << e.sentence();
  }
}

TEST(Finders, AreNamedOnceAndInOrder) {
  std::set<std::string_view> ids;
  Turn turn = Turn::rule;
  for (const Finder& finder : finders()) {
    EXPECT_TRUE(ids.insert(finder.id).second) << finder.id;
    EXPECT_NE(finder.find == nullptr, finder.propose == nullptr) << finder.id;
    EXPECT_LE(turn, finder.turn) << finder.id;
    EXPECT_TRUE(!finder.of_all || finder.find != nullptr) << finder.id;
    turn = finder.turn;
  }
}

}  // namespace
}  // namespace mxo
