// Outputs that are an operand as it was given, and rows that all hold one row.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "golden/explain/confirm/score.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr Index kLeastElements = 16;  ///< that differ
constexpr std::size_t kLeastRows = 4;
constexpr double kLeastBits = 2.0 * kCertain;  ///< of one row

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

}  // namespace

Claims recover_one_number(Output& output) {
  if (output.expected->elements() != 1 || output.left != 1 ||
      output.expected->dtype() != Dtype::f32 || !std::isfinite(*output.expected->as<float>()) ||
      *output.expected->as<float>() == 0.0f)
    return {};
  for (const SeenNumber& row : kSeen) {
    if (row.of(*output.expected->as<float>()) != *output.actual->as<float>()) continue;
    return claim_all(output, {"number.seen", FindingKind::symptom},
                     "all of " + output.name + " is " + row.words);
  }
  return {};
}

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

}  // namespace mxo
