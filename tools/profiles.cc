// The scale rules in words and by what they give.
#include "tools/profiles.h"

#include <limits>

#include <fmt/core.h>

#include "formats/scale_rules.h"

namespace mxo::tools {
namespace {

/// "1x128, 1x64", or "any" for an empty list.
std::string spaced(std::string_view list) {
  if (list.empty()) return "any";
  std::string text;
  for (const char c : list) text += c == '|' ? std::string(", ") : std::string(1, c);
  return text;
}

std::string floor_words(const F32ScaleRule& rule) {
  if (rule.epsilon == 0.0) return "none";
  const std::string number = fmt::format("{:g}", rule.epsilon);
  switch (rule.floor) {
    case AmaxFloor::after_widening: return number + " in f64";
    case AmaxFloor::in_f32: return number;
    case AmaxFloor::in_x: break;
  }
  return number + " in the type of x";
}

std::string stored_words(const F32ScaleRule& rule) {
  std::string text;
  switch (rule.quotient) {
    case Quotient::max_over_amax_f64: text = "`fl(1/s)`, s = f32(f64(max) / f64(amax))"; break;
    case Quotient::max_over_amax: text = "`fl(1/s)`, s = `fl(max/amax)`"; break;
    case Quotient::max_div_full_amax: text = "`div_full(1, s)`, s = `div_full(max, amax)`"; break;
    case Quotient::max_times_reciprocal: text = "`fl(1/s)`, s = `fl(max * fl(1/amax))`"; break;
    case Quotient::amax_over_max: text = "d = `fl(amax/max)`"; break;
    case Quotient::amax_times_reciprocal: text = "d = `fl(amax * fl(1/max))`"; break;
  }
  if (rule.in_x == StepsInX::every) text += ", each step in the type of x";
  if (rule.in_x == StepsInX::scale) text += ", rounded to the type of x";
  if (rule.stores == StoredScale::multiplier) text.erase(0, text.find("s ="));
  if (rule.least == LeastScale::before_power) text += ", at least 1/(512 max)";
  if (rule.least == LeastScale::after_power) text += ", then at least 1/(512 max)";
  if (rule.fnuz_max > 0) text += fmt::format("; max {} in e4m3fnuz", rule.fnuz_max);
  if (rule.max > 0) text += fmt::format("; max {} in every format", rule.max);
  return text;
}

std::string power_words(const ScaleRuleRow& row) {
  std::string text = spaced(row.powers);
  if (row.powers.find("up") != std::string_view::npos) {
    if (row.up == PowerOfTwo::up_clamped) text += " (bits, exponent 1 to 254)";
    if (row.up == PowerOfTwo::up_log2) text += " (exp2(ceil(log2 d)))";
    if (row.rule.f32.power_floor > 0) {
      text += fmt::format(" (of at least {:g})", row.rule.f32.power_floor);
    }
  }
  if (row.down == PowerOfTwo::down_log2) text += " (exp2(floor(log2 s)))";
  const bool first_down = row.rule.f32.power_of_2 == PowerOfTwo::down;
  return first_down ? text + "; down unless named" : text;
}

std::string code_words(const ScaleRule& rule, bool mx) {
  std::string text = "x * 2^(127 - scale)";
  if (!mx) {
    switch (rule.f32.code) {
      case CodeScaling::multiply:
      case CodeScaling::multiply_in_bf16:
      case CodeScaling::multiply_in_f16:
        text = gives_multiplier(rule.f32.quotient) ? "x * s" : "x * fl(1/d)";
        break;
      case CodeScaling::divide: text = "x / d"; break;
      case CodeScaling::own_quotient: text = "x * fl(max/amax)"; break;
      case CodeScaling::own_reciprocal: text = "x * fl(max * fl(1/amax))"; break;
    }
  }
  if (!mx && rule.f32.in_x == StepsInX::every) text += " in the type of x";
  if (rule.element.rounding != Rounding::even) {
    text += fmt::format(", {}", kRoundingNames[static_cast<int>(rule.element.rounding)]);
  }
  if (rule.element.overflow == Overflow::nonfinite) text += ", overflow NaN";
  return text;
}

std::string exponent_words(const ScaleRule& rule) {
  switch (rule.e8m0.exponent) {
    case ExponentRule::by_mode: break;
    case ExponentRule::floor_quotient: return "floor(log2(amax/max))";
    case ExponentRule::nearest_quotient: return "nearest to log2(amax/max)";
    case ExponentRule::ceil_quotient: return "ceil(log2(amax/max))";
    case ExponentRule::floor_amax: return "floor(log2 amax), no emax";
    case ExponentRule::floor_log2: return "floor(log2 amax) - emax";
    case ExponentRule::quarter: return "of amax + 2^21 bits, less emax";
  }
  std::string text;
  switch (rule.e8m0.descale) {
    case Descale::reciprocal_multiply: text = "modes; rceil of `fl(amax * fl(1/max))`"; break;
    case Descale::division: text = "modes; rceil of `fl(amax/max)`"; break;
    case Descale::exact: text = "modes; rceil of the real quotient"; break;
    case Descale::division_in_x:
    case Descale::division_in_bf16:
    case Descale::division_in_f16: text = "modes; rceil of amax/max in the type of x"; break;
  }
  if (rule.e8m0.up == SubnormalUp::always) text += ", subnormal quotients up to 01";
  if (rule.e8m0.floor == FloorRule::multiply) text += "; floor by multiplication";
  return text;
}

/// What a block of 1.0 with one `odd` element becomes: the scale, and the codes of both.
struct Answer {
  std::string scale;
  unsigned odd;
  unsigned one;
};

Answer answer_of(const ScaleRuleRow& row, float odd, float rest) {
  const ScaleRule rule = rule_for(row.rule, Dtype::f32, Dtype::e4m3);
  const bool mx = row.scale == ScaleType::e8m0;
  const NanRule nan = mx ? rule.e8m0.nan : rule.f32.nan;
  const std::uint32_t word = join_amax(join_amax(0, rest, nan), odd, nan);
  const float amax = bit_cast<float>(word);
  float factor = 0.0f;
  Answer answer;
  if (mx) {
    const E8M0 scale = shared_scale<kE4M3>(amax, rule.mode, rule.e8m0);
    factor = factor_of(scale, amax, rule.e8m0);
    answer.scale = fmt::format("{:02X}", scale.bits);
  } else {
    const F32Scale scale = f32_scale<kE4M3>(amax, rule.f32, largest_finite<float>());
    factor = scale.factor;
    answer.scale = is_nan_word(bit_cast<std::uint32_t>(scale.stored))
                       ? "NaN"
                       : fmt::format("{:.4g}", scale.stored);
  }
  const CodeScaling how = mx ? CodeScaling::multiply : rule.f32.code;
  answer.odd = encode_element<kE4M3>(scaled(odd, factor, how), rule.element).bits;
  answer.one = encode_element<kE4M3>(scaled(rest, factor, how), rule.element).bits;
  return answer;
}

/// Columns of edges: zero, tiny, NaN, infinity.
std::string edges_of(const ScaleRuleRow& row) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::string text;
  for (const float value : {0.0f, 1e-12f, 0x1p-127f}) {
    const Answer a = answer_of(row, value, value);
    text += fmt::format(" {}, {:02X} |", a.scale, a.odd);
  }
  for (const float odd : {kNan, kInfinity}) {
    const Answer a = answer_of(row, odd, 1.0f);
    text += fmt::format(" {}, {:02X}, {:02X} |", a.scale, a.odd, a.one);
  }
  return text;
}

constexpr const char* kIntroduction = R"(# The rules of the stacks

These are the rules by which each stack scales a block and makes codes: the rows of `formats/scale_rules.h`.
`--set rule=NAME` selects one, and every backend follows it. `mxo list rules --markdown` prints this page, and
a test compares the two. `mxo list rules --diverge A B` prints where two rules differ.

*Evidence*: `captured`: outputs of the stack's own code, reproduced bit for bit; `run`: its expressions were
run, but not its file; `read`: its source was read; `published`: a report; `defined`: by this library.
A second implementation of every row (`tests/support/stack_twins.cc`) agrees in every bit. Where the result
depends on a kernel's compiler (Metal's logarithm; Triton's `div.full`, except FBGEMM's), divisions here are
correctly rounded, and log2 rounds to the nearest f32, unless the row was captured.

