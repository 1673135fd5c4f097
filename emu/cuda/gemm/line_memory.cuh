// Lines of a factor laid next to each other along k, as copies of whole tiles need them.
#pragma once

#include <cuda.h>

#include <optional>

#include "emu/cuda/gemm/problem.cuh"

namespace mxo::cuda {

/// Codes of one factor: line i of group g starts at data + g * group_bytes + i * line_bytes, plus
/// 128 * span[g].packed elements where the rows are contracted.
struct LineMemory {
  const std::uint8_t* data = nullptr;
  Index lines = 0;  ///< of a group
  Index groups = 1;
  Index line_bytes = 0;
  Index group_bytes = 0;
  int element_bytes = 1;
  Index length = 0;  ///< elements of a line, all groups of a contracted axis together
};

/// The lines of `f`: where they lie if tiles can be copied from there, else a copy in `scratch`,
/// groups of contracted rows padded with zeros to multiples of 128.
LineMemory lay_lines(DeviceBackend& backend, const Problem& p, const Factor& f, Index lines,
                     std::optional<Scratch<std::uint8_t>>& scratch);
/// The same with e8m0 scales folded in: bf16, rounded to nearest even.
LineMemory lay_dequantized_lines(DeviceBackend& backend, const Problem& p, const Factor& f,
                                 Index lines, std::optional<Scratch<std::uint8_t>>& scratch);

/// Contracted rows whose elements are neighbours across lines, in steps of 16 bytes, can be laid a
/// whole tile at a time; turn_lines() does.
bool can_turn_lines(const Factor& f, Index lines);
void turn_lines(DeviceBackend& backend, const Problem& p, const Factor& f, const LineMemory& memory,
                std::uint8_t* out);

/// The boxes of `rows` lines of 128 bytes for copies of tiles: axes k, line, depth.  Bytes, or
/// elements of two bytes.
CUtensorMap tile_map(const std::uint8_t* data, int element_bytes, Index length, Index lines,
                     Index line_bytes, Index depth, Index depth_bytes, int rows);

}  // namespace mxo::cuda
