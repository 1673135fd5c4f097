"""Strategies for hypothesis: tensors and group ends that reach the edges of formats and blocks.

`pip install hypothesis`; draw from them with `@given`.  An example that fails is shrunk, and
`kept(...)` writes it as a case that `mxo explain --op` takes.
"""
from __future__ import annotations

import shlex
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
from hypothesis import strategies as st

from mxoracle import _call, _judge
from mxoracle._errors import Error

# What a block's edge cases are made of, as the bits of an f32.
POISON = {
    "nan": 0x7FC00000,
    "negative nan": 0xFFC00000,
    "infinity": 0x7F800000,
    "negative infinity": 0xFF800000,
    "largest": 0x7F7FFFFF,
    "least normal": 0x00800000,
    "least subnormal": 0x00000001,
    "negative zero": 0x80000000,
}
_EDGES = [0.0, 1.0, 1.75, 1.9375, 448.0, 464.0, 480.0, 240.0, 248.0, 57344.0, 61440.0, 2.0**-9]


def _value(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def elements(poison: bool = True) -> st.SearchStrategy[float]:
    """Floats of 32 bits: ordinary ones, ends and ties of the small formats at any exponent, and
    with `poison` NaN, infinities, subnormals, the largest."""
    edges = st.builds(
        lambda value, exponent, sign: sign * value * 2.0**exponent,
        st.sampled_from(_EDGES),
        st.integers(-100, 100),
        st.sampled_from([1.0, -1.0]),
    )
    ordinary = st.floats(-1000.0, 1000.0, width=32)
    kinds = [ordinary, edges]
    if poison:
        kinds.append(st.sampled_from([_value(bits) for bits in POISON.values()]))
    return st.one_of(kinds)


@st.composite
def tensors(
    draw: Any,
    rows: int | st.SearchStrategy[int] = st.integers(1, 8),
    columns: int | st.SearchStrategy[int] = st.sampled_from([32, 64, 96]),
    dtype: Any = numpy.float32,
    block: int = 32,
    poison: bool = True,
) -> numpy.ndarray:
    """A tensor [rows, columns].  Each block of `block` columns is random with one magnitude, constant,
    zero, or random with a few special elements in random places.

    Small examples come first, so that a failure shrinks to one block and one element.
    """
    r = rows if isinstance(rows, int) else draw(rows)
    k = columns if isinstance(columns, int) else draw(columns)
    x = numpy.zeros((r, k), numpy.float32)
    generator = numpy.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    for row in range(r):
        for start in range(0, k, block):
            part = x[row, start : start + block]
            kind = draw(st.sampled_from(["zero", "same", "random", "planted"]))
            if kind == "same":
                part[:] = draw(elements(poison))
            if kind in ("random", "planted"):
                part[:] = numpy.ldexp(
                    generator.standard_normal(len(part)), draw(st.integers(-60, 60))
                )
            if kind == "planted":
                places = draw(st.lists(st.integers(0, len(part) - 1), min_size=1, max_size=3))
                for place in places:
                    part[place] = draw(elements(poison))
    with numpy.errstate(over="ignore", invalid="ignore"):
        return x.astype(dtype)


@st.composite
def group_ends(
    draw: Any, rows: int, groups: int | st.SearchStrategy[int] = st.integers(1, 4), multiple: int = 1
) -> numpy.ndarray:
    """Inclusive cumulative ends of groups of `rows` rows, i32: empty groups, groups of one row, all
    rows in one group, rows that belong to no group."""
    count = groups if isinstance(groups, int) else draw(groups)
    steps = rows // multiple
    ends = sorted(draw(st.lists(st.integers(0, steps), min_size=count, max_size=count)))
    if draw(st.booleans()):
        ends[-1] = steps
    return numpy.array(ends, numpy.int32) * numpy.int32(multiple)


_OF_JUDGE = ("gate", "claimed_sum", "backend", "threads")


def kept(path: str | Path, op: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any],
         **params: Any) -> None:  # fmt: skip
    """Raises AssertionError, with a command, unless `outputs` are those of `op`.  Keeps the operands of
    the last failure, which under hypothesis is the smallest, as a file for `mxo run` and `mxo explain`,
    and its outputs beside it (`path` with `.actual`)."""
    comparison = _judge.judge(op, inputs, outputs, **params)
    if comparison:
        return
    path = Path(path)
    if path.suffix != ".safetensors":
        raise Error(f"kept: found '{path}', needs a path that ends in .safetensors", "file")
    told = _call.parameters({k: v for k, v in params.items() if k not in _OF_JUDGE})
    said = {"mxo.op": op, **{f"mxo.set.{key}": str(value) for key, value in told.items()}}
    actual = path.with_suffix(".actual.safetensors")
    _judge.save(path, dict(inputs), said)
    _judge.save(actual, dict(outputs))
    settings = "".join(f" --set {shlex.quote(f'{key}={value}')}" for key, value in told.items())
    files = " ".join(shlex.quote(str(file.absolute())) for file in (path, actual))
    raise AssertionError(
        f"{op} is not what the oracle gives; operands in {path}\n{comparison}\n"
        f"repeat: mxo explain --op {op}{settings} {files}"
    )
