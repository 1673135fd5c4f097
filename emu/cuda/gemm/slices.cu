// Memory for the slices of a factor.
#include "emu/cuda/gemm/slices.cuh"

#include "emu/cuda/cuda_check.cuh"

namespace mxo::cuda {

Index make_slice_memory(DeviceBackend& backend, const Problem& p, const Factor& f,
                        const KVectorMemory& codes, Index k_vectors, int depth, Slices& made,
                        SliceScratch& scratch) {
  const Index windows = f.rows_are_rows ? k_vectors : k_vectors * p.groups;
  made.codes = codes;
  made.depth = depth;
  made.memory = codes;
  made.memory.element_bytes = 1;
  made.memory.length = f.k_is_rows ? codes.length : round_up(p.depth, 128);
  made.memory.k_vector_bytes = made.memory.length;
  made.memory.k_vectors = f.k_is_rows ? k_vectors : windows;
  made.memory.group_bytes = made.memory.k_vectors * made.memory.k_vector_bytes;
  scratch.slices.emplace(backend, made.memory.group_bytes * depth);
  scratch.window.emplace(backend, windows);
  made.memory.data = scratch.slices->data();
  made.window = scratch.window->data();
  return windows;
}

}  // namespace mxo::cuda
