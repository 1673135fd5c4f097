// The cases of a suite of recipes, one verdict each.
// Thread safety: any threads at once, where no call writes a file that another reads or writes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "golden/judge/progress.h"
#include "golden/judge/verdict.h"
#include "golden/suites/case_filter.h"
#include "golden/suites/shapes/shape_suite.h"

namespace mxo {

/// Gives the outputs of a case their verdicts; of_case(share) says how much of it is done.
using JudgeShapedCase = std::function<void(const ShapedCase&, CaseVerdict&,
                                           const std::function<void(double)>& of_case)>;

/// A verdict of every case that `only` lets through; what `judge` throws makes it INVALID, or NOT
/// RUN where it is not supported.  Throws Error(argument).
Report each_case(const std::filesystem::path& suite, const CaseFilter& only,
                 const Progress& progress, const JudgeShapedCase& judge);

/// "rows 128 to 255", and columns where they are not all.
std::string place_of(const Box& box, const OutputShape& whole);
Index elements_of(const OutputShape& whole);

}  // namespace mxo
