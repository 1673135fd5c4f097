#!/bin/sh
# The Python package with its CUDA backend, on a machine with a GPU and a PyTorch of its own.
#   tools/python_gpu.sh --build [PYTHON]   makes build/python/gpu.tar.xz: the package, pytest and
#                                          torchao for Python 3.12 and later.  Needs nvcc 13, the
#                                          package index, and no GPU
#   tools/python_gpu.sh [ARGUMENT...]      runs the tests of torch with what is in it, or pytest with
#                                          ARGUMENTs; needs no network.  PYTHON names the interpreter
set -eu
cd "$(dirname "$0")/.."
here=build/python/gpu

if [ "${1:-}" = --build ]; then
  python=${2:-python3.12}
  tools=build/python/gpu_tools
  tools/setup.sh
  [ -x "$tools/bin/pip" ] || "$python" -m venv "$tools"
  pip="$tools/bin/pip"
  "$pip" install -q --disable-pip-version-check 'scikit-build-core>=0.10' 'nanobind>=2.4'
  rm -rf "$here"
  "$pip" install -q --disable-pip-version-check --target "$here" pytest
  "$pip" install -q --disable-pip-version-check --target "$here" --no-deps ml_dtypes torchao
  export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
  PATH="$PATH:/usr/local/cuda/bin" CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" "$pip" install -q \
    --disable-pip-version-check --no-build-isolation --no-deps --target "$here" . \
    -C build-dir='build/python-gpu-{wheel_tag}' -C cmake.define.MXO_CUDA=ON \
    -C cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON
  find "$here" -name __pycache__ -prune -exec rm -rf {} +
  rm -rf "$here"/torchao/*.so "$here/bin" "$here/test"  # kernels that torchao's emulation has no use for
  tar -C "$here" -cf - . | xz -T0 >"$here.tar.xz"
  ls -l "$here.tar.xz"
  exit 0
fi

[ -e "$here.tar.xz" ] || { echo "python_gpu: found no $here.tar.xz, needs --build first" >&2; exit 2; }
rm -rf "$here"
mkdir -p "$here"
tar -C "$here" -xJf "$here.tar.xz"
[ $# -gt 0 ] || set -- python/tests/test_torch*.py
TORCHAO_FORCE_SKIP_LOADING_SO_FILES=1 PYTHONPATH="$PWD/$here" exec "${PYTHON:-python3}" -P -m pytest -q -rs -s -p no:cacheprovider "$@"
