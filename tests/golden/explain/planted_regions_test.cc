// Causes that hold in a part of the output only, and f32 scales that are multiplied in another
// place than the call says.
#include "tests/golden/planted.h"

namespace mxo::planted_regions_test {
namespace {

constexpr Index kN = 384;

Call mx(Backend& b) { return mx_product(b, 1, {{200, 512}, 512, kN, 512}); }

using Region = bool (*)(Index row, Index column);
bool tile(Index r, Index c) { return r / 128 == 2 && c / 128 == 1; }
bool odd_columns(Index, Index c) { return c % 2 == 1; }
bool odd_fragments(Index, Index c) { return c / 8 % 2 == 1; }

/// `p`, and what is expected outside of a region.
Planted within(Region region, Planted p) {
  runs_from(p.actual.at("y"), p.expected.at("y"), sizeof(BF16),
            [region](Index i) { return region(i / kN, i % kN) ? -1 : i; });
  return p;
}

Planted rolled_scales(Backend& b) {
  return elements(mx, {"x.scales"}, [](Index i) { return i / 16 * 16 + (i + 1) % 16; })(b);
}

Planted next_expert(Backend& b) {
  return elements(mx, {"w.codes", "w.scales"}, [](Index i, const Tensor& t) {
    return (i + t.elements() / 2) % t.elements();
  })(b);
}

Planted truncated(Backend& b) {
  const Call call = mx(b);
  const Tensor sums = in_f32(b, call);
  return spoiled(b, call, [&](NamedTensors& out) {
    out.at("y") = filled<std::uint16_t>(Dtype::bf16, sums.shape(),
                                        [&](Index i) { return sums.as<std::uint32_t>()[i] >> 16; });
  });
}

const PlantedFault kFaults[] = {
    {"scales of x rolled in every second fragment", "x.scales=blocks",
     "rolled back by one block along K, in columns 8 to 15 of every 16 of y",
     [](Backend& b) { return within(odd_fragments, rolled_scales(b)); }},
    {"the other expert in every second column", "w=other_expert",
     "the next expert's weights, in every 2nd column from 1 of y",
     [](Backend& b) { return within(odd_columns, next_expert(b)); }},
    {"truncated in one tile", "out=truncated",
     "truncated to bf16 rather than rounded, in columns 128 to 255 of rows 256 to 383 of group 1",
     [](Backend& b) { return within(tile, truncated(b)); }},
};

TEST(PlantedInRegions, AreNamed) { expect_named(kFaults); }

/// Five neighbours in a tile: many sums give these, and others elsewhere.
TEST(PlantedSumOfATile, IsNotTakenForAnotherSum) {
  const auto b = make_cpu_backend();
  expect_not_named("sum=", within(tile, with_setting(*b, mx(*b), "sum", "h200_wgmma_fast")));
}

/// Both modes give row 2 alike: what holds everywhere has no place.
TEST(PlantedScaleMode, HoldsWhereNothingDiffersToo) {
  const auto backend = make_cpu_backend();
  const Tensor x = mapped(Tensor(Dtype::f32, {4, 64}),
                          [](Index i, float) { return static_cast<float>(i + 1) * 1.9F; });
  const Call call = of_x("quantize", x, "scale_mode=rceil");
  const Planted p = with_setting(*backend, call, "scale_mode", "floor");
  EXPECT_EQ(explained(p).sentence(),
            "explained: the scales are FLOOR rather than RCEIL; equivalently, the scales are EVEN "
            "rather than RCEIL");
}

ProductSize small() { return {.ends = {40, 64}, .rows = 64, .n = 64, .k = 384}; }

void names_every_fold(Backend& backend, Call given, std::initializer_list<const char*> folds) {
  given.set.set("sum", "fma_chain");
  given.set.set("out", "f32");
  for (const char* claimed : folds) {
    for (const char* used : folds) {
      if (claimed == used) continue;
      Call call = given;
      call.set.set("sum.fold", claimed);
      Call wrong = given;
      wrong.set.set("sum.fold", used);
      const Planted p = planted(backend, call, wrong);
      const Explanation e = explain(backend, p.call, p.expected, p.actual);
      ASSERT_FALSE(e.causes.empty()) << claimed << ", " << used << ": " << e.sentence();
      EXPECT_EQ(e.causes.front().id, "sum.fold=" + std::string(used)) << claimed << e.sentence();
      EXPECT_EQ(e.causes.front().share, 1) << e.sentence();
    }
  }
}

TEST(PlantedFolds, OfBlocksAreNamed) {
  const auto backend = make_cpu_backend();
  names_every_fold(*backend, blockwise_product(*backend, 5, small()),
                   {"x_then_w", "joint", "joint_add"});
}

TEST(PlantedFolds, OfRowsAreNamed) {
  const auto backend = make_cpu_backend();
  names_every_fold(*backend, rowwise_product(*backend, 5, small()),
                   {"joint", "joint_add", "after", "after_joint"});
}

}  // namespace
}  // namespace mxo::planted_regions_test
