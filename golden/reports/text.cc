// Numbers and positions as every form of report spells them.
#include "golden/reports/text.h"

#include <cmath>
#include <cstdio>

#include "golden/judge/elements.h"

namespace mxo {
namespace {

/// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none.
std::size_t utf8_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02X", byte);
      line += hex;
      ++i;
    } else {
      line += text.substr(i, length);
      i += length;
    }
  }
  return line;
}

std::string escaped(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t end = text.find('\n');
    for (const char c : one_line(text.substr(0, end))) {
      switch (c) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        default: out += c;
      }
    }
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string decibel_text(double value) {
  if (std::isnan(value)) return "not known";
  if (std::isinf(value)) return value > 0 ? "+inf" : "-inf";
  char text[40];
  std::snprintf(text, sizeof text, "%.2f dB", value);
  return text;
}

std::string sqnr_text(const TensorVerdict& tensor) {
  const Measures& m = tensor.all;
  if (m.elements == 0 || is_whole(tensor.format)) return {};
  std::string text = ", SQNR " + decibel_text(m.sqnr);
  if (!std::isnan(m.right_sqnr)) {
    text += ", a right kernel has " + decibel_text(m.right_sqnr) + " or more";
  }
  return text;
}

std::string span_text(const Slice& slice) {
  if (slice.begin == slice.end) return "none";
  const std::string first = std::to_string(slice.begin);
  return slice.begin + 1 == slice.end ? first : first + " to " + std::to_string(slice.end - 1);
}

std::string place_text(const Slice& slice) {
  return std::to_string(slice.index) + " (" + span_text(slice) + ")";
}

std::string ulp_text(const Measures& m) {
  return m.max_ulp == 0 ? "" : ", max ulp " + std::to_string(m.max_ulp);
}

std::string_view group_word(const TensorVerdict& tensor) {
  return tensor.shape.size() >= 3 ? "expert" : "group";
}

std::string not_bounded_text(const std::string& before, const Measures& m) {
  if (m.not_bounded == 0) return {};
  return before + "not bounded: " + std::to_string(m.not_bounded) +
         (m.not_bounded == 1 ? " element" : " elements");
}

std::string remarks_of(const CaseVerdict& verdict) {
  std::string text = verdict.note;
  for (const TensorVerdict& tensor : verdict.outputs) {
    text += not_bounded_text((text.empty() ? "" : "; ") + tensor.name + ": ", tensor.all);
  }
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

const Slice* best_slice(const std::vector<Slice>& slices) {
  const Slice* worst = worst_slice(slices);
  const Slice* best = nullptr;
  for (const Slice& slice : slices) {
    if (worst == nullptr || slice.measures.elements == 0) continue;
    if (best == nullptr || worse(best->measures, slice.measures)) best = &slice;
  }
  return best == worst ? nullptr : best;
}

}  // namespace mxo
