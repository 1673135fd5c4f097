#!/bin/sh
# Builds, tests and times the CUDA backend on a machine with a GPU; prints a short table.
#   tools/gpu_check.sh              the tests, the benchmarks
#   tools/gpu_check.sh --all        and every float through the device's converters, and whole
#                                   results of the benchmarks against cpu
#   tools/gpu_check.sh --sanitize   compute-sanitizer over the tests instead of the benchmarks
# Needs nvcc 13 or newer and the packages of tools/setup.sh.  BUILD names the build directory.
set -eu
cd "$(dirname "$0")/.."

mode="${1:-}"
case "$mode" in
  ""|--all|--sanitize) ;;
  *) echo "usage: tools/gpu_check.sh [--all|--sanitize]" >&2; exit 2 ;;
esac
build="${BUILD:-build/cuda}"
logs="$build/gpu_check"
PATH="$PATH:/usr/local/cuda/bin"

# NCCL from its package, or the one that came with PyTorch.
if [ -z "${NCCL_ROOT:-}" ] && [ ! -e /usr/include/nccl.h ]; then
  NCCL_ROOT=$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0])' 2>/dev/null || true)
fi
nccl=OFF
if [ -n "${NCCL_ROOT:-}" ] || [ -e /usr/include/nccl.h ]; then nccl=ON; fi
gpus=$(nvidia-smi -L | wc -l)

mkdir -p "$logs"
[ -f "$build/CMakeCache.txt" ] || generator="-G ${CMAKE_GENERATOR:-Ninja}"
# shellcheck disable=SC2086  # the generator is two words
cmake -S . -B "$build" ${generator:-} -DCMAKE_BUILD_TYPE=Release -DMXO_CUDA=ON -DMXO_TESTS=ON \
  -DMXO_BENCH=ON -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DMXO_NCCL=$nccl -DNCCL_ROOT="${NCCL_ROOT:-}" -Wno-dev >"$logs/configure.log"
cmake --build "$build" -j"$(nproc)" >"$logs/build.log" 2>&1 ||
  { tail -40 "$logs/build.log" >&2; exit 1; }

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
failed=0
# verdict NAME COMMAND...: one line of the table, the rest in a log.
verdict() {
  name=$1
  shift
  if "$@" >"$logs/$name.log" 2>&1; then
    printf '%-28s passed  %s\n' "$name" "$(grep -E 'PASSED|^Ran|ERROR SUMMARY|RACECHECK SUMMARY' "$logs/$name.log" | tail -1)"
  else
    printf '%-28s FAILED  see %s\n' "$name" "$logs/$name.log"
    failed=1
  fi
}

if [ "$mode" = --sanitize ]; then
  small='-*HundredThousand*:*HostsBytesForEvery*:*PadsAndUnpads*:*LaysScalesOut*:*CudaSuites*:*OverNccl*:*AFaultInAKernel*:*OutOfMemory*'
  # racecheck slows shared memory down some forty times: the large products are left out.
  for tool in memcheck racecheck; do
    [ "$tool" = memcheck ] || small="$small:*OfSeveralTiles*:*OfLongLines*:*WholeMatrices*:*WriteOutsideItsOperands*"
    verdict "$tool" compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$build/tests/cuda_test" --gtest_filter="$small"
  done
  exit $failed
fi

verdict cuda_test "$build/tests/cuda_test"
# Headers in a kernel of a user, whose nvcc fuses where it can: the bits of the host.
if nvcc -std=c++20 -arch=sm_90 --fmad=true -I "$build/include" tests/consumer/device.cu \
  -o "$logs/device_consumer" >"$logs/device_consumer_build.log" 2>&1; then
  verdict device_consumer "$logs/device_consumer"
else
  printf '%-28s FAILED  see %s\n' device_consumer "$logs/device_consumer_build.log"
  failed=1
fi
verdict cli_cuda python3 tests/tools/cli_cuda_test.py "$build/mxo"
[ "$mode" != --all ] || verdict cuda_exhaustive_test "$build/tests/cuda_exhaustive_test"
# timed NAME COMMAND...: what a benchmark prints.
timed() {
  name=$1
  shift
  if "$@" >"$logs/$name.log" 2>&1; then cat "$logs/$name.log"; else
    printf '%-28s FAILED  see %s\n' "$name" "$logs/$name.log"
    failed=1
  fi
}
for bench in "$build"/bench/cuda_*_bench; do
  check=
  [ "$mode" != --all ] || [ "$(basename "$bench")" != cuda_memory_bench ] || check=--check
  timed "$(basename "$bench")" "$bench" $check
done
# Every output of the large products of MX codes: exact, and by the instruction.
[ "$mode" != --all ] || timed cuda_products_whole "$build/bench/cuda_products_bench" \
  131072 7168 2048 8 'e4m3 + e8m0 -> bf16' 131072
ranks=2
while [ "$nccl" = ON ] && [ "$ranks" -le "$gpus" ] && [ "$ranks" -le 8 ]; do
  timed "cuda_layer_bench_$ranks" "$build/bench/cuda_layer_bench" 131072 7168 2048 8 1 "$ranks"
  ranks=$((ranks * 2))
done
if python3 -c 'import torch' 2>/dev/null; then python3 bench/rival_torch.py; fi
# The tables of users, whole, beside torch's.
for table in pad kernels linear layer; do
  timed "bench_$table" "$build/mxo" bench "$table" --backend cuda --repeats 3
done
timed bench_pipelines "$build/mxo" bench pipelines --backend cuda --model mixtral --scale 0.5 --ranks 1
exit $failed
