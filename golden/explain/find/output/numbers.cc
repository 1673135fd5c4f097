// Numbers that are a function of those expected: one number that is all of an output; integers that
// are running totals, sizes or counted on; functions of an index that was followed.
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr Index kLeastMore = 8;     ///< counts that are more than is expected
constexpr Index kLeastNumbers = 4;  ///< of a list that is added up
constexpr Index kLeastAlike = 8;    ///< that differ by one number
constexpr std::size_t kLeastValues = 3;
constexpr Index kFewRuns = 2;           ///< of lines that are a place
constexpr Index kMostNumber = 1 << 17;  ///< that a function is tried with

/// What one number may be of the one that is expected.
struct SeenNumber {
  const char* words;
  float (*of)(float expected);
};
constexpr SeenNumber kSeen[] = {
    {"infinity", [](float) { return HUGE_VALF; }},
    {"1 over what is expected", [](float v) { return 1.0f / v; }},
    {"the power of two at or below what is expected",
     [](float v) { return std::ldexp(1.0f, std::ilogb(v)); }},
    {"the power of two above what is expected",
     [](float v) { return std::ldexp(1.0f, std::ilogb(v) + 1); }},
    {"the square of what is expected", [](float v) { return v * v; }},
    {"half of what is expected", [](float v) { return 0.5f * v; }},
    {"twice what is expected", [](float v) { return 2.0f * v; }},
    {"what is expected with the other sign", [](float v) { return -v; }},
    {"1: as it was set up, or never written", [](float) { return 1.0f; }},
    {"0: as it was set up, or never written", [](float) { return 0.0f; }},
};

using Pairs = std::vector<std::pair<Index, Index>>;  ///< a number, and what it was taken for

/// The integers that are expected, and those that came.
Pairs integers_of(const Output& o) {
  Pairs pairs;
  for (Index i = 0; i < compared(o); ++i)
    pairs.emplace_back(static_cast<Index>(o.wanted(i).value), static_cast<Index>(o.came(i).value));
  return pairs;
}

/// Numbers for which others came.
struct Differences {
  Index most = 0;  ///< of all numbers, right or not
  std::set<Index> wanted;
  std::set<Index> came;
  std::vector<Index> more;  ///< what came less what is wanted

  explicit Differences(const Pairs& numbers) {
    for (const auto& [expected, actual] : numbers) {
      most = std::max({most, expected, actual});
      if (actual == expected) continue;
      wanted.insert(expected);
      came.insert(actual);
      more.push_back(actual - expected);
    }
  }
};

/// What each number of a list is made of: its own, and the total of those before it.
struct Total {
  const char* id;
  const char* words;
  Index (*of)(Index own, Index total, Index before);
};
constexpr Total kTotals[] = {
    {"integers.totals", "running totals: each number and all before it",
     [](Index own, Index total, Index) { return total + own; }},
    {"integers.totals_before", "the totals of what comes before each number",
     [](Index, Index total, Index) { return total; }},
    {"integers.sizes", "the differences from one number to the next rather than their totals",
     [](Index own, Index, Index before) { return own - before; }},
};

bool holds(const Pairs& numbers, const Total& row) {
  Index total = 0;
  Index before = 0;
  return std::ranges::all_of(numbers, [&](const auto& p) {
    const Index came = row.of(p.first, total, before);
    total += p.first;
    before = p.first;
    return p.second == came;
  });
}

/// By a number n; what wraps comes round at the count of all.
struct NumberFunction {
  const char* words;
  Index (*of)(Index i, Index n);
  Index least;
  bool wraps = false;
};
constexpr NumberFunction kFunctions[] = {
    {"i - {}", [](Index i, Index n) { return i - n; }, 1},
    {"i + {}", [](Index i, Index n) { return i + n; }, 1},
    {"{} - i", [](Index i, Index n) { return n - i; }, 1},
    {"i / {}", [](Index i, Index n) { return i / n; }, 2},
    {"i modulo {}", [](Index i, Index n) { return i % n; }, 2},
    {"{} i", [](Index i, Index n) { return n * i; }, 2},
    {"i xor {}", [](Index i, Index n) { return i ^ n; }, 1},
    {"i, but at most {}", [](Index i, Index n) { return std::min(i, n); }, 0},
    {"i, but at least {}", [](Index i, Index n) { return std::max(i, n); }, 1},
    {"i + {}", [](Index i, Index n) { return i + n; }, 1, true},
    {"{} i", [](Index i, Index n) { return n * i; }, 2, true},
};

