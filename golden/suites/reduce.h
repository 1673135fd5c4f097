// A failing case made small: the fewest rows, columns and blocks that still fail.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "golden/judge/judge_call.h"
#include "ops/backend.h"

namespace mxo {

/// What a kernel makes of the operands of a case; nothing where it gave no outputs.
using Kernel = std::function<std::optional<NamedTensors>(const AnsweredCall&)>;

struct ReduceOptions {
  CompareOptions gate;
  int runs = 30;  ///< of the kernel, at most
  /// What a slice and its outputs must show of the fault, apart from failing; may be empty.
  std::function<bool(const AnsweredCall&)> alike;
};

struct Reduction {
  AnsweredCall small;  ///< with the wrong outputs
  int runs = 0;        ///< of the kernel
  std::string words;   ///< "R 4096 to 1, N 2048 to 1, K 512 stays"
};

/// The smallest case found that fails the gate.  Outputs of the kernel are needed of the whole
/// case: `whole.actual`, or where it is empty `kernel` is run once.
///
/// Without a kernel the case is cut to one element that fails: its row, its column, its block, and
/// all of what is summed; and to twice, four times, ... as much of each axis where the operator
/// refuses that, another answer would be expected, or it is not `alike`.  With a kernel, that slice
/// is tried first; where it passes, or what is summed could be less, each axis is halved as long as
/// one half still fails.  Expectations are derived again from `reference` for every slice.
///
/// Throws Error(file) where nothing fails, Error(unsupported) for an operator on ranks.
Reduction reduce_case(Backend& reference, const AnsweredCall& whole, const Kernel& kernel,
                      const ReduceOptions& options);

/// Writes DIR/manifest.json, DIR/cases/<id>.safetensors and DIR/actual/<id>.safetensors: a suite of
/// one case and the outputs that fail it; all of them or, where `before_publishing` throws,
/// nothing. Throws Error(file), also where DIR is not new or empty.
void write_reduction(const std::filesystem::path& directory, const Reduction& reduction,
                     const std::function<void()>& before_publishing = {});

}  // namespace mxo
