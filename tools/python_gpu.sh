#!/bin/sh
# The Python package with its CUDA backend, on a machine with a GPU and a PyTorch of its own.
#   tools/python_gpu.sh --build [PYTHON]   makes build/python/gpu: the package, pytest and torchao
#                                          for Python 3.12 and later.  Needs nvcc 13, the package
#                                          index, and no GPU
#   tools/python_gpu.sh [ARGUMENT...]      runs the tests of torch with what is there, or pytest with
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
  "$pip" install -q --disable-pip-version-check --target "$here" pytest pytest-xdist hypothesis
  "$pip" install -q --disable-pip-version-check --target "$here" --no-deps ml_dtypes torchao
  export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
  PATH="$PATH:/usr/local/cuda/bin" CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" "$pip" install -q \
    --disable-pip-version-check --no-build-isolation --no-deps --target "$here" . \
    -C build-dir='build/python/gpu_{wheel_tag}' -C cmake.define.MXO_CUDA=ON \
    -C cmake.define.MXO_CUDA_PTX=OFF -C cmake.define.MXO_WERROR=ON
  find "$here" -name __pycache__ -prune -exec rm -rf {} +
  du -sh "$here"
  exit 0
fi

[ -d "$here/mxoracle" ] || { echo "python_gpu: found no $here, needs --build first" >&2; exit 2; }
[ $# -gt 0 ] || set -- python/tests/test_torch*.py
PYTHONPATH="$PWD/$here" exec "${PYTHON:-python3}" -P -m pytest -q -rs -s -p no:cacheprovider "$@"
