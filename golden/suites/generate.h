// Writing a suite to disk.
// Thread safety: any threads at once, where no call writes a file that another reads or writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "golden/files/manifest.h"
#include "golden/files/safetensors.h"
#include "golden/judge/progress.h"
#include "ops/backend.h"
#include "ops/parameters.h"

namespace mxo {

class World;

struct GenerateOptions {
  std::string suite = "all";
  int level = 1;
  std::uint64_t seed = 0;
  Spelling spelling = Spelling::portable;
};

/// Makes every case of the suite, runs it on `backend` (an operator on many ranks among the ranks
/// of `world`), and writes inputs and outputs to
/// `directory`, which must not exist or be empty.  The same options give the same bytes on every
/// backend, with any number of threads.
///
/// Everything is written to a temporary name beside `directory`, the manifest last, and renamed
/// at the end, after `before_publishing`, which may throw: nothing is left then.
/// Throws Error(argument) for an unknown suite or level, Error(file).
Manifest generate(const std::filesystem::path& directory, const GenerateOptions& options,
                  Backend& backend, World& world, const Progress& progress = {},
                  const std::function<void(const Manifest&)>& before_publishing = {});

/// A suite of one case, "from": `op` on the tensors of the file `from`.
Manifest generate_from(const std::filesystem::path& directory, const std::filesystem::path& from,
                       std::string_view op, const Parameters& set, Spelling spelling,
                       Backend& backend, World& world,
                       const std::function<void(const Manifest&)>& before_publishing = {});

}  // namespace mxo
