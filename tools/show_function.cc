// mxo show FUNCTION VALUE: what an approximate function of the chip returns, and how far off it is.
#include "tools/show_function.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/core.h>

#include "formats/approximate.h"
#include "formats/approximate_lg2_tanh.h"
#include "formats/error.h"

namespace mxo::tools {
namespace {

double reciprocal(double x) { return 1 / x; }
double reciprocal_root(double x) { return 1 / std::sqrt(x); }
double root(double x) { return std::sqrt(x); }
double power_of_two(double x) { return std::exp2(x); }
double log_to_base_two(double x) { return std::log2(x); }
double hyperbolic_tangent(double x) { return std::tanh(x); }

constexpr ApproximateFunction kFunctions[] = {
    {"rcp.approx", rcp_approx, reciprocal},
    {"rcp.approx.ftz", rcp_approx_ftz, reciprocal},
    {"rsqrt.approx", rsqrt_approx, reciprocal_root},
    {"rsqrt.approx.ftz", rsqrt_approx_ftz, reciprocal_root},
    {"sqrt.approx", sqrt_approx, root},
    {"sqrt.approx.ftz", sqrt_approx_ftz, root},
    {"ex2.approx", ex2_approx, power_of_two},
    {"ex2.approx.ftz", ex2_approx_ftz, power_of_two},
    {"lg2.approx", lg2_approx, log_to_base_two},
    {"lg2.approx.ftz", lg2_approx_ftz, log_to_base_two},
    {"tanh.approx", tanh_approx, hyperbolic_tangent},
};

/// A quotient of two operands.
struct Division {
  std::string_view name;  ///< before ".f32", which may follow it
  float (*of)(float, float);
};

constexpr Division kDivisions[] = {{"div.full", div_full}, {"div.full.ftz", div_full_ftz}};

const Division* division(const std::string& name) {
  for (const Division& row : kDivisions) {
    if (name == row.name || name == std::string(row.name) + ".f32") return &row;
  }
  return nullptr;
}

float operand(const std::string& text) {
  const bool code = (text.starts_with("0x") || text.starts_with("0X")) &&
                    text.find_first_of(".pP") == std::string::npos;
  char* end = nullptr;
  const unsigned long long word = code ? std::strtoull(text.c_str(), &end, 16) : 0;
  const float number =
      code ? bit_cast<float>(static_cast<std::uint32_t>(word)) : std::strtof(text.c_str(), &end);
  if (text.empty() || *end != '\0' || (code && (text.size() < 3 || word > 0xFFFFFFFFu))) {
    throw Error(Fault::argument, "found '" + text +
                                     "', needs the bits of an f32 (0x3E99999A), a decimal (0.3), "
                                     "a hex float (0x1.8p+1), inf or nan");
  }
  return number;
}

std::string spelt(float x) {
  return fmt::format("0x{:08X} = {:.160g}", bit_cast<std::uint32_t>(x), static_cast<double>(x));
}

/// The result, and its distance from the exact value where both are numbers.
void show_result(float y, double exact) {
  const auto nearest = static_cast<float>(exact);
  fmt::print("  result      {}\n", spelt(y));
  if (!std::isfinite(nearest) || !std::isfinite(y) || nearest == 0 || y == 0) return;
  fmt::print("  nearest f32 {}\n", spelt(nearest));
  const int exponent = std::max(std::ilogb(nearest), -126);
  fmt::print("  error       {:+.4f} ulp\n",
             std::ldexp(static_cast<double>(y) - exact, 23 - exponent));
}

}  // namespace

const ApproximateFunction* approximate_function(const std::string& name) {
  for (const ApproximateFunction& row : kFunctions) {
    if (name == row.name || name == std::string(row.name) + ".f32") return &row;
  }
  return nullptr;
}

std::vector<std::string_view> approximate_function_names() {
  std::vector<std::string_view> names;
  for (const ApproximateFunction& row : kFunctions) names.emplace_back(row.name);
  for (const Division& row : kDivisions) names.emplace_back(row.name);
  return names;
}

void show_function(const ApproximateFunction& function, const std::string& text) {
  const float x = operand(text);
  const float y = function.of(x);
  const double exact = function.exact(static_cast<double>(x));
  fmt::print("{}.f32 of {} on Hopper (sm_90)\n", function.name, text);
  fmt::print("  operand     {}\n", spelt(x));
  show_result(y, exact);
}

bool is_division(const std::string& name) { return division(name) != nullptr; }

void show_divisions(const std::string& name, const std::vector<std::string>& texts) {
  const Division& function = *division(name);
  if (texts.size() % 2 != 0) {
    throw Error(Fault::argument, std::string(function.name) + ": found '" + texts.back() +
                                     "' alone, needs a dividend and a divisor");
  }
  for (std::size_t i = 0; i < texts.size(); i += 2) {
    const float a = operand(texts[i]);
    const float b = operand(texts[i + 1]);
    fmt::print("{}.f32 of {} and {} on Hopper (sm_90)\n", function.name, texts[i], texts[i + 1]);
    fmt::print("  dividend    {}\n  divisor     {}\n", spelt(a), spelt(b));
    show_result(function.of(a, b), static_cast<double>(a) / static_cast<double>(b));
  }
}

}  // namespace mxo::tools
