// What a suite expects of one output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxo {

/// `expect` of an output.  The expected tensor itself is always there.
struct Expectation {
  enum class Kind : std::uint8_t {
    bit_exact,
    set,        ///< where the expected byte is in a list, any byte of that list will do
    interval,   ///< lo <= out <= hi, by value; lo and hi are tensors of the case
    undefined,  ///< bit exact, but not compared where the mask is not 0
  };
  Kind kind = Kind::bit_exact;
  std::vector<std::vector<std::uint64_t>> any_of;  ///< set: bit patterns that stand for each other
  std::string lo, hi;                              ///< interval: names of tensors in the case file
  std::string mask;  ///< undefined: name of a u8 tensor in the case file
};

std::string_view name_of(Expectation::Kind kind);
/// Throws Error(file).
Expectation::Kind expectation_named(std::string_view name);

}  // namespace mxo
