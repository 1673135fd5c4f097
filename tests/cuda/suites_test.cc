// Every case of the golden suites: what the device returns against the reference, byte for byte.
#include "golden/suites.h"

#include <cstring>
#include <map>

#include "formats/error.h"
#include "tests/cuda/twin.h"

namespace mxo {
namespace {

class CudaSuites : public test::OnDevice {};

bool same(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    const auto at = b.find(name);
    if (at == b.end() || at->second.shape() != tensor.shape() ||
        std::memcmp(at->second.data(), tensor.data(), tensor.bytes()) != 0) {
      return false;
    }
  }
  return true;
}

TEST_F(CudaSuites, OfLevelOneHaveTheReferencesBytes) {
  const auto reference = make_reference_backend();
  std::map<std::string, int> ran;
  std::map<std::string, int> unsupported;
  for (const SuiteCase& item : suite_cases("all", 1)) {
    Parameters parameters;
    for (const auto& [key, value] : item.parameters) parameters.set(key + "=" + value);
    const NamedTensors inputs = item.inputs(InputStream(7, item.id));
    try {
      const NamedTensors got = call_operator(*device_, item.op, inputs, parameters);
      const NamedTensors want = call_operator(*reference, item.op, inputs, parameters);
      EXPECT_TRUE(same(want, got)) << item.id;
      ++ran[item.op];
    } catch (const Error& error) {
      if (error.fault() != Fault::unsupported) throw;
      ++unsupported[item.op];
    }
  }
  for (const auto& [op, count] : ran) std::printf("%-28s %d cases\n", op.c_str(), count);
  for (const auto& [op, count] : unsupported) {
    std::printf("%-28s %d cases not on this backend\n", op.c_str(), count);
  }
  EXPECT_GT(ran.size(), 10u);
}

}  // namespace
}  // namespace mxo
