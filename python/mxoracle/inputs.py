"""Inputs that need no file: an element is a function of seed, name and index.

The same bits as `<mxoracle/formats/inputs.h>` gives in C++ and CUDA, made by numpy or by torch on any device.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxoracle._errors import Error

DISTRIBUTIONS = (
    "normal", "wide", "outliers", "zero_lines", "saturating", "subnormal", "special",
)  # fmt: skip
_LOW = 0xFFFFFFFF
_CHUNK = 1 << 22  # elements at once: bounds the memory of the integers behind them


def stream_of(name: str) -> int:
    """FNV-1a, 32 bits, of the tensor's name."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = ((value ^ byte) * 0x01000193) & _LOW
    return value


def _philox(index: Any, stream: int, seed: int, last: int) -> list[Any]:
    """Philox4x32-10 of counters (index low, index high, stream, last): four arrays of int64."""
    zero = index * 0
    words = [index & _LOW, index >> 32, zero + stream, zero + last]
    low, high = seed & _LOW, (seed >> 32) & _LOW
    for _ in range(10):
        a_high, a_low = _product(0xD2511F53, words[0])
        b_high, b_low = _product(0xCD9E8D57, words[2])
        words = [b_high ^ words[1] ^ low, b_low, a_high ^ words[3] ^ high, a_low]
        low, high = (low + 0x9E3779B9) & _LOW, (high + 0xBB67AE85) & _LOW
    return words


def _product(factor: int, word: Any) -> tuple[Any, Any]:
    """The upper and lower 32 bits of factor * word, by halves: no step leaves 63 bits."""
    low = factor * (word & 0xFFFF)
    high = factor * (word >> 16) + (low >> 16)
    return high >> 16, ((high & 0xFFFF) << 16) | (low & 0xFFFF)


class _Numpy:
    def __init__(self) -> None:
        import numpy

        self.where = numpy.where
        self._np = numpy

    def index(self, begin: int, end: int) -> Any:
        return self._np.arange(begin, end, dtype=self._np.int64)

    def f32(self, x: Any) -> Any:
        return x.astype(self._np.float32)

    def from_bits(self, bits: Any) -> Any:
        return bits.astype(self._np.uint32).view(self._np.float32)

    def empty(self, elements: int, dtype: Any) -> Any:
        return self._np.empty(elements, dtype)

    def dtype(self, dtype: Any) -> Any:
        if dtype == "bfloat16":
            import ml_dtypes

            return self._np.dtype(ml_dtypes.bfloat16)
        return self._np.dtype("float32" if dtype is None else dtype)

    def cast(self, x: Any, dtype: Any) -> Any:
        with self._np.errstate(over="ignore"):  # infinities are results
            return x.astype(dtype)


class _Torch:
    def __init__(self, device: Any) -> None:
        import torch

        self._torch, self._device = torch, device
        self.where = torch.where

    def index(self, begin: int, end: int) -> Any:
        return self._torch.arange(begin, end, dtype=self._torch.int64, device=self._device)

    def f32(self, x: Any) -> Any:
        return x.to(self._torch.float32)

    def from_bits(self, bits: Any) -> Any:
        signed = self._torch.where(bits > 0x7FFFFFFF, bits - (1 << 32), bits)
        return signed.to(self._torch.int32).view(self._torch.float32)

    def empty(self, elements: int, dtype: Any) -> Any:
        return self._torch.empty(elements, dtype=dtype, device=self._device)

    def dtype(self, dtype: Any) -> Any:
        torch = self._torch
        return getattr(torch, dtype) if isinstance(dtype, str) else dtype or torch.float32

    def cast(self, x: Any, dtype: Any) -> Any:
        return x.to(dtype)


def _values(xp: Any, of: str, seed: int, stream: int, begin: int, end: int, columns: int) -> Any:
    index = xp.index(begin, end)
    total = -262140
    for word in _philox(index, stream, seed, 0):
        total = total + (word >> 16) + (word & 0xFFFF)
    x = xp.f32(total) * 2.0**-16
    if of == "normal":
        return x
    if of == "subnormal":
        return x * 2.0**-100 * 2.0**-30
    if of == "zero_lines":
        return xp.where(_philox(index // columns, stream, seed, 2)[0] % 8 == 0, x * 0 + 0.0, x)
    pick = _philox(index, stream, seed, 1)
    negative = pick[3] % 2
    if of == "wide":
        return x * xp.from_bits((pick[0] % 41 - 20 + 127) << 23)
    if of == "outliers":
        return xp.where(
            pick[0] % 256 == 0, x * xp.from_bits((pick[1] % 5 + 4 + 127) << 23), x
        )
    if of == "saturating":
        large = 14.0 + xp.f32(pick[1] % 256) * 2.0**-7
        return xp.where(pick[0] % 32 == 0, xp.where(negative == 0, large, -large), x)
    kind = pick[1] % 3
    bits = xp.where(kind == 0, kind * 0 + 0x7FC00000, xp.where(kind == 1, kind * 0 + 0x7F800000, kind * 0))
    return xp.where(pick[0] % 512 == 0, xp.from_bits(bits | (negative << 31)), x)


def tensor(
    name: str,
    shape: Sequence[int],
    *,
    seed: int = 0,
    distribution: str = "normal",
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """Tensor `name` of a suite's inputs, [shape], f32 or rounded to nearest even to `dtype`.

    A numpy array, or with `device` ("cpu", "cuda") a torch tensor made there.  Distributions:
    normal (standard deviation 0.82), wide (times 2^-20 to 2^20), outliers (one in 256 times 2^4 to
    2^8), zero_lines (one line in eight), saturating (one in 32 saturates under FLOOR), subnormal,
    special (one in 512 is NaN, infinity or zero).  Thread-safe.  Source: Philox4x32-10, Salmon et
    al., SC 2011; the key is the seed, the counter (index, stream of the name).
    """
    if distribution not in DISTRIBUTIONS:
        raise Error(
            f"inputs: distribution: found {distribution!r}, needs one of {', '.join(DISTRIBUTIONS)}"
        )
    extents = [int(extent) for extent in shape]
    if any(extent < 0 for extent in extents):
        raise Error(f"inputs: shape: found {extents}, needs extents of at least 0")
    if not 0 <= seed < 1 << 64:
        raise Error(f"inputs: seed: found {seed}, needs a number of 64 bits")
    xp = _Numpy() if device is None else _Torch(device)
    kind = xp.dtype(dtype)
    elements = 1
    for extent in extents:
        elements *= extent
    made = xp.empty(elements, kind)
    columns = extents[-1] if extents else 1
    for begin in range(0, elements, _CHUNK):
        end = min(begin + _CHUNK, elements)
        part = _values(xp, distribution, seed, stream_of(name), begin, end, columns)
        made[begin:end] = xp.cast(part, kind)
    return made.reshape(extents)
