// Tokens to which one slot brought the row of another: found among all rows that came back.
#include <cstring>
#include <map>
#include <optional>
#include <span>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/slots.h"
#include "golden/explain/words/places.h"

namespace mxo {
namespace {

constexpr double kFit = 0.0025;  ///< of an output that may be left: half a unit of bf16
constexpr Index kMostFailing = 256;
constexpr Index kMostTrials = 1 << 26;
constexpr Index kLeastColumns = 16;
constexpr std::size_t kSaidSingly = 4;  ///< tokens that are said one by one

/// A slot of a token, and the row that it brings.
struct Slot {
  std::string rank;  ///< "rank0."
  Index token = 0;
  Index slot = 0;
  std::span<const BF16> row;
  bool is(const Slot& o) const { return rank == o.rank && token == o.token && slot == o.slot; }
  bool is_alike(const Slot& o) const {
    return std::memcmp(row.data(), o.row.data(), row.size_bytes()) == 0;
  }
  std::string words(bool with_rank) const {
    return filled("slot {} of token {}", slot, token) +
           (with_rank ? " of " + rank.substr(0, rank.size() - 1) : "");
  }
};

/// A slot that brought the row of another.
struct Replaced {
  Slot slot;
  Slot from;
};

/// The one slot of a token, `own` of which it has, and the one row in its place, with which its
/// sum is the actual output; none where there is none, or where several rows of other values do.
std::optional<Replaced> replaced(const Call& call, const Output& o, const std::vector<Slot>& all,
                                 std::span<const Slot> own) {
  const auto n = static_cast<std::size_t>(o.columns);
  const ActualNumbers got = actual_numbers(o, elements_of_row(o, own.front().token));
  if (!got.tell()) return std::nullopt;
  const auto weight_of = [&](const Slot& s) { return given_weight(call, s.rank, s.token, s.slot); };
  const double limit = kFit * kFit * static_cast<double>(n);
  std::optional<Replaced> found;
  for (const Slot& slot : own) {
    const double weight = weight_of(slot);
    if (weight == 0.0) continue;
    std::vector<double> rest = got.values;
    for (const Slot& kept : own) {
      if (&kept == &slot) continue;
      const double w = weight_of(kept);
      for (std::size_t c = 0; c < n; ++c) rest[c] -= w * static_cast<double>(decode(kept.row[c]));
    }
    for (const Slot& from : all) {
      double left = 0.0;
      for (std::size_t c = 0; c < n && left <= limit; ++c) {
        const double off = rest[c] - weight * static_cast<double>(decode(from.row[c]));
        left += off * off * got.weight(c) * got.weight(c);
      }
      if (left > limit || from.is(slot)) continue;
      if (!found) {
        found = Replaced{slot, from};
      } else if (!from.is_alike(found->from) || !found->slot.is(slot)) {
        return std::nullopt;
      }
    }
  }
  return found;
}

/// How the slots that were replaced are named: by one distance, one by one, or as several.
std::string in_words(const std::vector<Replaced>& list) {
  const Index by = list.front().from.token - list.front().slot.token;
  const bool near = std::all_of(list.begin(), list.end(), [&](const Replaced& r) {
    return r.from.rank == r.slot.rank && r.from.slot == r.slot.slot &&
           r.from.token - r.slot.token == by;
  });
  std::string text;
  if (list.size() <= kSaidSingly && !(near && list.size() > 1)) {
    for (const Replaced& r : list) {
      list_words(text, r.slot.words(true) + " takes the row of " +
                           r.from.words(r.from.rank != r.slot.rank));
    }
    return text;
  }
  std::map<std::string, std::vector<Index>> tokens;
  for (const Replaced& r : list) tokens[r.slot.rank].push_back(r.slot.token);
  for (const auto& [rank, at] : tokens) {
    list_words(text, ranges_in_words("token", at) + " of " + rank.substr(0, rank.size() - 1),
               " and ");
  }
  return (near ? "a slot takes the row of the token " + away(by)
               : "a slot takes the row of another token") +
         ", in " + text;
}

/// Writes what rows hold to where others lie, each found by its bytes; false if one is not there.
bool bring(Call& call, const std::string& operand,
           const std::vector<std::pair<std::vector<BF16>, std::vector<BF16>>>& moved) {
  std::size_t done = 0;
  for (const auto& [name, given] : Call(call).inputs) {
    if (!name.ends_with(operand)) continue;
    Tensor t = *given;
    for (Index r = 0; r < t.extent(0); ++r) {
      const std::size_t bytes = static_cast<std::size_t>(t.extent(1)) * sizeof(BF16);
      for (const auto& [own, from] : moved) {
        if (std::memcmp(given->as<BF16>() + r * t.extent(1), own.data(), bytes) != 0) continue;
        std::memcpy(t.as<BF16>() + r * t.extent(1), from.data(), bytes);
        ++done;
      }
    }
    call.replace(name, std::move(t));
  }
  return done == moved.size();
}

}  // namespace

void add_measured_slot_rows(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                            std::vector<Hypothesis>& list) {
  if (call.op != "combine" && call.op != "dispatch_backward") return;
  const auto fails = [](const Output& o, Index r) {
    return o.differs_in(r * o.columns, o.columns);
  };
  Index failing = 0;
  Index tokens = 0;
  for (const Output& o : outputs) {
    if (o.expected->dtype() != Dtype::bf16 || o.columns < kLeastColumns) return;
    for (Index r = 0; r < o.compared_rows; ++r) failing += fails(o, r);
    tokens += o.rows;
  }
  const Index slots = slots_of(call);
  if (failing == 0 || failing > kMostFailing || failing * slots * tokens * slots > kMostTrials)
    return;
  std::vector<NamedTensors> rows;
  for (Index s = 0; s < slots; ++s) rows.push_back(rows_of_slot(backend, call, s));
  std::vector<Slot> all;                     // those of a token side by side
  std::map<std::string, std::size_t> first;  // slot of a rank
  for (const auto& [name, tensor] : rows.front()) {
    first[rank_of(name)] = all.size();
    const auto columns = static_cast<std::size_t>(tensor.extent(1));
    for (Index i = 0; i < tensor.extent(0) * slots; ++i) {
      const Tensor& of_slot = rows[static_cast<std::size_t>(i % slots)].at(name);
      const BF16* row = of_slot.as<BF16>() + i / slots * tensor.extent(1);
      all.push_back({rank_of(name), i / slots, i % slots, {row, columns}});
    }
  }
  std::vector<Replaced> found;
  for (const Output& o : outputs) {
    for (Index r = 0; r < o.compared_rows; ++r) {
      if (!fails(o, r)) continue;
      const std::size_t at = first.at(rank_of(o.name)) + static_cast<std::size_t>(r * slots);
      const auto one = replaced(call, o, all, {all.data() + at, static_cast<std::size_t>(slots)});
      if (!one) return;
      found.push_back(*one);
    }
  }
  std::vector<std::pair<std::vector<BF16>, std::vector<BF16>>> moved;
  for (const Replaced& r : found) {
    moved.push_back(
        {{r.slot.row.begin(), r.slot.row.end()}, {r.from.row.begin(), r.from.row.end()}});
  }
  const char* operand = call.op == "combine" ? ".y" : ".dy";
  add_altered(list, "rows=other_token", in_words(found),
              [moved, operand](Call& c) { return bring(c, operand, moved); });
}

}  // namespace mxo
