// What each operator takes at a shape, as rows of data; a file for each family.
#pragma once

#include <string_view>
#include <vector>

#include "golden/suites/shapes/shaped_call.h"

namespace mxo {

/// When an operand is there.
enum class When : std::uint8_t { always, plain, coded };

/// Which numbers an operand of integers has.
enum class Fill : std::uint8_t { none, padded_starts, counts, slots };

/// Extents that follow from others: H 16, L slots of all tokens, Q rows of padded groups, V rows
/// that a rank receives, W ranks times groups, Y blocks of slots, Z bytes of swizzled scales.
struct InputRow {
  std::string_view name;
  std::string_view axes;  ///< a letter each, "2N", "M/r", "K/c"; a B that is not given goes
  InputKind kind = InputKind::values;
  Dtype dtype = Dtype::u8;  ///< u8: as asked for, or as the parameters say
  When when = When::always;
  Fill fill = Fill::none;
};

/// group_ends: none; taken where groups are given; needed.  `restart`: blocks of rows start again.
enum class Ends : std::uint8_t { none, optional, optional_restart, needed, needed_restart };

/// A parameter that says an extent again.
struct ExtentRow {
  std::string_view key;
  char letter;
};

struct OperatorShape {
  std::string_view op;
  Cut cut;
  Ends ends;
  std::vector<InputRow> inputs;
  std::vector<ExtentRow> extents = {};
};

std::vector<OperatorShape> elementwise_shapes();
std::vector<OperatorShape> scale_shapes();
std::vector<OperatorShape> product_shapes();
std::vector<OperatorShape> movement_shapes();

}  // namespace mxo
