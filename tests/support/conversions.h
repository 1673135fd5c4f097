// Every captured table of conversions, with what this library says in its place.
#pragma once

#include <ostream>

#include "tests/support/sweep.h"

namespace mxo::test {

/// One captured table: where it is, the `encode` that must repeat it, and the codec's own answer.
struct Conversion {
  std::string_view capture;
  std::string_view table;
  Dtype from = Dtype::f32;
  Dtype to = Dtype::e4m3;
  Overflow overflow = Overflow::saturate;
  NanSign nan = NanSign::positive;
  E8M0Rounding rounding = E8M0Rounding::nearest;
  unsigned (*code_of)(std::uint64_t input) = nullptr;
  testing::AssertionResult (*agrees)(const RunTable&) = nullptr;  ///< sweep of code_of, inlined

  std::uint64_t inputs() const { return std::uint64_t{1} << (8 * size_of(from)); }
  RunTable load() const { return run_table(test::capture(capture), table, inputs()); }
};

inline std::ostream& operator<<(std::ostream& out, const Conversion& c) {
  return out << c.capture << '/' << c.table;
}

std::span<const Conversion> captured_conversions();

/// "h200_conversions_f32_to_e5m2_nosat", for the names of parameterised tests.
inline std::string conversion_name(const testing::TestParamInfo<Conversion>& info) {
  std::string name = std::string(info.param.capture) + "_" + std::string(info.param.table);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace mxo::test
