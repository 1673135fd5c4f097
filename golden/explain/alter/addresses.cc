// Operands of a product that a kernel reads at another address: rows that restart or lie at another
// stride, experts whose codes and scales part, shared memory that is swizzled on one side, stale
// scales of both sides.
#include <memory>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/sides.h"

namespace mxo {
namespace {

using Lines = std::function<Index(Index)>;

/// The first row of the group of every row.
Lines begins_of(const Product& p) {
  auto begins = std::make_shared<std::vector<Index>>(range_of(p.a_lines));
  for (Index g = 0; g < p.groups(); ++g)
    for (Index r = p.begin(g); r < std::min(p.end(g), p.a_lines); ++r)
      (*begins)[static_cast<std::size_t>(r)] = p.begin(g);
  return [begins](Index r) { return (*begins)[static_cast<std::size_t>(r)]; };
}

void add_rows(const Product& p, List& list) {
  const ProductSide& x = p.a;
  const Lines begin = begins_of(p);
  const Lines local = [begin](Index r) { return r - begin(r); };
  const auto add = [&](const std::string& operand, const char* id, std::string phrase, Lines from) {
    add_read(list, filled("{}={}", operand, id), std::move(phrase),
             {read_lines(operand, 0, std::move(from))});
  };
  const char* every = "{} of {}{} are read from row 0 on in every group";
  const bool scaled = x.scales != nullptr;
  add(x.codes_name, "local",
      filled(every, scaled ? "the codes" : "rows", x.name, scaled ? ", without their scales," : ""),
      local);
  if (!scaled || x.scales->rank() == 0 || x.scales->extent(0) != p.a_lines) return;
  const bool blocks = x.scales->rank() == 2;
  const auto add_scales = [&](const char* id, const char* phrase, Lines from, Index tile = 0) {
    add(x.scales_name, id, filled(phrase, x.name, blocks ? "scales" : "scale", tile),
        std::move(from));
    if (tile > 0) list.back().target = Target::format;  // other maps agree with it in some rows
  };
  if (blocks)
    add(x.scales_name, "local", filled(every, "the scales", x.name, ", without their codes,"),
        local);
  add_scales("row_0", "every row of {} takes the {} of row 0", map_of(first_line, 0));
  add_scales("first_row", "every row of {} takes the {} of the first row of its group", begin);
  for (const Index tile : {32, 64, 128}) {
    if (!blocks) break;
    add_scales("first_tile", "all rows of {} take the {} of the first {}", map_of(within_run, tile),
               tile);
    add_scales(
        "first_tile", "all rows of a group of {} take the {} of the first {} of them",
        [tile, begin](Index r) { return begin(r) + (r - begin(r)) % tile; }, tile);
  }
}

/// Blocks of so many rows that take the scales of as many chunks of another height.
struct Chunks {
  Index rows;
  Index chunk;
};
constexpr Chunks kChunks[] = {{8, 16},   {8, 32},   {16, 32}, {16, 64}, {16, 128}, {32, 64},
                              {32, 128}, {64, 128}, {32, 16}, {64, 32}, {128, 32}, {128, 64}};

void add_chunks(const Product& p, List& list) {
  const Index lines = p.a_lines;
  if (p.a.scales == nullptr || p.a.scales->rank() != 2 || p.a.scales->extent(0) != lines) return;
  for (const auto& [rows, chunk] : kChunks) {
    if (rows >= lines || chunk >= lines) continue;  // else all further blocks were zeros
    const auto from = [rows = rows, chunk = chunk](Index r) { return r / rows * chunk + r % rows; };
    add_read(
        list, p.a.scales_name + "=chunks",
        filled("blocks of {} rows take the scales of {} of chunks of {} rows: block i those from "
               "row {} i on{}",
               rows, p.a.name, chunk, chunk, chunk > rows ? ", and zeros beyond the last row" : ""),
        // Rows whose scales would lie beyond the last have none: they are zeros.
        {read_lines(p.a.codes_name, 0, [=](Index r) { return from(r) < lines ? r : lines; }),
         read_lines(p.a.scales_name, 0, [=](Index r) { return from(r) < lines ? from(r) : r; })})
        .target = Target::format;  // in one block alone any move of rows is such a map
  }
}

/// Codes or scales of w of another expert than the rest of it.
constexpr Row<LineMap> kOtherExperts[] = {
    {"expert_0", "expert 0", first_line},
    {"expert_before", "the expert before", line_before},
    {"expert_after", "the expert after", line_after},
};

void add_experts(const Product& p, List& list) {
  if (p.groups() < 2 || p.b.scales == nullptr) return;
  for (const auto& other : kOtherExperts) {
    const auto add = [&](const std::string& operand, const char* phrase) {
      add_read(list, filled("{}={}", operand, other.name), filled(phrase, other.phrase, p.b.name),
               {read_lines(operand, 0, map_of(other.of, p.groups()))});
    };
    add(p.b.codes_name, "every expert takes the codes of {} ({}), and its own scales");
    if (p.b.scales->rank() > 1) add(p.b.scales_name, "every expert takes the scales of {} ({})");
  }
}

/// Rows that begin so many elements apart in a buffer that holds them a row apart, and rows that
/// lie so far apart, zeros between them, and are read one after the other.
void add_strides(const ProductSide& side, List& list) {
  const std::string& name = side.codes_name;
  const Index k = side.codes->shape().back();
  std::set<Index> strides{1};
  for (const Index more : {1, 8, 16, 32, 64, 128}) {
    strides.insert({k + more, round_up(k, more)});
    if (k > more) strides.insert({k - more, more});
  }
  strides.erase(k);
  const Index n = side.codes->elements();
  const Index experts = side.codes->rank() < 3 ? 1 : side.codes->extent(0);
  for (const Index stride : strides) {
    for (const Index run : std::set<Index, std::greater<>>{n, n / std::max<Index>(1, experts)}) {
      if (run < 2 * stride + k) continue;  // one row is told by itself
      add_read(list, name + "=stride",
               filled("rows of {}{} are read {} apart rather than {}", side.name,
                      run < n ? ", of each expert," : "", counted(stride, "element"), k),
               {read_elements(name,
                              [=](Index i) -> SourceRun {
                                const Index from = i / run * run + i % run / k * stride + i % k;
                                const Index rest = k - i % k;
                                return from < n ? SourceRun(from, std::min(rest, n - from))
                                                : SourceRun(i, rest);
                              })})
          .target = Target::format;  // other strides agree with it in some rows
      if (stride < k) continue;
      add_read(list, name + "=padded_rows",
               filled("rows of {}{} are padded with zeros to {} elements, and are read {} apart",
                      side.name, run < n ? ", of each expert," : "", stride, k),
               {read_elements(name,
                              [=](Index i) -> SourceRun {
                                const Index row = i % run / stride;
                                const Index column = i % run % stride;
                                if (column >= k) return n;
                                return {i / run * run + row * k + column, k - column};
                              })})
          .target = Target::format;
    }
  }
}

/// Lines that take the scales of line n / run of x, or of their expert of w.
void add_scales_by_run(const Product& p, List& list) {
  for (const ProductSide* f : {&p.a, &p.b}) {
    const int axis = f == &p.a ? 0 : 1;
    const Index lines = axis == 0 ? p.a_lines : p.n;
    if (f->scales == nullptr || f->scales->rank() <= axis || f->scales->extent(axis) != lines)
      continue;
    for (const Index run : {2, 4, 6, 8, 16, 32, 64, 128, 256}) {
      if (run >= lines) continue;
      const char* why = axis == 0 && run <= 8 ? "by token rather than by slot" : "one for each run";
      Reading reading = read_lines(f->scales_name, axis, map_of(number_of_run, run));
      reading.least_rank = axis + 1;
      add_read(list, f->scales_name + "=by_run",
               filled("the scales of {}: row r takes that of row r / {}, {}", f->name, run, why),
               {std::move(reading)})
          .target = Target::format;  // other maps agree with it in some lines
    }
  }
}

/// What a line holds beyond its end.
enum class Tail : std::uint8_t { row_after, expert_after, tile_before };

/// The depth of an operand, in blocks of so many, up to `to` rather than `k`; false where that
/// takes part of a block.
bool run_on(Call& call, const std::string& name, Tail tail, Index k, Index to, Index tile) {
  const Tensor& given = call.input(name);
  const Index columns = given.shape().back();
  const Index block = ceil_div(k, columns);
  if (block > 1 && ceil_div(to, block) == columns) return true;  // the last one has a scale
  if (k % block != 0 || to % block != 0 || tile % block != 0) return block >= k && columns == 1;
  const Index rows = given.rank() < 3 ? given.elements() / columns : given.extent(1);
  std::vector<Index> from;
  for (Index row = 0; row < given.elements() / columns; ++row) {
    for (Index c = 0; c < to / block; ++c) {
      const Index own = row * columns + c;
      from.push_back(c < columns || tail == Tail::row_after ? own
                     : tail == Tail::expert_after           ? own - columns + rows * columns
                                                            : own - tile / block);
    }
  }
  std::vector<Index> shape = given.shape();
  shape.back() = to / block;
  call.replace(name, elements_from(given, from, std::move(shape)));
  return true;
}

constexpr std::pair<Tail, const char*> kTails[] = {{Tail::row_after, "the row after"},
                                                   {Tail::expert_after, "the expert after"},
                                                   {Tail::tile_before, "the tile before"}};

/// Tiles of K of which the last is read whole: beyond K lies what follows in memory, or is left of
/// another tile.
void add_tails(const Product& p, List& list) {
  std::set<Index> ends;
  for (const Index tile : {16, 32, 64, 128, 256}) {
    const Index to = round_up(p.k, tile);
    if (to == p.k || to > 2 * p.k || !ends.insert(to).second) continue;
    for (const auto& [of_a, a] : kTails) {
      for (const auto& [of_b, b] : kTails) {
        if (of_a == Tail::expert_after || (of_a == of_b && of_a == Tail::tile_before)) continue;
        add_altered(
            list, "k=tail",
            filled("the last tile of K is read whole, up to k = {}: beyond {} those of {} in {} "
                   "meet those of {} in {}",
                   to - 1, p.k - 1, a, p.a.name, b, p.b.name),
            [=, of_a = of_a, of_b = of_b, a = p.a, b = p.b, k = p.k](Call& c) {
              const auto whole = [&](const ProductSide& side, Tail tail) {
                return run_on(c, side.codes_name, tail, k, to, tile) &&
                       (side.scales == nullptr || run_on(c, side.scales_name, tail, k, to, tile));
              };
              return whole(a, of_a) && whole(b, of_b);
            });
      }
    }
  }
}

/// Lines in shared memory whose runs of 16 bytes are swizzled by their number, and are not read so.
void add_swizzles(const ProductSide& side, List& list) {
  const Index run = 16 / static_cast<Index>(size_of(side.codes->dtype()));
  for (const Index runs : {8, 4, 2}) {
    add_read(
        list, filled("{}=swizzled_{}", side.codes_name, runs * 16),
        filled("runs of 16 bytes of {} are exchanged by the number of their line (as the {}-byte "
               "swizzle of shared memory has them)",
               side.name, runs * 16),
        {make_reading(
            side.codes_name,
            [run, runs](const Matrices& m) { return m.columns % (run * runs) == 0; },
            [run, runs](const Matrices& m, Index matrix, Index row, Index column) {
              return (matrix * m.rows + row) * m.columns +
                     (column ^ (row / (8 / runs) % runs * run));
            })});
  }
}

/// Blocks of K that both sides have scales for; 0 if there are no two.
Index blocks_of_both(const Product& p) {
  const bool scaled = p.a.scales != nullptr && p.b.scales != nullptr;
  return scaled && p.k > p.block ? ceil_div(p.k, p.block) : 0;
}

/// K blocks of both sides that take the scales of block from(block); with `each` also of one alone.
void add_both_sides(const Product& p, const std::string& id, const std::string& phrase,
                    const Lines& from, List& list, bool each = false) {
  const Index blocks = blocks_of_both(p);
  std::vector<Reading> sides{read_lines(p.a.scales_name, -1, from),
                             read_lines(p.b.scales_name, -1, from)};
  for (Reading& side : sides) {
    side.least_rank = 2;
    side.applies = [blocks](const Matrices& m) { return m.columns == blocks; };
  }
  add_read(list, "scales=" + id, phrase + ", on both sides", sides);
  if (!each) return;
  add_read(list, p.a.scales_name + "=" + id, phrase + ", of " + p.a.name, {sides[0]});
  add_read(list, p.b.scales_name + "=" + id, phrase + ", of " + p.b.name, {sides[1]});
}

/// Blocks of K that take others' scales: by a number of blocks, each twice the one before.
constexpr Row<LineMap> kRunsOfBoth[] = {
    {"first_of_run", "every {} K blocks take the scales of their first", begin_of_run},
    {"starts_again", "the scales start again every {} K blocks", within_run},
    {"every_nth", "K block b takes the scales of block b / {}", number_of_run},
};
/// By the number of all blocks.
constexpr Row<LineMap> kBlocksOfBoth[] = {
    {"block_before", "K blocks take the scales of the block before",
     [](Index c, Index) { return std::max<Index>(c - 1, 0); }},
    {"block_after", "K blocks take the scales of the block after",
     [](Index c, Index blocks) { return std::min(c + 1, blocks - 1); }},
    {"last_block", "every K block takes the scales of the last",
     [](Index, Index blocks) { return blocks - 1; }},
    {"reversed", "K blocks take the scales in the reverse order", reversed},
    {"pairs", "K blocks exchange their scales in pairs", in_pairs},
};

/// Lines of both sides that take the one scale of the first: of x, and of w in each expert.
void add_one_scale(const Product& p, List& list) {
  if (p.a.scales == nullptr || p.b.scales == nullptr || p.b.scales->rank() < 2) return;
  if (p.a.scales->elements() != p.a_lines || p.b.scales->elements() != p.groups() * p.n) return;
  std::vector<Reading> sides{read_lines(p.a.scales_name, 0, map_of(first_line, 0)),
                             read_lines(p.b.scales_name, 1, map_of(first_line, 0))};
  for (Reading& side : sides) side.least_rank = 1;
  add_read(list, "scales=first_line",
           filled("every row of {} takes the scale of row 0, and every row of {} that of row 0 of "
                  "its expert",
                  p.a.name, p.b.name),
           std::move(sides));
}

/// Blocks of w that are taken for several times as high and wide.
void add_wider_blocks(const Product& p, List& list) {
  if (p.b.scales == nullptr || p.b.scales->rank() != 3 || p.b.scales->extent(1) < 2) return;
  const Index blocks = p.b.scales->extent(2);
  const Index height = block_of(p.n, p.b.scales->extent(1));
  for (Index by = 2; by < blocks; by *= 2) {
    add_read(list, p.b.scales_name + "=wider",
             filled("the scales of {} are taken for blocks of {}x{} rather than {}x{}", p.b.name,
                    by * height, by * p.block, height, p.block),
             {make_reading(
                 p.b.scales_name, [blocks](const Matrices& m) { return m.columns == blocks; },
                 [by](const Matrices& m, Index matrix, Index row, Index column) {
                   return (matrix * m.rows + row / by) * m.columns + column / by;
                 })});
  }
}

void add_both_scales(const Product& p, List& list) {
  add_one_scale(p, list);
  add_wider_blocks(p, list);
  const Index blocks = blocks_of_both(p);
  if (blocks == 0) return;
  for (Index n = 2; n < blocks; n *= 2)
    for (const auto& row : kRunsOfBoth)
      add_both_sides(p, row.name, filled(row.phrase, n), map_of(row.of, n), list, true);
  for (const auto& row : kBlocksOfBoth)
    add_both_sides(p, row.name, row.phrase, map_of(row.of, blocks), list, true);
  const Index tile = std::max<Index>(1, 128 / p.block);
  if (blocks <= tile) return;
  add_both_sides(
      p, "last_tile_stale",
      filled("the last {} of K take the scales of those before them", tile * p.block),
      [blocks, tile](Index c) { return c >= blocks - tile ? c - tile : c; }, list);
}

void add_scales_alone(Index blocks, List& list) {
  add_column_major("scales", "scales", list);
  for (const Index tile : {32, 64, 128})
    add_read(list, "scales=first_tile", filled("all rows take the scales of the first {}", tile),
             {read_lines("scales", 0, map_of(within_run, tile))});
  add_read(list, "scales=reversed", "blocks of a row take the scales in the reverse order",
           {read_lines("scales", -1, map_of(reversed, blocks))});
}

}  // namespace

void add_addressing_hypotheses(const Call& call, List& list) {
  if (call.op == "dequantize" && call.input("scales").rank() >= 2)
    add_scales_alone(call.input("scales").shape().back(), list);
  const std::optional<Product> p = product_of(call);
  if (!p) return;
  for (const ProductSide* side : {&p->a, &p->b})
    if (side->scales != nullptr)
      add_column_major(side->scales_name, "the scales of " + side->name, list);
  if (p->wgrad) return;
  add_rows(*p, list);
  add_chunks(*p, list);
  add_experts(*p, list);
  add_strides(p->a, list);
  add_strides(p->b, list);
  add_scales_by_run(*p, list);
  add_tails(*p, list);
  add_swizzles(p->a, list);
  add_swizzles(p->b, list);
  add_both_scales(*p, list);
  add_scales_of_every_second_k(*p, list);
}

void add_stale_stages(const Call& call, List& list) {
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
