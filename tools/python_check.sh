#!/bin/sh
# The tests of the Python package with PyTorch, which comes from the package index: about 4 GB.
set -eu
exec "$(dirname "$0")/python_test.sh" --torch