struct FoundFunction {
  std::string words;
  std::function<Index(Index)> of;
};

/// The function that gives every pair, of which enough are not the number itself; of `count`
/// numbers.
std::optional<FoundFunction> function_of(Pairs pairs, Index count) {
  std::stable_partition(pairs.begin(), pairs.end(),
                        [](const auto& p) { return p.first != p.second; });
  const Differences differ(pairs);
  if (std::ssize(differ.more) < kLeastAlike || differ.wanted.size() < kLeastValues)
    return std::nullopt;
  for (const NumberFunction& row : kFunctions) {
    for (Index n = row.least; n <= std::min(row.wraps ? count - 1 : 2 * differ.most, kMostNumber);
         ++n) {
      const auto of = [of = row.of, n, count = row.wraps ? count : Index{0}](Index i) {
        return count > 0 ? of(i, n) % count : of(i, n);
      };
      if (!std::ranges::all_of(pairs, [&](const auto& p) { return of(p.first) == p.second; }))
        continue;
      return FoundFunction{
          filled(row.words, n) + (row.wraps ? " modulo " + std::to_string(count) : std::string()),
          of};
    }
  }
  return std::nullopt;
}

/// Markers below zero stay; so does one beyond all numbers.
Claims claim_function(Output& output, Pairs pairs) {
  const Index end = std::ranges::max_element(pairs)->first;
  std::erase_if(
      pairs, [&](const auto& p) { return p.first == p.second && (p.first < 0 || p.first == end); });
  if (std::ranges::any_of(pairs, [](const auto& p) { return p.first < 0; })) return {};
  const bool one =
      std::ranges::all_of(pairs, [&](const auto& p) { return p.second == pairs.front().second; });
  const auto function = function_of(std::move(pairs), end + 1);
  if (!function || one) return {};
  return claim_all(output, {"integers.function", FindingKind::symptom},
                   output.name + ": where i is expected, " + function->words + " came");
}

/// One number in place of several.
Claims claim_one_number(Output& output, const Differences& differ) {
  if (std::ssize(differ.wanted) < kLeastAlike || differ.came.size() > 1) return {};
  return claim_place(output, {"integers.one", FindingKind::symptom}, [&](const Place& place) {
    return filled("{}{}{}, whatever is expected", place.words, place.hold(), *differ.came.begin());
  });
}

/// What was counted, where none of several numbers is less than is expected.
Claims claim_more(Output& output, const Differences& differ) {
  if (output.name.find("tokens_per_expert") == std::string::npos || output.left < kLeastMore)
    return {};
  const auto more = std::ranges::minmax(differ.more);
  // One number in place of several was not counted.
  if (more.min < 0 || differ.came.size() == 1) return {};
  const std::string to = more.max > more.min ? filled(" to {}", more.max) : "";
  const Index all = std::accumulate(differ.more.begin(), differ.more.end(), Index{0});
  return claim_place(output, {"integers.more", FindingKind::symptom}, [&](const Place& place) {
    return filled(
        "{}: {}{} more than is expected, {} in all: counted again, or counters that were "
        "not cleared",
        place.words, more.min, to, all);
  });
}

/// Whether every number of a place differs, markers below zero apart, where it is of few runs of
/// lines or of a pattern of them, or from its first line to its last.
bool differs_throughout(const Output& output, const Pairs& numbers, const Place& place) {
  const auto lines_of = [](const std::vector<Index>& lines) {
    if (runs(lines) <= kFewRuns || is_pattern(lines)) return lines;
    std::vector<Index> all;
    for (Index line = lines.front(); line <= lines.back(); ++line) all.push_back(line);
    return all;
  };
  const std::vector<Index> columns = lines_of(place.columns);
  return std::ranges::all_of(lines_of(place.rows), [&](Index r) {
    return std::ranges::all_of(columns, [&](Index c) {
      const auto& [expected, actual] = nth(numbers, r * output.columns + c);
      return expected != actual || expected < 0;
    });
  });
}

