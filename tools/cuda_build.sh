#!/bin/sh
# Compiles formats/ as device code and the CUDA backend, warnings as errors; nothing of it runs here.
# A machine without nvcc compiles none of it and says so.  NCCL: where its package is installed, or
# NCCL_ROOT names its folder.
set -eu
cd "$(dirname "$0")/.."

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ ! -x "$nvcc" ]; then
  echo "cuda: no nvcc: the CUDA backend was not compiled"
  exit 0
fi
mkdir -p build
# shellcheck disable=SC2086  # a launcher is words
${CMAKE_CUDA_COMPILER_LAUNCHER:-} "$nvcc" -std=c++20 -arch=sm_90 --fmad=false -Werror all-warnings \
  -Xcompiler -Wall,-Wextra,-Werror -I. -c tests/house/formats_cuda.cu -o build/formats_cuda.o &
formats=$!

nccl=OFF
if [ -e /usr/include/nccl.h ] || [ -n "${NCCL_ROOT:-}" ]; then nccl=ON; fi
echo "cuda: the backend; with NCCL: $nccl"
[ -f build/cuda/CMakeCache.txt ] || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
cmake -S . -B build/cuda -DMXO_CUDA=ON -DMXO_NCCL=$nccl \
  -DMXO_TESTS=OFF -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DCMAKE_CUDA_COMPILER="$nvcc" -Wno-dev >/dev/null
cmake --build build/cuda -j"$(nproc)" --target mxo_cuda
wait "$formats"
${CMAKE_CUDA_COMPILER_LAUNCHER:-} "$nvcc" -std=c++20 -arch=sm_90 --fmad=false -Ibuild/cuda/include \
  -c examples/walk_suite.cu -o build/walk_suite.o
