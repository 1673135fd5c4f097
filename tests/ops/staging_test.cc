// Operands and outputs of one call: indices that are narrowed, and in whose memory outputs lie.
#include "ops/catalogue/staging.h"

#include <limits>

#include <gtest/gtest.h>

#include "tests/ops/noting.h"
#include "tests/support/refusal.h"

namespace mxo::staging_test {
namespace {

/// Counts up from 1.
Tensor counted(std::vector<Index> shape) {
  Tensor t(Dtype::i16, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i)
    t.as<std::int16_t>()[i] = static_cast<std::int16_t>(i + 1);
  return t;
}
template <typename View>
View turned(View view) {
  std::swap(view.extent[0], view.extent[1]);
  std::swap(view.stride[0], view.stride[1]);
  return view;
}
std::vector<int> elements(const void* data, int count) {
  const auto* from = static_cast<const std::int16_t*>(data);
  return {from, from + count};
}

struct StagingOf : testing::Test {
  NotingMemory host{true};
  NamedViews views;

  Staging on(Backend& backend) { return Staging(backend, "q", views); }
};

TEST_F(StagingOf, WideIndicesAreNarrowedWhereTheyFit) {
  using Limits = std::numeric_limits<std::int32_t>;
  const auto narrowed = [&](std::int64_t value) {
    Tensor wide(Dtype::i64, {2});
    wide.as<std::int64_t>()[0] = 5;
    wide.as<std::int64_t>()[1] = value;
    views.set("x", wide);
    Staging stage = on(host);
    return refusal([&] {
      const Operand view = stage.indices("x");
      ASSERT_EQ(describe(view), "i32 [2]");
      EXPECT_EQ(static_cast<const std::int32_t*>(view.data)[0], 5);
      EXPECT_EQ(static_cast<const std::int32_t*>(view.data)[1], value);
    });
  };
  EXPECT_EQ(narrowed(Limits::max()), "");
  EXPECT_EQ(narrowed(Limits::min()), "");
  EXPECT_EQ(narrowed(2147483648), "q: x: entry 1 is 2147483648, needs to fit 32 bits");
  EXPECT_EQ(narrowed(-2147483649), "q: x: entry 1 is -2147483649, needs to fit 32 bits");
}

TEST_F(StagingOf, OutputsWithoutMemoryGoWhereItIsMade) {
  NotingMemory device;
  Tensor home = counted({2, 3}), named(Dtype::i16, {1});
  std::string asked;
  views.write_to("z", PlacedResult(named.result(), Memory::backend));
  views.make_results([&](std::string_view name, Dtype dtype, const std::vector<Index>& shape) {
    asked += std::string(name) + " " + std::string(name_of(dtype)) + " " +
             std::to_string(shape[0]) + "x" + std::to_string(shape[1]);
    return PlacedResult(home.result(), Memory::backend);
  });
  Staging stage = on(device);
  EXPECT_EQ(stage.output("y", Dtype::bf16, {2, 3}).data, home.data());
  EXPECT_EQ(stage.output("z", Dtype::i16, {1}).data, named.data());
  EXPECT_TRUE(stage.finish().empty());
  EXPECT_EQ(asked, "y bf16 2x3");
  EXPECT_EQ(device.seen, std::vector<std::string>{"synchronize"}) << "nothing moves or is zeroed";
  EXPECT_EQ(refusal([&] {
              stage.output("x", Dtype::bf16, {3, 2});
            }),
            "q: x: found i16 [2, 3], needs [3, 2]");
}

TEST(Delivery, PutsOutputsWhereTheyAreWanted) {
  Tensor home = counted({2, 3}), wrong(Dtype::f32, {2, 3});
  NamedTensors outputs{{"y", counted({3, 2})}, {"z", counted({3, 2})}};
  NamedViews views;
  views.write_to("z", wrong);
  views.write_to("y", turned(home.result()));
  EXPECT_EQ(refusal([&] { deliver("q", views, outputs); }),
            "q: z: found f32 to write to, needs i16");
  views.write_to("z", PlacedResult(wrong.result(), Memory::backend));
  outputs.insert_or_assign("z", Tensor(Dtype::f32, {2, 3}));
  EXPECT_EQ(refusal([&] { deliver("q", views, outputs); }),
            "q: z: found memory of a backend, needs the host's: this operator works on ranks");
  EXPECT_EQ(outputs.size(), 2u);
  EXPECT_EQ(home.as<std::int16_t>()[3], 4) << "nothing was written";

  NamedViews right;
  right.write_to("y", turned(home.result()));
  deliver("q", right, outputs);
  EXPECT_EQ(elements(home.data(), 6), (std::vector<int>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(outputs.size(), 1u);
  EXPECT_TRUE(outputs.contains("z"));
  EXPECT_EQ(refusal([&] { deliver("q", right, outputs); }),
            "q: y: found memory for an output that this call does not have");
}

}  // namespace
}  // namespace mxo::staging_test
