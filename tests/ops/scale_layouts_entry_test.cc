// The catalogue's layouts of scales: which operator, layout and shapes a call comes to.
#include "ops/packed_scales.h"
#include "ops/scale_layouts.h"
#include "ops/scaled_tensor.h"
#include "tests/ops/entry_calls.h"

namespace mxo {
namespace {

TEST(SwizzleEntry, LayoutsReachTheBackend) {
  EntryCalls<SwizzleScales> call{"swizzle_scales"};
  call.add("scales", Dtype::u8, {40, 6});
  EXPECT_EQ(call.op().layout, ScaleLayout::blocked);
  EXPECT_EQ(call.told(call.op().scales), "scales e8m0 [40, 6]");
  EXPECT_FALSE(call.op().group_ends.given());
  EXPECT_EQ(call.made(), "blocked u8 [1024]");
  EXPECT_EQ(call.said_of("scales", Dtype::u8, {40}),
            "swizzle_scales: scales: found rank 1, needs rank 2 to 3");
  EXPECT_EQ(call.said_of("scales", Dtype::u8, {1, 2, 40, 6}),
            "swizzle_scales: scales: found rank 4, needs rank 2 to 3");
  call.numbers("group_ends", {30, 40});
  EXPECT_EQ(call.op({{"layout", "m_groups"}}).layout, ScaleLayout::m_groups);
  EXPECT_EQ(call.told(call.op({{"layout", "m_groups"}}).group_ends), "group_ends i32 [2]");
  EXPECT_EQ(call.made(), "blocked u8 [296, 8]");
  call.numbers("group_ends", {3, 6});
  EXPECT_EQ(call.op({{"layout", "k_groups"}}).layout, ScaleLayout::k_groups);
  EXPECT_EQ(call.made(), "blocked u8 [128, 14]");
  call.in.erase("group_ends");
  call.add("scales", Dtype::u8, {3, 40, 6});
  EXPECT_EQ(call.op({{"layout", "per_group_3d"}}).layout, ScaleLayout::per_group_3d);
  EXPECT_EQ(call.made(), "blocked u8 [3, 1024]");
}

TEST(SwizzleEntry, LayoutsOfOthersArePacked) {
  EntryCalls<PackScales> call{"swizzle_scales"};
  call.add("scales", Dtype::f32, {6, 3});
  EXPECT_EQ(call.op({{"layout", "mn_major_tma"}}).layout, PackedLayout::mn_major_tma);
  EXPECT_EQ(call.made(), "blocked f32 [3, 8]");
  EXPECT_EQ(call.told(call.op({{"layout", "cublas_1x128"}}).scales), "scales f32 [6, 3]");
  EXPECT_EQ(call.backend.kept[0].layout, PackedLayout::cublas_1x128);
  const PackScales& rounded = call.op({{"layout", "packed_ue8m0"}});
  EXPECT_EQ(rounded.layout, PackedLayout::packed_ue8m0);
  EXPECT_EQ(call.told(rounded.scales), "scales f32 [6, 3]") << "to powers of two";
  EXPECT_EQ(call.made(), "blocked i32 [1, 8]");
  call.add("scales", Dtype::i32, {6, 3});
  EXPECT_EQ(call.told(call.op({{"layout", "packed_ue8m0"}}).scales), "scales f32 [6, 3]");
  for (const Dtype bytes : {Dtype::u8, Dtype::e8m0}) {
    call.add("scales", bytes, {6, 3});
    EXPECT_EQ(call.told(call.op({{"layout", "packed_ue8m0"}}).scales), "scales e8m0 [6, 3]");
    EXPECT_EQ(call.told(call.op({{"layout", "tiles_8x4"}}).scales), "scales e8m0 [6, 3]");
    EXPECT_EQ(call.backend.kept[0].layout, PackedLayout::tiles_8x4);
    EXPECT_EQ(call.made(), bytes == Dtype::u8 ? "blocked u8 [32]" : "blocked e8m0 [32]");
    EXPECT_EQ(call.said({{"layout", "mn_major_tma"}}).substr(0, 23), "swizzle_scales: scales:");
  }
  EXPECT_EQ(call.said_of("scales", Dtype::f32, {6, 3}, {{"layout", "tiles_8x4"}}),
            "swizzle_scales: scales: found f32, needs u8 holding e8m0");
  EXPECT_EQ(call.said_of("scales", Dtype::u8, {6}, {{"layout", "tiles_8x4"}}),
            "swizzle_scales: scales: found u8 [6], needs rank 2 to 3");
}

struct UnswizzleEntry : testing::Test {
  EntryCalls<UnswizzleScales> call{"unswizzle_scales"};

