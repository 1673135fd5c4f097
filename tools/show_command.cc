// mxo show FORMAT VALUE|CODE: what a code means, and which code a value gets.
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "formats/aliases.h"
#include "formats/error.h"
#include "formats/mx_scale.h"
#include "formats/nearest_name.h"
#include "tools/codec.h"
#include "tools/commands.h"
#include "tools/show_function.h"

namespace mxo::tools {
namespace {

std::string hex(const Codec& codec, std::uint32_t code) {
  return fmt::format("0x{:0{}X}", code, codec.digits());
}

/// Every digit: no value of these formats needs more than 112.
std::string exact(double value) { return fmt::format("{:.160g}", value); }

std::string code_and_value(const Codec& codec, std::uint32_t code) {
  return fmt::format("{} = {}", hex(codec, code), exact(codec.value(code)));
}

std::string binary(std::uint32_t bits, int width) {
  return width == 0 ? "-" : fmt::format("{:0{}b}", bits, width);
}

std::string class_of(const Codec& codec, std::uint32_t code) {
  const double value = codec.value(code);
  const std::uint32_t magnitude = codec.magnitude_of(code);
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return "infinity";
  if (value == 0) return "zero";
  if (codec.has_sign && magnitude >> codec.mantissa_bits == 0) {
    return magnitude == 1 ? "subnormal, the smallest magnitude" : "subnormal";
  }
  std::string text = codec.has_sign ? "normal" : "power of two";
  if (magnitude == codec.max_finite) text += ", the largest finite magnitude";
  if (codec.has_sign && magnitude == 1u << codec.mantissa_bits) text += ", the smallest normal";
  return text;
}

/// The next finite code above or below a finite one, in the order of values.
std::string neighbour(const Codec& codec, std::uint32_t code, bool above) {
  const bool negative = (code & codec.sign_bit()) != 0;
  const std::uint32_t magnitude = codec.magnitude_of(code);
  const bool outward = above != negative;
  if (outward) {
    if (magnitude == codec.max_finite) return "none that is finite";
    return code_and_value(codec, code + 1);
  }
  if (codec.value(code) != 0 && magnitude > 0) {
    const std::uint32_t inward = code - 1;
    const bool lost_zero = std::isnan(codec.value(inward));  // fnuz: the code of -0 is NaN
    return code_and_value(codec, lost_zero ? 0 : inward);
  }
  if (!codec.has_sign) return "none: there is no zero";
  return code_and_value(codec, (negative ? 0 : codec.sign_bit()) | 1);
}

void show_fields(const Codec& codec, std::uint32_t code) {
  const std::uint32_t magnitude = codec.magnitude_of(code);
  const std::uint32_t field = magnitude >> codec.mantissa_bits;
  const std::uint32_t fraction = magnitude & ((1u << codec.mantissa_bits) - 1);
  const bool subnormal = codec.has_sign && field == 0;
  const double value = codec.value(code);
  const bool finite = std::isfinite(value);
  const bool negative = (code & codec.sign_bit()) != 0;

  fmt::print("  code        {}\n", hex(codec, code));
  const std::string sign = codec.has_sign ? fmt::format("{} ", negative ? 1 : 0) : "";
  const std::string mantissa =
      codec.mantissa_bits > 0 ? " " + binary(fraction, codec.mantissa_bits) : "";
  fmt::print("  bits        {}{}{}\n", sign, binary(field, codec.exponent_bits), mantissa);
  if (codec.has_sign) fmt::print("  sign        {}\n", negative ? "1 (-)" : "0 (+)");
  fmt::print("  exponent    {} = {}", binary(field, codec.exponent_bits), field);
  if (finite) {
    const int biased = static_cast<int>(subnormal ? 1 : field);
    fmt::print("; 2^({} - {}) = 2^{}{}", biased, codec.bias, biased - codec.bias,
               subnormal ? ", as every subnormal" : "");
  }
  fmt::print("\n");
  if (codec.mantissa_bits > 0) {
    fmt::print("  mantissa    {} = {}", binary(fraction, codec.mantissa_bits), fraction);
    if (finite) fmt::print("; {} + {}/{}", subnormal ? 0 : 1, fraction, 1 << codec.mantissa_bits);
    fmt::print("\n");
  }
  fmt::print("  value       {}\n", exact(value));
  if (finite) fmt::print("  hex float   {:a}\n", value);
  fmt::print("  class       {}\n", class_of(codec, code));
  if (finite) {
    fmt::print("  next above  {}\n", neighbour(codec, code, true));
    fmt::print("  next below  {}\n", neighbour(codec, code, false));
  }
}

/// The largest magnitude code whose value is at most `magnitude`.
std::uint32_t floor_code(const Codec& codec, double magnitude) {
  std::uint32_t low = 0;
  std::uint32_t high = codec.max_finite;
  while (low < high) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    if (codec.value(middle) <= magnitude) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// Why a finite value gets its code, given the two codes around it.
void explain_rounding(const Codec& codec, double value) {
  const double magnitude = std::fabs(value);
  const std::uint32_t low = floor_code(codec, magnitude);
  const double below = codec.value(low);
  if (below == magnitude) {
    fmt::print("  rounding    none: the format holds this value\n");
    return;
  }
  if (magnitude < below) {  // e8m0 has no zero
    fmt::print("  rounding    below the least scale {}\n", code_and_value(codec, low));
    return;
  }
  const bool top = low == codec.max_finite;
  const double above = !top             ? codec.value(low + 1)
                       : codec.has_sign ? 2 * below - codec.value(low - 1)
                                        : 2 * below;
  const double share = (magnitude - below) / (above - below);
  fmt::print("  between     {} and {}{}\n", code_and_value(codec, low),
             top ? exact(above) : code_and_value(codec, low + 1),
             top ? ", which is beyond the largest finite value" : "");
  std::string rule = share < 0.5 ? ": nearer to the lower" : ": nearer to the upper";
  if (share == 0.5) rule = ": a tie, to the even code";
  if (share > 1) rule = ": a whole step or more beyond";
  fmt::print("  rounding    {:.6g} steps above the lower magnitude{}\n", share,
             codec.has_sign ? rule : "");
}

void show_e8m0_roundings(float value) {
  const auto code = [&](E8M0Rounding rounding) { return encode_e8m0(value, rounding, true).bits; };
  fmt::print("  roundings   nearest 0x{:02X}, up 0x{:02X}, toward zero 0x{:02X}{}\n",
             code(E8M0Rounding::nearest), code(E8M0Rounding::up), code(E8M0Rounding::zero),
             std::signbit(value) ? "; the sign is ignored" : "");
}

void show_value(const Codec& codec, const std::string& text) {
  char* end = nullptr;
  const double given = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') {
    throw Error(Fault::argument, "found '" + text +
                                     "', needs a code (0x7E), a decimal (3.5) or a hex float "
                                     "(0x1.8p+1), inf or nan");
  }
  const float value = std::strtof(text.c_str(), nullptr);
  const bool narrowed = !std::isnan(given) && static_cast<double>(value) != given;
  const std::uint32_t saturating = codec.encode(value, Overflow::saturate);
  const std::uint32_t strict = codec.encode(value, Overflow::nonfinite);

  fmt::print("{} in {}\n", text, codec.name);
  if (!std::isnan(given)) {
    fmt::print("  as f32      0x{:08X} = {}{}\n", bit_cast<std::uint32_t>(value), exact(value),
               narrowed ? " (rounded to nearest even)" : "");
  }
  const double source = codec.name == "f32" ? given : static_cast<double>(value);
  if (std::isfinite(source)) explain_rounding(codec, source);
  if (codec.name == "e8m0") show_e8m0_roundings(value);
  const bool small = codec.bits() == 8;
  if (small && saturating != strict) {
    fmt::print("  overflow    saturating {}, non-saturating {}\n",
               code_and_value(codec, saturating), code_and_value(codec, strict));
  }
  show_fields(codec, small ? saturating : strict);
}

void show_code(const Codec& codec, const std::string& text) {
  char* end = nullptr;
  const unsigned long long code = std::strtoull(text.c_str() + 2, &end, 16);
  const unsigned long long most = (1ull << codec.bits()) - 1;
  if (text.size() <= 2 || *end != '\0' || code > most) {
    throw Error(Fault::argument,
                fmt::format("found code '{}', {} needs a hex code from 0x0 to {}", text, codec.name,
                            hex(codec, static_cast<std::uint32_t>(most))));
  }
  fmt::print("code {} of {}\n", text, codec.name);
  show_fields(codec, static_cast<std::uint32_t>(code));
}

/// 0x7E is a code; 0x1.8p+1 is a hex float.
bool is_code(const std::string& text) {
  return (text.starts_with("0x") || text.starts_with("0X")) &&
         text.find_first_of(".pP") == std::string::npos;
}

/// Throws Error(argument) naming the formats and the functions there are.
const Codec& codec_named(const std::string& name) {
  std::vector<std::string_view> names;
  const std::string_view here = canonical_name(Word::format, name);
  for (const Codec& codec : codecs()) {
    if (codec.name == (here.empty() ? name : here)) return codec;
    names.emplace_back(codec.name);
  }
  for (const std::string_view function : approximate_function_names()) names.push_back(function);
  throw Error(Fault::argument, unknown_name("format or function", name, names));
}

struct ShowArguments {
  std::string format;
  std::vector<std::string> values;
};

std::function<int()> prepare_show(CLI::App& app, const Settings&) {
  const auto options = std::make_shared<ShowArguments>();
  app.add_option("FORMAT", options->format,
                 "e4m3, e4m3fnuz, e5m2, e5m2fnuz, e8m0, bf16, f16, f32; or a function of the "
                 "chip: rcp.approx, rsqrt.approx, sqrt.approx, ex2.approx, lg2.approx, each also "
                 "with .ftz, tanh.approx; div.full and div.full.ftz of two values")
      ->required();
  app.add_option("VALUE", options->values,
                 "a code (0x7E), a decimal (3.5), a hex float (0x1.8p+1), inf, nan; write -- "
                 "before -inf")
      ->required();
  return [options] {
    if (is_division(options->format)) {
      show_divisions(options->format, options->values);
      return kAgree;
    }
    if (const ApproximateFunction* function = approximate_function(options->format)) {
      for (const std::string& text : options->values) show_function(*function, text);
      return kAgree;
    }
    const Codec& codec = codec_named(options->format);
    for (const std::string& text : options->values) {
      is_code(text) ? show_code(codec, text) : show_value(codec, text);
    }
    return kAgree;
  };
}

}  // namespace

const Command kShow{"show", "what a code means, and which code a value gets", prepare_show};

}  // namespace mxo::tools
