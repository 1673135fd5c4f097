// Rows that are moved or found by another's number: numbers that are not translated, markers that
// are taken for numbers, orders that are taken for their inverse.
#include "golden/explain/alter/alterations.h"

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
bool renumber(const Call& call, NamedTensors& out, const LocalNumber& row, bool counted) {
  const bool mapped = call.has("expert_map");
  const Index entries = mapped ? call.input("expert_map").elements() : 0;
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
  return true;
}

void add_maps(const Call& call, List& list) {
  const bool mapped = call.has("expert_map") && call.input("expert_map").dtype() == Dtype::i32;
  for (const LocalNumber& row : kLocalNumbers) {
    if (row.of_map && !mapped) continue;
    for (const bool counted : {true, false}) {
      add_rewritten(
          list, row.name, std::string(row.phrase) + (counted ? ", and counted so" : ""),
          [&row, counted](const Call& c, NamedTensors& out) {
            return renumber(c, out, row, counted);
          },
          Stage::rule);
    }
  }
}

/// Writes row source[i] of `from` as row i of `to`, where there is one.
bool move_rows(const Tensor& from, Tensor& to, const std::vector<Index>& source) {
  if (from.rank() != 2 || to.rank() != 2 || from.extent(0) == 0) return false;
  const std::size_t bytes = from.bytes() / static_cast<std::size_t>(from.extent(0));
  for (std::size_t i = 0; i < std::min(source.size(), static_cast<std::size_t>(to.extent(0)));
       ++i) {
    if (source[i] < 0 || source[i] >= from.extent(0)) continue;
    const std::byte* at = from.data() + static_cast<std::size_t>(source[i]) * bytes;
    std::copy_n(at, bytes, to.data() + i * bytes);
  }
  return true;
}

std::vector<Index> indices_of(const Call& call) {
  const auto* at = call.input("indices").as<std::int32_t>();
  return {at, at + call.input("indices").elements()};
}

bool gather(const Call& call, NamedTensors& out) {
  Tensor& rows = out.at("x");
  std::fill_n(rows.data(), rows.bytes(), std::byte{0});
  return move_rows(call.input("y"), rows, indices_of(call));
}

bool scatter(const Call& call, NamedTensors& out) {
  Tensor& rows = out.at("y");
  std::fill_n(rows.data(), rows.bytes(), std::byte{0});
  const std::vector<Index> indices = indices_of(call);
  std::vector<Index> source(static_cast<std::size_t>(rows.extent(0)), -1);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= 0 && indices[i] < rows.extent(0))
      source[static_cast<std::size_t>(indices[i])] = static_cast<Index>(i);
  }
  return move_rows(call.input("x"), rows, source);
}

bool point_padding_to_0(const Call& call, NamedTensors& out) {
  const auto all = static_cast<std::int32_t>(call.input("experts").elements());
  Tensor& ids = out.at("sorted_token_ids");
  std::replace(ids.as<std::int32_t>(), ids.as<std::int32_t>() + ids.elements(), all, 0);
  return true;
}

/// Slots of each expert in the reverse order, padding where it is.
bool turn_slots(const Call& call, NamedTensors& out) {
  const auto all = static_cast<std::int32_t>(call.input("experts").elements());
  auto* ids = out.at("sorted_token_ids").as<std::int32_t>();
  const Tensor& ends = out.at("group_ends");
  Index begin = 0;
  for (Index e = 0; e < ends.elements(); ++e) {
    const Index end = ends.as<std::int32_t>()[e];
    const auto padded = [all](std::int32_t id) { return id >= all; };
    std::reverse(ids + begin, std::find_if(ids + begin, ids + end, padded));
    begin = end;
  }
  return true;
}

struct MovedRows {
  const char* op;
  const char* name;
  const char* phrase;
  bool (*rewrite)(const Call& call, NamedTensors& out);
};

constexpr MovedRows kMovedRows[] = {
    {"permute", "indices=inverse", "rows are scattered by the indices rather than gathered",
     scatter},
    {"unpermute", "indices=inverse",
     "rows are gathered by the indices rather than scattered: the order is taken for its inverse",
     gather},
    {"unpad_groups", "starts=unpadded",
     "groups are read from starts without padding: each row of x is the same row of y",
     [](const Call& c, NamedTensors& out) {
       return move_rows(c.input("y"), out.at("x"), range_of(out.at("x").extent(0)));
     }},
    {"moe_align_block_size", "sorted_token_ids=padding_0",
     "slots of padding point to slot 0 rather than beyond all", point_padding_to_0},
    {"moe_align_block_size", "sorted_token_ids=descending",
     "slots of an expert stand from the last to the first", turn_slots},
};

}  // namespace

bool only_moves(const Call& call) {
  return call.op == "map_experts" || call.op == "permute" || call.op == "unpermute" ||
         call.op == "permute_indices" || call.op == "moe_align_block_size";
}

void add_index_hypotheses(const Call& call, List& list) {
  if (call.op == "map_experts" && !call.set.has("capacity")) add_maps(call, list);
  for (const MovedRows& row : kMovedRows) {
    if (call.op == row.op) add_rewritten(list, row.name, row.phrase, row.rewrite, Stage::rule);
  }
  for (const std::int32_t by : {-1, 1}) {
    if (call.op != "permute" && call.op != "unpermute") break;
    add_altered(list, "indices=moved",
                filled("every index is one {} than is given", by < 0 ? "less" : "more"),
                [by, last = call.input(call.op == "permute" ? "x" : "y").extent(0) - 1](Call& c) {
                  Tensor t = c.input("indices");
                  for (Index i = 0; i < t.elements(); ++i) {
                    std::int32_t& at = t.as<std::int32_t>()[i];
                    if (at >= 0)
                      at = static_cast<std::int32_t>(std::clamp<Index>(at + by, 0, last));
                  }
                  c.replace("indices", std::move(t));
                  return true;
                });
  }
  if ((call.op != "dequantize" && call.op != "decode") || !call.has("codes")) return;
  for (const Index run : {16, 32, 64, 128}) {
    add_read(list, "codes=first_run",
             "every run of " + std::to_string(run) + " columns holds the codes of columns 0 to " +
                 std::to_string(run - 1),
             {make_reading(
                 "codes", [run](const Matrices& m) { return m.columns > run; },
                 [run](const Matrices& m, Index matrix, Index row, Index column) {
                   return (matrix * m.rows + row) * m.columns + column % run;
                 })});
  }
}

}  // namespace mxo
