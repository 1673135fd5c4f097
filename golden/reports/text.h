// Numbers and positions as every form of report spells them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "golden/judge/verdict.h"

namespace mxo {

/// The text on one line, and fit for a terminal: control characters and bytes that are no UTF-8
/// (a malformed file may be quoted) become \xNN.
std::string one_line(std::string_view text);

/// The same for HTML and XML, in text and in attributes in double quotes; lines stay lines.
std::string escaped(std::string_view text);

std::string number_text(double value);
/// "31.20 dB", "+inf", "-inf".
std::string decibel_text(double value);
/// "not bounded: 3 elements" after `before`; empty where gate bound promises something of all.
std::string not_bounded_text(const std::string& before, const Measures& m);
/// What must be said beside a verdict, PASS too: its note, and what is not bounded.
std::string remarks_of(const CaseVerdict& verdict);
/// "[3, 17]".
std::string position_text(const std::vector<Index>& at);
/// The bits in hexadecimal and the value: "7E (448)".
std::string bits_text(const TensorVerdict& tensor, std::uint64_t bits);
/// ", SQNR 31.20 dB, a right kernel has 46.70 dB or more"; empty for whole numbers, and where
/// nothing is compared.
std::string sqnr_text(const TensorVerdict& tensor);
/// "group", or "expert" where the groups are slices of the first axis.
std::string_view group_word(const TensorVerdict& tensor);
/// The first and the last row or column of a slice: "96 to 127", "5", "none".
std::string span_text(const Slice& slice);
/// The number of a slice and its span: "3 (96 to 127)".
std::string place_text(const Slice& slice);
/// ", max ulp 3"; empty where steps are not counted (scales, integers).
std::string ulp_text(const Measures& m);
/// The slice that is worst off; null where nothing differs.
const Slice* worst_slice(const std::vector<Slice>& slices);
/// The slice that is best off among several that hold something, where some differ; else null.
const Slice* best_slice(const std::vector<Slice>& slices);
/// Nonfinite on one side is worst, then the least SQNR, then the most differences.
bool worse(const Measures& a, const Measures& b);

}  // namespace mxo
