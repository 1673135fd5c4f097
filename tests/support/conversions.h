// Every captured table of conversions, with what this library says in its place.
#pragma once

#include <ostream>
#include <span>
#include <string_view>

#include "tests/support/sweep.h"

namespace mxo::test {

/// Which capture, and the code this library gives for the bits of an input.
struct Conversion {
  std::string_view capture;
  std::string_view table;
  std::uint64_t inputs;
  unsigned (*code_of)(std::uint64_t input);
  testing::AssertionResult (*agrees)(const RunTable&);  ///< sweep of code_of, inlined

  RunTable load() const { return run_table(test::capture(capture), table, inputs); }
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
