// Every case of the golden suites: what the device returns against cpu, byte for byte.
#include "golden/suites/suites.h"

#include <bit>

#include "emu/communicators.h"
#include "tests/cuda/twin.h"

namespace mxo {
namespace {

class CudaSuites : public test::OnDevice, public testing::WithParamInterface<std::string_view> {};

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const Suite& suite : suites()) all.push_back(suite.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, CudaSuites, testing::ValuesIn(names()),
                         [](const auto& suite) { return std::string(suite.param); });

/// Bits that differ in all outputs; all of them where the outputs are not the same ones.
Index differing_bits(const NamedTensors& want, const NamedTensors& got) {
  Index bits = 0;
  for (const auto& [name, tensor] : want) {
    const auto at = got.find(name);
    const bool there = at != got.end() && at->second.shape() == tensor.shape();
    for (std::size_t i = 0; i < tensor.bytes(); ++i) {
      const auto other = there ? at->second.data()[i] : ~tensor.data()[i];
      bits += std::popcount(std::to_integer<unsigned>(tensor.data()[i] ^ other) & 0xFFu);
    }
  }
  return got.size() == want.size() ? bits : std::max<Index>(bits, 1);
}

TEST_P(CudaSuites, OfLevelOneHaveNoBitThatDiffersFromCpu) {
  const std::unique_ptr<World> world = make_in_process_world();
  std::size_t cases = 0;
  std::size_t bytes = 0;
  for (const SuiteCase& item : suite_cases(GetParam(), 1)) {
    Parameters parameters;
    for (const auto& [key, value] : item.parameters) parameters.set(key + "=" + value);
    const NamedTensors inputs = item.inputs(InputStream(7, item.id));
    const NamedTensors want = call_operator(*host_, item.op, inputs, parameters, world.get());
    const NamedTensors got = call_operator(*device_, item.op, inputs, parameters, world.get());
    EXPECT_EQ(differing_bits(want, got), 0) << item.id;
    for (const auto& [name, tensor] : want) bytes += tensor.bytes();
    ++cases;
  }
  std::printf("%-12s %4zu cases, %zu bytes\n", std::string(GetParam()).c_str(), cases, bytes);
  EXPECT_GT(cases, 0u);
}

}  // namespace
}  // namespace mxo
