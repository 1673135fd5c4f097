// Outputs that are another case's: results written over, or cases exchanged.
#pragma once

#include <map>
#include <string>

#include "formats/tensor.h"
#include "golden/files/manifest.h"

namespace mxo {

/// What every case of a suite expects, by checksum.
class OtherResults {
 public:
  explicit OtherResults(const Manifest& manifest);

  /// "holds what is expected of CASE: OUTPUT" where `actual`, wrong in case `id`, is that of
  /// another case to the last bit; empty where it is none's, or of one repeated byte.
  std::string find(const std::string& id, const Tensor& actual) const;

 private:
  struct Expected {
    std::string id;
    std::string name;
  };
  std::multimap<std::string, Expected, std::less<>> by_checksum_;
};

}  // namespace mxo
