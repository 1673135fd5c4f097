// Groups that are padded otherwise, and tiles of scales: their sizes, their order, what lies
// between.
#include <cstring>

#include "formats/scale_layout.h"
#include "golden/explain/alter/alterations.h"

namespace mxo {
namespace {

/// Rows between groups that hold the rows of x that follow, instead of zeros.
bool leave_padding(const Call& call, NamedTensors& out) {
  const Tensor& x = call.input("x");
  const Tensor& ends = call.input("group_ends");
  Tensor& y = out.find("y")->second;
  const auto* starts = out.find("padded_starts")->second.as<std::int32_t>();
  const auto* padded = out.find("padded_ends")->second.as<std::int32_t>();
  if (x.extent(0) == 0) return false;
  const std::size_t row = x.bytes() / static_cast<std::size_t>(x.extent(0));
  Index begin = 0;
  for (Index g = 0; g < ends.elements(); ++g) {
    const Index end = ends.as<std::int32_t>()[g];
    const Index rows = std::min<Index>(padded[g] - starts[g], x.extent(0) - begin) - (end - begin);
    if (rows > 0) {
      std::memcpy(y.data() + static_cast<std::size_t>(starts[g] + end - begin) * row,
                  x.data() + static_cast<std::size_t>(end) * row,
                  static_cast<std::size_t>(rows) * row);
    }
    begin = end;
  }
  return true;
}

/// Rows that a group of `n` is given in place of n rounded up to `to`; x has `all` rows.
constexpr Row<Index (*)(Index n, Index to, Index all)> kPaddings[] = {
    {"padding=empty", "groups without rows are given {} rows, too",
     [](Index n, Index to, Index) { return n == 0 ? to : round_up(n, to); }},
    {"padding=one_more", "groups whose rows are multiples of {} are given as many more",
     [](Index n, Index to, Index) { return (n / to + (n > 0 ? 1 : 0)) * to; }},
    {"padding=at_most_all", "groups are padded to multiples of {}, but to no more rows than x has",
     [](Index n, Index to, Index all) { return std::min(round_up(n, to), all); }},
};

bool pad(const Call& call, NamedTensors& out, Index (*rows_of)(Index, Index, Index)) {
  const Tensor& x = call.input("x");
  const Tensor& ends = call.input("group_ends");
  Tensor& y = out.at("y");
  const Index to = call.set.integer("alignment", 32);
  if (x.extent(0) == 0) return false;
  const std::size_t row = x.bytes() / static_cast<std::size_t>(x.extent(0));
  std::fill_n(y.data(), y.bytes(), std::byte{0});
  Index begin = 0;
  Index start = 0;
  for (Index g = 0; g < ends.elements(); ++g) {
    const Index rows = ends.as<std::int32_t>()[g] - begin;
    const Index padded = rows_of(rows, to, x.extent(0));
    if (start + std::max(rows, padded) > y.extent(0)) return false;
    std::copy_n(x.data() + static_cast<std::size_t>(begin) * row,
                static_cast<std::size_t>(rows) * row,
                y.data() + static_cast<std::size_t>(start) * row);
    out.at("padded_starts").as<std::int32_t>()[g] = static_cast<std::int32_t>(start);
    start += padded;
    out.at("padded_ends").as<std::int32_t>()[g] = static_cast<std::int32_t>(start);
    begin += rows;
  }
  return true;
}

// ---- permute_indices.

/// An expert without tokens has a tile of padding where it has none, or none where it has one.
bool pad_empty_experts(const Call& call, NamedTensors& out) {
  const Index experts = call.set.integer("experts", 1);
  const Index ranks = call.set.integer("ranks", 1);
  const auto alignment = static_cast<std::int32_t>(call.set.integer("alignment", 32));
  const auto* counts = call.input("tokens_per_expert").as<std::int32_t>();
  std::vector<std::int32_t> first{0};  // row of each expert of each rank
  for (Index i = 0; i < ranks * experts; ++i) first.push_back(first.back() + counts[i]);
  Tensor& indices = out.at("indices");
  auto* at = indices.as<std::int32_t>();
  auto* sizes = out.at("sizes").as<std::int32_t>();
  std::fill_n(at, indices.elements(), -1);
  std::int32_t begin = 0;
  bool any = false;
  for (Index e = 0; e < experts; ++e) {
    Index n = begin;
    for (Index r = 0; r < ranks; ++r) {
      const Index i = r * experts + e;
      for (std::int32_t row = 0; row < counts[i]; ++row, ++n) {
        if (n < indices.elements()) at[n] = first[static_cast<std::size_t>(i)] + row;
      }
    }
    const bool empty = n == begin;
    if (empty) sizes[e] = sizes[e] == 0 ? alignment : 0;
    any = any || empty;
    begin += sizes[e];
    out.at("ends").as<std::int32_t>()[e] = begin;
  }
  return any;
}

/// Where rows of padded experts come from in another order: as they came, or the last rank first.
bool order_rows(const Call& call, NamedTensors& out, bool as_they_came) {
  const Index experts = call.set.integer("experts", 1);
  const Index ranks = call.set.integer("ranks", 1);
  const auto* counts = call.input("tokens_per_expert").as<std::int32_t>();
  std::vector<std::int32_t> first{0};  // row of each expert of each rank
  for (Index i = 0; i < ranks * experts; ++i) first.push_back(first.back() + counts[i]);
  auto* at = out.at("indices").as<std::int32_t>();
  std::int32_t next = 0;
  for (Index e = 0; e < experts; ++e) {
    Index n = out.at("ends").as<std::int32_t>()[e] - out.at("sizes").as<std::int32_t>()[e];
    for (Index r = ranks - 1; r >= 0; --r) {
      const std::int32_t* from = first.data() + r * experts + e;
      for (std::int32_t row = from[0]; row < from[1]; ++row) at[n++] = as_they_came ? next++ : row;
    }
  }
  return ranks > 1;
}

bool size_without_padding(const Call& call, NamedTensors& out) {
  const Index experts = call.set.integer("experts", 1);
  const Tensor& counts = call.input("tokens_per_expert");
  auto* sizes = out.at("sizes").as<std::int32_t>();
  std::fill_n(sizes, experts, 0);
  for (Index i = 0; i < counts.elements(); ++i) sizes[i % experts] += counts.as<std::int32_t>()[i];
  return true;
}

constexpr Row<bool (*)(const Call&, NamedTensors&)> kIndices[] = {
    {"sizes=empty_experts",
     "experts without tokens have a tile of padding where none is expected, or none where one is",
     pad_empty_experts},
    {"sizes=unpadded", "sizes are those without padding", size_without_padding},
    {"indices=as_they_came", "rows stay in the order in which they came, rank by rank",
     [](const Call& c, NamedTensors& out) { return order_rows(c, out, true); }},
    {"indices=last_rank_first", "rows of an expert stand from the last rank to the first",
     [](const Call& c, NamedTensors& out) { return order_rows(c, out, false); }},
};

// ---- Tiles of scales.

/// Scales of groups in the tiles of one matrix; the rest is zeros.
NamedTensors swizzled_as_one(Backend& backend, const Call& call) {
  NamedTensors out = run_call(backend, call);
  Call one = call;
  one.inputs.erase("group_ends");
  one.set.set("layout", "blocked");
  const Tensor tiles = std::move(run_call(backend, one).begin()->second);
  Tensor& all = out.begin()->second;
  std::fill_n(all.data(), all.bytes(), std::byte{0});
  std::copy_n(tiles.data(), std::min(tiles.bytes(), all.bytes()), all.data());
  return out;
}

/// Bytes [rows, columns] of one matrix where `place` has them, and zeros elsewhere.
bool lay(const Call& call, NamedTensors& out,
         Index (*place)(Index r, Index c, Index rows, Index columns)) {
  const Tensor& scales = call.input("scales");
  Tensor& tiles = out.begin()->second;
  if (scales.rank() != 2 || size_of(scales.dtype()) != 1 ||
      call.set.text("layout", "blocked") != "blocked")
    return false;
  std::fill_n(tiles.data(), tiles.bytes(), std::byte{0});
  const Index columns = scales.extent(1);
  for (Index i = 0; i < scales.elements(); ++i)
    tiles.data()[place(i / columns, i % columns, scales.extent(0), columns)] = scales.data()[i];
  return true;
}

constexpr Row<Index (*)(Index r, Index c, Index rows, Index columns)> kLayouts[] = {
    {"layout=rows", "scales lie row by row, padded to whole tiles and not swizzled",
     [](Index r, Index c, Index, Index n) { return r * round_up(n, kTileColumns) + c; }},
    {"layout=as_given", "scales lie as they were given, neither swizzled nor padded",
     [](Index r, Index c, Index, Index n) { return r * n + c; }},
    {"layout=columns", "scales lie column by column, padded to whole tiles and not swizzled",
     [](Index r, Index c, Index rows, Index) { return c * round_up(rows, kTileRows) + r; }},
    {"layout=tiles_down", "tiles lie column by column rather than row by row",
     [](Index r, Index c, Index rows, Index) {
       return (c / kTileColumns * ceil_div(rows, kTileRows) + r / kTileRows) * kTileBytes +
              blocked_offset(r % kTileRows, c % kTileColumns, 1);
     }},
};

}  // namespace

void add_padding_hypotheses(const Call& call, List& list) {
  if (call.op == "pad_groups") {
    add_rewritten(list, "padding=stale", "padding rows hold the rows that follow instead of zeros",
                  leave_padding);
    for (const auto& row : kPaddings) {
      add_rewritten(
          list, row.name, filled(row.phrase, call.set.integer("alignment", 32)),
          [of = row.of](const Call& c, NamedTensors& out) { return pad(c, out, of); }, Stage::rule);
    }
  }
  if (call.op == "permute_indices") {
    for (const auto& row : kIndices) add_rewritten(list, row.name, row.phrase, row.of, Stage::rule);
  }
  if (call.op != "swizzle_scales") return;
  if (call.has("group_ends")) {
    add_run(list, "group_ends=ignored",
            "all groups are swizzled as one matrix: none begins with a tile of its own",
            swizzled_as_one);
    return;
  }
  for (const auto& row : kLayouts) {
    add_rewritten(
        list, row.name, row.phrase,
        [of = row.of](const Call& c, NamedTensors& out) { return lay(c, out, of); }, Stage::rule);
  }
}

}  // namespace mxo
