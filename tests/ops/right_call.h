// One call that is right, and every view of it made wrong.
#pragma once

#include <set>

#include <gtest/gtest.h>

#include "tests/ops/fields.h"
#include "tests/support/refusal.h"

namespace mxo {

/// One call that is right.
template <typename Op>
struct RightCall {
  std::string name;
  void (*call)(Backend&, const Op&);
  Op op;
  /// "x": may be anything; "x.0": an axis that no other view repeats; "y=x": may lie over it.
  std::set<std::string> free = {};

  std::string complaint(const Op& changed) const { return check_refusal(call, changed); }
  /// What a copy that `change` has spoilt is refused with.
  template <typename Change>
  void expect_refusal(const Change& change, const std::string& words) const {
    Op changed = op;
    change(changed);
    EXPECT_EQ(complaint(changed), name + ": " + words);
  }

  void expect_that_checks_see_all() const {
    EXPECT_EQ(complaint(op), "") << name;
    Op read = op;
    each_view(read, [&](const std::string& view, auto& right) {
      if (!free.contains(view)) spoil(view, right);
      lay_over(view, right);
    });
  }

 private:
  /// The call with that view changed.
  template <typename Change>
  Op with(const std::string& view, const Change& change) const {
    Op other = op;
    each_view(other, [&](const std::string& one, auto& field) {
      if (one == view) change(field);
    });
    return other;
  }
  void expect_refused(const Op& changed, const std::string& what) const {
    EXPECT_EQ(complaint(changed).find(name + ": "), 0u) << name << ": " << what;
  }
  template <typename Void>
  void spoil(const std::string& view, const AnyView<Void>& right) const {
    if (right.rank > 1) {  // of one axis none is left: an operand that is not given
      expect_refused(with(view, [](auto& v) { v.rank -= 1; }), view + " of one axis less");
    }
    if (right.rank < kMaxRank) {
      expect_refused(with(view,
                          [](auto& v) {
                            v.extent[v.rank] = v.stride[v.rank] = 1;
                            v.rank += 1;
                          }),
                     view + " of one axis more");
    }
    expect_refused(with(view, [](auto& v) { v.dtype = Dtype::boolean; }),
                   view + " of another type");
    for (int axis = 0; axis < right.rank; ++axis) {
      const std::string place = view + "." + std::to_string(axis);
      if (free.contains(place)) continue;
      expect_refused(with(view, [&](auto& v) { v.extent[axis] -= 1; }), place + " shorter");
    }
  }
  void lay_over(const std::string&, const Operand&) const {}
  /// A result lies over every other view in turn.
  void lay_over(const std::string& written, const Result&) const {
    Op read = op;
    each_view(read, [&](const std::string& other, const auto& from) {
      if (other == written || free.contains(written + "=" + other)) return;
      const Op over = with(written, [&](auto& v) {
        v.data = const_cast<void*>(static_cast<const void*>(from.data));
      });
      EXPECT_NE(complaint(over).find("shares memory"), std::string::npos)
          << name << ": " << written << " over " << other;
    });
  }
};

/// That the checks of a call see every view of it that is wrong.
template <typename Op>
void expect_checked(std::string name, void (*call)(Backend&, const Op&),
                    const std::type_identity_t<Op>& op, std::set<std::string> free = {}) {
  RightCall<Op>{std::move(name), call, op, std::move(free)}.expect_that_checks_see_all();
}

}  // namespace mxo
