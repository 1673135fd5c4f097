// Hundreds of random corruptions of every kind, of calls of every kind.
#include "tests/golden/corruptions.h"

namespace mxo {
namespace {

TEST(Explain, GivesNoNameToHundredsOfCorruptions) {
  const auto backend = make_cpu_backend();
  std::uint64_t seed = 0;
  for (const Call& call : corruptions::calls_to_spoil(*backend)) {
    for (int n = 0; n < 2 * corruptions::kKinds; ++n)
      corruptions::expect_no_name(*backend, call, n % corruptions::kKinds, seed++);
  }
}

}  // namespace
}  // namespace mxo