The columns `0`, `1e-12` and `2^-127` give the scale and the code of blocks of that f32 value in e4m3. The
columns `a NaN` and `an infinity` give the scale, the code of that element and the code of 1.0 for a block of
1.0 with one such element. Codes are hexadecimal: 7F is NaN, 7E is 448, FE is -448. `fl` is one rounding to f32.

)";

}  // namespace

std::string profiles_page() {
  std::string page = kIntroduction;
  page += "## f32 scales\n\n";
  page +=
      "| rule | blocks | formats | floor of amax | scale stored | power_of_2 | code = sat(..) | 0 "
      "| "
      "1e-12 | 2^-127 | a NaN | an infinity | evidence |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const ScaleRuleRow& row : kScaleRules) {
    if (row.scale != ScaleType::f32) continue;
    page += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |{} {}: {} |\n", row.name,
                        spaced(row.blocks), spaced(row.formats), floor_words(row.rule.f32),
                        stored_words(row.rule.f32), power_words(row), code_words(row.rule, false),
                        edges_of(row), kEvidenceNames[static_cast<int>(row.evidence)], row.source);
  }
  page += "\n## e8m0 scales\n\n";
  page +=
      "| rule | blocks | formats | exponent of the scale | code = sat(..) | 0 | 1e-12 | 2^-127 | a "
      "NaN "
      "| an infinity | evidence |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const ScaleRuleRow& row : kScaleRules) {
    if (row.scale != ScaleType::e8m0) continue;
    page += fmt::format("| `{}` | {} | {} | {} | {} |{} {}: {} |\n", row.name, spaced(row.blocks),
                        spaced(row.formats), exponent_words(row.rule), code_words(row.rule, true),
                        edges_of(row), kEvidenceNames[static_cast<int>(row.evidence)], row.source);
  }
  return page;
}

}  // namespace mxo::tools
