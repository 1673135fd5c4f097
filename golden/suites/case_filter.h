// Some cases of a suite.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "golden/files/manifest.h"

namespace mxo {

/// "op=quantize,format=e4m3": every key has the value.  Keys are op, id (a beginning of it), flag,
/// and the parameters of an operator, given or default.
class CaseFilter {
 public:
  CaseFilter() = default;
  /// Throws Error(argument) for a part that is no key=value.
  explicit CaseFilter(std::string_view text);

  bool takes(const ManifestCase& item) const;
  /// The manifest without the cases that are not taken.  Throws Error(argument) where none is left
  /// of some.
  Manifest of(Manifest manifest) const;

 private:
  std::string text_;
  std::vector<std::pair<std::string, std::string>> wanted_;
};

}  // namespace mxo
