// Operands of a product that a kernel reads at another address: rows that restart, experts whose
// codes and scales part, shared memory that is swizzled on one side, stale scales of both sides.
#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "golden/explain/alter/rows.h"

namespace mxo {
namespace {

using Rows = std::function<Index(Index)>;

/// Lines of one operand, of as many as there are rows or experts, taken from others.
void add_lines(std::vector<Hypothesis>& list, const Tensor& given, const std::string& operand,
               const std::string& id, std::string phrase, Rows from) {
  if (given.rank() == 1) {
    list.push_back(altered(operand + "=" + id, std::move(phrase),
                           [operand, n = given.extent(0), from = std::move(from)](Call& c) {
                             std::vector<Index> kept = range_of(n);
                             std::transform(kept.begin(), kept.end(), kept.begin(), from);
                             c.replace(operand, gathered(c.input(operand), 0, kept));
                             return true;
                           }));
    return;
  }
  const auto one_matrix = [lines = given.extent(0)](const Matrices& m) {
    return m.rows == lines && m.elements == lines * m.columns;
  };
  list.push_back(read_elsewhere(
      operand + "=" + id, std::move(phrase),
      {read_from(operand, one_matrix, [from = std::move(from)](const Matrices&, Place p) {
        return Place{p.matrix, from(p.row), p.column};
      })}));
}

/// The first row of the group of every row.
Rows begins_of(const Product& p) {
  auto begins = std::make_shared<std::vector<Index>>(range_of(p.a_lines));
  for (Index g = 0; g < p.groups(); ++g) {
    for (Index r = p.begin(g); r < std::min(p.end(g), p.a_lines); ++r)
      (*begins)[static_cast<std::size_t>(r)] = p.begin(g);
  }
  return [begins](Index r) { return (*begins)[static_cast<std::size_t>(r)]; };
}

void add_rows(const Product& p, std::vector<Hypothesis>& list) {
  const Rows begin = begins_of(p);
  const Rows local = [begin](Index r) { return r - begin(r); };
  const std::string& x = p.a.name;
  const char* whole = "rows of {} are read from row 0 on in every group";
  const char* codes =
      "the codes of {}, without their scales, are read from row 0 on in every group";
  add_lines(list, *p.a.codes, p.a.codes_name, "local",
            filled(p.a.scales == nullptr ? whole : codes, x), local);
  if (p.a.scales == nullptr) return;
  const auto add = [&](const char* id, const std::string& phrase, Rows from) {
    if (p.a.scales->rank() > 0 && p.a.scales->extent(0) == p.a_lines)
      add_lines(list, *p.a.scales, p.a.scales_name, id, phrase, std::move(from));
  };
  const bool vector = p.a.scales->rank() == 1;
  if (p.a.scales->rank() == 2) {
    add("local",
        filled("the scales of {}, without their codes, are read from row 0 on in every group", x),
        local);
  }
  const std::string scales = vector ? "scale" : "scales";
  add("row_0", filled("every row of {} takes the {} of row 0", x, scales),
      [](Index) { return Index{0}; });
  add("first_row", filled("every row of {} takes the {} of the first row of its group", x, scales),
      begin);
  for (const Index tile : {32, 64, 128}) {
    if (vector) break;
    add("first_tile", filled("all rows of {} take the scales of the first {}", x, tile),
        [tile](Index r) { return r % tile; });
    add("first_tile",
        filled("all rows of a group of {} take the scales of the first {} of them", x, tile),
        [tile, begin](Index r) { return begin(r) + (r - begin(r)) % tile; });
  }
}

/// Blocks of so many rows that take the scales of as many chunks of another height.
struct Chunks {
  Index rows;
  Index chunk;
};
constexpr Chunks kChunks[] = {{8, 16},   {8, 32},   {16, 32}, {16, 64}, {16, 128}, {32, 64},
                              {32, 128}, {64, 128}, {32, 16}, {64, 32}, {128, 32}, {128, 64}};

void add_chunks(const Product& p, std::vector<Hypothesis>& list) {
  if (p.a.scales == nullptr || p.a.scales->rank() != 2) return;
  for (const auto& [rows, chunk] : kChunks) {
    const Index lines = p.a_lines;
    if (rows >= lines) continue;
    const auto from = [rows = rows, chunk = chunk](Index r) { return r / rows * chunk + r % rows; };
    const auto one_matrix = [lines](const Matrices& m) { return m.elements == lines * m.columns; };
    // Rows whose scales would lie beyond the last have none: they are zeros.
    Reading codes =
        read_from(p.a.codes_name, one_matrix, [](const Matrices&, Place at) { return at; });
    codes.read = [own = codes.read, from, lines](const Tensor& t, const Cells& cells,
                                                 std::byte* to) {
      if (from(cells.row) < lines) return own(t, cells, to);
      std::memset(to, 0, cells.columns.size() * size_of(t.dtype()));
    };
    const Reading scales =
        read_from(p.a.scales_name, one_matrix, [from, lines](const Matrices&, Place at) {
          return Place{at.matrix, from(at.row) < lines ? from(at.row) : at.row, at.column};
        });
    list.push_back(read_elsewhere(
        p.a.scales_name + "=chunks",
        filled("blocks of {} rows take the scales of {} of chunks of {} rows: block i those from "
               "row {} i on{}",
               rows, p.a.name, chunk, chunk, chunk > rows ? ", and zeros beyond the last row" : ""),
        {codes, scales}));
  }
}

/// Codes or scales of w of another expert than the rest of it.
struct OtherExpert {
  const char* id;
  const char* words;
  Index (*of)(Index expert, Index experts);
};
constexpr OtherExpert kOtherExperts[] = {
    {"expert_0", "expert 0", [](Index, Index) { return Index{0}; }},
    {"expert_before", "the expert before", [](Index e, Index n) { return (e + n - 1) % n; }},
    {"expert_after", "the expert after", [](Index e, Index n) { return (e + 1) % n; }},
};

void add_experts(const Product& p, std::vector<Hypothesis>& list) {
  const Index n = p.groups();
  if (n < 2 || p.b.scales == nullptr) return;
  for (const OtherExpert& other : kOtherExperts) {
    const auto of_expert = [n, of = other.of](const Matrices&, Place at) {
      return Place{of(at.matrix, n), at.row, at.column};
    };
    const auto all = [n](const Matrices& m) { return m.elements == n * m.rows * m.columns; };
    list.push_back(
        read_elsewhere(p.b.codes_name + "=" + other.id,
                       filled("every expert takes the codes of {} ({}), and its own scales",
                              other.words, p.b.name),
                       {read_from(p.b.codes_name, all, of_expert)}));
    const std::string words =
        filled("every expert takes the scales of {} ({})", other.words, p.b.name);
    if (p.b.scales->rank() == 2) {
      add_lines(list, *p.b.scales, p.b.scales_name, other.id, words,
                [n, of = other.of](Index e) { return of(e, n); });
    }
  }
}

/// Lines in shared memory whose runs of 16 bytes are swizzled by their number, and are not read so.
void add_swizzles(const ProductSide& side, std::vector<Hypothesis>& list) {
  const Index run = 16 / static_cast<Index>(size_of(side.codes->dtype()));
  for (const Index runs : {8, 4, 2}) {
    list.push_back(read_elsewhere(
        filled("{}=swizzled_{}", side.codes_name, runs * 16),
        filled("runs of 16 bytes of {} are exchanged by the number of their line (the {}-byte "
               "swizzle of shared memory on one side only)",
               side.name, runs * 16),
        {read_from(
            side.codes_name,
            [run, runs](const Matrices& m) { return m.columns % (run * runs) == 0; },
            [run, runs](const Matrices&, Place at) {
              return Place{at.matrix, at.row, at.column ^ (at.row / (8 / runs) % runs * run)};
            })}));
  }
}

/// Blocks of K that both sides have scales for; 0 if there are no two.
Index blocks_of_both(const Product& p) {
  if (p.a.scales == nullptr || p.b.scales == nullptr || p.block < 1) return 0;
  const Index blocks = ceil_div(p.k, p.block);
  return blocks < 2 ? 0 : blocks;
}

/// K blocks of both sides that take the scales of block from(block).
void add_both_sides(const Product& p, const std::string& id, const std::string& phrase,
                    const std::function<Index(Index)>& from, std::vector<Hypothesis>& list) {
  const auto side = [&](const std::string& operand) {
    return read_from(
        operand, [n = blocks_of_both(p)](const Matrices& m) { return m.columns == n; },
        [from](const Matrices&, Place at) {
          return Place{at.matrix, at.row, from(at.column)};
        });
  };
  list.push_back(read_elsewhere("scales=" + id, phrase + ", on both sides",
                                {side(p.a.scales_name), side(p.b.scales_name)}));
}

void add_both_scales(const Product& p, std::vector<Hypothesis>& list) {
  const Index blocks = blocks_of_both(p);
  if (blocks == 0) return;
  add_both_sides(
      p, "block_before", "K blocks take the scales of the block before",
      [](Index c) { return std::max<Index>(c - 1, 0); }, list);
  add_both_sides(
      p, "block_after", "K blocks take the scales of the block after",
      [blocks](Index c) { return std::min(c + 1, blocks - 1); }, list);
  add_both_sides(
      p, "last_block", "every K block takes the scales of the last",
      [blocks](Index) { return blocks - 1; }, list);
  const Index tile = std::max<Index>(1, 128 / p.block);
  if (blocks <= tile) return;
  add_both_sides(
      p, "last_tile_stale",
      filled("the last {} of K take the scales of those before them", tile * p.block),
      [blocks, tile](Index c) { return c >= blocks - tile ? c - tile : c; }, list);
}

/// Scales that were written column-major, and are read as they are expected.
void add_column_major(const ProductSide& side, std::vector<Hypothesis>& list) {
  if (side.scales == nullptr) return;
  list.push_back(read_elsewhere(
      side.scales_name + "=column_major",
      filled("the scales of {} are column-major, and read row by row", side.name),
      {read_from(
          side.scales_name, [](const Matrices& m) { return m.rows > 1 && m.columns > 1; },
          [](const Matrices& m, Place at) {
            const Index i = at.row * m.columns + at.column;
            return Place{at.matrix, i % m.rows, i / m.rows};
          })}));
}

}  // namespace

void add_addressing_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p) return;
  add_column_major(p->a, list);
  add_column_major(p->b, list);
  if (p->wgrad) return;
  add_rows(*p, list);
  add_chunks(*p, list);
  add_experts(*p, list);
  add_swizzles(p->a, list);
  add_swizzles(p->b, list);
  add_both_scales(*p, list);
}

void add_stale_stages(const Call& call, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad) return;
  const Index blocks = blocks_of_both(*p);
  const Index tile = std::max<Index>(1, 128 / p->block);
  for (const Index unit : std::set<Index, std::greater<>>{tile, 1}) {
    for (const Index stages : {2, 3, 4, 6, 8}) {
      const Index pass = stages * unit;
      for (Index stage = 0; stage < stages && pass < blocks; ++stage) {
        const std::string words =
            filled("stage {} of {}, of {} of K each, takes the scales of the ", stage, stages,
                   unit * p->block);
        const auto hits = [=](Index c) { return c >= pass && c / unit % stages == stage; };
        add_both_sides(
            *p, "stale_stage", words + "pass before",
            [=](Index c) { return hits(c) ? c - pass : c; }, list);
        if (2 * pass >= blocks) continue;
        add_both_sides(
            *p, "first_stage", words + "first pass",
            [=](Index c) { return hits(c) ? c % pass : c; }, list);
      }
    }
  }
}

}  // namespace mxo
