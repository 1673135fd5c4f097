// What explain has found out so far, and the ways it finds it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "golden/explain/explain.h"
#include "golden/explain/output.h"
#include "golden/explain/search.h"

namespace mxo {

/// What was found out, and the outputs with what it explains settled.
struct Shown {
  std::vector<Claim> claims;
  std::vector<Output> outputs;
  Nearest nearest;
  std::string pattern;  ///< of what the steps of an operator leave open
  double judged() const {
    double sum = 0.0;
    for (const Claim& c : claims) sum += c.judged();
    return sum;
  }
};

inline void append(std::vector<Claim>& to, std::vector<Claim> more) {
  for (Claim& c : more) to.push_back(std::move(c));
}

/// What outputs say by themselves.
std::vector<Claim> shown_by_outputs(const Call& call, std::vector<Output>& outputs,
                                    const NamedTensors& expected);

/// What altered calls give, measured ones first.
std::vector<Claim> shown_by_runs(Backend& backend, const Call& call, std::vector<Output>& outputs,
                                 const Progress& progress, Nearest& nearest,
                                 Extent extent = Extent::part);

/// The outputs of an operator of many steps, each as the call that made it.
Shown shown_by_steps(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                     const NamedTensors& expected, const Progress& progress);

/// Where an output has another shape than is expected, and something known gives it: whether the
/// bits are those, too.
std::optional<Explanation> told_by_shape(Backend& backend, const Call& call,
                                         const NamedTensors& expected, const NamedTensors& actual);

/// Several causes, or one that only says what the output looks like.
bool is_patchwork(const std::vector<Claim>& claims, Index left);

/// The one order of one output, or the one function of its values, that gives every element that
/// differs; empty if there is none.
std::vector<Claim> shown_as_one_order(std::vector<Output>& outputs);

/// What values look like where nothing else is known.  A few of them that look alike, while all
/// others are unknown, have no cause of their own; nor have codes of a block whose scale differs.
void show_looks(const Call& call, std::vector<Output>& outputs, std::vector<Claim>& claims);

}  // namespace mxo
