// Cases that differ only in padding and unused bytes must have outputs that do not differ at all.
#pragma once

#include <filesystem>
#include <functional>

#include "golden/files/manifest.h"
#include "golden/judge/verdict.h"

namespace mxo {

/// `some` cases of `all`, and of each pair of which they have one case the other.
Manifest with_twins(const Manifest& all, const Manifest& some);

/// For each pair of `manifest` (flags poison_nan and poison_finite) whose outputs are there, at
/// `actual_of` their ids: where a compared element differs between the two, both verdicts of
/// `report`, whose cases are those of the manifest in its order, are FAIL and say so.  Cases that
/// are INVALID or NOT_RUN stay what they are.
void compare_poison_pairs(
    const std::filesystem::path& suite, const Manifest& manifest,
    const std::function<std::filesystem::path(const std::string& id)>& actual_of, Report& report);

}  // namespace mxo
