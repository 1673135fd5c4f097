// Layouts of scales: every byte once, the same on every backend.
#include "ops/scale_layouts.h"
#include "tests/support/contestants.h"
#include "tests/support/products.h"
#include "tests/support/same.h"

namespace mxo::test::layouts_test {
namespace {

/// Bytes 1..255 in an order without a period that a tile could share.
Tensor scales_of(const std::vector<Index>& shape) {
  Tensor scales(Dtype::e8m0, shape);
  std::uint32_t state = 12345;
  for (Index i = 0; i < scales.elements(); ++i) {
    state = state * 1664525u + 1013904223u;
    scales.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(1 + (state >> 16) % 255);
  }
  return scales;
}

struct Case {
  ScaleLayout layout;
  std::vector<Index> shape;
  std::vector<std::int32_t> ends;
  bool grouped() const {
    return layout == ScaleLayout::m_groups || layout == ScaleLayout::k_groups;
  }
};

std::vector<Case> cases() {
  using enum ScaleLayout;
  return {
      {blocked, {128, 4}, {}},
      {blocked, {1, 1}, {}},
      {blocked, {0, 5}, {}},
      {blocked, {300, 0}, {}},
      {blocked, {131, 9}, {}},
      {blocked, {384, 224}, {}},
      {m_groups, {224, 8}, {64, 64, 224}},
      {m_groups, {300, 7}, {1, 130, 130, 258}},
      {m_groups, {5, 3}, {}},
      {m_groups, {0, 3}, {0, 0}},
      {k_groups, {130, 6}, {1, 1, 6}},
      {k_groups, {257, 40}, {3, 3, 8, 33}},
      {k_groups, {7, 0}, {0}},
      {per_group_3d, {3, 130, 6}, {}},
      {per_group_3d, {0, 4, 4}, {}},
      {per_group_3d, {2, 256, 16}, {}},
  };
}

Tensor swizzle(Backend& backend, const Case& c, const Tensor& scales) {
  Tensor blocked(Dtype::u8, blocked_shape(c.layout, c.shape, static_cast<Index>(c.ends.size())));
  std::memset(blocked.data(), 0xCC, blocked.bytes());
  const Tensor ends = ends_of(c.ends);
  swizzle_scales(backend, {scales.operand(), c.grouped() ? ends.operand() : Operand{},
                           blocked.result(), c.layout});
  return blocked;
}

Tensor unswizzle(Backend& backend, const Case& c, const Tensor& blocked) {
  Tensor scales(Dtype::e8m0, c.shape);
  const Tensor ends = ends_of(c.ends);
  unswizzle_scales(backend, {blocked.operand(), c.grouped() ? ends.operand() : Operand{},
                             scales.result(), c.layout});
  return scales;
}

TEST(Layouts, EveryByteArrivesOnceAndTheRestIsZero) {
  const auto reference = make_reference_backend();
  for (const Case& c : cases()) {
    const Tensor scales = scales_of(c.shape);
    const Tensor out = swizzle(*reference, c, scales);
    std::map<int, int> count;
    Index covered = scales.elements();
    if (c.layout == ScaleLayout::m_groups)
      covered = c.ends.empty() ? 0 : c.ends.back() * c.shape[1];
    if (c.layout == ScaleLayout::k_groups) covered = c.ends.back() * c.shape[0];
    for (Index i = 0; i < out.elements(); ++i) ++count[out.as<std::uint8_t>()[i]];
    EXPECT_EQ(count[0], out.elements() - covered);  // scales hold no zero
    if (covered == scales.elements()) {
      for (Index i = 0; i < covered; ++i) --count[scales.as<std::uint8_t>()[i]];
      for (int byte = 1; byte < 256; ++byte) EXPECT_EQ(count[byte], 0) << byte;
      expect_same(unswizzle(*reference, c, out), scales);
    }
  }
}

TEST(Layouts, EveryBackendAgreesWithTheReference) {
  const auto reference = make_reference_backend();
  for (const auto& contestant : contestants()) {
    const auto backend = contestant.make();
    for (const Case& c : cases()) {
      SCOPED_TRACE(contestant.name());
      const Tensor scales = scales_of(c.shape);
      const Tensor want = swizzle(*reference, c, scales);
      expect_same(swizzle(*backend, c, scales), want);
      expect_same(unswizzle(*backend, c, want), unswizzle(*reference, c, want));
    }
  }
}

}  // namespace
}  // namespace mxo::test::layouts_test
