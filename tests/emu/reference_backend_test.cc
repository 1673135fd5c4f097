// What the reference is: the sums that it honours, and the arithmetic that it needs.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "ops/sums.h"
#include "tests/support/float_state.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

TEST(ReferenceBackend, HonoursEverySumThatHasARow) {
  const auto reference = make_backend("reference", 1);
  EXPECT_EQ(reference->name(), "reference");
  for (const SumRow& row : sums()) EXPECT_TRUE(reference->honours(row.sum)) << row.sum.name;
  Accumulation unknown = kExact;
  unknown.family = static_cast<SumFamily>(99);
  EXPECT_FALSE(reference->honours(unknown));
}

TEST(Backends, ThreadsThatCannotBeAreRefused) {
  for (const int threads : {-1, 1025, 100000}) {
    for (const char* name : {"reference", "cpu"}) {
      EXPECT_EQ(refusal([&] { make_backend(name, threads); }),
                "threads: found " + std::to_string(threads) + ", needs 0 to 1024");
    }
  }
  EXPECT_NO_THROW(make_backend("cpu", 1024));
}

TEST(ReferenceBackend, NeedsIeeeArithmetic) {
  for (const test::FloatState state : test::kForeignStates) {
    bool refused = false;
    {
      const test::WithFloatState foreign(state);
      try {
        make_backend("reference", 1);
      } catch (const Error& error) {
        refused = error.fault() == Fault::unsupported;
      }
    }
    EXPECT_TRUE(refused) << "state " << static_cast<int>(state);
  }
}

}  // namespace
}  // namespace mxo
