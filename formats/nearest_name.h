// The error for an unknown name: the nearest known one, and all that there are.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mxo {

/// The name that `wanted` is the fewest insertions, deletions and replacements away from, whatever
/// the case of its letters; empty if those are more than a third of its letters, and than one.
std::string_view nearest_name(std::string_view wanted, const std::vector<std::string_view>& names);

/// `said`, the nearest name and the choice:
/// "sum: found 'exakt', did you mean exact? Needs one of exact, fma_chain", or, if none is near,
/// "sum: found 'h100', needs one of exact, fma_chain".  Beside a near one no long list is given.
/// `choice` begins "needs", "there are", ...
std::string with_nearest(std::string said, std::string_view wanted,
                         const std::vector<std::string_view>& names, std::string choice);

/// "unknown operator 'quantise', did you mean quantize? There are encode, decode, quantize".
std::string unknown_name(std::string_view kind, std::string_view wanted,
                         const std::vector<std::string_view>& names);

}  // namespace mxo
