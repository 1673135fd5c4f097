// What is seen of the numbers of a router and of lists of them: counts of tokens, experts that a
// token names twice, entries that lie some places early or late, or in the list of another expert.
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr Index kLeastRepeats = 2;
constexpr Index kLeastRun = 3;      ///< of entries that moved
constexpr Index kLeastEntries = 8;  ///< that moved by one distance
constexpr Index kFarthest = 4;
constexpr Index kLeastStrange = 3;  ///< entries of another list
constexpr std::size_t kSaidMissing = 8;

/// A list of entries, each of which is there once, but for the largest, which is padding.
bool is_list(const Call& call, const Output& o) {
  return call.op == "moe_align_block_size" && o.name == "sorted_token_ids";
}

/// " (missing from it: 14, 53)", of entries that are expected; nothing where all are there.
std::string missing_in_words(std::span<const std::int32_t> expected,
                             std::span<const std::int32_t> actual) {
  const std::set<Index> came(actual.begin(), actual.end());
  std::set<Index> missing;
  for (const std::int32_t e : expected)
    if (!came.contains(e)) missing.insert(e);
  if (missing.empty() || missing.size() > kSaidMissing) return {};
  return " (missing from it: " + ranges({missing.begin(), missing.end()}) + ")";
}

std::span<const std::int32_t> integers_in(const Tensor& t) {
  return {t.as<std::int32_t>(), static_cast<std::size_t>(t.elements())};
}

}  // namespace

void add_counted_tokens(const Call& call, const Output& o, List& list) {
  if (call.op != "route" || o.name != "tokens_per_expert") return;
  Index sum = 0;
  for (const std::int32_t n : integers_in(*o.actual)) sum += n;
  const Index all = call.input("logits").extent(0);
  const Index n = sum / call.set.integer("top_k", 1);
  const auto add = [&](std::string which, const std::function<bool(Index)>& is_counted) {
    add_rewritten(
        list, "counts=part", filled("tokens_per_expert counts {} alone", which),
        [is_counted](const Call&, NamedTensors& out) {
          const Tensor& chosen = out.at("experts");
          Tensor& counts = out.at("tokens_per_expert");
          std::fill_n(counts.as<std::int32_t>(), counts.elements(), 0);
          for (Index i = 0; i < chosen.elements(); ++i)
            if (is_counted(i / chosen.extent(1)))
              ++counts.as<std::int32_t>()[chosen.as<std::int32_t>()[i]];
        },
        Stage::rule);
  };
  if (n < 1 || n >= all) return;
  add(ranges_in_words("token", range_of(n)), [=](Index t) { return t < n; });
  add(filled("tokens {} to {}", all - n, all - 1), [=](Index t) { return t >= all - n; });
  const Index every = all / n;
  for (Index from = 0; every > 1 && from < every; ++from)
    add(filled("one of every {} tokens, from token {} on,", every, from),
        [=](Index t) { return t % every == from; });
}

Claims recover_counts(const Call&, std::vector<Output>& outputs) {
  Output* counts = output_named(outputs, "tokens_per_expert");
  if (counts == nullptr || counts->left == 0) return {};
  for (const char* name : {"experts", "local"}) {
    const Output* experts = output_named(outputs, name);
    if (experts == nullptr || experts->differing == 0) continue;
    std::vector<std::int32_t> came(static_cast<std::size_t>(compared(*counts)));
    for (const std::int32_t e : integers_in(*experts->actual))
      if (e >= 0 && e < std::ssize(came)) ++nth(came, e);
    if (std::ranges::equal(integers_in(*counts->actual), came))
      return claim_all(*counts, {"counts.follow", FindingKind::follows},
                       filled("{} counts {} as they came", counts->name, name));
  }
  return {};
}

Claims recover_named_twice(const Call& call, Output& output) {
  if (call.op != "route" || output.name != "experts" || !is_unexplained(output, kLeastRepeats))
    return {};
  std::set<std::uint64_t> named;
  const std::vector<Index> tokens = Lines{output}.failing();
  for (const Index r : tokens) {
    for (Index i = r * output.columns; i < (r + 1) * output.columns; ++i) {
      if (!output.differs(i)) continue;
      Index times = 0;
      for (Index s = r * output.columns; s < (r + 1) * output.columns; ++s)
        times += output.actual_bits(s) == output.actual_bits(i);
      if (times < 2) return {};
      named.insert(output.actual_bits(i));
    }
  }
  const std::string which =
      named.size() == 1 ? "expert " + std::to_string(*named.begin()) : "an expert";
  return claim_place(output, {"experts.twice", FindingKind::symptom}, [&](const Place& place) {
    return filled("{}: {} {} {} twice or more", place.words, counted(std::ssize(tokens), "token"),
                  tokens.size() == 1 ? "names" : "name", which);
  });
}

Claims recover_moved_entries(const Call& call, Output& output) {
  if (!is_list(call, output) || output.left < kLeastEntries) return {};
  const auto expected = integers_in(*output.expected);
  const auto actual = integers_in(*output.actual);
  const Index padding = *std::ranges::max_element(expected);
  Claims claims;
  for (const Index by : both_ways(kFarthest)) {
    std::vector<std::uint8_t> moved(expected.size());
    Index run = 0;
    Index all = 0;
    for (Index i = 0; i <= output.columns; ++i) {
      const Index from = i + by;
      const bool here = i < output.columns && from >= 0 && from < output.columns &&
                        output.differs(i) && nth(actual, i) == nth(expected, from) &&
                        nth(actual, i) != padding;
      if (!here && run >= kLeastRun) {
        std::fill_n(moved.begin() + (i - run), run, std::uint8_t{1});
        all += run;
      }
      run = here ? run + 1 : 0;
    }
    if (all < kLeastEntries) continue;
    append(claims, claim_where(
                       output, {"entries.moved", FindingKind::symptom},
                       [&](Index i) { return nth(moved, i) != 0; },
                       [&](const Place& place) {
                         return place.words + " hold what is expected " + away(by, "element") +
                                missing_in_words(expected, actual);
                       }));
  }
  return claims;
}

Claims recover_entries_of_others(const Call& call, Output& output) {
  if (!is_list(call, output) || !is_unexplained(output, kLeastStrange)) return {};
  const Tensor& slots = call.input("experts");
  std::map<Index, std::vector<Index>> entries;  // of an expert: slots of all tokens, ascending
  for (Index e = 0; e < slots.elements(); ++e) entries[slots.as<std::int32_t>()[e]].push_back(e);
  std::vector<Index> expert_at;  // padding is that of the expert before it
  for (const Index e : integers_in(*output.expected)) {
    const bool padding = e < 0 || e >= slots.elements();
    expert_at.push_back(!padding            ? slots.as<std::int32_t>()[e]
                        : expert_at.empty() ? -1
                                            : expert_at.back());
  }
  for (const Index by : {-1, 1}) {
    for (const bool last : {true, false}) {
      const auto is_such = [&](Index i) {
        const auto other = entries.find(nth(expert_at, i) + by);
        return other != entries.end() && output.actual->as<std::int32_t>()[i] ==
                                             (last ? other->second.back() : other->second.front());
      };
      const std::vector<Index> all = range_of(output.columns);
      if (!std::ranges::all_of(all, [&](Index i) { return !output.differs(i) || is_such(i); }))
        continue;
      return claim_place(output, {"entries.other_list", FindingKind::symptom}, [&](const Place& p) {
        return p.words + ": each holds the " + (last ? "last" : "first") + " entry of the expert " +
               (by < 0 ? "before" : "after") + " its own";
      });
    }
  }
  return {};
}

}  // namespace mxo
