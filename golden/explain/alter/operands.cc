// Operands read another way: layouts, sides, axes, ends of groups, router weights, halves of a
// gate.
#include <cmath>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/product/finders.h"
#include "golden/judge/group_rows.h"
#include "golden/judge/scale_map.h"

namespace mxo {
namespace {

constexpr Index kRuns[] = {2, 4, 8, 16, 32, 64, 128};

/// The halves of every row of x exchanged, or taken from even and odd runs of so many elements.
void add_halves(Index columns, bool interleaved, List& list) {
  const Index half = columns / 2;
  if (columns < 2 || columns % 2 != 0) return;
  for (const Index run : kRuns) {
    if (!interleaved || half % run != 0) continue;
    add_read_locally(list, "x=runs", filled("gate and up lie interleaved in runs of {}", run),
                     read_lines("x", -1, [=](Index c) {
                       return c / 2 / run * 2 * run + c / 2 % run + c % 2 * run;
                     }));
  }
  add_read_locally(list, "x=halves", "gate and up are exchanged",
                   read_lines("x", -1, map_of(halves_exchanged, columns)));
  add_read(list, "x=half_stride",
           filled("rows of x are read {} elements apart rather than {}", half, columns),
           {make_reading(
               "x", [columns](const Matrices& m) { return m.columns == columns; },
               [half](const Matrices& m, Index matrix, Index row, Index column) {
                 return matrix * m.rows * m.columns + row * half + column;
               })});
  const auto add = [&](Index run, std::string phrase) {
    if (half % run == 0 && half != run)
      add_read_locally(list, "x=interleaved", std::move(phrase), read_halves("x", -1, half, run));
  };
  add(1, "gate and up are read interleaved");
  for (const Index run : kRuns)
    add(run, filled("gate and up are read interleaved in runs of {}", run));
}

/// Gate and up, one after the other along `axis`, are cut among so many ranks as if they were one,
/// or put in the order of those that are interleaved.
void add_orders_of_halves(const std::string& name, int axis, Index half, List& list) {
  add_read_locally(list, name + "=in_turn",
                   "gate and up are put in turn, interleaved, and read as halves",
                   read_lines(name, axis, map_of(halves_in_turn, 2 * half)));
  for (const Index ranks : {2, 4, 8}) {
    const Index run = half / ranks;
    if (run == 0 || half % ranks != 0) continue;
    add_read_locally(list, name + "=of_ranks",
                     filled("gate and up are halves of runs of {}: {} ranks cut [gate, up] as one",
                            2 * run, ranks),
                     read_halves(name, axis, half, run));
  }
}

bool is_weights(std::string_view name) { return name == "probs" || name.ends_with("weights"); }

constexpr Row<float (*)(float weight)> kWeighed[] = {
    {"weights=twice", "router weights are applied twice", [](float w) { return w * w; }},
    {"weights=left_out", "router weights are left out", [](float) { return 1.0f; }},
    {"weights=bf16", "router weights are rounded to bf16 first", by_bf16},
};

void add_weights(const Call& call, List& list) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : call.inputs)
    if (is_weights(name)) names.push_back(name);
  if (names.empty()) return;
  add_altered(list, "weights=mean", "slots are averaged: router weights are 1 over their number",
              [names](Call& c) {
                if (c.set.has("drop")) return false;  // they weigh nothing there, but choose
                for (const std::string& name : names) {
                  const Tensor& given = c.input(name);
                  if (given.rank() != 2 || given.extent(1) < 2 || given.dtype() != Dtype::f32)
                    return false;
                  const auto slots = static_cast<float>(given.extent(1));
                  map_values(c, name, [slots](float, Index) { return 1.0f / slots; });
                }
                return true;
              });
  for (const auto& row : kWeighed) {
    add_altered(list, row.name, row.phrase, [names, to = row.of](Call& c) {
      bool any = false;
      for (const std::string& name : names) any |= map_floats(c, name, to);
      return any;
    });
  }
}

using Ends = std::span<std::int32_t>;

/// `edit` done to the ends of groups; false where they cannot be so.
template <typename Edit>
void add_edited_ends(List& list, std::string name, std::string phrase, Edit edit) {
  Hypothesis& h = add_altered(list, std::move(name), std::move(phrase), [edit](Call& c) {
    Tensor ends = c.input("group_ends");
    if (!edit({ends.as<std::int32_t>(), static_cast<std::size_t>(ends.elements())})) return false;
    c.replace("group_ends", std::move(ends));
    return true;
  });
  h.target = Target::group_ends;
  h.subject = "group_ends";
}

