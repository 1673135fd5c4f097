// The operator `encode` on every backend, at both ends of every run of every captured table.
#include <cstring>

#include <gtest/gtest.h>

#include "ops/convert.h"
#include "tests/support/contestants.h"
#include "tests/support/conversions.h"

namespace mxo::test {
namespace {

class CapturedEncode : public testing::TestWithParam<Conversion> {};

TEST_P(CapturedEncode, IsRepeatedByEveryBackendAtBothEndsOfEveryRun) {
  const Conversion& which = GetParam();
  const RunTable table = which.load();
  std::vector<std::uint64_t> inputs;
  for (std::size_t run = 0; run < table.start.size(); ++run) {
    inputs.push_back(table.start[run]);
    inputs.push_back(table.end_of(run) - 1);
  }
  const auto n = static_cast<Index>(inputs.size());
  Tensor x(which.from, {n});
  for (std::size_t i = 0; i < inputs.size(); ++i) {  // little endian
    std::memcpy(x.data() + i * size_of(which.from), &inputs[i], size_of(which.from));
  }
  for (const std::string& name : every_backend()) {
    Tensor codes(which.to, {n});
    encode(*make_backend(name), {.x = x.operand(),
                                 .codes = codes.result(),
                                 .overflow = which.overflow,
                                 .nan = which.nan,
                                 .rounding = which.rounding});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_EQ(codes.as<std::uint8_t>()[i], table.code[i / 2])
          << name << std::hex << " input 0x" << inputs[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CapturedEncode,
                         testing::ValuesIn(captured_conversions().begin(),
                                           captured_conversions().end()),
                         conversion_name);

}  // namespace
}  // namespace mxo::test