/// Whether everything that differs came as what is expected `by` elements after it.
bool is_moved_by(const Output& output, Index by) {
  return std::ranges::all_of(range_of(compared(output)), [&](Index i) {
    return !output.differs(i) || (i + by >= 0 && i + by < compared(output) &&
                                  output.actual_bits(i) == output.expected_bits(i + by));
  });
}

/// One number more or less wherever something differs, past the last number the first.
Claims claim_counted_on(Output& output, const Pairs& numbers) {
  const Differences differ(numbers);
  const std::vector<Index>& more = differ.more;
  const Index by = *std::ranges::min_element(more, {}, [](Index m) { return std::abs(m); });
  const bool wraps = std::ranges::any_of(more, [&](Index m) { return m != by; });
  const bool are_indices = *differ.wanted.begin() >= 0 && *differ.came.begin() >= 0;
  if (wraps && (!are_indices || std::ranges::any_of(more, [&](Index m) {
        return modulo(m - by, differ.most + 1) != 0;
      }))) {
    Claims found = claim_function(output, numbers);
    if (found.empty()) found = claim_one_number(output, differ);
    return found.empty() ? claim_more(output, differ) : found;
  }
  if (output.left < kLeastAlike || differ.wanted.size() < kLeastValues) return {};
  // Where others came right among them, it is said of which numbers it is true, or not at all.
  const Place place = place_of(output, [&](Index i) { return output.differs(i); });
  if (!differs_throughout(output, numbers, place)) return claim_function(output, numbers);
  const bool marked = std::ranges::any_of(numbers, [](const auto& p) { return p.first < 0; });
  const std::string around = wraps ? filled(", modulo {}", differ.most + 1) : "";
  std::string moved;  // of numbers that count up it is the same
  for (const Index to : {-1, 1})
    if (is_moved_by(output, to)) moved = filled("; equivalently, it is the number {}", away(to));
  return claim_place(output, {"integers.counted_on", FindingKind::symptom}, [&](const Place& told) {
    return filled("{}: every number{} is {} {} than is expected{}{}", told.words,
                  marked ? " from 0 on" : "", std::abs(by), by < 0 ? "less" : "more", around,
                  moved);
  });
}

/// Rows of x that came, found by what they hold: of each index, and of -1.
void add_functions_of_rows(const Call& call, const Output& o, List& list) {
  const Tensor& x = call.input("x");
  std::map<std::string_view, Index> rows;  // of x; -1: two that are alike
  for (Index r = 0; r < x.extent(0); ++r) {
    const auto [at, first] = rows.emplace(bytes_of(x, r * o.columns, o.columns), r);
    if (!first) at->second = -1;
  }
  Pairs pairs;
  std::set<Index> marked;  // rows that -1 was taken for
  for (Index r = 0; r < o.compared_rows; ++r) {
    const auto at = rows.find(bytes_of(*o.actual, r * o.columns, o.columns));
    const Index i = call.input("indices").as<std::int32_t>()[r];
    const Index from = at == rows.end() ? -1 : at->second;
    if (i < 0) {
      marked.insert(from);
    } else if (from >= 0) {
      pairs.emplace_back(i, from);
    }
  }
  const auto add = [&](const char* id, std::string phrase, std::function<Index(Index)> of) {
    add_altered(list, id, std::move(phrase), [of, n = x.extent(0)](Call& c) {
      c.replace("indices", with_integers(c.input("indices"), [&](Index at, Index) {
                  const Index to = of(at);
                  return to >= 0 && to < n ? to : -1;
                }));
    });
  };
  if (marked.size() == 1 && *marked.begin() >= 0) {
    const Index row = *marked.begin();
    const std::string which = row == 0                 ? "the first row"
                              : row + 1 == x.extent(0) ? "the last row"
                                                       : "row " + std::to_string(row);
    add("indices=marker", "-1 is taken for " + which + " of x rather than none",
        [row](Index i) { return i < 0 ? row : i; });
  }
  if (const auto function = function_of(std::move(pairs), x.extent(0))) {
    bool ignored = true;  // whether every row stayed where it is in x
    for (Index r = 0; r < o.compared_rows && ignored; ++r)
      ignored = function->of(call.input("indices").as<std::int32_t>()[r]) == r;
    add("indices=function",
        "index i is taken for " + function->words +
            (ignored ? "; equivalently, the indices are ignored" : ""),
        [of = function->of](Index i) { return i < 0 ? i : of(i); });
  }
}

