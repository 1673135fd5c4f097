// Tokens to which one slot brought the row of another, found among all rows that came back; and
// gradients of weights that were taken with rows of other slots, found among all rows of y.
#include <bit>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/output/slots.h"

namespace mxo {
namespace {

constexpr Index kMostFailing = 256;
constexpr Index kMostTrials = 1 << 26;
constexpr Index kLeastColumns = 16;
constexpr std::size_t kSaidSingly = 4;    ///< tokens that are said one by one
constexpr std::size_t kLeastWrapped = 3;  ///< tokens that fail
constexpr Index kMostWraps = 16;
constexpr Index kLeastGradients = 4;
constexpr Index kMostProducts = 1 << 26;
constexpr Index kSaidRows = 4;

/// A slot of a token, and the row that it brings.
struct ReturnedSlot {
  std::string rank;  ///< "rank0."
  Index token = 0;
  Index slot = 0;
  std::span<const BF16> row;
  bool is(const ReturnedSlot& o) const {
    return rank == o.rank && token == o.token && slot == o.slot;
  }
  std::string bytes() const {
    return {reinterpret_cast<const char*>(row.data()), row.size_bytes()};
  }
  std::string words(bool with_rank) const {
    return filled("slot {} of token {}", slot, token) +
           (with_rank ? " of " + rank.substr(0, rank.size() - 1) : "");
  }
};

/// A slot that brought the row of another.
struct Replaced {
  ReturnedSlot slot;
  ReturnedSlot from;
};

/// The one slot of a token, `own` of which it has, and the one row in its place, with which its
/// sum is the actual output; none where there is none, or where several rows of other values do.
std::optional<Replaced> replaced(const Call& call, const Output& o,
                                 const std::vector<ReturnedSlot>& all,
                                 std::span<const ReturnedSlot> own) {
  const auto n = static_cast<std::size_t>(o.columns);
  const ActualNumbers got = actual_numbers(o, elements_of_row(o, own.front().token));
  if (!got.tell()) return std::nullopt;
  const auto weight_of = [&](const ReturnedSlot& s) {
    return given_weight(call, s.rank, s.token, s.slot);
  };
  const double limit = kFit * kFit * static_cast<double>(n);
  std::optional<Replaced> found;
  for (const ReturnedSlot& slot : own) {
    const double weight = weight_of(slot);
    if (weight == 0.0) continue;
    std::vector<double> rest = got.values;
    for (const ReturnedSlot& kept : own) {
      if (&kept == &slot) continue;
      const double w = weight_of(kept);
      for (std::size_t c = 0; c < n; ++c) rest[c] -= w * static_cast<double>(decode(kept.row[c]));
    }
    for (const ReturnedSlot& from : all) {
      double left = 0.0;
      for (std::size_t c = 0; c < n && left <= limit; ++c) {
        const double off = rest[c] - weight * static_cast<double>(decode(from.row[c]));
        left += off * off * got.weight(c) * got.weight(c);
      }
      if (left > limit || from.is(slot)) continue;
      if (!found) {
        found = Replaced{slot, from};
      } else if (from.bytes() != found->from.bytes() || !found->slot.is(slot)) {
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
    for (const Replaced& r : list)
      list_words(text, r.slot.words(true) + " takes the row of " +
                           r.from.words(r.from.rank != r.slot.rank));
    return text;
  }
  std::map<std::string, std::vector<Index>> tokens;
  for (const Replaced& r : list) tokens[r.slot.rank].push_back(r.slot.token);
  return (near ? "a slot takes the row of the token " + away(by)
               : "a slot takes the row of another token") +
         ", in " + tokens_in_words(tokens);
}

/// Writes the bytes of rows to where others lie, each found by its own; false if one is not there.
bool bring(Call& call, const char* operand, const std::map<std::string, std::string>& moved) {
  std::size_t done = 0;
  for (const std::string& name : names_ending(call.inputs, operand)) {
    Tensor t = call.input(name);
    const Index columns = t.extent(1);
    for (Index i = 0; i < t.elements(); i += columns) {
      const auto from = moved.find(std::string(bytes_of(t, i, columns)));
      if (from == moved.end()) continue;
      std::memcpy(t.as<BF16>() + i, from->second.data(), from->second.size());
      ++done;
    }
    call.replace(name, std::move(t));
  }
  return done == moved.size();
}

// ---- Gradients of weights.

/// fl(dout * y) of a token and a row, summed in f32 in ascending order.
float dot(const Tensor& dout, Index token, const Tensor& y, Index row) {
  const Index n = y.extent(1);
  float sum = 0.0f;
  for (Index d = 0; d < n; ++d) sum += wide_value(dout, token * n + d) * wide_value(y, row * n + d);
  return sum;
}

/// "row 3 of rank0.y", whose product with dout of the token has those bits; empty: none has.
std::string row_with(const Call& call, const Tensor& dout, Index token, std::uint64_t bits) {
  for (const std::string& name : names_ending(call.inputs, ".y")) {
    const Tensor& y = call.input(name);
    for (Index r = 0; r < y.extent(0); ++r)
      if (std::bit_cast<std::uint32_t>(dot(dout, token, y, r)) == bits)
        return "row " + std::to_string(r) + " of " + name;
  }
  return {};
}

}  // namespace

std::string tokens_in_words(const std::map<std::string, std::vector<Index>>& of_ranks) {
  std::string text;
  for (const auto& [rank, tokens] : of_ranks)
    list_words(text,
               ranges_in_words("token", tokens) +
                   (rank.empty() ? "" : " of " + rank.substr(0, rank.size() - 1)),
               " and ");
  return text;
}

void add_measured_slot_rows(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                            List& list) {
  if (call.op != "combine" && call.op != "dispatch_backward") return;
  Index failing = 0;
  Index tokens = 0;
  for (const Output& o : outputs) {
    if (o.expected->dtype() != Dtype::bf16 || o.columns < kLeastColumns) return;
    failing += static_cast<Index>(Lines{o}.failing().size());
    tokens += o.rows;
  }
  const Index slots = slots_of(call);
  if (failing == 0 || failing > kMostFailing || failing * slots * tokens * slots > kMostTrials)
    return;
  const std::vector<NamedTensors> rows = rows_of_slots(backend, call);
  std::vector<ReturnedSlot> all;             // those of a token side by side
  std::map<std::string, std::size_t> first;  // slot of a rank
  for (const auto& [name, tensor] : rows.front()) {
    first[rank_of(name)] = all.size();
    const auto columns = static_cast<std::size_t>(tensor.extent(1));
    for (Index i = 0; i < tensor.extent(0) * slots; ++i) {
      const BF16* row = nth(rows, i % slots).at(name).as<BF16>() + i / slots * tensor.extent(1);
      all.push_back({rank_of(name), i / slots, i % slots, {row, columns}});
    }
  }
  std::vector<Replaced> found;
  std::map<std::string, std::string> moved;
  for (const Output& o : outputs) {
    for (const Index r : Lines{o}.failing()) {
      const std::size_t at = first.at(rank_of(o.name)) + static_cast<std::size_t>(r * slots);
      const auto one = replaced(call, o, all, {all.data() + at, static_cast<std::size_t>(slots)});
      if (!one) return;
      found.push_back(*one);
      moved.emplace(one->slot.bytes(), one->from.bytes());
    }
  }
  const char* operand = call.op == "combine" ? ".y" : ".dy";
  add_altered(list, "rows=other_token", in_words(found),
              [moved, operand](Call& c) { return bring(c, operand, moved); });
}

void add_wrapped_tokens(Backend&, const Call& call, const std::vector<Output>& outputs,
                        List& list) {
  const std::vector<std::string> weights = names_ending(call.inputs, ".weights");
  Index first = 0;  // that fails
  Index most = 0;
  std::size_t failing = 0;
  for (const Output& o : outputs) {
    const std::vector<Index> rows = Lines{o}.failing();
    if (!rows.empty()) first = failing == 0 ? rows.front() : std::min(first, rows.front());
    failing += rows.size();
    most = std::max(most, o.rows);
  }
  if (call.op != "combine" || weights.empty() || failing < kLeastWrapped ||
      first * kMostWraps < most)
    return;
  add_altered(
      list, "weights=wrapped",
      filled("from token {} on, token t takes the weights of token t mod {}", first, first),
      [first, weights](Call& c) {
        for (const std::string& name : weights)
          c.replace(name, with_rows(c.input(name), [first](Index t, Index) { return t % first; }));
      })
      .target = Target::format;
  add_run(
      list, "rows=wrapped",
      filled("from token {} on, token t takes the rows of token t mod {}", first, first),
      [first, most, weights](Backend& backend, const Call& c) {
        NamedTensors out = run_call(backend, c);
        for (Index by = first; by < most; by += first) {
          Call moved = c;
          for (const std::string& name : weights)
            moved.replace(name, rows_moved(c.input(name), by));
          for (const auto& [name, made] : run_call(backend, moved)) {
            Tensor& t = out.at(name);
            if (by >= t.extent(0)) continue;
            const std::size_t row = t.bytes() / static_cast<std::size_t>(t.extent(0));
            std::memcpy(t.data() + row * static_cast<std::size_t>(by), made.data(),
                        row * static_cast<std::size_t>(std::min(first, t.extent(0) - by)));
          }
        }
        return out;
      },
      Stage::input)
      .target = Target::format;
}

Claims recover_gradient_rows(const Call& call, Output& output) {
  const std::string rank = rank_of(output.name);
  if (call.op != "combine_backward" || output.name != rank + "dweights" ||
      !is_unexplained(output, kLeastGradients) || !call.has(rank + "dout"))
    return {};
  Index elements = 0;
  for (const std::string& name : names_ending(call.inputs, ".y")) {
    if (!is_wide_float(call.input(name).dtype())) return {};
    elements += call.input(name).elements();
  }
  if (elements * output.left > kMostProducts) return {};
  std::string words;
  Index found = 0;
  for (Index i = output.next_difference(0, compared(output)); i < compared(output);
       i = output.next_difference(i + 1, compared(output))) {
    const Index token = i / output.columns;
    const std::string row = row_with(call, call.input(rank + "dout"), token, output.actual_bits(i));
    if (row.empty()) return {};
    if (found++ < kSaidRows)
      list_words(words, row + " in slot " + std::to_string(i % output.columns) + " of token " +
                            std::to_string(token));
  }
  return claim_place(output, {"dweights.other_rows"}, [&](const Place& place) {
    return place.words + ": each is dout times another row of y (" + words +
           (found > kSaidRows ? ", ...)" : ")");
  });
}

}  // namespace mxo
