// Blocks of scales, guessed from the shapes of a product's operands.
#include "ops/catalogue/product_blocks.h"

#include "tests/support/refusal.h"

namespace mxo {
namespace {

/// The block, or what is said of scales that have none.
std::string guessed(Dtype type, std::vector<Index> scales, std::vector<Index> codes,
                    const Operand& ends = {}, const Parameters& set = {},
                    std::string_view name = "x") {
  const Tensor found(type, std::move(scales));
  std::string block;
  const std::string said = refusal([&] {
    block = name_of(
        block_of_scales("q", name, "block_x", set, {std::move(codes), ends}, found.operand()));
  });
  return said.empty() ? block : said;
}

TEST(ProductBlocks, OfF32AreOf128FirstOfAll) {
  const auto block = [](std::vector<Index> scales) {
    return guessed(Dtype::f32, std::move(scales), {300, 1024});
  };
  EXPECT_EQ(block({300, 8}), "1x128");
  EXPECT_EQ(block({3, 8}), "128x128");
  EXPECT_EQ(block({300, 1}), "1xK");
  EXPECT_EQ(block({300}), "1xK");
  EXPECT_EQ(block({300, 16}), "1x64");
  EXPECT_EQ(block({300, 32}), "1x32");
  EXPECT_EQ(block({300, 4}), "1x256");
  EXPECT_EQ(block({300, 2}), "1x512");
  EXPECT_EQ(guessed(Dtype::f32, {2, 300, 8}, {2, 300, 1024}), "1x128");
  EXPECT_EQ(guessed(Dtype::f32, {2, 300}, {2, 300, 1024}), "1xK");
  EXPECT_EQ(guessed(Dtype::f32, {300}, {300, 100}), "1xK") << "a vector is one scale a row";
  EXPECT_EQ(guessed(Dtype::f32, {300, 1}, {300, 100}), "1x128");
  EXPECT_TRUE(guessed(Dtype::f32, {7}, {300, 1024}, {}, {}, "")
                  .starts_with("q: scales: found f32 [7], needs [300, 8] for 1x128, "));
}

struct ContractedRows : testing::Test {
  /// Of codes [rows, 130] whose groups end there, told in i32 and in i64.
  static std::string block(Dtype type, std::vector<Index> scales, Index rows,
                           const std::vector<std::int32_t>& group_ends) {
    Tensor narrow(Dtype::i32, {static_cast<Index>(group_ends.size())});
    Tensor wide(Dtype::i64, narrow.shape());
    std::copy(group_ends.begin(), group_ends.end(), narrow.as<std::int32_t>());
    std::copy(group_ends.begin(), group_ends.end(), wide.as<std::int64_t>());
    const std::string text = guessed(type, scales, {rows, 130}, narrow.operand());
    EXPECT_EQ(text, guessed(type, scales, {rows, 130}, wide.operand()));
    return text;
  }
};

TEST_F(ContractedRows, OfE8m0AreCountedThroughoutTheTensor) {
  EXPECT_EQ(block(Dtype::e8m0, {2, 130}, 64, {32, 64}), "32x1");
  EXPECT_EQ(block(Dtype::e8m0, {3, 130}, 96, {32, 64}), "32x1") << "rows beyond have scales, too";
  EXPECT_EQ(block(Dtype::e8m0, {2, 5}, 64, {32, 64}), "32x32");
  EXPECT_EQ(block(Dtype::e8m0, {3, 130}, 64, {32, 64, 64}), "Rx1");
  EXPECT_EQ(block(Dtype::e8m0, {4, 130}, 256, {64, 128, 256}), "64x1");
  EXPECT_EQ(block(Dtype::e8m0, {2, 130}, 256, {64, 128, 256}), "128x1");
  EXPECT_EQ(block(Dtype::e8m0, {1}, 64, {32, 64}), "RxK");
}

TEST_F(ContractedRows, OfF32BeginAnewAtEveryGroup) {
  EXPECT_EQ(block(Dtype::f32, {3, 130}, 200, {5, 200}), "128x1") << "1 and 2";
  EXPECT_EQ(block(Dtype::f32, {3, 2}, 200, {5, 200}), "128x128");
  EXPECT_EQ(block(Dtype::f32, {2, 130}, 200, {5, 200}), "Rx1");
  EXPECT_EQ(block(Dtype::f32, {5, 130}, 200, {5, 200}), "64x1") << "1 and 4";
  EXPECT_EQ(block(Dtype::f32, {8, 130}, 200, {5, 200}), "32x1") << "1 and 7";
  EXPECT_EQ(block(Dtype::f32, {1, 1}, 200, {5, 200}), "RxK");
}

TEST_F(ContractedRows, AreUnclearWhereTwoBlocksFitAndDiffer) {
  EXPECT_EQ(block(Dtype::f32, {2, 130}, 64, {5, 64}), "128x1") << "each group is one block";
  EXPECT_EQ(block(Dtype::f32, {2, 130}, 256, {128, 256}), "128x1");
  const std::string unclear =
      "q: x.scales: found f32 [2, 130], which fits blocks 128x1 and Rx1; needs block_x";
  EXPECT_EQ(block(Dtype::f32, {2, 130}, 129, {129, 129}), unclear);
  EXPECT_EQ(block(Dtype::f32, {2, 130}, 160, {0, 160}), unclear);
  EXPECT_EQ(block(Dtype::f32, {3, 130}, 260, {128, 260, 260}),
            "q: x.scales: found f32 [3, 130], which fits blocks 128x1 and Rx1; needs block_x");
}

}  // namespace
}  // namespace mxo
