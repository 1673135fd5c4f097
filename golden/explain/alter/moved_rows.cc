// Rows and numbers that are only moved: indices that are not translated or are taken for their
// inverse, groups that are padded otherwise, histories.
#include <numeric>

#include "golden/explain/alter/alterations.h"
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

/// The number that an expert is given where `local` is expected; `mapped`: what expert_map has of
/// it, -1 where that is nothing.
struct LocalNumber {
  const char* name;
  const char* phrase;
  std::int32_t (*of)(std::int32_t expert, std::int32_t local, std::int32_t mapped);
  bool of_map = true;  ///< says nothing of a call without one
  bool wraps = false;  ///< -1 is the last entry
};

constexpr LocalNumber kLocalNumbers[] = {
    {"local=expert_0", "slots that belong to no expert here become expert 0",
     [](auto, auto local, auto) { return std::max(local, 0); }, false},
    {"local=mask", "expert_map is taken as a mask, 1 for experts of this rank and 0 for others",
     [](auto, auto, auto mapped) { return std::int32_t{mapped >= 0}; }},
    {"local=global", "numbers of experts are not made local: they are those of experts",
     [](auto expert, auto local, auto) { return local < 0 ? -1 : expert; }},
    {"local=unmapped", "expert_map is left out", [](auto expert, auto, auto) { return expert; }},
    {"local=last_entry", "slots of no expert, -1, take the last entry of expert_map",
     [](auto, auto, auto mapped) { return mapped; }, true, true},
};

/// Numbers of experts by a row of the table, and with them, or as they are, the counts.
void renumber(const Call& call, NamedTensors& out, const LocalNumber& row, bool counted) {
  const Index entries = call.has("expert_map") ? call.input("expert_map").elements() : 0;
  Tensor& local = out.at("local");
  Tensor& counts = out.at("tokens_per_expert");
  auto* n = counts.as<std::int32_t>();
  if (counted) std::fill_n(n, counts.elements(), 0);
  for (Index i = 0; i < local.elements(); ++i) {
    const std::int32_t expert = call.input("experts").as<std::int32_t>()[i];
    const Index at = expert < 0 && row.wraps ? entries - 1 : Index{expert};
    const bool known = at >= 0 && at < entries;
    std::int32_t& e = local.as<std::int32_t>()[i];
    e = row.of(expert, e, known ? call.input("expert_map").as<std::int32_t>()[at] : -1);
    if (counted && e >= 0 && e < counts.elements()) ++n[e];
  }
}

void add_maps(const Call& call, List& list) {
  for (const LocalNumber& row : kLocalNumbers) {
    if (row.of_map && !call.has("expert_map")) continue;
    for (const bool counted : {true, false})
      add_rewritten(
          list, row.name, std::string(row.phrase) + (counted ? ", and in the counts too" : ""),
          [&row, counted](const Call& c, NamedTensors& out) { renumber(c, out, row, counted); })
          .stage = Stage::rule;
  }
}

/// Rows of x, or of y, as rows of y, or of x, and zeros.
bool gather(const Call& call, NamedTensors& out) {
  const auto* indices = call.input("indices").as<std::int32_t>();
  std::vector<Index> source(indices, indices + call.input("indices").elements());
  source.resize(static_cast<std::size_t>(out.at("x").extent(0)), -1);
  out.at("x") = rows_from(call.input("y"), std::move(source));
  return true;
}

bool scatter(const Call& call, NamedTensors& out) {
  const Tensor& indices = call.input("indices");
  std::vector<Index> source(static_cast<std::size_t>(out.at("y").extent(0)), -1);
  for (Index i = 0; i < indices.elements(); ++i) {
    const std::int32_t to = indices.as<std::int32_t>()[i];
    if (to >= 0 && to < std::ssize(source)) source[static_cast<std::size_t>(to)] = i;
  }
  out.at("y") = rows_from(call.input("x"), std::move(source));
  return true;
}

