// Checksums of the manifest against those of wrong outputs.
#include "golden/suites/other_results.h"

#include <algorithm>

#include "golden/files/sha256.h"

namespace mxo {

OtherResults::OtherResults(const Manifest& manifest) {
  for (const ManifestCase& item : manifest.cases) {
    for (const ManifestOperand& operand : item.operands) {
      if (operand.role != Role::expected) continue;
      by_checksum_.emplace(operand.sha256, Expected{item.id, operand.name});
    }
  }
}

std::string OtherResults::find(const std::string& id, const Tensor& actual) const {
  const std::byte* bytes = actual.data();
  const bool plain =
      std::all_of(bytes, bytes + actual.bytes(), [&](std::byte b) { return b == bytes[0]; });
  if (plain) return {};
  const auto [begin, end] = by_checksum_.equal_range(sha256(bytes, actual.bytes()));
  for (auto at = begin; at != end; ++at) {
    if (at->second.id == id) continue;
    return "holds what is expected of " + at->second.id + ": " + at->second.name;
  }
  return {};
}

}  // namespace mxo
