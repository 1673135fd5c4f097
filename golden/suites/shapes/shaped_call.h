// A call at a shape given by named dimensions: its operands as recipes.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "golden/suites/shapes/input_recipe.h"
#include "ops/parameters.h"

namespace mxo {

/// Extents by letter: rows M, columns K, features N, groups G, matrices B, top_k S, experts X,
/// ranks P; under these words, whatever the operator calls them.
using Dimensions = std::map<char, Index>;

/// Reads "rows=384,columns=7168", M, N, K and E as well.  Throws Error(argument), nearest name
/// said.
Dimensions parse_dimensions(std::string_view text);
std::string to_text(const Dimensions& dimensions);
std::string_view name_of_dimension(char letter);

/// How a large call is cut into calls that give parts of its outputs.
enum class Cut : std::uint8_t {
  whole,     ///< not at all
  rows,      ///< rows, within a group or a matrix
  columns,   ///< columns of the tensor that moves
  features,  ///< rows of a group's weight gradient
};

/// One axis of an operand: `times` extents of a dimension, or blocks of it.
struct InputAxis {
  char letter = '1';
  Index times = 1;
  Index block = 1;  ///< 0: all of the dimension
};

struct ShapedInput {
  InputRecipe recipe;
  std::vector<InputAxis> axes;
};

struct ShapeOptions {
  std::uint64_t seed = 0;
  inputs::Distribution distribution = inputs::Distribution::normal;
  std::string offsets = "even";     ///< of groups: see group_ends_by_rule
  std::string routing = "uniform";  ///< or hot
  std::string dtype = "";           ///< of floats; bf16, or what the operator needs
};

struct ShapedCall {
  std::string op;
  Parameters set;
  Dimensions dimensions;
  ShapeOptions options;
  Cut cut = Cut::whole;
  bool restarts = false;  ///< blocks of rows start again at each group
  std::vector<Index> ends;
  std::vector<ShapedInput> inputs;
};

/// Throws Error(argument) for an operator that has no operands by shape, a dimension that it lacks
/// or does not have, and an extent that is none.  The operator's own checks come with the call.
ShapedCall shaped_call(std::string_view op, const Parameters& set, const Dimensions& dimensions,
                       const ShapeOptions& options);

/// Throws Error(argument) if `rule` is none of those of group_ends_by_rule.
void check_offsets(std::string_view rule);

/// Ends of `groups` groups of `rows` rows: "even"; "jagged", torchao's generate_jagged_offs,
/// multiples of 32, or of N with "jagged=N"; "skewed", each half of what is left; "empty", every
/// other one without rows.  The last end is `rows`.  Throws Error(argument).
std::vector<Index> group_ends_by_rule(std::string_view rule, Index groups, Index rows,
                                      std::uint64_t seed);

}  // namespace mxo