bool move_end(Ends ends, std::size_t g, Index by) {
  const Index to = ends[g] + by;
  if (to < (g == 0 ? 0 : ends[g - 1]) || (g + 1 < ends.size() && to > ends[g + 1])) return false;
  ends[g] = static_cast<std::int32_t>(to);
  return true;
}

/// All but the last, since all rows are compared, and those that lie at the first row or the last.
bool move_ends(Ends ends, Index by) {
  for (std::int32_t& end : ends.first(ends.size() - 1)) {
    if (end == (by < 0 ? 0 : ends.back())) continue;
    if (end + by < 0 || end + by > ends.back()) return false;
    end = static_cast<std::int32_t>(end + by);
  }
  return true;
}

/// Whether a group has other rows, and some: a gradient of none is zero, which is seen as it is.
bool gives_other_rows(const std::vector<Index>& before, Ends after) {
  for (std::size_t g = 0; g < after.size(); ++g) {
    const Index begin = g == 0 ? 0 : after[g - 1];
    if (after[g] > begin && (after[g] != before[g] || (g > 0 && begin != before[g - 1])))
      return true;
  }
  return false;
}

void add_ends(const Call& call, const std::optional<Product>& product, List& list) {
  if (!call.has("group_ends") || call.input("group_ends").elements() == 0) return;
  const auto groups = static_cast<std::size_t>(call.input("group_ends").elements());
  const auto tells = [before = group_ends_of(call.input("group_ends")),
                      all = !product || !product->wgrad](Ends ends) {
    return all ? ends.back() >= before.back() : gives_other_rows(before, ends);
  };
  if (call.op.starts_with("quantize") && groups > 1) {
    add_edited_ends(list, "group_ends=ignored", "blocks do not restart at each group",
                    [](Ends ends) {
                      std::fill(ends.begin(), ends.end(), ends.back());
                      return true;
                    });
  }
  for (const Index by : {-1, 1, -32, 32, -128, 128}) {
    const std::string words =
        filled(" {} row{} {}", std::abs(by), by * by == 1 ? "" : "s", by < 0 ? "early" : "late");
    add_edited_ends(list, filled("group_ends{}{}", by < 0 ? "" : "+", by), "groups end" + words,
                    [by, tells](Ends ends) { return move_ends(ends, by) && tells(ends); });
    for (std::size_t g = 0; g < std::min<std::size_t>(groups, 64); ++g)
      add_edited_ends(list, "group_ends=moved", filled("group {} ends{}", g, words),
                      [=](Ends ends) { return move_end(ends, g, by) && tells(ends); });
  }
  const Index rows = product && product->wgrad ? product->k
                     : call.op == "column_sum" ? call.input("x").extent(0)
                                               : 0;
  if (const Index by = rows - group_ends_of(call.input("group_ends")).back(); by > 0) {
    add_edited_ends(
        list, "group_ends=buffer",
        "the last group runs to the end of the buffer: rows that belong to nobody are summed",
        [by](Ends ends) { return move_end(ends, ends.size() - 1, by); });
  }
}

/// Rows of x and dy that a group of a gradient has where it begins or ends at a tile of so many.
struct Tiled {
  const char* name;
  const char* phrase;
  Index (*begin)(Index begin, Index tile);
  Index (*end)(Index begin, Index end, Index tile);
  bool empty = false;  ///< groups without rows have these; others their own
};
constexpr auto kWhereItBegins = [](Index begin, Index) { return begin; };
constexpr auto kBeginsBefore = [](Index begin, Index tile) { return begin / tile * tile; };
constexpr auto kWhereItEnds = [](Index, Index end, Index) { return end; };
constexpr auto kEndsAfter = [](Index, Index end, Index tile) { return ceil_div(end, tile) * tile; };
constexpr Tiled kTiled[] = {
    {"begin_before", "groups begin at the multiple of {} rows before, and end where they do",
     kBeginsBefore, kWhereItEnds},
    {"begin_after", "groups begin at the multiple of {} rows after",
     [](Index begin, Index tile) { return ceil_div(begin, tile) * tile; }, kWhereItEnds},
    {"end_before", "groups end at the multiple of {} rows before", kWhereItBegins,
     [](Index, Index end, Index tile) { return end / tile * tile; }},
    {"end_after", "groups run on to the multiple of {} rows after, and begin where they do",
     kWhereItBegins, kEndsAfter},
    {"tiles", "groups begin at the multiple of {} rows before and run on to the one after",
     kBeginsBefore, kEndsAfter},
    {"whole_tiles", "groups are read in tiles of {} rows from where they begin, the last one whole",
     kWhereItBegins,
     [](Index begin, Index end, Index tile) { return begin + ceil_div(end - begin, tile) * tile; }},
    {"empty_before", "groups without rows take the {} rows before them",
     [](Index begin, Index tile) { return std::max<Index>(begin - tile, 0); }, kWhereItEnds, true},
    {"empty_after", "groups without rows take the {} rows after them", kWhereItBegins,
     [](Index begin, Index, Index tile) { return begin + tile; }, true},
};

