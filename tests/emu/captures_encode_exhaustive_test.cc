// The operator `encode` of the cpu backend on every input of every captured table.
#include <cstring>

#include <gtest/gtest.h>

#include "ops/convert.h"
#include "tests/support/contestants.h"
#include "tests/support/conversions.h"

namespace mxo::test {
namespace {

constexpr std::uint64_t kChunk = 1 << 22;

/// The inputs first, first + 1, .. as elements of their type.
void fill(Tensor& x, std::uint64_t first) {
  const auto n = static_cast<std::size_t>(x.elements());
  for (std::size_t i = 0; i < n; ++i) {
    if (size_of(x.dtype()) == 4) {
      x.as<std::uint32_t>()[i] = static_cast<std::uint32_t>(first + i);
    } else {
      x.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(first + i);
    }
  }
}

class CapturedEncode : public testing::TestWithParam<Conversion> {};

TEST_P(CapturedEncode, IsRepeatedByTheCpuBackendOnEveryInput) {
  const Conversion& which = GetParam();
  const RunTable table = which.load();
  const std::unique_ptr<Backend> backend = make_backend("cpu");
  const std::uint64_t chunk = std::min(kChunk, which.inputs());
  Tensor x(which.from, {static_cast<Index>(chunk)});
  Tensor codes(which.to, x.shape());
  std::size_t run = 0;
  for (std::uint64_t first = 0; first < which.inputs(); first += chunk) {
    fill(x, first);
    encode(*backend, {.x = x.operand(),
                      .codes = codes.result(),
                      .overflow = which.overflow,
                      .nan = which.nan,
                      .rounding = which.rounding});
    const auto* found = codes.as<std::uint8_t>();
    for (std::uint64_t input = first; input < first + chunk;) {
      const std::uint64_t stop = std::min(first + chunk, table.end_of(run));
      for (; input < stop; ++input) {
        if (found[input - first] != table.code[run]) {
          FAIL() << std::hex << "input 0x" << input << ": captured 0x" << table.code[run]
                 << ", found 0x" << +found[input - first];
        }
      }
      if (stop == table.end_of(run)) ++run;
    }
  }
  EXPECT_EQ(run, table.start.size());
}

INSTANTIATE_TEST_SUITE_P(All, CapturedEncode,
                         testing::ValuesIn(captured_conversions().begin(),
                                           captured_conversions().end()),
                         conversion_name);

}  // namespace
}  // namespace mxo::test
