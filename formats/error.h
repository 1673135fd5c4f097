// The only exception this library throws.
// Thread safety: values; any threads at once.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace mxo {

/// What went wrong, as far as a caller can act on it.
enum class Fault : std::uint8_t {
  argument,     ///< a parameter or a name is unknown or out of range
  shape,        ///< an operand is missing, unknown or of a wrong rank, extent, stride or ends
  dtype,        ///< an operand has the wrong element type
  file,         ///< a file is missing, malformed or cannot be written
  unsupported,  ///< valid, but not on this backend, build or machine
  internal,     ///< our own failure, or a device's
};

/// Thrown before any output byte is written.  Messages read
/// "operator: operand: what was found, what is needed".
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}
  Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

}  // namespace mxo
