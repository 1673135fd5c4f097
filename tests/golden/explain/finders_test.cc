// Finders in their turn; causes of lists: where they read, what they make of ends and of outputs.
#include "golden/explain/finders.h"

#include <set>

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

Tensor counted(std::vector<Index> shape) {
  Tensor t(Dtype::u16, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i * 40503);
  }
  return t;
}

std::string bytes_of(const Tensor& t) {
  return {reinterpret_cast<const char*>(t.data()), t.bytes()};
}

TEST(Readings, LinesAreThoseOfTheWholeTensor) {
  Call call;
  call.op = "grouped_matmul";
  call.replace("group_ends", Tensor(Dtype::i32, {3}));
  call.replace("x", counted({40, 72}));
  call.replace("w", counted({3, 34, 72}));
  int seen = 0;
  for (const Hypothesis& h : hypotheses_about(call)) {
    for (const Reading& reading : h.readings) {
      Call whole = call;
      if (!read_whole(whole, reading)) continue;
      const Tensor& read = whole.input(reading.operand);
      const Tensor& given = call.input(reading.operand);
      for (int axis = 0; axis < given.rank(); ++axis) {
        const std::vector<Index> kept = axis == 0 && given.rank() == 3
                                            ? std::vector<Index>{0, 2}
                                            : std::vector<Index>{1, 6, 33};
        EXPECT_EQ(bytes_of(read_gathered(reading, given, axis, kept)),
                  bytes_of(gathered(read, axis, kept)))
            << h.name << ", axis " << axis;
      }
      seen += bytes_of(read) != bytes_of(given);
    }
  }
  EXPECT_GT(seen, 60);
}

/// Groups of 1, 0 and 3 rows, each padded to two, or to four.
TEST(RewrittenOutputs, OfPaddingHoldTheRowsThatFollow) {
  Call call{"pad_groups", {}, {}};
  call.replace("x", floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  call.replace("group_ends", ends_at({1, 1, 4}));
  NamedTensors out;
  out.emplace("y", floats({8, 2}, {1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 5, 6, 7, 8, 0, 0}));
  out.emplace("padded_starts", ends_at({0, 2, 4}));
  out.emplace("padded_ends", ends_at({2, 4, 8}));
  std::vector<Hypothesis> list;
  add_index_hypotheses(call, list);
  const auto stale = std::find_if(list.begin(), list.end(),
                                  [](const auto& h) { return h.name == "padding=stale"; });
  ASSERT_TRUE(stale != list.end() && stale->rewrite(call, out));
  // Behind the last row nothing follows.
  const Tensor held = floats({8, 2}, {1, 2, 3, 4, 3, 4, 5, 6, 3, 4, 5, 6, 7, 8, 0, 0});
  EXPECT_TRUE(std::equal(held.data(), held.data() + held.bytes(), out.at("y").data()));
  call.replace("x", Tensor(Dtype::f32, {0, 2}));
  EXPECT_FALSE(stale->rewrite(call, out));
}

}  // namespace
}  // namespace mxo
