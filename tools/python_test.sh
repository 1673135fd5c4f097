#!/bin/sh
# Installs the Python package into an environment of its own and runs its tests there.
#   tools/python_test.sh            with numpy: what tools/test.sh runs
#   tools/python_test.sh --torch    and with PyTorch, from the package index: about 4 GB
#   tools/python_test.sh --needs    only makes that environment, beside a build
# Needs the package index for nanobind, numpy and pytest.  The library's objects are those of
# build/release, where there are any.
set -eu
cd "$(dirname "$0")/.."

extras=test
venv=build/python/venv
case "${1:-}" in
  "" | --needs) ;;
  --torch) extras=test,torch,torchao,examples venv=build/python/torch ;;
  *) echo "usage: tools/python_test.sh [--torch | --needs]" >&2; exit 2 ;;
esac

tools/setup.sh
[ -x "$venv/bin/pytest" ] || python3 -m venv "$venv"
# What the package names as its needs, without the package.
"$venv/bin/python" - "$extras" <<'EOF' >"$venv/needs.txt"
import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
needs = list(project["build-system"]["requires"])
for extra in sys.argv[1].split(","):
    needs += project["project"]["optional-dependencies"][extra]
print("\n".join(needs))
EOF
"$venv/bin/pip" install -q --disable-pip-version-check -r "$venv/needs.txt"
[ "${1:-}" != --needs ] || exit 0

[ -f build/release/CMakeCache.txt ] || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
cmake --preset release -Wno-dev -DMXO_MPI=ON >/dev/null
# The compiler of that build, or pip would name Python's own and compile everything again.
CXX=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' build/release/CMakeCache.txt)
export CXX
CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" "$venv/bin/pip" install -q --disable-pip-version-check \
  --no-build-isolation --no-deps --force-reinstall . -C build-dir=build/release \
  -C cmake.define.MXO_TESTS=ON -C cmake.define.MXO_MPI=ON -C cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON
export OMP_WAIT_POLICY=passive  # threads that wait leave the cores to the other processes
"$venv/bin/python" -P -m pytest -q -n "$(nproc)" -p no:cacheprovider python/tests
