// Elements that a kernel did not write.
#include "golden/judge/unwritten.h"

#include <cstdio>

#include "golden/judge/judge.h"

namespace mxo {

std::string unwritten_elements(const ExpectedOutput& expected_output, const Tensor& actual,
                               std::uint8_t sentinel) {
  const std::size_t size = size_of(actual.dtype());
  const std::uint64_t pattern = 0x0101010101010101u * sentinel >> (64 - 8 * size);
  const Judge judge(expected_output, actual, {});
  const Index columns = actual.rank() == 0 ? 1 : actual.shape().back();
  Index count = 0;
  Index first = 0;
  Index last = 0;
  for (Index i = 0; i < actual.elements(); ++i) {
    if (bits_at(actual, i) != pattern || !judge.is_compared(i / columns, i)) continue;
    if (!judge.at(i).differs) continue;
    if (count++ == 0) first = i / columns;
    last = i / columns;
  }
  if (count == 0) return {};
  char byte[8];
  std::snprintf(byte, sizeof byte, " %02X", sentinel);
  std::string held;
  for (std::size_t b = 0; b < size; ++b) held += byte;
  return std::to_string(count) + (count == 1 ? " element in row " : " elements in rows ") +
         std::to_string(first) + (count == 1 ? "" : " to " + std::to_string(last)) + " still hold" +
         (count == 1 ? "s" : "") + held + ": never written";
}

}  // namespace mxo
