// The tables of mxo bench on a backend whose memory the host cannot read, as a GPU's.
#include "tools/bench/bench.h"

#include <gtest/gtest.h>

#include "tests/support/far_backend.h"

namespace mxo::tools {
namespace {

class FarTables : public testing::Test {
 protected:
  FarTables() {
    bench_.scale = 1.0 / 1024;
    bench_.repeats = 1;
    bench_.rivals = "";
    bench_.threads = 1;
    bench_.model = &model_named("mixtral");
    bench_.ranks = {2};
    bench_.backend = std::make_shared<test::FarBackend>();
  }
  Bench bench_;
};

TEST_F(FarTables, AreMadeWithoutReadingDeviceMemory) {
  EXPECT_EQ(pad_table(bench_).rows.size(), 4u);
  EXPECT_EQ(linear_table(bench_).rows.size(), 4u);
  EXPECT_EQ(kernels_table(bench_).rows.size(), 15u);
  EXPECT_EQ(layer_table(bench_).rows.size(), 1u);
}

TEST_F(FarTables, KeepTheBytesOfTheHost) {
  const Table far = recompute_table(bench_);
  bench_.backend = make_backend("cpu", 1);
  const Table near = recompute_table(bench_);
  ASSERT_EQ(far.rows.size(), 18u);
  for (std::size_t i = 0; i < far.rows.size(); ++i) {
    for (std::size_t c = 0; c < far.rows[i].size(); ++c) {
      const auto& [column, cell] = far.rows[i][c];
      if (column == "process" || column == "peak" || column.ends_with("ms")) continue;
      EXPECT_EQ(cell.json, near.rows[i][c].second.json) << column << " of row " << i;
    }
  }
}

}  // namespace
}  // namespace mxo::tools
