// Writing a suite of recipes and digests to disk.
// Thread safety: any threads at once, where no call writes a file that another reads or writes.
#pragma once

#include <filesystem>
#include <functional>

#include "golden/judge/progress.h"
#include "golden/suites/shapes/expected_slice.h"

namespace mxo {

struct ShapeRequest {
  std::string id;
  std::string op;
  Parameters set;
  Dimensions dimensions;
  ShapeOptions options;
};

/// Makes the operands of every case slice by slice, has `crew` run them, and writes digests of
/// the outputs to `directory`, which must not exist or be empty: whole or not at all, as `generate`
/// does.  The same requests give the same bytes on every backend.  A cut that blocks do not allow
/// is none: such a call is made whole.  Throws Error(argument), Error(unsupported), Error(file).
ShapeSuite generate_shapes(const std::filesystem::path& directory, const std::string& name,
                           const std::vector<ShapeRequest>& requests, const Crew& crew,
                           World& world, const Progress& progress = {},
                           const std::function<void(const ShapeSuite&)>& before_publishing = {});

}  // namespace mxo
