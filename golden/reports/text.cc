// Numbers and positions as every form of report spells them.
#include "golden/reports/text.h"

#include <cmath>
#include <cstdio>

#include "golden/judge/elements.h"

namespace mxo {

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string decibel_text(double value) {
  if (std::isinf(value)) return value > 0 ? "+inf" : "-inf";
  char text[40];
  std::snprintf(text, sizeof text, "%.2f dB", value);
  return text;
}

std::string position_text(const std::vector<Index>& at) {
  std::string text = "[";
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(at[i]);
  }
  return text + "]";
}

std::string bits_text(const TensorVerdict& tensor, std::uint64_t bits) {
  char text[64];
  std::snprintf(text, sizeof text, "%0*llX (%.9g)", static_cast<int>(2 * size_of(tensor.format)),
                static_cast<unsigned long long>(bits), ElementReader(tensor.format)(bits).value);
  return text;
}

bool worse(const Measures& a, const Measures& b) {
  const Index a_bad = a.nan_one_sided + a.inf_one_sided;
  const Index b_bad = b.nan_one_sided + b.inf_one_sided;
  if (a_bad != b_bad) return a_bad > b_bad;
  if (a.sqnr != b.sqnr) return a.sqnr < b.sqnr;
  return a.differing > b.differing;
}

const Slice* worst_slice(const std::vector<Slice>& slices) {
  const Slice* worst = nullptr;
  for (const Slice& slice : slices) {
    // The values of codes can be off where no code differs.
    if (slice.measures.differing == 0 && slice.measures.violating == 0 &&
        slice.measures.max_absolute == 0) {
      continue;
    }
    if (worst == nullptr || worse(slice.measures, worst->measures)) worst = &slice;
  }
  return worst;
}

}  // namespace mxo
