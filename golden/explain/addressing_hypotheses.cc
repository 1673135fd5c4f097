// Operands of a product that a kernel reads at another address: rows that begin anew, experts whose
// codes and scales part, shared memory that is swizzled on one side, stale scales of both sides.
#include <algorithm>
#include <cstring>
#include <memory>

#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

void add(std::vector<Hypothesis>& list, const std::string& name, const std::string& phrase,
         std::vector<Reading> readings) {
  list.push_back(read_elsewhere(name, phrase, std::move(readings)));
}

/// Rows of `operand`, of as many as x has, read from row(r).
Reading rows_from(const std::string& operand, Index rows, std::function<Index(Index)> row) {
  return make_reading(
      operand,
      [rows](const Matrices& m) { return m.rows == rows && m.elements == rows * m.columns; },
      [row = std::move(row)](const Matrices& m, Index, Index r, Index column) {
        return row(r) * m.columns + column;
      });
}

/// The same of one scale a row, in a tensor of one axis.
void add_vector(std::vector<Hypothesis>& list, const std::string& name, const std::string& phrase,
                const std::string& operand, std::function<Index(Index)> row) {
  Hypothesis h{name, phrase, Stage::input};
  h.alter = [operand, row = std::move(row)](Call& call) {
    const Tensor& given = call.input(operand);
    std::vector<Index> kept;
    for (Index r = 0; r < given.extent(0); ++r) kept.push_back(row(r));
    call.replace(operand, gathered(given, 0, kept));
    return true;
  };
  list.push_back(std::move(h));
}

/// The first row of the group of every row.
std::vector<Index> begins_of(const Product& p) {
  std::vector<Index> begins(static_cast<std::size_t>(p.a_lines));
  for (Index r = 0; r < p.a_lines; ++r) begins[static_cast<std::size_t>(r)] = r;
  for (Index g = 0; g < p.groups(); ++g) {
    for (Index r = p.begin(g); r < std::min(p.end(g), p.a_lines); ++r)
      begins[static_cast<std::size_t>(r)] = p.begin(g);
  }
  return begins;
}

void add_rows(const Product& p, std::vector<Hypothesis>& list) {
  const auto begins = std::make_shared<const std::vector<Index>>(begins_of(p));
  const auto begin = [begins](Index r) { return (*begins)[static_cast<std::size_t>(r)]; };
  const Index rows = p.a_lines;
  const auto local = [&](const std::string& operand) {
    return rows_from(operand, rows, [begin](Index r) { return r - begin(r); });
  };
  const std::string every = " are read from row 0 on in every group";
  if (p.a.scales == nullptr) {
    return add(list, p.a.codes_name + "=local", "rows of " + p.a.name + every,
               {local(p.a.codes_name)});
  }
  const std::string scales = "the scales of " + p.a.name;
  add(list, p.a.codes_name + "=local",
      "the codes of " + p.a.name + ", without their scales," + every, {local(p.a.codes_name)});
  add(list, p.a.scales_name + "=local", scales + ", without their codes," + every,
      {local(p.a.scales_name)});
  if (p.a.scales->rank() == 1 && p.a.scales->extent(0) == rows) {
    add_vector(list, p.a.scales_name + "=row_0",
               "every row of " + p.a.name + " takes the scale of row 0", p.a.scales_name,
               [](Index) { return Index{0}; });
    return add_vector(list, p.a.scales_name + "=first_row",
                      "every row of " + p.a.name + " takes the scale of the first row of its group",
                      p.a.scales_name, begin);
  }
  add(list, p.a.scales_name + "=row_0", "every row of " + p.a.name + " takes the scales of row 0",
      {rows_from(p.a.scales_name, rows, [](Index) { return Index{0}; })});
  add(list, p.a.scales_name + "=first_row",
      "every row of " + p.a.name + " takes the scales of the first row of its group",
      {rows_from(p.a.scales_name, rows, begin)});
  for (const Index tile : {32, 64, 128}) {
    const std::string words = " take the scales of the first " + std::to_string(tile);
    add(list, p.a.scales_name + "=first_tile", "all rows of " + p.a.name + words,
        {rows_from(p.a.scales_name, rows, [tile](Index r) { return r % tile; })});
    add(list, p.a.scales_name + "=first_tile",
        "all rows of a group of " + p.a.name + words + " of them",
        {rows_from(p.a.scales_name, rows,
                   [tile, begin](Index r) { return begin(r) + (r - begin(r)) % tile; })});
  }
}

