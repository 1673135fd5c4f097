// Where one value is expected and another came: seen of values that nothing else explains.
#include <cstdio>
#include <map>

#include "golden/explain/find/output/claims.h"
#include "golden/explain/find/output/recover.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

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
