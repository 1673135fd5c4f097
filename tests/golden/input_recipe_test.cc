// Operands made many elements at a time: each is the element that any machine makes alone.
#include "golden/suites/shapes/input_recipe.h"

#include <gtest/gtest.h>

#include "golden/suites/shapes/normal_lanes.h"

namespace mxo {
namespace {

constexpr std::uint64_t kSeed = 0x0123456789ABCDEFull;

TEST(NormalSums, AreThoseOfEachElementAlone) {
  const std::uint64_t first = (std::uint64_t{1} << 32) - 100;  // the counter's high word changes
  std::vector<std::int32_t> best(333);
  std::vector<std::int32_t> plain(best.size());
  normal_sums(kSeed, 7, first, best);
  normal_sums_by_lanes(kSeed, 7, first, plain);
  for (std::uint64_t i = 0; i < best.size(); ++i) {
    const float element = inputs::bell(philox(first + i, 7, kSeed));
    EXPECT_EQ(static_cast<float>(best[i]) * 0x1p-16f, element) << i;
    EXPECT_EQ(plain[i], best[i]) << i;
  }
}

/// Element `index` under the rule of docs/suites.md, as bits.
std::uint32_t rounded(const InputRecipe& recipe, std::uint64_t index) {
  const float x = inputs::element(recipe.distribution, kSeed, inputs::stream_of(recipe.name), index,
                                  static_cast<std::uint64_t>(recipe.shape.back()));
  if (recipe.format == Dtype::f32) return bit_cast<std::uint32_t>(x);
  if (recipe.format == Dtype::bf16) {
    return encode<kBF16>(x, Overflow::nonfinite, NanSign::of_operand).bits;
  }
  if (recipe.format == Dtype::f16) {
    return encode<kF16>(x, Overflow::nonfinite, NanSign::of_operand).bits;
  }
  return visit_minifloat8(recipe.format, [x](auto tag) -> std::uint32_t {
    using T = typename decltype(tag)::type;
    return encode<T::spec>(x * 64.0f, Overflow::saturate).bits;
  });
}

TEST(InputRecipes, GiveElementsOfAnyPart) {
  using enum inputs::Distribution;
  for (const Dtype format : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::e4m3, Dtype::e5m2,
                             Dtype::e4m3fnuz, Dtype::e5m2fnuz}) {
    for (const auto distribution : {normal, wide, special}) {
      InputRecipe recipe{"x", format, {70000, 65536}};
      recipe.kind = size_of(format) == 1 ? InputKind::codes : InputKind::values;
      recipe.distribution = distribution;
      const Box box{65534, 65537, 3, 700};  // element 2^32 is in it
      const Tensor part = make_input(recipe, kSeed, box, {box.rows(), box.columns()});
      for (Index i = 0; i < part.elements(); ++i) {
        const Index at =
            (box.row_begin + i / box.columns()) * 65536 + box.column_begin + i % box.columns();
        std::uint32_t bits = 0;
        std::memcpy(&bits, part.data() + static_cast<std::size_t>(i) * size_of(format),
                    size_of(format));
        ASSERT_EQ(bits, rounded(recipe, static_cast<std::uint64_t>(at)))
            << name_of(format) << " " << name_of(distribution) << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace mxo