  /// Settings of a layout and of the scales of a matrix.
  static Settings asked(const char* layout, const char* rows = "40", const char* columns = "6") {
    return {{"layout", layout}, {"rows", rows}, {"columns", columns}};
  }
};

TEST_F(UnswizzleEntry, LayoutsReachTheBackend) {
  call.add("blocked", Dtype::u8, {1024});
  const UnswizzleScales& op = call.op({{"rows", "40"}, {"columns", "6"}});
  EXPECT_EQ(op.layout, ScaleLayout::blocked);
  EXPECT_EQ(call.told(op.blocked), "blocked u8 [1024]");
  EXPECT_FALSE(op.group_ends.given());
  EXPECT_EQ(call.made(), "scales u8 [40, 6]");
  call.add("blocked", Dtype::u8, {296, 8});
  call.numbers("group_ends", {30, 40});
  EXPECT_EQ(call.op(asked("m_groups")).layout, ScaleLayout::m_groups);
  EXPECT_EQ(call.told(call.op(asked("m_groups")).group_ends), "group_ends i32 [2]");
  call.add("blocked", Dtype::u8, {128, 14});
  call.numbers("group_ends", {3, 6});
  EXPECT_EQ(call.op(asked("k_groups")).layout, ScaleLayout::k_groups);
  EXPECT_EQ(call.made(), "scales u8 [40, 6]");
  call.in.erase("group_ends");
  call.add("blocked", Dtype::u8, {3, 1024});
  EXPECT_EQ(call.op(asked("per_group_3d")).layout, ScaleLayout::per_group_3d);
  EXPECT_EQ(call.made(), "scales u8 [3, 40, 6]");
}

TEST_F(UnswizzleEntry, MatricesOfBytesAreTakenFlat) {
  call.add("blocked", Dtype::u8, {128, 8});
  EXPECT_EQ(call.told(call.op(asked("blocked")).blocked), "blocked u8 [1024]");
  EXPECT_TRUE(call.backend.kept[0].blocked.contiguous());
  call.add("blocked", Dtype::u8, {3, 128, 8});
  EXPECT_EQ(call.told(call.op(asked("per_group_3d")).blocked), "blocked u8 [3, 1024]");
  EXPECT_TRUE(call.backend.kept[0].blocked.contiguous());
  const auto refused = [&](std::vector<Index> shape, const char* layout) {
    call.add("blocked", Dtype::u8, std::move(shape));
    return call.said(asked(layout));
  };
  const std::string start = "unswizzle_scales: blocked: found u8 ";
  EXPECT_EQ(refused({256, 4}, "blocked"), start + "[256, 4], needs [1024]");
  EXPECT_EQ(refused({128, 4}, "blocked"), start + "[128, 4], needs [1024]");
  EXPECT_EQ(refused({256, 8}, "blocked"), start + "[256, 8], needs [1024]");
  EXPECT_EQ(refused({3, 128, 8}, "blocked"), start + "[3, 128, 8], needs [1024]");
  EXPECT_EQ(refused({128, 8, 3}, "blocked"), start + "[128, 8, 3], needs [1024]");
  EXPECT_EQ(refused({128, 8}, "per_group_3d"), start + "[128, 8], needs [128, 1024]");
  EXPECT_EQ(refused({3, 128, 4}, "per_group_3d"), start + "[3, 128, 4], needs [3, 1024]");
  call.numbers("group_ends", {40});
  EXPECT_EQ(refused({128, 8}, "m_groups"), start + "[128, 8], needs [168, 8]");
}

TEST_F(UnswizzleEntry, StridesStayAsTheyAre) {
  const Tensor matrix(Dtype::u8, {8, 128});
  NamedViews views;
  views.set("blocked", transposed(matrix.operand()));
  try {
    call_operator(call.backend, "unswizzle_scales", views, Parameters(asked("blocked")));
    ADD_FAILURE() << "it ran";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "unswizzle_scales: blocked: found u8 [128, 8], needs [1024]");
  }
}

TEST_F(UnswizzleEntry, RowsAndColumnsAreNeeded) {
  call.add("blocked", Dtype::u8, {0});
  const std::string both = "unswizzle_scales: rows and columns: missing, both are needed";
  EXPECT_EQ(call.said(), both);
  EXPECT_EQ(call.said({{"rows", "40"}}), both);
  EXPECT_EQ(call.said({{"columns", "6"}}), both);
  EXPECT_EQ(call.said(asked("blocked", "2147483647", "0")), "") << "of no columns as many rows";
  EXPECT_EQ(call.said(asked("blocked", "0", "2147483647")), "");
  EXPECT_EQ(call.said(asked("blocked", "2147483648", "0")),
            "unswizzle_scales: rows, columns: found 2147483648, needs 0 to 2147483647");
  EXPECT_EQ(call.said(asked("blocked", "0", "-1")),
            "unswizzle_scales: rows, columns: found -1, needs 0 to 2147483647");
  const std::string large = "unswizzle_scales: blocked: found u8 [0], needs [4611686018427387904]";
  EXPECT_EQ(call.said(asked("blocked", "2147483647", "2147483647")), large);
}

TEST(UnpackEntry, LayoutsOfOthersAreUnpacked) {
  EntryCalls<UnpackScales> call{"unswizzle_scales"};
  const auto unpacked = [&](Dtype dtype, std::vector<Index> shape, const char* layout) {
    call.add("blocked", dtype, std::move(shape));
    const std::string said = call.said({{"layout", layout}, {"rows", "6"}, {"columns", "3"}});
    return said.empty() ? call.told(call.backend.kept[0].packed) + " -> " + call.made() : said;
  };
  const auto layout = [&] { return call.backend.kept[0].layout; };
  EXPECT_EQ(unpacked(Dtype::f32, {3, 8}, "mn_major_tma"),
            "blocked f32 [3, 8] -> scales f32 [6, 3]");
  EXPECT_EQ(layout(), PackedLayout::mn_major_tma);
  EXPECT_EQ(unpacked(Dtype::i32, {2, 3, 8}, "mn_major_tma"),
            "blocked f32 [2, 3, 8] -> scales f32 [2, 6, 3]");
  EXPECT_EQ(unpacked(Dtype::f32, {3, 8}, "cublas_1x128"),
            "blocked f32 [3, 8] -> scales f32 [6, 3]");
  EXPECT_EQ(layout(), PackedLayout::cublas_1x128);
  EXPECT_EQ(unpacked(Dtype::f32, {2, 3, 8}, "cublas_1x128"),
            "unswizzle_scales: blocked: found f32 [2, 3, 8], needs [3, 8]");
  EXPECT_EQ(unpacked(Dtype::i32, {1, 8}, "packed_ue8m0"), "blocked i32 [1, 8] -> scales u8 [6, 3]");
  EXPECT_EQ(layout(), PackedLayout::packed_ue8m0);
  EXPECT_EQ(unpacked(Dtype::i32, {2, 1, 8}, "packed_ue8m0"),
            "blocked i32 [2, 1, 8] -> scales u8 [2, 6, 3]");
  EXPECT_EQ(unpacked(Dtype::u8, {32}, "tiles_8x4"), "blocked u8 [32] -> scales u8 [6, 3]");
  EXPECT_EQ(layout(), PackedLayout::tiles_8x4);
  call.add("blocked", Dtype::u8, {32});
  EXPECT_EQ(call.said({{"layout", "tiles_8x4"}, {"rows", "2147483647"}, {"columns", "2147483647"}}),
            "unswizzle_scales: blocked: found u8 [32], needs [4611686018427387904]");
}

}  // namespace
}  // namespace mxo
