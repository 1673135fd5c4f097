// Rows that are moved and tables of experts: numbers that are not translated, markers that are
// taken for numbers, orders that are taken for their inverse.
#include <algorithm>
#include <vector>

#include "golden/explain/hypotheses.h"

namespace mxo {
namespace {

void add(std::vector<Hypothesis>& list, std::string name, std::string phrase,
         std::function<bool(const Call&, NamedTensors&)> rewrite) {
  list.push_back({std::move(name), std::move(phrase), Stage::rule, [](Call&) { return true; },
                  std::move(rewrite)});
}

/// local[i] = of(expert, what is right), and with it, or as they are, the counts.
template <typename Of>
void add_local(std::vector<Hypothesis>& list, const char* name, const std::string& phrase, Of of) {
  for (const bool counted : {true, false}) {
    add(list, name, phrase + (counted ? ", and counted so" : ""),
        [of, counted](const Call& c, NamedTensors& out) {
          const Tensor& experts = c.input("experts");
          Tensor& local = out.at("local");
          Tensor& counts = out.at("tokens_per_expert");
          auto* n = counts.as<std::int32_t>();
          if (counted) std::fill_n(n, counts.elements(), 0);
          for (Index i = 0; i < local.elements(); ++i) {
            std::int32_t& e = local.as<std::int32_t>()[i];
            e = of(c, experts.as<std::int32_t>()[i], e);
            if (counted && e >= 0 && e < counts.elements()) ++n[e];
          }
          return true;
        });
  }
}

void add_maps(const Call& call, std::vector<Hypothesis>& list) {
  add_local(list, "local=expert_0", "slots that belong to no expert here become expert 0",
            [](const Call&, std::int32_t, std::int32_t local) { return std::max(local, 0); });
  if (!call.has("expert_map") || call.input("expert_map").dtype() != Dtype::i32) return;
  const auto entry = [](const Call& c, std::int32_t e) {
    const Tensor& map = c.input("expert_map");
    return e >= 0 && e < map.elements() ? map.as<std::int32_t>()[e] : -1;
  };
  add_local(list, "local=mask",
            "expert_map is taken as a mask, 1 for experts of this rank and 0 for others",
            [entry](const Call& c, std::int32_t e, std::int32_t) {
              return std::int32_t{entry(c, e) >= 0};
            });
  add_local(list, "local=global",
            "numbers of experts are not made local: they are those of experts",
            [](const Call&, std::int32_t e, std::int32_t local) { return local < 0 ? -1 : e; });
  add_local(list, "local=unmapped", "expert_map is left out",
            [](const Call&, std::int32_t e, std::int32_t) { return e; });
}

/// Rows of `from` to rows of `to`: those that rows(i) names, where there is one.
template <typename Rows>
bool move_rows(const Tensor& from, Tensor& to, Rows rows) {
  if (from.rank() != 2 || to.rank() != 2 || from.extent(0) == 0 || to.extent(0) == 0) return false;
  const std::size_t bytes = from.bytes() / static_cast<std::size_t>(from.extent(0));
  for (Index i = 0; i < to.extent(0); ++i) {
    const Index row = rows(i);
    if (row < 0 || row >= from.extent(0)) continue;
    const std::byte* at = from.data() + static_cast<std::size_t>(row) * bytes;
    std::copy_n(at, bytes, to.data() + static_cast<std::size_t>(i) * bytes);
  }
  return true;
}

void add_permutes(const Call& call, std::vector<Hypothesis>& list) {
  const bool gathers = call.op == "permute";
  const std::string from = gathers ? "x" : "y";
  const std::string to = gathers ? "y" : "x";
  add(list, "indices=inverse",
      gathers
          ? "rows are scattered by the indices rather than gathered"
          : "rows are gathered by the indices rather than scattered: the order is taken for its "
            "inverse",
      [=](const Call& c, NamedTensors& out) {
        const Tensor& indices = c.input("indices");
        const auto* at = indices.as<std::int32_t>();
        Tensor& rows = out.at(to);
        std::fill_n(rows.data(), rows.bytes(), std::byte{0});
        if (!gathers)
          return move_rows(c.input(from), rows,
                           [&](Index i) { return i < indices.elements() ? Index{at[i]} : -1; });
        std::vector<Index> source(static_cast<std::size_t>(rows.extent(0)), -1);
        for (Index i = 0; i < indices.elements(); ++i) {
          if (at[i] >= 0 && at[i] < rows.extent(0)) source[static_cast<std::size_t>(at[i])] = i;
        }
        return move_rows(c.input(from), rows,
                         [&](Index i) { return source[static_cast<std::size_t>(i)]; });
      });
  if (!gathers) return;
  for (const bool last : {true, false}) {
    add(list, "indices=marker",
        std::string("-1 is taken for the ") + (last ? "last" : "first") +
            " row of x rather than none",
        [last](const Call& c, NamedTensors& out) {
          const Tensor& x = c.input("x");
          const auto* at = c.input("indices").as<std::int32_t>();
          return move_rows(x, out.at("y"), [&](Index i) {
            return at[i] >= 0 ? Index{at[i]} : last ? x.extent(0) - 1 : 0;
          });
        });
  }
}

/// An expert without tokens has a tile of padding where it has none, or none where it has one.
bool pad_empty_experts(const Call& call, NamedTensors& out) {
  const Index experts = call.set.integer("experts", 1);
  const Index ranks = call.set.integer("ranks", 1);
  const auto alignment = static_cast<std::int32_t>(call.set.integer("alignment", 32));
  const auto* counts = call.input("tokens_per_expert").as<std::int32_t>();
  Tensor& indices = out.at("indices");
  auto* sizes = out.at("sizes").as<std::int32_t>();
  auto* ends = out.at("ends").as<std::int32_t>();
  std::fill_n(indices.as<std::int32_t>(), indices.elements(), -1);
  std::int32_t begin = 0;
  bool any = false;
  for (Index e = 0; e < experts; ++e) {
    std::int32_t n = 0;
    for (Index r = 0; r < ranks; ++r) {
      const Index first = r * experts + e;
      std::int32_t row = 0;
      for (Index before = 0; before < first; ++before) row += counts[before];
      for (std::int32_t i = 0; i < counts[first]; ++i, ++n) {
        if (begin + n < indices.elements()) indices.as<std::int32_t>()[begin + n] = row + i;
      }
    }
    if (n == 0) {
      sizes[e] = sizes[e] == 0 ? alignment : 0;
      any = true;
    }
    begin += sizes[e];
    ends[e] = begin;
  }
  return any;
}

}  // namespace

bool only_moves(const Call& call) {
  return call.op == "map_experts" || call.op == "permute" || call.op == "unpermute" ||
         call.op == "permute_indices" || call.op == "moe_align_block_size";
}

void add_index_hypotheses(const Call& call, std::vector<Hypothesis>& list) {
  if (call.op == "map_experts" && !call.set.has("capacity")) add_maps(call, list);
  if (call.op == "permute" || call.op == "unpermute") add_permutes(call, list);
  if (call.op == "permute_indices") {
    add(list, "sizes=empty_experts",
        "experts without tokens have a tile of padding where none is expected, or none where one "
        "is",
        pad_empty_experts);
  }
  if ((call.op == "dequantize" || call.op == "decode") && call.has("codes")) {
    for (const Index run : {16, 32, 64, 128}) {
      list.push_back(
          read_elsewhere("codes=first_run",
                         "every run of " + std::to_string(run) +
                             " columns holds the codes of columns 0 to " + std::to_string(run - 1),
                         {make_reading(
                             "codes", [run](const Matrices& m) { return m.columns > run; },
                             [run](const Matrices& m, Index matrix, Index row, Index column) {
                               return (matrix * m.rows + row) * m.columns + column % run;
                             })}));
    }
  }
  if (call.op == "moe_align_block_size") {
    add(list, "sorted_token_ids=padding_0",
        "slots of padding point to slot 0 rather than beyond all",
        [](const Call& c, NamedTensors& out) {
          const auto all = static_cast<std::int32_t>(c.input("experts").elements());
          Tensor& ids = out.at("sorted_token_ids");
          std::replace(ids.as<std::int32_t>(), ids.as<std::int32_t>() + ids.elements(), all, 0);
          return true;
        });
  }
}

}  // namespace mxo
