// Tokens to which one slot brought the row of another: found among all rows that came back.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "golden/explain/name/places.h"
#include "golden/explain/recover/slots.h"
#include "golden/explain/wide_values.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr double kRowFit = 0.0025;  ///< of an output that may be left: half a unit of bf16
constexpr Index kMostFailing = 256;
constexpr Index kMostRowTrials = 1 << 26;
constexpr Index kLeastRowColumns = 16;
constexpr std::size_t kSaidSingly = 4;  ///< tokens that are said one by one

/// A slot of a token.
struct Slot {
  std::string rank;  ///< "rank0."
  Index token = 0;
  Index slot = 0;
  bool operator==(const Slot&) const = default;
};

/// A slot that brought the row of another.
struct Replaced {
  Slot slot;
  Slot from;
};

/// Every row that comes back, by its slot.
class SlotRows {
 public:
  SlotRows(Backend& backend, const Call& call) : slots_(slots_of(call)) {
    for (Index s = 0; s < slots_; ++s) rows_.push_back(rows_of_slot(backend, call, s));
    for (const auto& [name, tensor] : rows_.front()) {
      for (Index t = 0; t < tensor.extent(0); ++t) {
        for (Index s = 0; s < slots_; ++s)
          all_.push_back({name.substr(0, name.find('.') + 1), t, s});
      }
    }
  }
  Index slots() const { return slots_; }
  const std::vector<Slot>& all() const { return all_; }
  const BF16* row(const Slot& s) const {
    const Tensor& t = rows_[static_cast<std::size_t>(s.slot)].find(s.rank + "out")->second;
    return t.as<BF16>() + s.token * t.extent(1);
  }

 private:
  Index slots_;
  std::vector<NamedTensors> rows_;
  std::vector<Slot> all_;
};

double row_weight(const Call& call, const Slot& s, Index slots) {
  if (call.op != "combine" || !call.has(s.rank + "weights")) return 1.0;
  return static_cast<double>(call.input(s.rank + "weights").as<float>()[s.token * slots + s.slot]);
}

/// The one slot of a token, and the one row in its place, with which its sum is what came; empty
/// where there is none, or where several rows of other values do.
std::optional<Replaced> replaced(const Call& call, const Output& o, const SlotRows& rows,
                                 const std::string& rank, Index token) {
  const auto n = static_cast<std::size_t>(o.columns);
  const ElementReader read(o.expected->dtype());
  std::vector<double> came(n);
  double square = 0.0;
  for (std::size_t c = 0; c < n; ++c) {
    const Element e = read(o.came(token * o.columns + static_cast<Index>(c)));
    if (e.nan || e.infinite) return std::nullopt;
    came[c] = e.value;
    square += e.value * e.value;
  }
  const double least = std::sqrt(square / static_cast<double>(n)) / 8.0;
  if (!(least > 0.0)) return std::nullopt;
  std::optional<Replaced> found;
  for (Index s = 0; s < rows.slots(); ++s) {
    const Slot own{rank, token, s};
    const double weight = row_weight(call, own, rows.slots());
    if (weight == 0.0) continue;
    std::vector<double> rest = came;
    for (Index other = 0; other < rows.slots(); ++other) {
      if (other == s) continue;
      const Slot kept{rank, token, other};
      const double w = row_weight(call, kept, rows.slots());
      const BF16* row = rows.row(kept);
      for (std::size_t c = 0; c < n; ++c) rest[c] -= w * static_cast<double>(decode(row[c]));
    }
    const double limit = kRowFit * kRowFit * static_cast<double>(n);
    for (const Slot& from : rows.all()) {
      const BF16* row = rows.row(from);
      double left = 0.0;
      for (std::size_t c = 0; c < n && left <= limit; ++c) {
        const double off = rest[c] - weight * static_cast<double>(decode(row[c]));
        const double gain = 1.0 / std::max(std::abs(came[c]), least);
        left += off * off * gain * gain;
      }
      if (left > limit || from == own) continue;
      if (!found) {
        found = Replaced{own, from};
      } else if (std::memcmp(row, rows.row(found->from), n * sizeof(BF16)) != 0 ||
                 !(found->slot == own)) {
        return std::nullopt;
      }
    }
  }
  return found;
}

