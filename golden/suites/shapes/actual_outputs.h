// What a kernel gave for a case at a shape: its outputs, or their digests and the rows that fail.
// Thread safety: any threads read at once.
#pragma once

#include <filesystem>
#include <optional>

#include "golden/files/tensor_file.h"
#include "golden/suites/shapes/shape_suite.h"

namespace mxo {

/// A file of outputs under their names; or, where `__metadata__` has "mxo.schema": "mxo-outputs/1"
/// and "mxo.case": the id, of `NAME.digests` u8 [regions, 32] and `NAME.rows.I`, the bytes of
/// region I, for those whose digest is not what is expected.
class ActualOutputs {
 public:
  /// Throws Error(file) for a file that is malformed, of another case, or a suite's own.
  ActualOutputs(const std::filesystem::path& path, const ShapedCase& item);

  bool has(const ShapedOutput& output) const { return tensor(name_in_file(output)) != nullptr; }
  /// Why `output` cannot be compared: missing, another shape or type; empty where it can be.
  std::string unfit(const ShapedOutput& output) const;
  Digest digest(const ShapedOutput& output, std::size_t region) const;
  /// Nothing where the file has only their digest.
  std::optional<std::vector<std::byte>> bytes(const ShapedOutput& output, std::size_t region) const;
  /// Tensors that are no output.
  std::string others(const ShapedCase& item) const;

 private:
  std::string name_in_file(const ShapedOutput& output) const {
    return by_digest_ ? output.whole.name + ".digests" : output.whole.name;
  }
  const Tensor* tensor(const std::string& name) const;
  TensorFile file_;
  bool by_digest_ = false;
};

}  // namespace mxo