bool leave_unpadded(const Call& call, NamedTensors& out) {
  out.at("x") = rows_from(call.input("y"), range_of(out.at("x").extent(0)));
  return true;
}

/// Numbers of experts of tokens that lie further apart than they are read, -1 between them.
void add_strides(const Call& call, List& list) {
  if (!call.has("experts")) return;
  const Index slots = call.input("experts").extent(1);
  for (const Index more : {1, 2, 4, 8}) {
    const Index apart = slots + more;
    add_altered(
        list, "experts=stride",
        filled("experts of tokens, at a stride of {} with -1 between, are read at a stride of {}",
               apart, slots),
        [apart, slots](Call& c) {
          const Tensor& given = c.input("experts");
          c.replace("experts", with_integers(given, [&](Index, Index i) -> Index {
                      const Index at = i / apart * slots + i % apart;
                      return i % apart < slots ? given.as<std::int32_t>()[at] : -1;
                    }));
        });
  }
}

// ---- moe_align_block_size.

bool point_padding_to_0(const Call& call, NamedTensors& out) {
  const Index all = call.input("experts").elements();
  Tensor& ids = out.at("sorted_token_ids");
  ids = with_integers(ids, [all](Index n, Index) { return n == all ? 0 : n; });
  return true;
}

/// Slots of each expert in the reverse order, padding where it is.
bool turn_slots(const Call& call, NamedTensors& out) {
  const auto all = static_cast<std::int32_t>(call.input("experts").elements());
  auto* ids = out.at("sorted_token_ids").as<std::int32_t>();
  Index begin = 0;
  for (const Index end : group_ends_of(out.at("group_ends"))) {
    const auto padded = [all](std::int32_t id) { return id >= all; };
    std::reverse(ids + begin, std::find_if(ids + begin, ids + end, padded));
    begin = end;
  }
  return true;
}

// ---- pad_groups.

/// A group of `n` rows is given kRowsOf(n, alignment, rows of x), or null: as many as it is, which
/// hold the rows that follow instead of zeros.
template <Index (*kRowsOf)(Index n, Index to, Index all)>
bool pad(const Call& call, NamedTensors& out) {
  const Tensor& x = call.input("x");
  const Index all = x.extent(0);
  const Index to = call.set.integer("alignment", 32);
  if (all == 0) return false;
  std::vector<Index> source(static_cast<std::size_t>(out.at("y").extent(0)), -1);
  Index begin = 0;
  Index start = 0;
  auto* starts = out.at("padded_starts").as<std::int32_t>();
  auto* ends = out.at("padded_ends").as<std::int32_t>();
  for (Index g = 0; g < call.input("group_ends").elements(); ++g) {
    const Index end = call.input("group_ends").as<std::int32_t>()[g];
    Index padded = ends[g] - starts[g];
    Index copied = std::min(padded, all - begin);
    if constexpr (kRowsOf != nullptr) {
      padded = kRowsOf(end - begin, to, all);
      copied = end - begin;
    }
    if (start + std::max(copied, padded) > std::ssize(source)) return false;
    std::iota(source.begin() + start, source.begin() + start + copied, begin);
    starts[g] = static_cast<std::int32_t>(start);
    start += padded;
    ends[g] = static_cast<std::int32_t>(start);
    begin = end;
  }
  out.at("y") = rows_from(x, std::move(source));
  return true;
}

// ---- permute_indices.

/// Rows of experts, rank by rank, or the last rank first, or numbered as they came.
enum class RankOrder : std::uint8_t { first_to_last, last_to_first, as_they_came };

