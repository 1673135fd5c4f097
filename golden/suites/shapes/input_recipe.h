// An operand as a rule: every element a function of seed, name and index, and any part of it made.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/inputs.h"
#include "formats/tensor.h"

namespace mxo {

/// What an element is made of; the functions are those of formats/inputs.h.
enum class InputKind : std::uint8_t {
  values,       ///< floats of a distribution, rounded to nearest even
  codes,        ///< 2^6 times them, at most the largest finite code
  scales,       ///< 2^-4 to 2^4 as e8m0; as f32 that times 1 to 2
  powers,       ///< 2^-4 to 2^4 as f32
  experts,      ///< [T, k]: k different ones of `choices`
  hot_experts,  ///< half of them of the first eighth
  mask,         ///< [T, choices]: 1 for the `slots` experts of a token
  order,        ///< a permutation of the numbers below the extent
  group_of,     ///< the group of a row, whose ends are `values`
  integers,     ///< `values`
};
std::string_view name_of(InputKind kind);
std::string_view name_of(inputs::Distribution distribution);
/// Throws Error(argument) with the nearest.
inputs::Distribution distribution_named(std::string_view name);

struct InputRecipe {
  std::string name;
  Dtype format = Dtype::bf16;
  std::vector<Index> shape;
  InputKind kind = InputKind::values;
  inputs::Distribution distribution = inputs::Distribution::normal;
  std::vector<Index> values = {};
  Index choices = 0;
  Index slots = 0;
};

/// Part of a tensor seen as [product of its leading extents, last extent]; of one axis, [n, 1].
struct Box {
  Index row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  Index rows() const { return row_end - row_begin; }
  Index columns() const { return column_end - column_begin; }
  friend bool operator==(const Box&, const Box&) = default;
};
Box whole_box(const std::vector<Index>& shape);

/// The part of the operand, under `shape`, whose product is the part's size.
Tensor make_input(const InputRecipe& recipe, std::uint64_t seed, const Box& part,
                  std::vector<Index> shape);

/// The same into a tensor of that shape, by `threads` threads (0: as many as the machine has).
void fill_input(const InputRecipe& recipe, std::uint64_t seed, const Box& part, int threads,
                Tensor& into);

/// The bytes of a part of a tensor, row after row.
std::vector<std::byte> bytes_of(const Tensor& tensor, const Box& part);

}  // namespace mxo
