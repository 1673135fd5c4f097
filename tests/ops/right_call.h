// One call that is right, and every field of it made wrong.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/refusal.h"

namespace mxo {

/// One call that is right, under the names of its operands and results.
template <typename Op>
struct RightCall {
  std::string name;
  void (*call)(Backend&, const Op&);
  Op op;
  std::vector<std::pair<std::string, Operand Op::*>> reads;
  std::vector<std::pair<std::string, Result Op::*>> writes;
  std::set<std::string> free = {};  ///< "x.0": an axis that no other field repeats; "y=x": in place

  std::string complaint(const Op& changed) const {
    Bare bare;
    return check_refusal([&] { call(bare, changed); });
  }

  void expect_refused(const Op& changed, const std::string& what) const {
    EXPECT_EQ(complaint(changed).find(name + ": "), 0u) << name << ": " << what;
  }

  template <typename View>
  void spoil_field(const std::string& field, View Op::*member) const {
    Op bad = op;
    (bad.*member).rank -= 1;  // of one axis none is left: an operand that is not given
    if ((bad.*member).rank > 0) expect_refused(bad, field + " of one axis less");
    bad = op;
    View& longer = bad.*member;
    if (longer.rank < kMaxRank) {
      longer.extent[longer.rank] = longer.stride[longer.rank] = 1;
      longer.rank += 1;
      expect_refused(bad, field + " of one axis more");
    }
    bad = op;
    (bad.*member).dtype = Dtype::boolean;
    expect_refused(bad, field + " of another type");
    for (int axis = 0; axis < (op.*member).rank; ++axis) {
      if (free.contains(field + "." + std::to_string(axis))) continue;
      bad = op;
      (bad.*member).extent[axis] -= 1;
      expect_refused(bad, field + " shorter along axis " + std::to_string(axis));
    }
  }

  template <typename View>
  void lay_over(const std::string& written, Result Op::*to, const std::string& other,
                View Op::*from) const {
    if (written == other || free.contains(written + "=" + other)) return;
    Op bad = op;
    (bad.*to).data = const_cast<void*>(static_cast<const void*>((bad.*from).data));
    EXPECT_NE(complaint(bad).find("shares memory"), std::string::npos)
        << name << ": " << written << " over " << other;
  }

  void expect_that_checks_see_all() const {
    EXPECT_EQ(complaint(op), "") << name;
    for (const auto& [field, member] : reads) spoil_field(field, member);
    for (const auto& [field, member] : writes) {
      spoil_field(field, member);
      for (const auto& [other, from] : reads) lay_over(field, member, other, from);
      for (const auto& [other, from] : writes) lay_over(field, member, other, from);
    }
  }
};

}  // namespace mxo
