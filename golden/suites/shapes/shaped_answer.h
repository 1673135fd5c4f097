// A case at a shape as a whole call, for `mxo explain` and `mxo reduce`.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include <filesystem>
#include <optional>

#include "golden/judge/judge_call.h"
#include "golden/suites/shapes/shape_suite.h"

namespace mxo {

/// The case of SUITE/cases/<id>.safetensors, with its digests; nothing where SUITE's manifest is
/// not one of shapes.  Throws Error(file).
std::optional<ShapedCase> find_shaped_case(const std::filesystem::path& path);

/// Its operands, all at once.  Throws Error(unsupported) beyond 8 GB.
AnsweredCall whole_call(const ShapedCase& item);

/// What a kernel gave: outputs, or digests and the bytes of the regions that differ, of which the
/// rest is as `expected`.  Throws Error(file) where bytes are missing, or the suite's digests are
/// not those of `expected`.
NamedTensors read_answer(const ShapedCase& item, const NamedTensors& expected,
                         const std::filesystem::path& path);

}  // namespace mxo
