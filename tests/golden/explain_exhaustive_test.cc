// Three hundred random corruptions: explain gives none of them a name.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/explain/explain.h"
#include "tests/golden/corruption.h"

namespace mxo {
namespace {

TEST(Explain, GivesNoNameToThreeHundredCorruptions) {
  const auto backend = make_cpu_backend();
  const std::vector<Call> calls = calls_to_spoil(*backend);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const int kind = static_cast<int>(seed) % kCorruptions;
    const Call& call = calls[seed / kCorruptions % calls.size()];
    const Planted p = spoiled(*backend, call, [&](NamedTensors& out) {
      auto at = out.begin();
      std::advance(at, seed / 100 % out.size());
      corrupt(at->second, kind, seed);
    });
    const Explanation e = explain(*backend, p.call, p.expected, p.actual);
    // Three slots of a token that are shuffled may be two that changed places: that has a name.
    if (call.op == "route" && kind == 6 && e.sentence().ends_with("change places")) continue;
    EXPECT_TRUE(e.causes.empty()) << call.op << " " << kind << " " << seed << ": " << e.sentence();
    EXPECT_TRUE(e.differing == 0 || !e.pattern.empty());
  }
}

}  // namespace
}  // namespace mxo