/// Experts one after the other that were given the numbers from 0 on: those of another rank.
void add_other_map(const Call& call, const Pairs& pairs, List& list) {
  if (!call.has("expert_map") || call.input("expert_map").dtype() != Dtype::i32) return;
  Index first = -1;
  Index end = 0;
  for (const auto& [expert, number] : pairs) {
    if (number < 0) continue;
    if (first < 0) first = expert - number;
    end = std::max(end, expert + 1);
  }
  const auto number = [=](Index e) { return e >= first && e < end ? e - first : Index{-1}; };
  const bool some_are_none = std::ranges::any_of(pairs, [](const auto& p) { return p.second < 0; });
  if (first < 0 || !some_are_none ||
      !std::ranges::all_of(pairs, [&](const auto& p) { return number(p.first) == p.second; }))
    return;
  add_altered(list, "expert_map=other",
              filled("the experts of this rank are taken to be {} to {}", first, end - 1),
              [number](Call& c) {
                c.replace("expert_map", with_integers(c.input("expert_map"),
                                                      [&](Index, Index e) { return number(e); }));
              });
}

/// Numbers that experts were given here.
void add_functions_of_experts(const Call& call, const Output& o, List& list) {
  const Tensor& experts = call.input("experts");
  Pairs pairs;
  for (Index i = 0; i < experts.elements(); ++i) {
    const Index e = experts.as<std::int32_t>()[i];
    if (e >= 0) pairs.emplace_back(e, static_cast<Index>(o.came(i).value));
  }
  const auto function = function_of(pairs, call.set.integer("experts", 1));
  if (!function) {
    add_other_map(call, pairs, list);
    return;
  }
  add_rewritten(
      list, "local=function", "expert i is given the number " + function->words,
      [of = function->of](const Call& c, NamedTensors& out) {
        const auto* expert = c.input("experts").as<std::int32_t>();
        out.at("local") = with_integers(
            out.at("local"), [&](Index v, Index i) { return expert[i] >= 0 ? of(expert[i]) : v; });
      },
      Stage::rule);
}

}  // namespace

void add_measured_indices(const Call& call, const Output& o, List& list) {
  if (call.op == "permute" && o.columns > 0) add_functions_of_rows(call, o, list);
  if (call.op == "map_experts" && o.name == "local") add_functions_of_experts(call, o, list);
}

Claims recover_one_number(Output& output) {
  if (output.expected->elements() != 1 || output.left != 1 ||
      output.expected->dtype() != Dtype::f32 || !std::isfinite(*output.expected->as<float>()) ||
      *output.expected->as<float>() == 0.0f)
    return {};
  for (const SeenNumber& row : kSeen)
    if (row.of(*output.expected->as<float>()) == *output.actual->as<float>())
      return claim_all(output, {"number.seen", FindingKind::symptom},
                       "all of " + output.name + " is " + row.words);
  return {};
}

Claims recover_integers(Output& output) {
  const Dtype type = output.expected->dtype();
  if (!is_unexplained(output, kLeastNumbers) || (type != Dtype::i32 && type != Dtype::i64))
    return {};
  const Pairs numbers = integers_of(output);
  for (const Total& row : kTotals)
    if (output.rows == 1 && holds(numbers, row))
      return claim_all(output, {row.id, FindingKind::symptom}, output.name + " holds " + row.words);
  return claim_counted_on(output, numbers);
}

}  // namespace mxo
