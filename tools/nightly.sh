#!/bin/sh
# The second gate: every input that exists, the sanitizers over explain and the commands, fuzzing, threads,
# CUDA's warnings.  Run before an issue is called resolved; the last run is recorded in docs/testing.md.
#   tools/nightly.sh               about an hour on two cores
#   tools/nightly.sh --endurance   and ten million random dot products for each model of a machine
set -eu
cd "$(dirname "$0")/.."

tier=--all
case "${1:-}" in
  "") ;;
  --endurance) tier=--endurance ;;
  *) echo "usage: tools/nightly.sh [--endurance]" >&2; exit 2 ;;
esac
tools/setup.sh --cache
. tools/compiler_cache.sh
[ -f build/release/CMakeCache.txt ] || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"

echo "== every input there is"
tools/test.sh $tier

echo "== AddressSanitizer and UBSan over the whole quick tier"
cmake --preset asan -Wno-dev >/dev/null
cmake --build --preset asan -j"$(nproc)" --target quick_tests
# Programs outside are built without the sanitizers; scripts that only read our sources have read them.
ctest --preset asan -j"$(nproc)" -E "^consumer/|^house/|_NOT_BUILT"

echo "== libFuzzer: half a minute for each kind of file that strangers write"
cmake --build --preset asan -j"$(nproc)" --target fuzz
FUZZ_SEED=1 tools/fuzz.sh 30

echo "== ThreadSanitizer: threads that share a backend, and threads that have one each"
cmake --preset tsan -Wno-dev >/dev/null
cmake --build --preset tsan -j"$(nproc)" --target threads_test
ctest --preset tsan -j"$(nproc)"

echo "== CUDA: formats/ as device code and the backend, warnings as errors"
tools/cuda_build.sh
echo "nightly: all of it passed on $(git rev-parse --short HEAD), $(date -u +%F)"