template <RankOrder kOrder>
bool order_rows(const Call& call, NamedTensors& out) {
  const Index experts = call.set.integer("experts", 1);
  const Index ranks = call.set.integer("ranks", 1);
  const auto* counts = call.input("tokens_per_expert").as<std::int32_t>();
  std::vector<std::int32_t> first{0};  // row of each expert of each rank
  for (Index i = 0; i < ranks * experts; ++i) first.push_back(first.back() + counts[i]);
  Tensor& indices = out.at("indices");
  std::fill_n(indices.as<std::int32_t>(), indices.elements(), -1);
  std::int32_t next = 0;
  for (Index e = 0; e < experts; ++e) {
    Index n = out.at("ends").as<std::int32_t>()[e] - out.at("sizes").as<std::int32_t>()[e];
    for (Index r = 0; r < ranks; ++r) {
      const Index rank = kOrder == RankOrder::last_to_first ? ranks - 1 - r : r;
      const std::int32_t* from = first.data() + rank * experts + e;
      for (std::int32_t row = from[0]; row < from[1]; ++row, ++n, ++next) {
        const std::int32_t index = kOrder == RankOrder::as_they_came ? next : row;
        if (n < indices.elements()) indices.as<std::int32_t>()[n] = index;
      }
    }
  }
  return ranks > 1;
}

/// Tokens of expert e on all ranks.
std::int32_t tokens_of(const Call& call, Index e) {
  std::int32_t sum = 0;
  const Tensor& counts = call.input("tokens_per_expert");
  for (Index i = e; i < counts.elements(); i += call.set.integer("experts", 1))
    sum += counts.as<std::int32_t>()[i];
  return sum;
}

/// An expert without tokens has a tile of padding where it has none, or none where it has one.
bool pad_empty_experts(const Call& call, NamedTensors& out) {
  const auto tile = static_cast<std::int32_t>(call.set.integer("alignment", 32));
  std::int32_t end = 0;
  bool any = false;
  for (Index e = 0; e < call.set.integer("experts", 1); ++e) {
    std::int32_t& size = out.at("sizes").as<std::int32_t>()[e];
    const bool empty = tokens_of(call, e) == 0;
    if (empty) size = size == 0 ? tile : 0;
    any = any || empty;
    end += size;
    out.at("ends").as<std::int32_t>()[e] = end;
  }
  order_rows<RankOrder::first_to_last>(call, out);
  return any;
}

bool size_without_padding(const Call& call, NamedTensors& out) {
  Tensor& sizes = out.at("sizes");
  sizes = with_integers(sizes, [&](Index, Index e) { return tokens_of(call, e); });
  return true;
}

/// Experts from `first` on have neither rows nor places, as where a block of threads ends.
void end_experts(NamedTensors& out, Index first) {
  const auto ended = [&](const char* name, Index end, Index rest) {
    out.at(name) =
        with_integers(out.at(name), [=](Index n, Index i) { return i < end ? n : rest; });
  };
  ended("indices", out.at("ends").as<std::int32_t>()[first - 1], -1);
  for (const char* name : {"sizes", "ends"}) ended(name, first, 0);
}

/// Entries of a history one further on, the first of them 0.
bool roll_again(const Call&, NamedTensors& out) {
  Tensor& history = out.at("next_history");
  const std::span all(history.as<float>(), history.bytes() / 4);
  std::rotate(all.begin(), all.begin() + 1, all.end());
  all.front() = 0.0f;
  return true;
}

/// What is written otherwise by an operator; {}: its alignment.
struct MovedRows {
  const char* op;
  const char* name;
  const char* phrase;
  bool (*rewrite)(const Call& call, NamedTensors& out);
  Stage stage = Stage::rule;
};

