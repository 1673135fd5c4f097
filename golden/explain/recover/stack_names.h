// Whose rule gives the scales that came: rows of formats/scale_rules.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/dtype.h"

namespace mxo {

/// ": the rule of vllm or aiter, which these blocks do not tell apart", of every stack whose rule
/// stores these scales under `power_of_2` ("none", "up", "down", or one that no stack has); empty
/// if there is none.  A stack's other path is not named beside it: vllm stands for vllm_cuda.
std::string stacks_that_give(const std::vector<float>& amax, const std::vector<float>& scales,
                             std::string_view power_of_2, Dtype format);

/// The same for bytes, of rules that leave scale_mode no choice.
std::string stacks_that_give(const std::vector<float>& amax,
                             const std::vector<std::uint8_t>& scales, Dtype format);

}  // namespace mxo
