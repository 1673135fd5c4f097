// Outcomes, their names and their order.
#include "golden/judge/verdict.h"

#include <algorithm>

namespace mxo {
namespace {

struct OutcomeRow {
  Outcome outcome;
  std::string_view name;
  int gravity;
  int exit_code;
};

constexpr OutcomeRow kOutcomes[] = {
    {Outcome::pass, "PASS", 1, 0},
    {Outcome::fail, "FAIL", 3, 1},
    {Outcome::not_compared, "NOT_COMPARED", 0, 0},
    {Outcome::not_run, "NOT_RUN", 2, 5},
    {Outcome::invalid, "INVALID", 4, 3},
};

const OutcomeRow& row_of(Outcome outcome) { return kOutcomes[static_cast<std::size_t>(outcome)]; }

}  // namespace

std::string_view name_of(Outcome outcome) { return row_of(outcome).name; }

Outcome worse_of(Outcome a, Outcome b) { return row_of(a).gravity < row_of(b).gravity ? b : a; }

int exit_code(Outcome gravest) { return row_of(gravest).exit_code; }

Outcome Report::outcome() const {
  Outcome gravest = Outcome::not_compared;
  Index elements = 0;
  for (const CaseVerdict& verdict : cases) {
    gravest = worse_of(gravest, verdict.outcome);
    for (const TensorVerdict& output : verdict.outputs) elements += output.all.elements;
  }
  const bool failed = worse_of(gravest, Outcome::pass) != Outcome::pass;
  return elements == 0 && !failed ? Outcome::invalid : gravest;
}

Index Report::count(Outcome outcome) const {
  return std::count_if(cases.begin(), cases.end(),
                       [&](const CaseVerdict& c) { return c.outcome == outcome; });
}

}  // namespace mxo
