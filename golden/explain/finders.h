// Everything that looks for causes, in one ordered list.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include <span>
#include <vector>

#include "golden/explain/case/output.h"
#include "golden/explain/hypotheses.h"

namespace mxo {

/// What is to be explained.  Finders mark as explained what they explain in the marks of the
/// outputs.
struct Case {
  Backend& backend;
  const Call& call;
  const NamedTensors& expected;
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
  std::vector<Claim> (*find)(const Case&) = nullptr;
  void (*propose)(const Case&, std::vector<Hypothesis>&) = nullptr;
  /// One such cause that gives every bit says more than several parts do.
  bool of_all = false;
};

std::span<const Finder> finders();

/// What the finders of a turn claim, as far as it may be named.
std::vector<Claim> found(const Case& c, Turn turn);
/// What the finders of a turn propose, most likely first.
std::vector<Hypothesis> proposed(const Case& c, Turn turn);

}  // namespace mxo
