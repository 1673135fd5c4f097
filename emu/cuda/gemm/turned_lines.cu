// Columns laid as lines, a tile of 128 rows at a time.
#include <algorithm>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/line_memory.cuh"

namespace mxo::cuda {
namespace {

constexpr int kTurnedPlaces = 128;
constexpr int kTurnedBytes = 128;  ///< of neighbouring lines in a tile
constexpr int kTurnThreads = 256;

/// Tiles of 128 places x 128 bytes: 16 bytes of a row at a time on the way in, 32 places of a line
/// on the way out.
template <typename Element>
__global__ void __launch_bounds__(kTurnThreads)
    turn_kernel(Problem p, Factor f, Index lines, Index out_line, Element* out) {
  constexpr int kLines = kTurnedBytes / static_cast<int>(sizeof(Element));
  constexpr int kRun = 32;
  __shared__ uint4 tile[kTurnedPlaces][kTurnedBytes / 16 + 1];
  const Index across = (lines + kLines - 1) / kLines;
  const Index chunks = p.span[p.groups].packed;
  for (Index t = blockIdx.x; t < across * chunks; t += gridDim.x) {
    const Index line0 = t % across * kLines;
    const Index chunk = t / across;
    const Index g = group_at(p, chunk, &GroupSpan::packed);
    const GroupSpan& span = p.span[g];
    const Index first = (chunk - span.packed) * kTurnedPlaces;
    const auto* from = static_cast<const Element*>(f.codes) + (span.start + first) * f.k + line0;
    for (int i = static_cast<int>(threadIdx.x); i < kTurnedPlaces * 8; i += kTurnThreads) {
      const int place = i / 8;
      const int unit = i % 8 * (16 / static_cast<int>(sizeof(Element)));
      const bool there = first + place < span.rows && line0 + unit < lines;
      tile[place][i % 8] =
          there ? *reinterpret_cast<const uint4*>(from + place * f.k + unit) : uint4{};
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kLines * (kTurnedPlaces / kRun);
         i += kTurnThreads) {
      const int line = i % kLines;
      const int place = i / kLines * kRun;
      if (line0 + line >= lines) continue;
      alignas(16) Element run[kRun];
#pragma unroll
      for (int n = 0; n < kRun; ++n) {
        run[n] = reinterpret_cast<const Element*>(tile[place + n])[line];
      }
      auto* to =
          reinterpret_cast<uint4*>(out + (line0 + line) * out_line + chunk * kTurnedPlaces + place);
#pragma unroll
      for (int n = 0; n < static_cast<int>(sizeof(run) / 16); ++n) {
        to[n] = reinterpret_cast<const uint4*>(run)[n];
      }
    }
    __syncthreads();
  }
}

template <typename Element>
void turn(DeviceBackend& backend, const Problem& p, const Factor& f, const LineMemory& memory,
          std::uint8_t* out) {
  const Index tiles =
      ceil_div(memory.lines * memory.element_bytes, kTurnedBytes) * (memory.length / kTurnedPlaces);
  const auto blocks = static_cast<unsigned>(std::clamp<Index>(tiles, 1, Index{1} << 20));
  turn_kernel<<<blocks, kTurnThreads, 0, backend.stream()>>>(p, f, memory.lines, memory.length,
                                                             reinterpret_cast<Element*>(out));
  check_launch("turn_kernel");
}

}  // namespace

bool can_turn_lines(const Factor& f, Index lines) {
  const auto bytes = static_cast<Index>(size_of(f.dtype));
  const auto aligned = [](Index n) { return n % 16 == 0; };
  return f.k_is_rows && f.line == 1 && f.k > 0 && aligned(reinterpret_cast<Index>(f.codes)) &&
         aligned(f.k * bytes) && aligned(lines * bytes);
}

void turn_lines(DeviceBackend& backend, const Problem& p, const Factor& f, const LineMemory& memory,
                std::uint8_t* out) {
  if (memory.element_bytes == 1) {
    turn<std::uint8_t>(backend, p, f, memory, out);
  } else {
    turn<std::uint16_t>(backend, p, f, memory, out);
  }
}

}  // namespace mxo::cuda
