// What a training run went through, as numbers that two machines can compare.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/tensor_view.h"
#include "ops/communicator.h"

namespace mxo::tools {

/// The SHA-256 of one stage of one step.  `chain` is that of the chain before it, the step, the
/// stage and its digest: equal chains mean that everything up to here was equal.
struct DigestRow {
  Index step = 0;
  std::string stage;
  std::string digest;
  std::string chain;
  friend bool operator==(const DigestRow&, const DigestRow&) = default;
};

using Bytes = std::span<const std::byte>;

/// Collects the digests of a run, the same on every rank.
class DigestLog {
 public:
  /// Of all units of all ranks in rank order: SHA-256 over the SHA-256 of each.  Units (a sequence,
  /// an expert) do not depend on the number of ranks, so neither does the digest.  Collective.
  void add(Communicator& communicator, Index step, const std::string& stage,
           const std::vector<Bytes>& units);

  const std::vector<DigestRow>& rows() const { return rows_; }
  /// Back to the state of a checkpoint.
  void restore(std::vector<DigestRow> rows) { rows_ = std::move(rows); }

 private:
  std::vector<DigestRow> rows_;
};

/// "step,stage,digest,chain" and a line each.
std::string digest_csv(const std::vector<DigestRow>& rows);
/// Throws Error(file) "source: line N: ...", also if a chain does not follow from its row.
std::vector<DigestRow> parse_digest_csv(const std::string& text, const std::string& source);
std::vector<DigestRow> read_digest_csv(const std::filesystem::path& path);

/// The first row in which two logs part, or nothing.  A log that merely ends earlier agrees.
struct DigestDifference {
  Index step = 0;
  std::string stage;
  std::string why;  ///< "digests differ", or who lacks the stage
};
std::optional<DigestDifference> first_difference(const std::vector<DigestRow>& a,
                                                 const std::vector<DigestRow>& b);

}  // namespace mxo::tools