/// Blocks of `rows` rows that take the scales of chunks of `chunk` rows, of the same number.
void add_chunks(const Product& p, std::vector<Hypothesis>& list) {
  if (p.a.scales == nullptr || p.a.scales->rank() != 2) return;
  const Index lines = p.a_lines;
  constexpr std::pair<Index, Index> kChunks[] = {{8, 16},   {8, 32},  {16, 32},  {16, 64},
                                                 {16, 128}, {32, 64}, {32, 128}, {64, 128},
                                                 {32, 16},  {64, 32}, {128, 32}, {128, 64}};
  for (const auto& [rows, chunk] : kChunks) {
    if (rows >= lines) continue;
    const auto source = [rows = rows, chunk = chunk](Index r) {
      return r / rows * chunk + r % rows;
    };
    const auto is_matrix = [lines](const Matrices& m) { return m.elements == lines * m.columns; };
    // Rows whose scales would lie beyond the last have none: they are zeros.
    Reading codes = make_reading(
        p.a.codes_name, is_matrix,
        [](const Matrices& m, Index, Index r, Index column) { return r * m.columns + column; });
    codes.read = [own = codes.read, source, lines](const Tensor& given, const Cells& cells,
                                                   std::byte* to) {
      if (source(cells.row) < lines) return own(given, cells, to);
      std::memset(to, 0, cells.columns.size() * size_of(given.dtype()));
    };
    const Reading scales =
        make_reading(p.a.scales_name, is_matrix,
                     [source, lines](const Matrices& m, Index, Index r, Index column) {
                       const Index from = source(r);
                       return (from < lines ? from : r) * m.columns + column;
                     });
    const std::string own = std::to_string(rows);
    const std::string other = std::to_string(chunk);
    add(list, p.a.scales_name + "=chunks",
        "blocks of " + own + " rows take the scales of " + p.a.name + " of chunks of " + other +
            " rows: block i those from row " + other + " i on" +
            (chunk > rows ? ", and zeros beyond the last row" : ""),
        {codes, scales});
  }
}

/// Codes or scales of w of another expert than the rest of it.
void add_experts(const Product& p, std::vector<Hypothesis>& list) {
  const Index groups = p.groups();
  if (groups < 2 || p.b.scales == nullptr) return;
  struct Taken {
    const char* id;
    const char* phrase;
    Index from;  ///< -1 and 1: the neighbour
  };
  for (const Taken& t : {Taken{"expert_0", "expert 0", 0},
                         {"expert_before", "the expert before", -1},
                         {"expert_after", "the expert after", 1}}) {
    const auto expert = [groups, from = t.from](Index e) {
      return from == 0 ? 0 : (e + from + groups) % groups;
    };
    const Reading codes = make_reading(
        p.b.codes_name,
        [groups](const Matrices& m) { return m.elements == groups * m.rows * m.columns; },
        [expert](const Matrices& m, Index e, Index row, Index column) {
          return (expert(e) * m.rows + row) * m.columns + column;
        });
    add(list, p.b.codes_name + "=" + t.id,
        std::string("every expert takes the codes of ") + t.phrase + " (" + p.b.name +
            "), and its own scales",
        {codes});
    add(list, p.b.scales_name + "=" + t.id,
        std::string("every expert takes the scales of ") + t.phrase + " (" + p.b.name + ")",
        {rows_from(p.b.scales_name, groups, expert)});
  }
}

/// Lines in shared memory whose runs of 16 bytes are swizzled by their number, and are not read so.
void add_swizzles(const Product& p, std::vector<Hypothesis>& list) {
  for (const ProductSide* f : {&p.a, &p.b}) {
    const Index run = 16 / static_cast<Index>(size_of(f->codes->dtype()));
    for (const Index runs : {8, 4, 2}) {
      const auto applies = [run, runs](const Matrices& m) { return m.columns % (run * runs) == 0; };
      const auto source = [run, runs](const Matrices& m, Index matrix, Index row, Index column) {
        return (matrix * m.rows + row) * m.columns + (column ^ (row / (8 / runs) % runs * run));
      };
      const std::string bytes = std::to_string(runs * 16);
      add(list, f->codes_name + "=swizzled_" + bytes,
          "runs of 16 bytes of " + f->name + " are exchanged by the number of their line (the " +
              bytes + "-byte swizzle of shared memory on one side only)",
          {make_reading(f->codes_name, applies, source)});
    }
  }
}

