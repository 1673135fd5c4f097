// The operator `encode` of the cpu backend on every input of every captured table.
#include "ops/convert.h"
#include "tests/support/contestants.h"
#include "tests/support/conversions.h"

namespace mxo::test {
namespace {

constexpr std::uint64_t kChunk = 1 << 16;  // stays in a core's cache for all tables

/// The inputs first, first + 1, .. as elements of their type.
template <typename Word>
void fill(Tensor& x, std::uint64_t first) {
  auto* words = x.as<Word>();
  const auto n = static_cast<std::uint32_t>(x.elements());
  const auto start = static_cast<Word>(first);
  for (std::uint32_t i = 0; i < n; ++i) words[i] = static_cast<Word>(start + i);
}

/// How many of the inputs from `first` on, whose codes are `found`, have other codes in the table.
std::uint64_t differing(const RunTable& table, std::uint64_t first, const Tensor& found) {
  const auto* codes = found.as<std::uint8_t>();
  const std::uint64_t end = first + kChunk;
  std::uint64_t sum = 0;
  for (std::size_t run = table.run_of(first); first < end; ++run) {
    const std::uint64_t stop = std::min(end, table.end_of(run));
    sum += count(static_cast<std::int32_t>(stop - first),
                 [code = table.code[run], codes](std::int32_t i) { return codes[i] != code; });
    codes += stop - first;
    first = stop;
  }
  return sum;
}

class CapturedEncode : public testing::TestWithParam<Dtype> {};

TEST_P(CapturedEncode, IsRepeatedByTheCpuBackendOnEveryInput) {
  std::vector<Conversion> tables;
  std::vector<RunTable> captured;
  for (const Conversion& which : captured_conversions()) {
    if (which.from != GetParam()) continue;
    tables.push_back(which);
    captured.push_back(which.load());
  }
  ASSERT_FALSE(tables.empty());
  const std::uint64_t inputs = tables.front().inputs();
  std::vector<std::uint64_t> wrong(tables.size());
  std::vector<std::uint64_t> first_wrong(tables.size(), inputs);
#pragma omp parallel
  {
    const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
    Tensor x(GetParam(), {static_cast<Index>(kChunk)});
#pragma omp for schedule(dynamic, 16)
    for (std::uint64_t first = 0; first < inputs; first += kChunk) {
      size_of(x.dtype()) == 4 ? fill<std::uint32_t>(x, first) : fill<std::uint16_t>(x, first);
      for (std::size_t table = 0; table < tables.size(); ++table) {
        const Conversion& which = tables[table];
        Tensor codes(which.to, x.shape());
        encode(*backend, {.x = x.operand(),
                          .codes = codes.result(),
                          .overflow = which.overflow,
                          .nan = which.nan,
                          .rounding = which.rounding});
        const std::uint64_t others = differing(captured[table], first, codes);
        if (others == 0) continue;
#pragma omp critical
        {
          wrong[table] += others;
          first_wrong[table] = std::min(first_wrong[table], first);
        }
      }
    }
  }
  for (std::size_t table = 0; table < tables.size(); ++table)
    EXPECT_EQ(wrong[table], 0u) << tables[table] << ": among the " << kChunk << " inputs from 0x"
                                << std::hex << first_wrong[table] << " on is the first";
}

std::string name_of_inputs(const testing::TestParamInfo<Dtype>& inputs) {
  return std::string(name_of(inputs.param));
}

INSTANTIATE_TEST_SUITE_P(All, CapturedEncode, testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16),
                         name_of_inputs);

}  // namespace
}  // namespace mxo::test
