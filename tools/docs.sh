#!/bin/sh
# The reference of the public headers as HTML, in build/docs/html; warnings are errors.
set -eu
cd "$(dirname "$0")/.."

tools/setup.sh --docs
[ -f build/release/CMakeCache.txt ] || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
cmake --preset release -Wno-dev >/dev/null
cmake --build --preset release --target mxo_headers >/dev/null
mkdir -p build/docs
{
  cat docs/Doxyfile
  echo "INPUT = build/release/include/mxoracle"
  echo "OUTPUT_DIRECTORY = build/docs"
} | doxygen - 2>build/docs/warnings.txt
if [ -s build/docs/warnings.txt ]; then
  cat build/docs/warnings.txt >&2
  exit 1
fi
echo "docs: build/docs/html/index.html"
