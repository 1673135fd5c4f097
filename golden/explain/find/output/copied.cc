// Outputs that are an operand as it was given, rows that all hold one row, and one value wherever
// another is expected: seen of values that nothing else explains.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "golden/explain/confirm/score.h"
#include "golden/explain/find/output/recover.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kLeastElements = 16;  ///< that differ
constexpr std::size_t kLeastRows = 4;
constexpr double kLeastBits = 2.0 * kCertain;  ///< of one row

constexpr std::size_t kMostValues = 3;
constexpr Index kLeast = 4;       ///< elements of a value, where all of them came so
constexpr Index kLeastPart = 16;  ///< the same of a part of them

/// "code 7F", "-1", "0.5".
std::string in_words(Dtype dtype, std::uint64_t bits) {
  char text[32];
  if (dtype == Dtype::i32 || dtype == Dtype::i64) {
    return std::to_string(dtype == Dtype::i32 ? static_cast<std::int32_t>(bits)
                                              : static_cast<std::int64_t>(bits));
  }
  const Element e = ElementReader(dtype)(bits);
  if (is_wide_float(dtype)) {
    if (e.nan) return "NaN";
    std::snprintf(text, sizeof text, "%.9g", e.value);
    return text;
  }
  if (size_of(dtype) != 1) return std::to_string(bits);
  std::snprintf(text, sizeof text, dtype == Dtype::e8m0 ? "byte %u" : "code %02X",
                static_cast<unsigned>(bits));
  return std::string(text) + (dtype != Dtype::u8 && e.nan ? " (NaN)" : "");
}

struct Replaced {
  std::uint64_t got = 0;
  Index n = 0;
  Index all = 0;  ///< elements of which the same is expected
};

}  // namespace

Claims recover_copied(const Call& call, Output& output) {
  const bool number = output.expected->elements() == 1 && is_wide_float(output.expected->dtype());
  if (!is_unexplained(output, number ? 1 : kLeastElements)) return {};
  const Tensor& got = *output.actual;
  for (const auto& [name, operand] : call.inputs) {
    if (operand->dtype() != got.dtype() || operand->elements() != got.elements() ||
        std::memcmp(operand->data(), got.data(), got.bytes()) != 0)
      continue;
    return claim_all(output, {"output.operand", FindingKind::symptom, true},
                     "all of " + output.name + " holds " + name + " as it was given");
  }
  return {};
}

Claims recover_one_row(Output& output) {
  if (!is_unexplained(output, kLeastElements) || output.columns < 2) return {};
  std::map<std::string_view, std::vector<Index>> rows;  // that differ, by what they hold
  for (Index r = 0; r < output.compared_rows; ++r) {
    const Index first = r * output.columns;
    if (output.differs_in(first, output.columns))
      rows[bytes_of(*output.actual, first, output.columns)].push_back(r);
  }
  const auto most = std::max_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (most == rows.end() || most->second.size() < kLeastRows) return {};
  std::set<std::uint64_t> values;
  const Index first = most->second.front() * output.columns;
  for (Index i = first; i < first + output.columns; ++i) values.insert(output.actual_bits(i));
  if (values.size() < 3 || Chance(output).bits(first, output.columns) < kLeastBits) return {};
  std::string words = "the same values";
  for (Index r = 0; r < output.rows; ++r) {
    if (bytes_of(*output.expected, r * output.columns, output.columns) != most->first) continue;
    words = "what is expected in row " + std::to_string(r);
    break;
  }
  std::vector<std::uint8_t> in(static_cast<std::size_t>(output.rows));
  for (const Index r : most->second) in[static_cast<std::size_t>(r)] = 1;
  return claim_where(
      output, {"rows.one", FindingKind::symptom, true},
      [&](Index i) { return in[static_cast<std::size_t>(i / output.columns)] != 0; },
      [&](const Place& place) { return place.words + " all hold " + words; });
}

Claims recover_replaced(Output& output) {
  const Dtype dtype = output.expected->dtype();
  std::map<std::uint64_t, Replaced> values;
  for (Index i = 0; i < output.compared_rows * output.columns; ++i) {
    if (!output.differs(i)) continue;
    Replaced& r = values[output.expected_bits(i)];
    if (values.size() > kMostValues || (r.n > 0 && r.got != output.actual_bits(i))) return {};
    r.got = output.actual_bits(i);
    ++r.n;
  }
  if (values.empty()) return {};
  for (Index i = 0; i < output.compared_rows * output.columns; ++i) {
    const auto at = values.find(output.expected_bits(i));
    if (at != values.end()) ++at->second.all;
  }
  std::string words;
  for (const auto& [want, r] : values) {
    const bool whole = r.n == r.all && r.n >= kLeast;
    if (!whole && (values.size() > 1 || r.n < kLeastPart)) return {};
    words += (words.empty() ? "" : " and ") + std::string("where ") + in_words(dtype, want) +
             " is expected, " + in_words(dtype, r.got) + " came";
    if (!whole) words += ", in " + std::to_string(r.n) + " of " + std::to_string(r.all) + " places";
  }
  return claim_all(output, {"value.replaced", FindingKind::look, true}, output.name + ": " + words);
}

}  // namespace mxo
