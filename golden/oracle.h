// The front door of C++: one call judges a kernel's outputs, says what differs, and explains it on
// request. Thread safety: any threads at once, each with an oracle of its own; an oracle is used
// from one thread.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "golden/explain/explain.h"
#include "golden/judge/judge_call.h"
#include "ops/scaled_tensor.h"

namespace mxo {

/// What `Oracle::check` found.  True where every output passes; printed, it is the report: a line
/// for an output that passes, else how many elements differ, where, by how much, and the first of
/// them. It becomes a testing::AssertionResult of googletest, so that EXPECT_TRUE prints it.
class CheckResult {
 public:
  bool passed() const { return outcome == Outcome::pass; }
  explicit operator bool() const { return passed(); }
  std::string report() const;
  /// Why the outputs differ, measured from them; the altered calls run on the oracle's backend.
  Explanation explain() const;

  template <typename AssertionResult>
  requires std::is_class_v<AssertionResult> && requires(bool b, std::string s) {
    AssertionResult(b) << s;
  }
  operator AssertionResult() const { return AssertionResult(passed()) << report(); }

  Outcome outcome = Outcome::invalid;  ///< of all; INVALID where no element was compared
  CaseVerdict verdict;                 ///< of each output: figures, groups, the first differences
  AnsweredCall call;                   ///< with what the operator gives

 private:
  friend class Oracle;
  std::shared_ptr<Backend> backend_;
  World* world_ = nullptr;
};
std::ostream& operator<<(std::ostream& out, const CheckResult& result);

/// Judges by the operators of one backend.
class Oracle {
 public:
  using Settings = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  /// `world` is for operators that work on many ranks; it must outlive the oracle and its results.
  explicit Oracle(std::unique_ptr<Backend> backend, World* world = nullptr);

  /// Runs operator `op` (`mxo list ops`) on `inputs` and holds `actual`, some or all of its
  /// outputs, against the result.  Both are views of anyone's host memory: `Tensor`s, or
  /// `view_of(data, dtype, shape)`; codes and scales may come as bytes (u8).  `settings` are the
  /// parameters by name.
  ///
  /// An output of another shape or type fails with the reason; nothing compared (no rows, no group)
  /// is not a pass.  Throws Error(argument) for an operator, operand, parameter or output that does
  /// not exist, or without an output; and what the operator throws.
  CheckResult check(std::string_view op, const NamedViews& inputs, const NamedViews& actual,
                    Settings settings = {}, const CompareOptions& options = {}) const;

 private:
  std::shared_ptr<Backend> backend_;
  World* world_;
};

}  // namespace mxo
