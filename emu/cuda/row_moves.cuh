// Rows of one matrix into another: each row of the result asks where it comes from.
#pragma once

#include "emu/cuda/launch.cuh"

namespace mxo::cuda {

inline constexpr Index kZeroRow = -1;   ///< the row becomes zeros
inline constexpr Index kLeaveRow = -2;  ///< the row stays as it is

/// A block covers `rows_per_block` rows with `lanes` threads each; a thread has kInFlight words of
/// its row under way at once.
struct MovePlan {
  Index rows;
  Index words;    // of a row
  Index to_step;  // words from row to row
  Index from_step;
  int lanes;
  int rows_per_block;
  int chunks;  // blocks that share a row
};

inline constexpr int kInFlight = 4;

template <typename Word, typename Source>
__global__ void move_rows_kernel(Word* to, const Word* from, MovePlan plan, Source source) {
  const int lane = static_cast<int>(threadIdx.x) % plan.lanes;
  const Index row = static_cast<Index>(blockIdx.x) / plan.chunks * plan.rows_per_block +
                    static_cast<int>(threadIdx.x) / plan.lanes;
  if (row >= plan.rows) return;
  const Index at = source(row);
  if (at == kLeaveRow) return;
  const Index first = static_cast<Index>(blockIdx.x) % plan.chunks * plan.lanes * kInFlight + lane;
  Word* line = to + row * plan.to_step;
  const Word* origin = from + at * plan.from_step;
  Word word[kInFlight];
#pragma unroll
  for (int i = 0; i < kInFlight; ++i) {
    const Index w = first + i * plan.lanes;
    word[i] = Word{};
    if (w < plan.words && at >= 0) word[i] = origin[w];
  }
#pragma unroll
  for (int i = 0; i < kInFlight; ++i) {
    const Index w = first + i * plan.lanes;
    if (w < plan.words) line[w] = word[i];
  }
}

/// Any strides, one element after another.
template <typename Word, typename Source>
__global__ void move_elements_kernel(Matrix<Word> to, Matrix<const Word> from, Source source) {
  const Index n = to.extent[0] * to.extent[1];
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < n; i += step) {
    const Index row = i / to.extent[1];
    const Index column = i % to.extent[1];
    const Index at = source(row);
    if (at != kLeaveRow) to(row, column) = at >= 0 ? from(at, column) : Word{};
  }
}

template <typename Word, typename Source>
void move_words(cudaStream_t stream, const Result& to, const Operand& from, const Source& source) {
  const auto element = static_cast<Index>(size_of(to.dtype));
  const auto word = static_cast<Index>(sizeof(Word));
  MovePlan plan{};
  plan.rows = to.extent[0];
  plan.words = to.extent[1] * element / word;
  plan.to_step = to.stride[0] * element / word;
  plan.from_step = from.stride[0] * element / word;
  const Index wanted = ceil_div(plan.words, kInFlight);
  if (wanted <= 32) {  // several rows a warp
    plan.lanes = 1;
    while (plan.lanes < wanted) plan.lanes *= 2;
  } else {
    plan.chunks = static_cast<int>(ceil_div(wanted, kThreads));
    plan.lanes = static_cast<int>(round_up(ceil_div(wanted, plan.chunks), 32));
  }
  if (plan.chunks == 0) plan.chunks = 1;
  plan.rows_per_block = std::max(1, kThreads / plan.lanes);
  const Index blocks = ceil_div(plan.rows, plan.rows_per_block) * plan.chunks;
  move_rows_kernel<<<static_cast<unsigned>(blocks), plan.lanes * plan.rows_per_block, 0, stream>>>(
      static_cast<Word*>(to.data), static_cast<const Word*>(from.data), plan, source);
}

template <typename Word, typename Source>
void move_elements(cudaStream_t stream, const Result& to, const Operand& from,
                   const Source& source) {
  move_elements_kernel<<<blocks_for(to.elements()), kThreads, 0, stream>>>(
      to.as<Word, 2>(), from.as<const Word, 2>(), source);
}

/// to[r, :] = from[source(r), :] for matrices of one type and width; `source` is called on the
/// device and may say kZeroRow or kLeaveRow.  Moves bits, in words as wide as alignment allows.
template <typename Source>
void move_rows(cudaStream_t stream, const Result& to, const Operand& from, const Source& source) {
  if (to.elements() == 0) return;
  const auto fits = [&](std::uintptr_t bytes) {
    return rows_aligned(to, bytes) && (from.elements() == 0 || rows_aligned(from, bytes));
  };
  if (fits(16)) {
    move_words<uint4>(stream, to, from, source);
  } else if (fits(4)) {
    move_words<unsigned>(stream, to, from, source);
  } else {
    switch (size_of(to.dtype)) {
      case 1: move_elements<std::uint8_t>(stream, to, from, source); break;
      case 2: move_elements<std::uint16_t>(stream, to, from, source); break;
      case 4: move_elements<std::uint32_t>(stream, to, from, source); break;
      default: move_elements<std::uint64_t>(stream, to, from, source); break;
    }
  }
  check_launch("move_rows");
}

}  // namespace mxo::cuda
