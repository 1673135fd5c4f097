// One cause for a whole output, or several: when explain looks for the one.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/settled.h"
#include "golden/explain/shown.h"
#include "tests/golden/came.h"
#include "tests/golden/of_bits.h"

namespace mxo {
namespace {

Claim claim_of(const std::string& id) { return {id, "", {}}; }

/// Outputs a, b, ... of tensors that are expected and came.
class Several {
 public:
  void add(Tensor expected, Tensor actual) {
    parts_.push_back(std::make_unique<Came>(std::move(expected), std::move(actual)));
    outputs.push_back(parts_.back()->output);
  }
  std::vector<Output> outputs;

 private:
  std::vector<std::unique_ptr<Came>> parts_;
};

std::string order_of(Several& s) {
  const std::vector<Claim> claims = shown_as_one_order(s.outputs);
  return claims.size() == 1 ? claims.front().id : std::to_string(claims.size());
}

Tensor across(const Tensor& t) {
  const Index n = t.extent(0);
  return taken(t, [n](Index i) { return i % n * n + i / n; });
}

Tensor floats_of(const std::vector<float>& values) {
  const auto n = static_cast<Index>(values.size());
  return filled<float>(Dtype::f32, {1, n},
                       [&](Index i) { return values[static_cast<std::size_t>(i)]; });
}

TEST(ShownLooks, AreAPatchworkOfPartsAndOfLooks) {
  EXPECT_FALSE(is_patchwork({}, 0));
  EXPECT_FALSE(is_patchwork({}, 5)) << "nothing is known";
  EXPECT_FALSE(is_patchwork({claim_of("value.relu")}, 0));
  EXPECT_FALSE(is_patchwork({claim_of("never_written.fill")}, 0));
  EXPECT_TRUE(is_patchwork({claim_of("value.relu")}, 1));
  EXPECT_TRUE(is_patchwork({claim_of("value.relu"), claim_of("value.relu")}, 0));
  Claim looks = claim_of("rows.shifted");
  looks.yields = true;
  EXPECT_TRUE(is_patchwork({looks}, 0));
}

TEST(ShownLooks, AreOneOrderOfTheOneWrongOutput) {
  const Tensor owed = counted({16, 16});
  Several one;
  one.add(owed, owed);
  one.add(owed, across(owed));
  EXPECT_EQ(order_of(one), "order.transposed");
  EXPECT_EQ(one.outputs[1].left, 0);
  Several axes;
  axes.add(owed,
           taken(owed, [](Index i) { return (i & 0xC3) | (i & 0x0C) << 2 | (i & 0x30) >> 2; }));
  EXPECT_EQ(order_of(axes), "order.axes");
  Several values;
  values.add(floats_of(some_numbers(16)),
             floats_of(each_of(some_numbers(16), [](double v) { return -v; })));
  EXPECT_EQ(order_of(values), "value.negated");
}

/// Of values that come more than once: an order may give each place another, a function may not.
TEST(ShownLooks, AreOfValuesThatComeAgain) {
  const Tensor owed = taken(counted({16, 16}), [](Index i) { return i * 37 % 101; });
  Several order;
  order.add(owed, across(owed));
  EXPECT_EQ(order_of(order), "order.transposed");
  std::vector<float> twice = some_numbers(16);
  twice.insert(twice.end(), twice.begin(), twice.end());
  Several values;
  values.add(floats_of(twice), floats_of(each_of(twice, [](double v) { return -v; })));
  EXPECT_EQ(order_of(values), "value.negated");
}

/// NaN is one value, whichever its bits: it is right, and says nothing about the others.
TEST(ShownLooks, AreOfNumbersBesideAnyNaN) {
  Bits wanted;
  Bits came;
  for (const float v : some_numbers(16)) {
    wanted.push_back(std::bit_cast<std::uint32_t>(v));
    came.push_back(wanted.back() ^ 0x80000000u);
  }
  for (const std::uint32_t nan : {0x7FC00000u, 0x7FC00001u}) {
    wanted.push_back(0x7FC00000u);
    came.push_back(nan);
  }
  Several values;
  values.add(of_bits(Dtype::f32, {1, 18}, wanted), of_bits(Dtype::f32, {1, 18}, came));
  EXPECT_EQ(order_of(values), "value.negated");
}

TEST(ShownLooks, AreNoneOfTwoWrongOutputs) {
  const Tensor owed = counted({16, 16});
  Several two;
  two.add(owed, across(owed));
  two.add(owed, across(owed));
  EXPECT_EQ(order_of(two), "0");
  EXPECT_EQ(two.outputs[0].left, 240);
  Several right;
  right.add(owed, owed);
  EXPECT_EQ(order_of(right), "0");
}

/// What explains a part settles nothing here, nor does what another search has seen.
TEST(ShownLooks, AreNoOrderOfAPart) {
  const Tensor owed = floats_of(some_numbers(40));
  Tensor came = floats_of(each_of(some_numbers(40), [](double v) { return -v; }));
  for (Index i = 0; i < 5; ++i) came.as<float>()[i] = static_cast<float>(7 + i * i);
  Several part;
  part.add(owed, came);
  EXPECT_EQ(order_of(part), "0");
  EXPECT_EQ(part.outputs[0].left, 40);
}

TEST(ShownLooks, AreNoOrderOfRowsThatDiffer) {
  const Tensor owed = filled<float>(Dtype::f32, {2, 16}, [](Index i) {
    return (1.0 + static_cast<double>(i * 37 % 101) / 64.0) * (i % 2 == 0 ? 1 : -1);
  });
  Tensor came = owed;
  for (Index i = 0; i < 16; ++i) came.as<float>()[i] *= -1;
  Tensor noisy = came;
  for (Index i = 16; i < 20; ++i) noisy.as<float>()[i] = 7.0f + static_cast<float>(i * i);
  for (Index i = 17; i < 32; i += 2) came.as<float>()[i] = 0;
  Several two;
  two.add(owed, came);
  EXPECT_EQ(order_of(two), "0") << "one is negated, one has no negative values";
  EXPECT_EQ(two.outputs[0].left, 24);
  Several part;
  part.add(owed, noisy);
  EXPECT_EQ(order_of(part), "0") << "one is negated, one is noise";
  EXPECT_EQ(part.outputs[0].left, 20);
}

TEST(ShownLooks, AreOfMoreThanOneElement) {
  for (const Index n : {1, 16}) {
    std::vector<float> owed;
    for (Index i = 0; i < 32; ++i)
      owed.push_back((i < n ? -1.5f : 1.5f) * static_cast<float>(i + 1));
    std::vector<float> came = owed;
    for (float& v : came) v = std::fabs(v);
    Several one;
    one.add(floats_of(owed), floats_of(came));
    EXPECT_EQ(order_of(one), n == 1 ? "0" : "value.sign_lost");
    Settled::forget(one.outputs);
    std::vector<Claim> claims;
    show_looks({}, one.outputs, claims);
    EXPECT_EQ(claims.size(), n == 1 ? 0u : 1u);
  }
}

/// One bit, or values that changed places, is what is seen, not why.
TEST(ShownLooks, AreNoBitAndNoPlaces) {
  const Tensor owed = filled<std::int32_t>(Dtype::i32, {4, 8}, [](Index i) { return 16 * i; });
  Several bit;
  bit.add(owed, filled<std::int32_t>(Dtype::i32, {4, 8},
                                     [](Index i) { return 16 * i ^ (i % 8 == 3 ? 4 : 0); }));
  EXPECT_EQ(order_of(bit), "0");
  Several places;
  places.add(filled<std::int32_t>(Dtype::i32, {1, 8}, [](Index i) { return i == 5 ? 3 : 1; }),
             filled<std::int32_t>(Dtype::i32, {1, 8}, [](Index i) { return i == 2 ? 3 : 1; }));
  EXPECT_EQ(order_of(places), "0");
}

/// f32 rows that no two are alike, of which some came times 4 and `noisy` others as anything.
struct Rows {
  Tensor owed = filled<float>(
      Dtype::f32, {16, 16}, [](Index i) { return 1.0 + static_cast<double>(i * 37 % 101) / 64.0; });
  Tensor came = owed;
  Rows(Index factors, Index noisy) {
    for (Index i = 0; i < 16 * factors; ++i) came.as<float>()[i] *= 4;
    for (Index i = 128; i < 128 + noisy; ++i) {
      came.as<float>()[i] += static_cast<float>(i * 29 % 53 + 1) / 7;
    }
  }
};

TEST(ShownLooks, AreSaidOfAFourthOfTheRest) {
  for (const Index noisy : {0, 48, 49}) {
    const Rows rows(1, noisy);
    Several s;
    s.add(rows.owed, rows.owed);
    s.add(rows.owed, rows.came);
    std::vector<Claim> claims;
    show_looks({}, s.outputs, claims);
    EXPECT_EQ(claims.size(), noisy < 49 ? 1u : 0u);
    EXPECT_EQ(s.outputs[1].left, noisy < 49 ? noisy : 65);
    Index marked = 0;
    for (const Mark m : s.outputs[1].marks) marked += m == Mark::differs;
    EXPECT_EQ(marked, s.outputs[1].left);
  }
}

TEST(ShownLooks, AreAddedToWhatIsKnown) {
  const Rows rows(2, 0);
  Several s;
  s.add(rows.owed, rows.came);
  s.add(floats_of(some_numbers(16)),
        floats_of(each_of(some_numbers(16), [](double v) { return -v; })));
  std::vector<Claim> claims = {claim_of("known")};
  show_looks({}, s.outputs, claims);
  ASSERT_EQ(claims.size(), 3u);
  EXPECT_EQ(claims[0].id, "known");
  EXPECT_EQ(claims[1].id, "value.power_of_2");
  EXPECT_EQ(claims[2].id, "value.negated");
}

}  // namespace
}  // namespace mxo
