"""mxoracle: bit-exact reference and numerics oracle for FP8 mixture-of-experts training.

Every operator of `mxo list ops` is a function here, and `run` calls any of them by name; operands
are numpy arrays, torch CPU tensors, or anything that speaks DLPack.
"""
from __future__ import annotations

import importlib
from typing import Any

from mxoracle import _operators
from mxoracle._call import run
from mxoracle._command import show
from mxoracle._errors import Error, Unsupported
from mxoracle._judge import Comparison, Explanation, compare, explain, judge, load, save
from mxoracle._operators import *  # noqa: F403
from mxoracle._prepared import PreparedWeights
from mxoracle._suites import Case, suite_cases
from mxoracle._tables import (
    list_backends,
    list_formats,
    list_ops,
    list_suites,
    list_sums,
    operators,
)
from mxoracle.vectors import VectorCase, digests

__all__ = [
    "Case",
    "Comparison",
    "Error",
    "Explanation",
    "PreparedWeights",
    "Unsupported",
    "VectorCase",
    "compare",
    "digests",
    "explain",
    "judge",
    "list_backends",
    "list_formats",
    "list_ops",
    "list_suites",
    "list_sums",
    "load",
    "operators",
    "run",
    "save",
    "show",
    "suite_cases",
    *_operators.__all__,
]

_SUBMODULES = {"inputs", "plot", "strategies", "torch", "vectors"}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module("mxoracle." + name)
    raise AttributeError(f"module 'mxoracle' has no attribute '{name}'")
