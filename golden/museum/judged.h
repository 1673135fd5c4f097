// Outputs of a kernel with a fault before the judge, without files.
#pragma once

#include <string>
#include <vector>

#include "golden/judge/comparator.h"
#include "golden/museum/museum.h"

namespace mxo {

/// One verdict for each output.
std::vector<TensorVerdict> judged(const Planted& planted, const CompareOptions& options = {});

/// True if the judge lets every output pass.
bool all_pass(const std::vector<TensorVerdict>& verdicts);

/// All outputs in a few words: "FAIL 8192 of 43008, SQNR -3.0 dB"; of outputs that pass what the
/// judge says beside that: "PASS: rows 224 to 255 belong to no group and hold NaN: not compared".
std::string in_short(const std::vector<TensorVerdict>& verdicts);

}  // namespace mxo