std::string in_words(const Slot& s, bool with_rank) {
  return "slot " + std::to_string(s.slot) + " of token " + std::to_string(s.token) +
         (with_rank ? " of " + s.rank.substr(0, s.rank.size() - 1) : "");
}

/// How the slots that were replaced are named: by one distance, one by one, or as several.
std::string in_words(const std::vector<Replaced>& list) {
  const Replaced& first = list.front();
  const Index by = first.from.token - first.slot.token;
  const bool near = std::all_of(list.begin(), list.end(), [&](const Replaced& r) {
    return r.from.rank == r.slot.rank && r.from.slot == r.slot.slot &&
           r.from.token - r.slot.token == by;
  });
  std::string text;
  if (list.size() <= kSaidSingly && !(near && list.size() > 1)) {
    for (const Replaced& r : list) {
      text += (text.empty() ? "" : ", ") + in_words(r.slot, true) + " takes the row of " +
              in_words(r.from, r.from.rank != r.slot.rank);
    }
    return text;
  }
  std::map<std::string, std::vector<Index>> tokens;
  for (const Replaced& r : list) tokens[r.slot.rank].push_back(r.slot.token);
  text = near ? "a slot takes the row of the token " + std::to_string(std::abs(by)) +
                    (by < 0 ? " before" : " after")
              : "a slot takes the row of another token";
  const char* in = ", in ";
  for (const auto& [rank, at] : tokens) {
    text += in + ranges_in_words("token", at) + " of " + rank.substr(0, rank.size() - 1);
    in = " and ";
  }
  return text;
}

}  // namespace

void add_measured_slot_rows(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                            std::vector<Hypothesis>& list) {
  if (call.op != "combine" && call.op != "dispatch_backward") return;
  const auto failing = [](const Output& o, Index r) {
    return o.differs_in(r * o.columns, o.columns);
  };
  Index tokens = 0;
  Index all = 0;
  for (const Output& o : outputs) {
    if (o.expected->dtype() != Dtype::bf16 || o.columns < kLeastRowColumns) return;
    for (Index r = 0; r < o.owed; ++r) tokens += failing(o, r);
    all += o.rows;
  }
  const Index slots = slots_of(call);
  if (tokens == 0 || tokens > kMostFailing || tokens * slots * all * slots > kMostRowTrials) return;
  const SlotRows rows(backend, call);
  std::vector<Replaced> found;
  for (const Output& o : outputs) {
    const std::string rank = o.name.substr(0, o.name.find('.') + 1);
    for (Index r = 0; r < o.owed; ++r) {
      if (!failing(o, r)) continue;
      const auto one = replaced(call, o, rows, rank, r);
      if (!one) return;
      found.push_back(*one);
    }
  }
  Hypothesis h{"rows=other_token", in_words(found), Stage::input};
  const char* end = call.op == "combine" ? ".y" : ".dy";
  std::vector<std::pair<std::vector<BF16>, std::vector<BF16>>> moved;
  const Index columns = outputs.front().columns;
  for (const Replaced& r : found) {
    const BF16* own = rows.row(r.slot);
    const BF16* from = rows.row(r.from);
    moved.push_back({{own, own + columns}, {from, from + columns}});
  }
  h.alter = [moved, end, columns](Call& c) {
    const std::size_t bytes = static_cast<std::size_t>(columns) * sizeof(BF16);
    std::size_t done = 0;
    for (const auto& [name, given] : Call(c).inputs) {
      if (!name.ends_with(end)) continue;
      Tensor t = *given;
      for (Index r = 0; r < t.extent(0); ++r) {
        for (const auto& [own, from] : moved) {
          if (std::memcmp(given->as<BF16>() + r * columns, own.data(), bytes) != 0) continue;
          std::memcpy(t.as<BF16>() + r * columns, from.data(), bytes);
          ++done;
        }
      }
      c.replace(name, std::move(t));
    }
    return done == moved.size();
  };
  list.push_back(std::move(h));
}

}  // namespace mxo