/// The rows that each group has then.
std::vector<std::pair<Index, Index>> spans(const Product& p, const Tiled& tiled, Index tile) {
  std::vector<std::pair<Index, Index>> list;
  for (Index g = 0; g < p.groups(); ++g) {
    list.emplace_back(p.begin(g), p.end(g));
    if ((p.depth(g) == 0) != tiled.empty) continue;
    const Index begin = tiled.begin(p.begin(g), tile);
    const Index end = std::max(begin, std::min(tiled.end(p.begin(g), p.end(g), tile), p.k));
    // What an empty group would share with another is a copy.
    const bool copied = tiled.empty && std::ranges::any_of(range_of(p.groups()), [&](Index other) {
                          return begin == p.begin(other) && end == p.end(other);
                        });
    if (!copied) list.back() = {begin, end};
  }
  return list;
}

bool take_tiles(Call& call, const Tiled& tiled, Index tile) {
  const Product p = *product_of(call);
  Tensor ends = call.input("group_ends");
  std::vector<Index> rows;
  bool any = false;
  Index g = 0;
  for (const auto& [begin, end] : spans(p, tiled, tile)) {
    for (Index r = begin; r < end; ++r) rows.push_back(r);
    any = any || (begin < end && (begin != p.begin(g) || end != p.end(g)));
    ends.as<std::int32_t>()[g++] = static_cast<std::int32_t>(rows.size());
  }
  for (const std::string& name : {p.a.codes_name, p.b.codes_name})
    call.replace(name, gathered(call.input(name), 0, rows));
  call.replace("group_ends", std::move(ends));
  return any;
}

/// Tiles that come to the same rows share a phrase: none of them is the one.
void add_tiles_of_groups(const Product& p, List& list) {
  if (!p.wgrad || p.a.scales != nullptr || p.b.scales != nullptr) return;
  constexpr Index kTiles[] = {8, 16, 32, 64, 128};
  for (const Tiled& tiled : kTiled) {
    std::string alike;
    for (const Index& tile : kTiles) {
      alike += (alike.empty() ? "" : " or ") + std::to_string(tile);
      if (&tile + 1 != std::end(kTiles) && spans(p, tiled, tile) == spans(p, tiled, *(&tile + 1)))
        continue;
      std::vector<std::pair<Index, Index>> from_0;
      for (const Index end : p.ends) from_0.emplace_back(0, end);
      const std::string tiles = std::exchange(alike, {});
      add_altered(list, filled("group_ends={}", tiled.name),
                  spans(p, tiled, tile) == from_0
                      ? "the sum is not set to zero between groups: each begins with those before"
                      : filled(tiled.phrase, tiles),
                  [&tiled, tile](Call& c) { return take_tiles(c, tiled, tile); });
    }
  }
}

/// The bytes of each side's scales read for the other's, as far as they reach.
bool exchange_scales(Call& call, const std::string& a, const std::string& b) {
  // One number in place of many is that of an expert or a row.
  if ((call.input(a).elements() == 1) != (call.input(b).elements() == 1)) return false;
  const Call given = call;
  const auto fill = [&](const std::string& name, const Tensor& from) {
    Tensor out(given.input(name).dtype(), given.input(name).shape());
    for (std::size_t at = 0; at < out.bytes() && from.bytes() > 0; at += from.bytes())
      std::memcpy(out.data() + at, from.data(), std::min(from.bytes(), out.bytes() - at));
    call.replace(name, std::move(out));
  };
  fill(a, given.input(b));
  fill(b, given.input(a));
  return true;
}

/// Every block of depth, which runs down in a gradient, takes the scale of the first or of the one
/// before.
Reading stale_blocks(const ProductSide& side, bool first, bool wgrad) {
  Reading reading = read_lines(side.scales_name, wgrad ? -2 : -1, [first](Index block) {
    return first ? 0 : std::max<Index>(block - 1, 0);
  });
  reading.least_rank = side.codes->rank();  // of w [E, N, K] scales [E, N] are one a line
  reading.applies = [wgrad](const Matrices& m) { return (wgrad ? m.rows : m.columns) > 1; };
  return reading;
}

