// N outputs of one input: do they agree bit for bit, and what moves where they do not?
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "formats/tensor.h"
#include "golden/judge/progress.h"

namespace mxo {

/// One tensor over all runs.  NaN of one pattern and NaN of another are two results.
struct Stability {
  std::string file;  ///< relative to the runs' directories; empty where runs are files
  std::string name;
  Dtype format = Dtype::u8;
  std::vector<Index> shape;
  Index elements = 0;
  Index moving = 0;            ///< elements that are not the same in all runs
  std::vector<int> result_of;  ///< of each run: which of the distinct results, by appearance
  int results = 0;             ///< distinct ones
  std::uint64_t max_ulp = 0;   ///< furthest apart that two runs are, NaN aside
  bool nan = false;            ///< some run has NaN where another has not
  std::vector<Index> first;    ///< the first position that moves
  std::string pattern;         ///< where it moves, in words; empty where nothing does
  std::string reason;          ///< why the runs cannot be compared; empty where they can
  bool stable() const { return moving == 0 && reason.empty(); }
};

struct RepeatReport {
  std::vector<std::string> runs;
  std::vector<Stability> tensors;
  bool stable() const;
};

/// Runs are files of tensors, or directories of them with the same names.  A tensor that a run
/// lacks, or has in another shape or size of element, is unstable with a reason.
/// Throws Error(argument) for fewer than two runs, Error(file), also where there is no tensor.
RepeatReport compare_repeats(std::span<const std::filesystem::path> runs,
                             const Progress& progress = {});

/// One line a tensor, those that move first, and a sum at the end.
std::string table_of(const RepeatReport& report);
/// Schema mxo-repeat/1.
std::string json_of(const RepeatReport& report);

}  // namespace mxo
