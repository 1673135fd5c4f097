// What the altered calls behind claims give of the outputs, once the claims are made.
// Thread safety: each call by one thread.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/finders.h"

namespace mxo {

/// Where a call gives nearly all that it alters, but in few whole rows: every element that it
/// gives counts.
void count_each(const Case& c, std::vector<Claim>& claims);
/// Keeps of several claims an altered call alone that tells nearly all and gives the rest, too:
/// what a few elements look like beside it is chance.
void keep_call_alone(const Case& c, std::vector<Claim>& claims);
/// ", but rank0.y is as expected", of outputs of other steps that a claim's call would alter.
std::string kept_elsewhere(const Case& c, const Claim& claim);
/// Whether an output is what an altered call of these claims gives.
bool follows_from_calls(const Case& c, const std::vector<Claim>& claims, const Output& output);

}  // namespace mxo
