// Tokens to which one slot brought the row of another.

#include "golden/explain/find/output/slots.h"
#include "tests/golden/two_ranks.h"

namespace mxo::slot_rows_test {
namespace {

constexpr Index kColumns = 64;

struct At {
  Index rank;
  Index token;
  Index slot;
};

/// Two ranks, some slots of which bring the rows of others.
struct Brought {
  explicit Brought(bool gradient = false)
      : call(returned(gradient ? "dispatch_backward" : "combine")), end(gradient ? "dy" : "y") {
    begin();
  }
  /// The call, which tests may have changed, as it should come.
  void begin() {
    expected_output = got = run_call(*backend, call);
    rows.clear();
    for (Index s = 0; s < kSlots; ++s) rows.push_back(rows_of_slot(*backend, call, s));
  }
  /// Writes edit(row) to the row that a slot brings.
  template <typename Edit>
  void edit_row(const At& at, const Edit& edit) {
    for (Index p = 0; p < 2; ++p) {
      const Tensor& given = call.input(rank(p) + end);
      Tensor y = given;
      for (Index r = 0; r < y.extent(0); ++r) {
        const BF16* own = given.as<BF16>() + r * kColumns;
        if (std::memcmp(own, row(at), kColumns * sizeof(BF16)) == 0)
          edit(y.as<BF16>() + r * kColumns);
      }
      call.replace(rank(p) + end, std::move(y));
    }
    begin();
  }
  const BF16* row(const At& at) const {
    return rows[static_cast<std::size_t>(at.slot)].at(rank(at.rank) + "out").as<BF16>() +
           at.token * kColumns;
  }
  /// Slot `to` brings the row of `from`; the altered call gives what comes.
  void bring(const At& to, const At& from) {
    for (Index p = 0; p < 2; ++p) {
      Tensor y = altered.op.empty() ? call.input(rank(p) + end) : altered.input(rank(p) + end);
      for (Index r = 0; r < y.extent(0); ++r) {
        const BF16* given = call.input(rank(p) + end).as<BF16>() + r * kColumns;
        if (std::memcmp(given, row(to), kColumns * sizeof(BF16)) == 0)
          std::memcpy(y.as<BF16>() + r * kColumns, row(from), kColumns * sizeof(BF16));
      }
      if (altered.op.empty()) altered = call;
      altered.replace(rank(p) + end, std::move(y));
    }
    got = run_call(*backend, altered);
  }
  /// What is measured, whatever explain() makes of it.
  std::string measured() {
    std::vector<Output> all;
    for (const auto& [name, tensor] : expected_output)
      all.push_back(make_output(call, name, tensor, got.at(name)));
    std::vector<Hypothesis> list;
    add_measured_slot_rows(*backend, call, all, list);
    return list.empty() ? "none" : list.front().phrase;
  }
  std::string said() { return explain(*backend, call, expected_output, got).sentence(); }

  std::unique_ptr<Backend> backend = make_cpu_backend();
  Call call, altered;
  std::string end;
  NamedTensors expected_output, got;
  std::vector<NamedTensors> rows;
};

TEST(SlotRows, AreNamedByWhatTheyTook) {
  const auto of = [](const std::vector<std::pair<At, At>>& moves, bool gradient = false) {
    Brought b(gradient);
    for (const auto& [to, from] : moves) b.bring(to, from);
    return b.said();
  };
  const std::string is = "explained: ";
  EXPECT_EQ(of({{{0, 5, 1}, {0, 9, 2}}}),
            is + "slot 1 of token 5 of rank0 takes the row of slot 2 of token 9");
  EXPECT_EQ(of({{{0, 0, 0}, {0, 7, 1}}}),
            is + "slot 0 of token 0 of rank0 takes the row of slot 1 of token 7");
  EXPECT_EQ(of({{{1, 5, 1}, {0, 9, 2}}}, true),
            is + "slot 1 of token 5 of rank1 takes the row of slot 2 of token 9 of rank0");
  EXPECT_EQ(of({{{0, 5, 1}, {1, 9, 2}}, {{1, 7, 0}, {1, 2, 1}}}),
            is + "slot 1 of token 5 of rank0 takes the row of slot 2 of token 9 of rank1, "
                 "slot 0 of token 7 of rank1 takes the row of slot 1 of token 2");
  EXPECT_EQ(of({{{0, 5, 1}, {0, 6, 1}}, {{0, 8, 2}, {0, 9, 1}}}),
            is + "slot 1 of token 5 of rank0 takes the row of slot 1 of token 6, "
                 "slot 2 of token 8 of rank0 takes the row of slot 1 of token 9")
      << "of another slot";
  EXPECT_EQ(of({{{0, 5, 1}, {0, 4, 1}}}),
            is + "slot 1 of token 5 of rank0 takes the row of slot 1 of token 4");
  std::vector<std::pair<At, At>> one_before;
  std::vector<std::pair<At, At>> any;
  for (Index t = 8; t < 13; ++t) {
    one_before.push_back({{0, t, 1}, {0, t - 1, 1}});
    any.push_back({{t % 2, t, t % 3}, {0, 23 - t, 1}});
  }
  EXPECT_EQ(of(one_before),
            is + "a slot takes the row of the token 1 before, in tokens 8 to 12 of rank0");
  EXPECT_EQ(of(any), is + "a slot takes the row of another token, in tokens 8, 10 and 12 of rank0 "
                          "and tokens 9 and 11 of rank1");
  EXPECT_EQ(of({}).find("takes"), std::string::npos);
}

/// The next number.
void step(BF16& value) { value.bits = static_cast<decltype(value.bits)>(value.bits + 1); }

TEST(SlotRows, MayBeOfTwoTokensThatAreAlike) {
  const auto with = [](bool alike) {
    Brought b;
    const std::vector<BF16> other(b.row({0, 9, 2}), b.row({0, 9, 2}) + kColumns);
    b.edit_row({1, 11, 0}, [&](BF16* row) {
      std::copy(other.begin(), other.end(), row);
      if (!alike) step(row[kColumns - 1]);
    });
    b.bring({0, 5, 1}, {0, 9, 2});
    return b.measured();
  };
  EXPECT_EQ(with(true), "slot 1 of token 5 of rank0 takes the row of slot 2 of token 9");
  EXPECT_EQ(with(false), "none");
}

}  // namespace
}  // namespace mxo::slot_rows_test
