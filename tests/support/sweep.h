// Every input there is against a run-length table, on all cores.
#pragma once

#include <bit>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/captures.h"
#include "tests/support/count.h"

namespace mxo::test {

/// What a sweep found; `first` and the two codes mean something where `differing` is not 0.
struct Sweep {
  std::uint64_t differing = 0;
  std::uint64_t first = 0;
  unsigned expected = 0;
  unsigned found = 0;
};

/// Calls code_of(input) for each input in [0, table.inputs) and compares.  `code_of` must not
/// throw: it runs in an OpenMP region.
template <typename CodeOf>
Sweep sweep(const RunTable& table, CodeOf code_of) {
  constexpr std::uint64_t kChunk = 1 << 18;
  const auto chunks = static_cast<std::int64_t>((table.inputs + kChunk - 1) / kChunk);
  Sweep total;
#pragma omp parallel for schedule(dynamic, 16)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    std::uint64_t input = static_cast<std::uint64_t>(chunk) * kChunk;
    const std::uint64_t end = std::min(input + kChunk, table.inputs);
    std::size_t run = table.run_of(input);
    std::uint64_t differing = 0;
    while (input < end) {
      const std::uint64_t stop = std::min(end, table.end_of(run));
      differing += count(static_cast<std::int32_t>(stop - input),
                         [code_of, first = static_cast<std::uint32_t>(input),
                          expected = unsigned{table.code[run++]}](std::int32_t i) {
                           return code_of(first + static_cast<std::uint32_t>(i)) != expected;
                         });
      input = stop;
    }
    if (differing == 0) continue;
#pragma omp critical
    total.differing += differing;
  }
  if (total.differing == 0) return total;
  for (; total.expected == total.found; ++total.first) {
    total.expected = table[total.first];
    total.found = code_of(total.first);
  }
  --total.first;
  return total;
}

/// gtest's verdict on a sweep: how many inputs differ, and the first of them.
template <typename CodeOf>
testing::AssertionResult agrees_everywhere(const RunTable& table, CodeOf code_of) {
  const Sweep result = sweep(table, code_of);
  if (result.differing == 0) return testing::AssertionSuccess();
  std::ostringstream text;  // AssertionResult prints each part anew, without std::hex
  text << result.differing << " of " << table.inputs << " inputs differ, the first 0x" << std::hex
       << result.first << ": the table has 0x" << result.expected << ", found 0x" << result.found;
  return testing::AssertionFailure() << text.str();
}

/// The float whose bits are `input`.
inline float float_of(std::uint64_t input) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(input));
}

}  // namespace mxo::test
