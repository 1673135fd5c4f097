// Finders, each asked in its turn: what is found first, what is left, and near misses.
#include "golden/explain/finders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "golden/explain/confirm/altered_call_runner.h"
#include "golden/museum/operands.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

Call small_product(Backend& b, Index k, const char* out = "bf16") {
  Call call = mx_product(b, 11, {{24, 48}, 48, 32, k});
  call.set.set("out", out);
  return call;
}

/// Bytes of operands of which byte i is that of from(i, columns).
Planted from_bytes(Backend& b, const Call& call, std::initializer_list<const char*> names,
                   const std::function<Index(Index i, Index columns)>& from) {
  return altered(b, call, names, [&](Tensor& t, const Tensor& given) {
    for (Index i = 0; i < given.elements(); ++i) {
      t.as<std::uint8_t>()[i] = given.as<std::uint8_t>()[from(i, given.shape().back())];
    }
  });
}

/// Scales 4, 1/4, 4, ... that are those of the row before are 1 over their own as well.
Planted scales_of_the_row_before(Backend& b) {
  Call call = rowwise_product(b, 5, {{32}, 32, 32, 128});
  Call other = call;
  for (Call* c : {&call, &other}) {
    Tensor t(Dtype::f32, {32});
    for (Index i = 0; i < 32; ++i) t.as<float>()[i] = (i % 2 == 0) == (c == &call) ? 4.0f : 0.25f;
    c->replace("x.scales", std::move(t));
  }
  return planted(b, call, other);
}

/// One row of x and one line of w that are not zero, multiplied with old scales of a stage.
Planted one_element(Backend& b) {
  Call call = small_product(b, 256, "f32");
  for (const auto& [name, kept] : {std::pair{"x.codes", Index{6}}, {"w.codes", Index{7}}}) {
    Tensor codes = call.input(name);
    for (Index r = 0; r < codes.elements() / 256; ++r) {
      if (r != kept) std::memset(row_of(codes, r), 0, 256);
    }
    call.replace(name, std::move(codes));
  }
  return from_bytes(b, call, {"x.scales", "w.scales"},
                    [](Index i, Index n) { return i % n == 7 ? i - 4 : i; });
}

/// Columns of scales that changed places, and one code that is wrong or not.
Planted exchanged_scales(Backend& b, std::uint8_t wrong) {
  return spoiled(b, quantize_call("1x32"), [&](NamedTensors& out) {
    auto* scales = out.at("scales").as<std::uint8_t>();
    for (Index r = 0; r < 96; ++r) std::swap(scales[16 * r + 1], scales[16 * r + 6]);
    out.at("codes").as<std::uint8_t>()[77] ^= wrong;
  });
}

struct Row {
  const char* told;  ///< ids, and how many elements are left
  Planted (*plant)(Backend&);
};

const Row kRows[] = {
    {"columns.exchanged 0", [](Backend& b) { return exchanged_scales(b, 0); }},
    {"183", [](Backend& b) { return exchanged_scales(b, 1); }},
    {"x.scales=source 0", scales_of_the_row_before},
    {"1", one_element},
};

/// Up to altered calls: what values look like is told in planted outputs.
std::string told(Planted p) {
  const auto backend = make_cpu_backend();
  std::vector<Output> outputs;
  for (const auto& [name, tensor] : p.expected)
    outputs.push_back(make_output(p.call, name, tensor, p.actual.at(name)));
  const Case c{*backend, p.call, p.expected, outputs};
  std::vector<Claim> claims = found(c, Turn::rule);
  append(claims, found(c, Turn::seen));
  Nearest nearest;
  for (const Turn turn : {Turn::measured, Turn::listed, Turn::costly}) {
    if (left_of(outputs) > 0)
      append(claims, search(*backend, p.call, outputs, proposed(c, turn), {}, nearest));
  }
  std::string text;
  for (const Claim& claim : claims) text += claim.id + ' ';
  return text + std::to_string(left_of(outputs));
}

TEST(Finders, AreAskedEachInItsTurn) {
  const auto backend = make_cpu_backend();
  for (const Row& row : kRows) EXPECT_EQ(told(row.plant(*backend)), row.told);
}

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