/// Blocks whose scale is byte 0 become zero.
bool vanish_blocks(Call& call, const std::string& scales, const std::string& codes, bool wgrad) {
  const Tensor& s = call.input(scales);
  Tensor c = call.input(codes);
  ScaleHints hints;
  hints.block = wgrad ? BlockExtents{32, 1} : BlockExtents{1, 32};
  const auto place = ScaleMap::of(c.shape(), s.shape(), s.dtype(), hints);
  bool any = false;
  for (Index i = 0; place && i < c.elements(); ++i) {
    if (s.as<std::uint8_t>()[(*place)(i)] != 0) continue;
    c.as<std::uint8_t>()[i] = 0;
    any = true;
  }
  if (any) call.replace(codes, std::move(c));
  return any;
}

void add_scales(const ProductSide& side, bool wgrad, List& list) {
  const std::string& scales = side.scales_name;
  const auto add = [&](const char* id, const char* phrase, Reading reading) {
    add_read(list, filled("{}={}", scales, id), filled(phrase, side.name), {std::move(reading)});
  };
  add_misread_tiles({&side}, list);
  add("transposed", "the scales of {} are read along the wrong axis", read_transposed(scales));
  add("first_block", "every K block of {} takes the scale of block 0",
      stale_blocks(side, true, wgrad));
  add("block_before", "K blocks of {} take the scale of the block before",
      stale_blocks(side, false, wgrad));
  add_scale_values(side, list);
  if (size_of(side.scales->dtype()) != 1) return;
  add_altered_locally(list, scales + "=byte_0",
                      filled("scale byte 0 of {} is read as 0", side.name),
                      [scales, codes = side.codes_name, wgrad](Call& c) {
                        return vanish_blocks(c, scales, codes, wgrad);
                      });
}

/// Scales of rows that multiply columns, as those of the other side do.
void add_by_column(const Product& p, List& list) {
  const std::string& a = p.a.scales_name;
  const std::string& b = p.b.scales_name;
  const bool floats = p.a.scales->dtype() == Dtype::f32 && p.b.scales->dtype() == Dtype::f32;
  if (p.wgrad || !floats || p.a.scales->elements() != p.a_lines ||
      p.b.scales->elements() != p.groups() * p.n || p.n > p.a_lines)
    return;
  add_altered(list, a + "=by_column",
              filled("the scales of {} multiply columns rather than rows", p.a.name),
              [a, b, n = p.n](Call& c) {
                const float* by = c.input(a).as<float>();
                map_values(c, b, [&](float v, Index i) { return v * by[i % n]; });
                map_values(c, a, [](float, Index) { return 1.0f; });
              });
}

void add_scales_of_both(const Product& p, List& list) {
  const std::string& a = p.a.scales_name;
  const std::string& b = p.b.scales_name;
  add_by_column(p, list);
  add_altered(list, "scales=exchanged", "the scales of both sides are exchanged",
              [a, b](Call& c) { return exchange_scales(c, a, b); });
  add_scale_values(p, list);
  add_read(list, "scales=first_block", "every K block takes the scales of block 0, on both sides",
           {stale_blocks(p.a, true, p.wgrad), stale_blocks(p.b, true, p.wgrad)});
  add_read(list, "scales=transposed", "the scales of both sides are read along the wrong axis",
           {read_transposed(a), read_transposed(b)});
  add_misread_tiles({&p.a, &p.b}, list);
}

}  // namespace

void add_input_hypotheses(const Call& call, List& list) {
  const std::optional<Product> product = product_of(call);
  if (!product && call.has("x") && call.input("x").rank() >= 2)
    add_read(list, "x=transposed", "x is read transposed", {read_transposed("x")});
  const std::string_view halves = call.set.text("halves", "gate_first");
  const bool in_order = halves == "gate_first" || halves == "up_first";
  if (call.op.starts_with("swiglu")) {
    const Index columns = call.input("x").extent(1);
    add_halves(columns, halves == "interleaved", list);
    if (in_order) add_orders_of_halves("x", -1, columns / 2, list);
  }
  if (call.op == "moe_layer" && in_order)
    add_orders_of_halves("w1", -2, call.input("w1").extent(1) / 2, list);
  add_ends(call, product, list);
  add_weights(call, list);
  if (call.op == "dequantize")
    add_read(list, "scales=transposed", "scales are read along the wrong axis",
             {read_transposed("scales")});
  if (!product) return;
  add_tiles_of_groups(*product, list);
  for (const ProductSide* side : {&product->a, &product->b}) {
    if (side->scales != nullptr) add_scales(*side, product->wgrad, list);
    add_read(list, side->codes_name + "=transposed", side->name + " is read transposed",
             {read_transposed(side->codes_name)});
  }
  if (product->a.scales != nullptr && product->b.scales != nullptr)
    add_scales_of_both(*product, list);
}

}  // namespace mxo
