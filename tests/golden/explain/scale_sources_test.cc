// Scales taken from elsewhere: of other lines, blocks or experts, or at another stride.
#include "tests/golden/taken_scales.h"

namespace mxo {
namespace {

/// x [8, 128] in two groups, and w [2, 6, 128]: four scales a line.
Call plain() { return product_call({3, 8}, 6, 4); }
From later(Index by, Index n) {
  return [=](Index i) { return (i + by + n) % n; };
}
/// The same, where those beyond the ends keep their own.
From kept(Index by, Index n) {
  return [=](Index i) { return i + by < 0 || i + by >= n ? i : i + by; };
}
Index turned(Index i) { return i / 4 + i % 4 * 8; }
Index first_expert(Index i) { return i % 24; }
Index third_line(Index i) { return 8 + i % 4; }
Index third_block(Index i) { return i / 4 * 4 + 2; }
Index of_groups(Index i) { return i < 12 ? i + 4 : i - 8; }
Index next_in_expert(Index i) { return i / 24 * 24 + (i % 24 + 4) % 24; }

const std::string kAre = "the scales of x are those of ";

TEST(ScaleSources, OfLinesOfBlocksAreNamed) {
  const Call threes = product_call({8}, 6, 3);
  // Rows are alike by turns: one, three and five rows away are all the same.
  const Call alike = edited<float>(product_call({12}, 6, 4), "x.scales", [](float* s) {
    for (Index i = 8; i < 48; ++i) s[i] = s[i - 8];
  });
  const std::string experts =
      "expert 0 takes the scales of expert 1 and expert 1 takes the scales of expert 0 (w)";
  const std::string wrong_axis = "the scales of x are read along the wrong axis (blocks ";
  for (const Taken& t : std::vector<Taken>{
           {plain(), Side::a, range_of(8), [](Index i) { return i; }, "none"},
           {plain(),
            Side::a,
            range_of(7),
            later(4, 32),
            kAre + "1 row after",
            {later(4, 32), kept(4, 32)}},
           {plain(),
            Side::a,
            {2, 3, 4, 5, 6, 7},
            later(-8, 32),
            kAre + "2 rows before",
            {later(-8, 32), kept(-8, 32)}},
           {plain(),
            Side::a,
            range_of(7),
            later(1, 32),
            kAre + "1 block after",
            {later(1, 32), kept(1, 32)}},
           {plain(), Side::a, {1, 2, 3, 4}, later(-3, 32), kAre + "3 blocks before"},
           {plain(),
            Side::a,
            range_of(8),
            of_groups,
            kAre + "2 rows before in group 1, those of 1 row after in group 0",
            {of_groups}},
           {plain(), Side::a, range_of(8), [](Index i) { return i < 12 ? i : i - 8; },
            kAre + "2 rows before in group 1"},
           {alike, Side::a, {3, 4, 5, 6}, later(4, 48), kAre + "1 row before"},
           {plain(),
            Side::a,
            range_of(8),
            third_line,
            "every line of x takes the scales of line 2",
            {third_line}},
           {plain(), Side::a, range_of(8), [](Index i) { return (i < 12 ? 0 : 12) + i % 4; },
            "every line of x takes the scales of line 0 in group 0, 3 in group 1"},
           {plain(),
            Side::a,
            range_of(8),
            third_block,
            "every K block of x takes the scale of block 2",
            {third_block}},
           {plain(), Side::a, range_of(7), [](Index i) { return i / 4 * 4 + 4; }, "none"},
           {plain(), Side::a, range_of(7), [](Index i) { return i % 4 == 1 ? i * 5 % 28 : i + 4; },
            "none"},
           {plain(), Side::a, range_of(8), turned, wrong_axis + "8 apart rather than 1)", {turned}},
           {threes, Side::a, range_of(7),
            [](Index i) { return std::min<Index>(i / 3 * 3 + i % 3 * 2, 23); },
            wrong_axis + "2 apart rather than 1)"},
           {threes,
            Side::a,
            range_of(6),
            [](Index i) { return std::min<Index>(i / 3 * 4 + i % 3, 23); },
            "the scales of x are read 4 apart rather than 3",
            {[](Index i) { return (i / 3 * 4 + i % 3) % 24; }}},
           {plain(),
            Side::b,
            range_of(6),
            later(24, 48),
            experts,
            {later(24, 48), later(0, 48), later(24, 48)}},
           {plain(),
            Side::b,
            range_of(6),
            first_expert,
            "every expert takes the scales of w of expert 0",
            {first_expert}},
           {plain(),
            Side::b,
            range_of(6),
            next_in_expert,
            "the scales of w are those of 1 row after",
            {later(4, 48), next_in_expert, [](Index i) { return i % 24 < 20 ? i + 4 : i; }}}})
    t.check();
}

/// dy [320, 5] and x [320, 4]; ten rows of scales, one for 32 rows.
Call gradient() {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy.codes", mixed_codes({320, 5}, 1));
  call.replace("x.codes", mixed_codes({320, 4}, 3));
  const auto bytes = [](Index i) { return 60 + i * 37 % 101; };
  call.replace("dy.scales", filled<std::uint8_t>(Dtype::e8m0, {10, 5}, bytes));
  call.replace("x.scales", filled<std::uint8_t>(Dtype::e8m0, {10, 4}, bytes));
  call.replace("group_ends", ends_at({160, 320}));
  return call;
}

TEST(ScaleSources, OfGradientsAreNamed) {
  const Index no_distance[] = {30, 7, 21, 2, 39, 11, 26, 13};
  const From first_block = [](Index i) { return i / 20 * 20 + i % 4; };
  for (const Taken& t : std::vector<Taken>{
           {gradient(),
            Side::b,
            {0, 1, 2},
            later(1, 40),
            kAre + "1 column after",
            {later(1, 40), [](Index i) { return i / 4 * 4 + (i + 1) % 4; }, kept(1, 40)}},
           {gradient(), Side::b, {2, 3}, later(-2, 40), kAre + "2 columns before"},
           {gradient(), Side::b, range_of(4), later(4, 40), kAre + "1 block after"},
           {gradient(),
            Side::b,
            range_of(4),
            first_block,
            "every K block of x takes the scale of block 0",
            {first_block}},
           {gradient(), Side::b, range_of(4),
            [](Index i) { return i / 20 * 20 + i % 4 + i % 20 / 4; },
            "the scales of x are read along the wrong axis (blocks 1 apart rather than 4)"},
           {gradient(), Side::b, range_of(4),
            [&](Index i) { return no_distance[i % 4 + (i < 20 ? 0 : 4)]; }, "none"},
           {gradient(), Side::b, range_of(4), [](Index i) { return i < 20 ? i + 4 : i - 4; },
            "none"}})
    t.check();
}

/// Lines that have one scale each.
Call with_one_scale_a_line(const std::vector<Index>& ends, Index n) {
  Call call = product_call(ends, n, 2);
  call.replace("x.scales", mixed_scales({ends.back()}, 2));
  call.replace("w.scales", mixed_scales({static_cast<Index>(ends.size()), n}, 4));
  return call;
}

TEST(ScaleSources, OfOneScaleALineAreNamed) {
  const Call x = with_one_scale_a_line({8}, 3);
  const Call w = with_one_scale_a_line({2, 4, 6, 8}, 3);
  const std::string are = "the scales of w are those of ";
  for (Taken t : std::vector<Taken>{
           {x, Side::a, {1, 2, 4}, later(3, 8), kAre + "3 rows after", {kept(3, 8), later(3, 8)}},
           {x,
            Side::a,
            {1, 2, 7},
            later(-1, 8),
            kAre + "1 row before",
            {kept(-1, 8), later(-1, 8)}},
           {x, Side::a, {1, 2}, later(3, 8), "none"},
           {x, Side::a, {1, 2, 4, 5, 6, 7}, [](Index i) { return i < 5 ? i + 3 : 5; }, "none"},
           {x, Side::a, {1, 2, 4}, [](Index i) { return i; }, "none"},
           {w, Side::b, range_of(3), later(3, 12), are + "1 expert after"},
           {w, Side::b, range_of(3), later(-3, 12), are + "1 expert before"},
           {w, Side::b, range_of(3), kept(2, 12), are + "2 rows after"}}) {
    t.find = add_line_sources;
    t.check();
  }
}

}  // namespace
}  // namespace mxo
