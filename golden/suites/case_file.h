// One case on disk: written from a call, read back against its manifest entry.
// Thread safety: any threads at once, where no call writes a file that another reads or writes.
#pragma once

#include <filesystem>
#include <optional>

#include "golden/files/manifest.h"
#include "golden/files/safetensors.h"
#include "golden/judge/judge_call.h"
#include "golden/suites/suites.h"

namespace mxo {

/// Writes inputs and outputs of `item` to `path` and returns the manifest entry.
ManifestCase write_case(const std::filesystem::path& path, const SuiteCase& item,
                        NamedTensors inputs, NamedTensors outputs, Spelling spelling);

/// 1 where a row or column is not compared; nothing if all of them are.
std::optional<Tensor> unowned_mask(const Tensor& output, const Groups& groups);

/// A case read back.
struct StoredCase {
  TensorFile file;
  NamedTensors inputs;  ///< under their operand names

  /// The expected output `operand` (role expected); points into this.
  ExpectedOutput expected_output(const ManifestCase& item, const ManifestOperand& operand) const;
};

/// Reads the case and holds it against checksums, names, shapes and formats, and against what its
/// operator takes and gives.
/// Throws Error(file) where anything does not hold.
StoredCase read_case(const std::filesystem::path& suite, const ManifestCase& item);

/// The call as a case of a suite, without flags.
SuiteCase suite_case_of(const AnsweredCall& call);

/// The call of SUITE/cases/<id>.safetensors and what is expected of it; the manifest is in SUITE.
/// Throws Error(file).
AnsweredCall read_call(const std::filesystem::path& path);

/// The tensors of `path`, or of NAME=FILE.npy, as what a kernel gave to `call`.
/// Throws Error(file) where none of them has the name of an expected output.
NamedTensors read_answer(const AnsweredCall& call, const std::string& path);

}  // namespace mxo