/// One map of K blocks for the scales of both sides.
struct BlockMap {
  const char* id;
  std::string phrase;
  std::function<Index(Index)> from;
};

void add_both_sides(const Product& p, const std::vector<BlockMap>& maps,
                    std::vector<Hypothesis>& list) {
  const Index blocks = ceil_div(p.k, p.block);
  for (const BlockMap& map : maps) {
    const auto side = [&](const std::string& operand) {
      return make_reading(
          operand, [blocks](const Matrices& m) { return m.columns == blocks; },
          [from = map.from](const Matrices& m, Index matrix, Index row, Index column) {
            return (matrix * m.rows + row) * m.columns + from(column);
          });
    };
    add(list, std::string("scales=") + map.id, map.phrase + ", on both sides",
        {side(p.a.scales_name), side(p.b.scales_name)});
  }
}

/// Blocks of K that both sides have scales for; 0 if there are no two.
Index blocks_of_both(const Product& p) {
  if (p.a.scales == nullptr || p.b.scales == nullptr || p.block < 1) return 0;
  const Index blocks = ceil_div(p.k, p.block);
  return blocks < 2 ? 0 : blocks;
}

void add_both_scales(const Product& p, std::vector<Hypothesis>& list) {
  const Index blocks = blocks_of_both(p);
  if (blocks == 0) return;
  const Index tile = std::max<Index>(1, 128 / p.block);
  std::vector<BlockMap> maps{{"block_before", "K blocks take the scales of the block before",
                              [](Index c) { return std::max<Index>(c - 1, 0); }},
                             {"block_after", "K blocks take the scales of the block after",
                              [blocks](Index c) { return std::min(c + 1, blocks - 1); }},
                             {"last_block", "every K block takes the scales of the last",
                              [blocks](Index) { return blocks - 1; }}};
  if (blocks > tile) {
    maps.push_back({"last_tile_stale",
                    "the last " + std::to_string(tile * p.block) +
                        " of K take the scales of those before them",
                    [blocks, tile](Index c) { return c >= blocks - tile ? c - tile : c; }});
  }
  add_both_sides(p, maps, list);
}

/// Scales that were written column-major, and are read as they are expected.
void add_column_major(const Product& p, std::vector<Hypothesis>& list) {
  for (const ProductSide* f : {&p.a, &p.b}) {
    if (f->scales == nullptr) continue;
    add(list, f->scales_name + "=column_major",
        "the scales of " + f->name + " are column-major, and read row by row",
        {make_reading(
            f->scales_name, [](const Matrices& m) { return m.rows > 1 && m.columns > 1; },
            [](const Matrices& m, Index matrix, Index row, Index column) {
              const Index i = row * m.columns + column;
              return (matrix * m.rows + i % m.rows) * m.columns + i / m.rows;
            })});
  }
}

}  // namespace

void add_addressing_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p) return;
  add_column_major(*p, list);
  if (p->wgrad) return;
  add_rows(*p, list);
  add_chunks(*p, list);
  add_experts(*p, list);
  add_swizzles(*p, list);
  add_both_scales(*p, list);
}

void add_stale_stages(const Call& call, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad) return;
  const Index blocks = blocks_of_both(*p);
  const Index tile = std::max<Index>(1, 128 / p->block);
  std::vector<BlockMap> maps;
  for (const Index unit : tile > 1 ? std::vector<Index>{tile, 1} : std::vector<Index>{1}) {
    for (const Index stages : {2, 3, 4, 6, 8}) {
      const Index pass = stages * unit;
      if (pass >= blocks) continue;
      for (Index stage = 0; stage < stages; ++stage) {
        const std::string words = "stage " + std::to_string(stage) + " of " +
                                  std::to_string(stages) + ", of " +
                                  std::to_string(unit * p->block) + " of K each, takes the scales";
        const auto hits = [=](Index c) { return c >= pass && c / unit % stages == stage; };
        maps.push_back({"stale_stage", words + " of the pass before",
                        [=](Index c) { return hits(c) ? c - pass : c; }});
        if (2 * pass >= blocks) continue;
        maps.push_back({"first_stage", words + " of the first pass",
                        [=](Index c) { return hits(c) ? c % pass : c; }});
      }
    }
  }
  add_both_sides(*p, maps, list);
}

}  // namespace mxo