constexpr MovedRows kMovedRows[] = {
    {"permute", "indices=inverse", "rows are scattered by the indices rather than gathered",
     scatter},
    {"unpermute", "indices=inverse",
     "rows are gathered by the indices rather than scattered: the order is taken for its inverse",
     gather},
    {"unpad_groups", "starts=unpadded",
     "groups are read from starts without padding: each row of x is the same row of y",
     leave_unpadded},
    {"moe_align_block_size", "sorted_token_ids=padding_0",
     "slots of padding point to slot 0 rather than beyond all", point_padding_to_0},
    {"moe_align_block_size", "sorted_token_ids=descending",
     "slots of an expert stand from the last to the first", turn_slots},
    {"pad_groups", "padding=stale", "padding rows hold the rows that follow instead of zeros",
     pad<nullptr>, Stage::output},
    {"pad_groups", "padding=empty", "groups without rows are given {} rows, too",
     pad<[](Index n, Index to, Index) { return n == 0 ? to : round_up(n, to); }>},
    {"pad_groups", "padding=one_more",
     "groups whose rows are multiples of {} are given as many more",
     pad<[](Index n, Index to, Index) { return (n / to + (n > 0 ? 1 : 0)) * to; }>},
    {"pad_groups", "padding=at_most_all",
     "groups are padded to multiples of {}, but to no more rows than x has",
     pad<[](Index n, Index to, Index all) { return std::min(round_up(n, to), all); }>},
    {"permute_indices", "sizes=empty_experts",
     "experts without tokens have a tile of padding where none is expected, or none where one is",
     pad_empty_experts},
    {"permute_indices", "sizes=unpadded", "sizes are those without padding", size_without_padding},
    {"permute_indices", "indices=as_they_came",
     "rows stay in the order in which they came, rank by rank",
     order_rows<RankOrder::as_they_came>},
    {"permute_indices", "indices=last_rank_first",
     "rows of an expert stand from the last rank to the first",
     order_rows<RankOrder::last_to_first>},
    {"delayed_scale", "history=rolled_again",
     "the history is rolled once more: entries lie one further on, and the oldest is lost",
     roll_again},
};

}  // namespace

bool only_moves(const Call& call) {
  return call.op == "map_experts" || call.op == "permute" || call.op == "unpermute" ||
         call.op == "permute_indices" || call.op == "moe_align_block_size";
}

void add_index_hypotheses(const Call& call, List& list) {
  if (call.op == "map_experts" && !call.set.has("capacity")) add_maps(call, list);
  add_strides(call, list);
  for (const MovedRows& row : kMovedRows)
    if (call.op == row.op)
      add_rewritten(list, row.name, filled(row.phrase, call.set.integer("alignment", 32)),
                    row.rewrite, row.stage);
  for (const Index first : {8, 16, 32, 64, 128, 256, 512, 1024}) {
    if (call.op != "permute_indices" || first >= call.set.integer("experts", 1)) break;
    add_rewritten(list, "experts=ended", filled("experts from {} on are left out", first),
                  [first](const Call&, NamedTensors& out) { end_experts(out, first); })
        .stage = Stage::rule;
  }
  const auto renumbered = [&](const char* operand, const char* name, std::string phrase, auto to) {
    add_altered(list, name, std::move(phrase), [operand, to](Call& c) {
      c.replace(operand, with_integers(c.input(operand), [&](Index n, Index) { return to(n); }));
    });
  };
  for (const Index e : {Index{0}, call.set.integer("experts", 1) - 1})
    if (call.op == "moe_align_block_size")
      renumbered("experts", "experts=none_counted",
                 filled("slots of no expert count as expert {}", e),
                 [e](Index n) { return n < 0 ? e : n; });
  for (const Index by : {-1, 1}) {
    if (call.op != "permute" && call.op != "unpermute") break;
    renumbered("indices", "indices=moved",
               filled("every index is one {} than is given", by < 0 ? "less" : "more"),
               [by, last = call.input(call.op == "permute" ? "x" : "y").extent(0) - 1](Index n) {
                 return n < 0 ? n : std::clamp<Index>(n + by, 0, last);
               });
  }
  if ((call.op != "dequantize" && call.op != "decode") || !call.has("codes")) return;
  for (const Index run : {16, 32, 64, 128}) {
    Reading reading = read_lines("codes", -1, [run](Index c) { return c % run; });
    reading.least_rank = 2;
    reading.applies = [run](const Matrices& m) { return m.columns > run; };
    add_read(list, "codes=first_run",
             filled("every run of {} columns holds the codes of columns 0 to {}", run, run - 1),
             {std::move(reading)});
  }
}

}  // namespace mxo
