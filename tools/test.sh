#!/bin/sh
# Installs what is missing, builds, and runs the tests, those of the Python package last.
#   tools/test.sh               the quick tier
#   tools/test.sh --all         and the exhaustive one: every input that exists
#   tools/test.sh --endurance   and ten million random dot products for each model of a machine
set -eu
cd "$(dirname "$0")/.."

case "${1:-}" in
  "") tier=quick ;;
  --all) tier=all ;;
  --endurance) tier=endurance ;;
  *) echo "usage: tools/test.sh [--all | --endurance]" >&2; exit 2 ;;
esac

tools/setup.sh
# A build folder that is there keeps its generator.
[ -f build/release/CMakeCache.txt ] || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
cmake --preset release -Wno-dev -DMXO_MPI=ON -DMXO_PYTHON=OFF >/dev/null
[ $tier = quick ] && target=quick_tests || target=all
cmake --build --preset release -j"$(nproc)" --target $target
ctest --preset "$tier" -j"$(nproc)"
tools/python_test.sh
