// The operator `encode` of the cpu backend on every input of every captured table.
#include <gtest/gtest.h>

#include "ops/convert.h"
#include "tests/support/contestants.h"
#include "tests/support/conversions.h"
#include "tests/support/count.h"

namespace mxo::test {
namespace {

constexpr std::uint64_t kChunk = 1 << 18;

/// The inputs first, first + 1, .. as elements of their type.
template <typename Word>
void fill(Tensor& x, std::uint64_t first) {
  auto* words = x.as<Word>();
  const auto n = static_cast<std::uint32_t>(x.elements());
  for (std::uint32_t i = 0; i < n; ++i) words[i] = static_cast<Word>(first + i);
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
    size_of(which.from) == 4 ? fill<std::uint32_t>(x, first) : fill<std::uint16_t>(x, first);
    encode(*backend, {.x = x.operand(),
                      .codes = codes.result(),
                      .overflow = which.overflow,
                      .nan = which.nan,
                      .rounding = which.rounding});
    const auto* found = codes.as<std::uint8_t>();
    for (std::uint64_t input = first; input < first + chunk;) {
      const std::uint64_t stop = std::min(first + chunk, table.end_of(run));
      const std::uint8_t code = static_cast<std::uint8_t>(table.code[run]);
      ASSERT_EQ(table.code[run], code);
      const std::uint32_t differing =
          count(static_cast<std::int32_t>(stop - input),
                [code, from = found + (input - first)](std::int32_t i) { return from[i] != code; });
      ASSERT_EQ(differing, 0u) << std::hex << "captured 0x" << +code << " from input 0x" << input
                               << " to 0x" << stop - 1;
      input = stop;
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
