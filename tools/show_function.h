// mxo show FUNCTION VALUE: what an approximate function of the chip returns, and how far off it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mxo::tools {

struct ApproximateFunction {
  const char* name;  // as PTX spells it, without .f32
  float (*of)(float);
  double (*exact)(double);
};

/// The row of that name, or null.
const ApproximateFunction* approximate_function(const std::string& name);

/// The names of all of them.
std::vector<std::string_view> approximate_function_names();

/// Prints operand, result and its distance from the exact value in units of the last place.  Throws
/// Error (argument) for a text that is neither a number nor a code of eight hex digits at most.
void show_function(const ApproximateFunction& function, const std::string& text);

/// "div.full" or "div.full.ftz", each with ".f32" or without: what has two operands.
bool is_division(const std::string& name);

/// The same of each pair of texts, dividend and divisor, by the division of that name; throws where
/// one is left over.
void show_divisions(const std::string& name, const std::vector<std::string>& texts);

}  // namespace mxo::tools
