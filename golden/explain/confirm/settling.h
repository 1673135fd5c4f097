// A candidate: whether it is worth a closer look, and which failing elements it explains.
#pragma once

#include <string>
#include <vector>

#include "golden/explain/claim.h"
#include "golden/explain/confirm/altered_call_runner.h"

namespace mxo {

using Hypotheses = std::vector<const Hypothesis*>;

struct Candidate {
  Hypotheses hypotheses;
  RunResult trial;
};

/// Whether a trial gives something worth a closer look, in a place; the score decides.
bool worth_running(const RunResult& trial);
/// Whether a hypothesis is of a kind that cannot give what it gives and no more.
bool contradicts(const Hypothesis& hypothesis, const RunResult& trial,
                 const std::vector<Output>& outputs);

std::string phrase_of(const Hypotheses& hypotheses);
/// What a verdict rests on where not everything was computed.
std::string judged_on(Index examined, Index failing);

/// ", but scales are as expected", of outputs that a cause would alter.
std::string kept_in_words(const RunResult& trial, const std::vector<Output>& outputs);

/// Settles what the candidate explains: every element that fails is computed with it, or, beyond a
/// limit of work, some rows and columns of them.  Empty if nothing is left of it.
std::vector<Claim> mark_explained(AlteredCallRunner& runner, const Candidate& candidate);

}  // namespace mxo
