// Causes that hold in a part of the output only: a tile in its middle, columns of one fragment.
#include <cstring>

#include "tests/golden/planted_places.h"

namespace mxo {
namespace {

constexpr Index kN = 384;

Call mx(Backend& b) { return mx_product(b, 1, {{200, 512}, 512, kN, 512}); }

using Region = bool (*)(Index row, Index column);
bool tile(Index r, Index c) { return r / 128 == 2 && c / 128 == 1; }
bool odd_columns(Index, Index c) { return c % 2 == 1; }
bool odd_fragments(Index, Index c) { return c / 8 % 2 == 1; }

/// `p`, and what is expected outside of a region.
Planted within(Region region, Planted p) {
  Tensor& y = p.actual.at("y");
  for (Index i = 0; i < y.elements(); ++i) {
    if (!region(i / kN, i % kN)) y.as<BF16>()[i] = p.expected.at("y").as<BF16>()[i];
  }
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
    for (Index i = 0; i < sums.elements(); ++i)
      out.at("y").as<std::uint16_t>()[i] =
          static_cast<std::uint16_t>(sums.as<std::uint32_t>()[i] >> 16);
  });
}

const PlantedFault kFaults[] = {
    {"scales of x rolled in every second fragment", "x.scales=blocks",
     "rolled back by one block along K, in columns 8 to 15 of every 16 of y",
     [](Backend& b) { return within(odd_fragments, rolled_scales(b)); }},
    {"the other expert in every second column", "w=other_expert",
     "the next expert's weights, in every 2nd column from 1 of y",
     [](Backend& b) { return within(odd_columns, next_expert(b)); }},
    {"truncated in every second column", "out=truncated",
     "truncated to bf16 rather than rounded, in every 2nd column from 1 of y",
     [](Backend& b) { return within(odd_columns, truncated(b)); }},
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
  Tensor x(Dtype::f32, {4, 64});
  for (Index i = 0; i < x.elements(); ++i) x.as<float>()[i] = static_cast<float>(i + 1) * 1.9F;
  const Call call = of_x("quantize", std::move(x), {{"scale_mode", "rceil"}});
  const Planted p = with_setting(*backend, call, "scale_mode", "floor");
  EXPECT_EQ(explained(p).sentence(),
            "explained: the scales are FLOOR rather than RCEIL; equivalently, the scales are EVEN "
            "rather than RCEIL");
}

}  // namespace
}  // namespace mxo
