// Which block's scale each block along the depth was multiplied by, from measured lines.
#include "tests/golden/taken_scales.h"

namespace mxo {
namespace {

/// Rows of x whose block b took the scale of block map(b), or its own where there is none.
Taken rows_of(Index blocks, const From& map, std::string words) {
  const From from = [=](Index i) {
    const Index to = map(i % blocks);
    return to < 0 || to >= blocks ? i : i / blocks * blocks + to;
  };
  return {product_call({4}, 6, blocks),
          Side::a,
          range_of(4),
          from,
          std::move(words),
          {from},
          add_block_map,
          "=blocks"};
}

From in_order(std::vector<Index> list) {
  return [list](Index b) {
    const auto n = static_cast<Index>(list.size());
    return b / n * n + list[static_cast<std::size_t>(b % n)];
  };
}

std::string block(int b, int from) {
  return "K block " + std::to_string(b) + " of x takes the scale of block " + std::to_string(from);
}

TEST(BlockMap, IsNamed) {
  const std::string taken = "the scales of the K blocks of x are taken in runs of ";
  struct Row {
    Index blocks;
    From map;
    std::string words;
  };
  for (const Row& row : std::vector<Row>{
           {8, [](Index) { return 0; }, "every K block of x takes the scale of block 0"},
           {8, [](Index b) { return std::min<Index>(b, 3); },
            "scales of x are stuck at block 3 from block 4 on"},
           {8, [](Index b) { return std::max<Index>(b, 2); },
            "blocks 0 to 1 of x take the scale of block 2"},
           {8, [](Index b) { return b - 1; }, "K blocks of x take the scale of the block before"},
           {8, [](Index b) { return b + 4; }, "K blocks of x take the scale of the block 4 after"},
           {9, [](Index b) { return b & ~1; },
            "every 2 K blocks of x take the scale of their first"},
           {9, [](Index b) { return b | 3; }, "every 4 K blocks of x take the scale of their last"},
           {9, [](Index b) { return b & 3; }, "the scales of x start again every 4 K blocks"},
           {9, [](Index b) { return b ^ 3; }, "the scales of every 4 K blocks of x are reversed"},
           {9, [](Index b) { return b ^ 4; },
            "the halves of the scales of every 8 K blocks of x are exchanged"},
           {9, [](Index b) { return b / 2; }, "block b of x takes the scale of block b / 2"},
           {9, [](Index b) { return 4 * b; }, "block b of x takes the scale of block 4 b"},
           {7, [](Index b) { return 6 - b; }, "the scales of x are reversed along K"},
           {7, [](Index b) { return (b + 6) % 7; },
            "the scales of x are rolled by one block along K"},
           {7, [](Index b) { return (b + 1) % 7; },
            "the scales of x are rolled back by one block along K"},
           {8, in_order({2, 0, 3, 1}), taken + "4 in the order 2, 0, 3, 1"},
           {8, in_order({0, 4, 1, 5, 2, 6, 3, 7}),
            taken + "8 in the order 0, 4, 1, 5, 2, 6, 3, 7 (2 x 4 transposed)"},
           {7, in_order({2, 0, 3, 1}),
            block(0, 2) + ", " + block(1, 0) + ", " + block(2, 3) + ", " + block(3, 1) +
                " and 2 more take others'"},
           {3, in_order({0, 2, 1}), block(1, 2) + ", " + block(2, 1)},
           {7, in_order({0, 1, 2, 3, 4, 2, 6}), block(5, 2)},
           {7, in_order({5, 1, 4, 6, 2, 0, 3}),
            block(0, 5) + ", " + block(2, 4) + ", " + block(3, 6) + ", " + block(4, 2) +
                " and 2 more take others'"}})
    rows_of(row.blocks, row.map, row.words).check();
  Taken own = rows_of(
      6, [](Index b) { return b; }, "none");
  own.sources.clear();
  own.check();
}

TEST(BlockMap, GroupsOfGradientsHaveTheirOwnBlocks) {
  // Groups of 300, 0 and 500 rows: 3, 0 and 4 blocks of 128, for 4 columns each.
  Call call{"grouped_matmul_wgrad", {}, {}};
  for (const char* name : {"dy", "x"}) {
    call.replace(std::string(name) + ".codes", mixed_codes({800, 4}, 1));
    call.replace(std::string(name) + ".scales", mixed_scales({7, 4}, 2));
  }
  call.replace("group_ends", ends_at({300, 300, 800}));
  const From after = [](Index i) { return i / 4 == 2 || i / 4 == 6 ? i : i + 4; };
  for (const Side side : kSides) {
    Taken{call,
          side,
          {0, 3},
          after,
          side == Side::a ? "K blocks of dy take the scale of the block after"
                          : "K blocks of x take the scale of the block after",
          {after},
          add_block_map,
          "=blocks"}
        .check();
  }
}

}  // namespace
}  // namespace mxo
