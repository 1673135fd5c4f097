// Everything that looks for causes, in one ordered list; what is told besides by the steps of an
// operator, and by the shape of an output.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "golden/explain/case/output.h"
#include "golden/explain/confirm/altered_call_runner.h"
#include "golden/explain/explain.h"
#include "golden/explain/hypotheses.h"

namespace mxo {

/// What is to be explained.  Finders mark as explained what they explain in the marks of the
/// outputs.
struct Case {
  Backend& backend;
  const Call& call;
  const NamedTensors& expected;
  const NamedTensors& actual;
  std::vector<Output>& outputs;
};

/// When a finder is asked: what is found earlier leaves less to those after it.
enum class Turn : std::uint8_t {
  rule,      ///< one rule of a quantiser that gives all scales and all codes
  seen,      ///< what outputs say by themselves
  measured,  ///< altered calls that are made from the actual output
  listed,    ///< altered calls that are known
  costly,    ///< altered calls that are tried where those do not give all
  order,     ///< the right values in another order
  look,      ///< what values look like, where nothing else is known
};

/// Claims what outputs show, or proposes altered calls, which search() runs and confirms.
struct Finder {
  const char* id;
  Turn turn;
  Claims (*find)(const Case&) = nullptr;
  void (*propose)(const Case&, List&) = nullptr;
  /// One such cause that gives every bit says more than several parts do.
  bool of_all = false;
};

std::span<const Finder> finders();

/// What the finders of a turn claim, as far as it may be named.
Claims found(const Case& c, Turn turn);
/// What the finders of a turn propose, most likely first.
List proposed(const Case& c, Turn turn);

/// What was found out, and the outputs with what it explains explained.
struct Shown {
  Claims claims;
  std::vector<Output> outputs;
  Nearest nearest;
  std::string pattern;  ///< of what the steps of an operator leave open
  double judged() const {
    double sum = 0.0;
    for (const Claim& c : claims) sum += c.judged();
    return sum;
  }
};

// What the altered calls behind claims give of the outputs, once the claims are made.

/// Where a call gives nearly all that it alters, but in few whole rows: every element that it
/// gives counts.
void count_each(const Case& c, Claims& claims);
/// Keeps of several claims an altered call alone that tells nearly all and gives the rest, too:
/// what a few elements look like beside it is chance.
void keep_call_alone(const Case& c, Claims& claims);
/// Names what one altered call gives after a cause that is named beside another already, if that
/// alone gives it, too.
void name_by_fewest_causes(const Case& c, Claims& claims);
/// ", but rank0.y is as expected", of outputs of other steps that a claim's call would alter.
std::string kept_elsewhere(const Case& c, const Claim& claim);
/// Whether an output is what an altered call of these claims gives.
bool follows_from_calls(const Case& c, const Claims& claims, const Output& output);

/// The outputs of an operator of many steps, each as the call that made it.
Shown shown_by_steps(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                     const NamedTensors& expected, const Progress& progress);

/// Whether an output of an operator of many steps is what its step makes of the actual outputs of
/// the steps before.
bool follows_from_steps(Backend& backend, const Call& call, const NamedTensors& expected,
                        const NamedTensors& actual, const Output& output);

/// Where an output has another shape than is expected, and something known gives it: whether the
/// bits are those, too.
std::optional<Explanation> told_by_shape(Backend& backend, const Call& call,
                                         const NamedTensors& expected, const NamedTensors& actual);

}  // namespace mxo
