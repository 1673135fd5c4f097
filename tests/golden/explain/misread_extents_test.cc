// How far parts that were misread reach, and what shows them.
#include "tests/golden/misread_calls.h"

namespace mxo {
namespace {

using namespace misread_calls;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Row i takes elements [first, last) of row i + 1; the last row keeps its own.
Edit from_next_row(Index rows, Index depth, Index first, Index last) {
  return [=](std::uint8_t* to, const std::uint8_t* given) {
    for (Index i = 0; i + 1 < rows; ++i) {
      for (Index d = first; d < last; ++d) to[i * depth + d] = given[(i + 1) * depth + d];
    }
  };
}

const std::string kNext = " of x is read from 1 row after, without its scales";

std::string next_row(const PartShape& shape, Index first, Index last) {
  const Call call = mx_call(shape);
  return said(call, edited(call, "x.codes", from_next_row(shape.rows, shape.k, first, last)));
}

TEST(MisreadExtents, MayHoldTheFirstAndTheLastOfK) {
  EXPECT_EQ(next_row({}, 0, 32), "x.codes=part: k = 0-31" + kNext);
  EXPECT_EQ(next_row({{5, 12}, 12, 24, 80}, 64, 80), "x.codes=part: k = 64-79" + kNext);
  EXPECT_EQ(next_row({{5, 12}, 12, 24, 32}, 0, 32), "x.codes=part: k = 0-31" + kNext);
  EXPECT_EQ(next_row({}, 32, 40), "nothing") << "no whole run";
  const Call call = mx_call();
  const Call scales = edited(call, "x.scales", from_next_row(12, 3, 0, 1));
  EXPECT_EQ(said(call, scales), "x.scales=part: k = 0-31 of x takes the scales of 1 row after");
  const Call before = edited(call, "x.scales", [](std::uint8_t* to, const std::uint8_t* given) {
    for (Index i = 3; i < 36; i += 3) to[i] = given[i - 3];
  });
  EXPECT_EQ(said(call, before), "x.scales=part: k = 0-31 of x takes the scales of 1 row before");
}

/// Sums whose part of x came without signs, and then changed by `change`.
std::vector<std::string> names(const std::function<void(Tensor&)>& change,
                               const PartShape& shape = {}) {
  const Call call = mx_call(shape);
  Tensor came = sums(edited(call, "x.codes", [&](std::uint8_t* to, const std::uint8_t*) {
    for (Index i = 0; i < shape.rows * shape.k; ++i) {
      if (i % shape.k < 32) to[i] &= 0x7F;
    }
  }));
  change(came);
  std::vector<std::string> list;
  for (const Hypothesis& h : misread(call, sums(call), came)) list.push_back(h.name);
  return list;
}

/// Runs are of 32, and of 128 where the depth is more than 2048.
TEST(MisreadExtents, AreCoarserInALongDepth) {
  EXPECT_EQ(next_row({{2}, 2, 104, 2048}, 64, 96), "x.codes=part: k = 64-95" + kNext);
  EXPECT_EQ(next_row({{2}, 2, 36, 2080}, 64, 96), "nothing");
  EXPECT_EQ(next_row({{2}, 2, 36, 2080}, 128, 256), "x.codes=part: k = 128-255" + kNext);
}

/// What would lie past the end of K stays as it is.
TEST(MisreadExtents, EndWhereKEnds) {
  const Call call = mx_call({{1}, 1, 36, 2080});
  const Call other = edited(call, "x.codes", [](std::uint8_t* to, const std::uint8_t* given) {
    for (Index d = 1920; d < 2016; ++d) to[d] = given[d + 64];
  });
  EXPECT_EQ(said(call, other),
            "x.codes=part: k = 1920-2047 of x is read from the depth 64 after, without its scales");
}

/// The rows of a group of eight that fail, and those that are said to be altered.
std::vector<Index> altered_rows(const std::vector<Index>& failing) {
  const Call call = mx_call({{8}, 8, 32, 64});
  const Call other = edited(call, "x.codes", [](std::uint8_t* to, const std::uint8_t* given) {
    for (Index i = 0; i < 8 * 64; ++i) to[i] = i % 64 < 32 ? given[i] & 0x7F : given[i];
  });
  Tensor came = sums(call);
  const Tensor wrong = sums(other);
  for (const Index i : failing)
    std::copy_n(wrong.as<float>() + i * 32, 32, came.as<float>() + i * 32);
  for (const Hypothesis& h : misread(call, sums(call), came)) {
    if (h.name != "x.codes=signs_lost") continue;
    EXPECT_EQ(h.phrase, "signs are lost in k = 0-31 of x");
    Call altered = call;
    EXPECT_TRUE(h.alter(altered));
    std::vector<Index> rows;
    for (Index i = 0; i < 8; ++i) {
      const auto row = [&](const Call& c) {
        return c.input("x.codes").as<std::uint8_t>() + i * 64;
      };
      if (!std::equal(row(call), row(call) + 64, row(altered))) rows.push_back(i);
    }
    return rows;
  }
  return {};
}

TEST(MisreadExtents, FillSmallGapsBetweenLines) {
  using Rows = std::vector<Index>;
  EXPECT_EQ(altered_rows({2, 3, 4}), (Rows{2, 3, 4}));
  EXPECT_EQ(altered_rows({2, 3, 5}), (Rows{2, 3, 4, 5})) << "three of four";
  EXPECT_EQ(altered_rows({2, 4, 5, 7}), (Rows{2, 4, 5, 7})) << "four of six";
  EXPECT_EQ(altered_rows({1, 3}), (Rows{1, 3}));
  EXPECT_EQ(altered_rows({0, 1, 3, 4, 5, 7}), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
}

/// x with f32 scales for every 128 of K; w with one for each line.
/// Its codes of k = 32-63 are zero, and show no scale.
Call blockwise_call() {
  Call call =
      edited(mx_call({{6}, 6, 40, 288}), "x.codes", [](std::uint8_t* to, const std::uint8_t*) {
        for (Index i = 0; i < 6 * 288; ++i) {
          if (i % 288 / 32 == 1) to[i] = 0;
        }
      });
  const auto numbers = [](std::vector<Index> shape) {
    Tensor t(Dtype::f32, std::move(shape));
    test::Random random(9);
    for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = 1.5f + random.unit();
    return t;
  };
  call.replace("x.scales", numbers({6, 3}));
  call.replace("w.scales", numbers({1, 40}));
  return call;
}

TEST(MisreadExtents, OfScalesAreWholeBlocks) {
  const Call call = blockwise_call();
  const auto scales = [&](Index first, Index last, const std::function<float(Index)>& of) {
    Call other = call;
    Tensor t = call.input("x.scales");
    for (Index i = 0; i < 18; ++i) {
      if (i % 3 >= first && i % 3 < last) t.as<float>()[i] = of(i);
    }
    other.replace("x.scales", t);
    return said(call, other);
  };
  const float* given = call.input("x.scales").as<float>();
  const std::string after = " of x takes the scales of 2 rows after";
  const auto next = [&](Index i) { return i < 12 ? given[i + 6] : given[i]; };
  EXPECT_EQ(scales(0, 1, next), "x.scales=part: k = 0-127" + after);
  EXPECT_EQ(scales(1, 3, next), "x.scales=part: k = 128-287" + after);
  const std::string out = " of x is not multiplied by its scales";
  EXPECT_EQ(scales(0, 1, [](Index) { return 1.0f; }), "x.scales=part_left_out: k = 0-127" + out);
  EXPECT_EQ(scales(2, 3, [](Index) { return 1.0f; }), "x.scales=part_left_out: k = 256-287" + out);
  // Codes are not.
  EXPECT_EQ(said(call, edited(call, "x.codes", from_next_row(6, 288, 64, 96))),
            "x.codes=part: k = 64-95" + kNext);
  // Runs of 128, and a scale for every 32.
  const Call fine = mx_call({{2}, 2, 36, 2080});
  EXPECT_EQ(said(fine, edited(fine, "x.scales", from_next_row(2, 65, 4, 8))),
            "x.scales=part: k = 128-255 of x takes the scales of 1 row after");
}

TEST(MisreadExtents, AreOfSumsThatAreNumbers) {
  using Names = std::vector<std::string>;
  const Names lost{"x.codes=signs_lost"};
  EXPECT_EQ(names([](Tensor&) {}), lost);
  for (const float odd : {std::numeric_limits<float>::infinity(), kNaN}) {
    EXPECT_EQ(names([&](Tensor& y) { std::fill_n(y.as<float>(), y.elements(), odd); }), Names{});
  }
  EXPECT_EQ(names([](Tensor& y) { std::fill_n(y.as<float>(), y.elements(), 0.0f); }), Names{});
}

/// Half of the columns came as expected: the others tell.
TEST(MisreadExtents, AreMeasuredWhereSumsDiffer) {
  const PartShape shape{{5, 12}, 12, 48, 96};
  const Tensor expected = sums(mx_call(shape));
  EXPECT_EQ(names(
                [&](Tensor& y) {
                  for (Index i = 0; i < y.elements(); ++i) {
                    if (i % 2 == 0) y.as<float>()[i] = expected.as<float>()[i];
                  }
                },
                shape),
            std::vector<std::string>{"x.codes=signs_lost"});
}

TEST(MisreadExtents, AreOfTheSumsOfAProduct) {
  const Call call = mx_call();
  const Tensor expected = sums(call);
  const Tensor actual = sums(edited(call, "x.codes", from_next_row(12, 96, 0, 32)));
  const auto count = [&](const Call& of, const char* name, const Tensor& came) {
    std::vector<Hypothesis> list;
    add_misread_parts(of, make_output(of, name, expected, came), list);
    return list.size();
  };
  EXPECT_EQ(count(call, "y", actual), 1u);
  EXPECT_EQ(count(call, "dw", actual), 0u);
  EXPECT_EQ(count(call, "y", expected), 0u);
  Call other = call;
  other.op = "permute";
  EXPECT_EQ(count(other, "y", actual), 0u);
  Output settled = make_output(call, "y", expected, actual);
  for (Index i = 0; i < expected.elements(); ++i) settled.settle(i);
  std::vector<Hypothesis> list;
  add_misread_parts(call, settled, list);
  EXPECT_TRUE(list.empty());
}

/// A gradient of groups that have no rows.
TEST(MisreadExtents, AreOfSomeDepth) {
  const Call call = mx_gradient_call({0, 0}, 32);
  const Tensor expected = sums(call);
  Tensor came = expected;
  std::fill_n(came.as<float>(), came.elements(), 1.0f);
  EXPECT_TRUE(misread(call, expected, came).empty());
}

}  // namespace
}  // namespace mxo
