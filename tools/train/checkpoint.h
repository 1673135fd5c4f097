// A run on disk, so that it goes on as if it had not stopped.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "golden/files/tensor_file.h"
#include "ops/communicator.h"
#include "tools/train/history.h"
#include "tools/train/parameters.h"

namespace mxo::tools {

/// What must be the same for a run to go on: options, recipe, text.
using Identity = std::map<std::string, std::string>;

/// SHA-256 over every name, text, shape and element of a checkpoint but the checksum's own.
std::string checkpoint_checksum(const TensorFile& file);

/// Writes one safetensors file: every parameter whole ("value.<name>", "mean.", "square."), the
/// history, the identity, a checksum of all of it; the file is complete or the one before it still
/// there.  It does not depend on the number of ranks.  Collective; the first rank writes.  Throws
/// Error(file).
void write_checkpoint(const std::filesystem::path& path, Communicator& communicator,
                      const Identity& identity, const Parameters& parameters,
                      const History& history);

/// Fills in `parameters` (this rank's part) and returns the history; `found` takes all that the
/// file says of its run.  Throws Error(file) for a file that is no checkpoint, is damaged, or is
/// one of another run, naming what differs.
History read_checkpoint(const std::filesystem::path& path, const Communicator& communicator,
                        const Identity& identity, Parameters& parameters,
                        Identity* found = nullptr);

/// A checkpoint by itself.
struct Snapshot {
  TrainOptions options;
  std::string recipe;
  TensorFile file;
};
/// Throws Error(file) for a file that is none, or whose options do not fit its tensors.
Snapshot read_snapshot(const std::filesystem::path& path);
/// Its values, this rank's part, into parameters of such options but for the context.
void read_values(const Snapshot& snapshot, const Communicator& communicator,
                 Parameters& parameters);

/// Copies `directory`/checkpoint.safetensors, which is of `step`, to checkpoint-<step>.safetensors,
/// and removes the oldest of such copies up to this one until `keep` are left; with 1 none is made.
void keep_copies(const std::filesystem::path& directory, Index step, Index keep);

}  // namespace mxo::tools
