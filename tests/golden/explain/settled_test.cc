// What is settled of outputs, forgotten and brought back.
#include "golden/explain/settled.h"

#include <gtest/gtest.h>

#include "tests/golden/tensors.h"

namespace mxo {
namespace {

TEST(Settled, IsRestoredInEveryOutput) {
  const Tensor zeros(Dtype::f32, {4});
  const Tensor came = floats({4}, {1, 0, 2, 3});
  const Call call{"any", {}, {}};
  std::vector<Output> outputs;
  for (const char* name : {"a", "b"}) outputs.push_back(make_output(call, name, zeros, came));
  outputs[0].settle(0);
  outputs[1].settle(2);
  outputs[1].settle(3);
  const Settled settled(outputs);

  Settled::forget(outputs);
  const std::vector<Mark> none{Mark::differs, Mark::same, Mark::differs, Mark::differs};
  for (const Output& o : outputs) {
    EXPECT_EQ(o.marks, none);
    EXPECT_EQ(o.left, 3);
    EXPECT_EQ(o.differing, 3);
  }

  outputs[0].settle(2);
  outputs[0].settle(3);
  settled.restore(outputs);
  EXPECT_EQ(outputs[0].marks,
            (std::vector<Mark>{Mark::settled, Mark::same, Mark::differs, Mark::differs}));
  EXPECT_EQ(outputs[0].left, 2);
  EXPECT_EQ(outputs[1].marks,
            (std::vector<Mark>{Mark::differs, Mark::same, Mark::settled, Mark::settled}));
  EXPECT_EQ(outputs[1].left, 1);
}

}  // namespace
}  // namespace mxo
