// Products whose f32 scales are multiplied in another place than the call says.
#include <gtest/gtest.h>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

ProductSize small() {
  ProductSize size;
  size.ends = {40, 64};
  size.rows = 64;
  size.n = 64;
  size.k = 384;
  return size;
}

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
}  // namespace mxo
