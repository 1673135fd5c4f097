"""Inputs that need no file: an element is a function of seed, name and index.

The same bits as `<mxoracle/inputs.h>` gives in C++ and CUDA, made by numpy or by torch on any device.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxoracle import _checks
from mxoracle._errors import Error

DISTRIBUTIONS = (
    "normal", "wide", "outliers", "zero_lines", "saturating", "subnormal", "special",
)  # fmt: skip
# Largest finite value, code of NaN, the type of ml_dtypes and torch.
_CODES = {
    "e4m3": (448.0, 0x7F, "float8_e4m3fn"),
    "e4m3fnuz": (240.0, 0x80, "float8_e4m3fnuz"),
    "e5m2": (57344.0, 0x7F, "float8_e5m2"),
    "e5m2fnuz": (57344.0, 0x80, "float8_e5m2fnuz"),
}
_FLOATS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
_LOW = 0xFFFFFFFF
_CHUNK = 1 << 22  # elements at once: bounds the memory of the integers behind them


def stream_of(name: str) -> int:
    """FNV-1a, 32 bits, of the tensor's name."""
    value = 0x811C9DC5
    _checks.text("inputs: name", name)
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
        if isinstance(dtype, str) and dtype.startswith(("bfloat", "float8")):
            import ml_dtypes

            return self._np.dtype(getattr(ml_dtypes, dtype))
        return self._np.dtype("float32" if dtype is None else dtype)

    def bytes(self, x: Any) -> Any:
        return x.view(self._np.uint8)

    def integers(self, x: Any, kind: str) -> Any:
        return self._np.asarray(x).astype(kind)

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

    def bytes(self, x: Any) -> Any:
        return x.view(self._torch.uint8)

    def integers(self, x: Any, kind: str) -> Any:
        return self._torch.as_tensor(x, device=self._device).to(getattr(self._torch, kind))

    def cast(self, x: Any, dtype: Any) -> Any:
        torch, narrow = self._torch, x.to(dtype)
        quiet = {torch.bfloat16: 0x7FC0, torch.float16: 0x7E00}.get(dtype)
        if quiet is None:
            return narrow
        # The NaN of a conversion is the device's; here it keeps its sign.
        nan = torch.where(x.view(torch.int32) < 0, quiet - 0x8000, quiet).to(torch.int16)
        return torch.where(x == x, narrow.view(torch.int16), nan).view(dtype)


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


def _extents(shape: Any) -> list[int]:
    try:
        found = [_checks.whole(extent) for extent in ([None] if isinstance(shape, (str, bytes)) else shape)]
    except TypeError:
        found = [None]
    if any(extent is None or extent < 0 for extent in found):
        raise _checks.refusal("inputs: shape", str(shape)[:50], "extents of at least 0")
    return found


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
    stream = stream_of(name)
    _checks.one_of("inputs: distribution", distribution, DISTRIBUTIONS)
    extents = _extents(shape)
    seed = _checks.whole_between("inputs: seed", seed, 0, 2**64 - 1)
    xp = _Numpy() if device is None else _Torch(device)
    try:
        kind = xp.dtype(dtype)
    except (TypeError, ValueError, AttributeError):
        raise _checks.refusal("inputs: dtype", dtype, "a type of floats") from None
    elements = 1
    for extent in extents:
        elements *= extent
    made = xp.empty(elements, kind)
    columns = extents[-1] if extents else 1
    for begin in range(0, elements, _CHUNK):
        end = min(begin + _CHUNK, elements)
        part = _values(xp, distribution, seed, stream, begin, end, columns)
        made[begin:end] = xp.cast(part, kind)
    return made.reshape(extents)


def _choose(xp: Any, token: Any, stream: int, seed: int, experts: int, top_k: int, hot: bool) -> list[Any]:
    """The experts of every token, slot by slot: different ones."""
    chosen: list[Any] = []
    few = 1 if experts < 8 else experts // 8
    for slot in range(top_k):
        pick = _philox(token, stream, seed, slot)
        expert = pick[0] % experts
        if hot:
            expert = xp.where(pick[1] % 2 == 0, pick[0] % few, expert)
        moved = True
        while moved:
            taken = expert < 0
            for before in chosen:
                taken = taken | (before == expert)
            moved = bool(taken.any())
            expert = xp.where(taken, (expert + 1) % experts, expert)
        chosen.append(expert)
    return chosen


def _integers(xp: Any, recipe: dict[str, Any], shape: list[int], seed: int) -> Any:
    kind, stream, name = recipe["kind"], stream_of(recipe["name"]), "int32"
    if kind == "integers":
        return xp.integers(recipe["values"], name)
    index = xp.index(0, shape[0])
    if kind == "order":
        first = int(_philox(xp.index(0, 1), stream, seed, 0)[0][0])
        return xp.integers((index * 2654435761 + first) % max(1, shape[0]), name)
    if kind == "group_of":
        return xp.integers(sum((index >= end) * 1 for end in recipe["values"]), name)
    top_k = recipe["top_k"] if kind == "mask" else shape[1]
    made = xp.integers([[0] * shape[1]] * shape[0], "uint8" if kind == "mask" else name)
    for slot, expert in enumerate(
        _choose(xp, index, stream, seed, recipe["experts"], top_k, kind == "hot_experts")
    ):
        if kind == "mask":
            made[index, expert] = 1
        else:
            made[:, slot] = expert
    return made


def operand(recipe: dict[str, Any], *, seed: int, device: Any = None) -> Any:
    """An operand by its recipe in the manifest of `mxo generate --op` or `--model`.

    numpy, or with `device` torch.  Codes and e8m0 scales are bytes (uint8).
    """
    shape, form, kind = [int(e) for e in recipe["shape"]], recipe["format"], recipe["kind"]
    xp = _Numpy() if device is None else _Torch(device)
    name = recipe["name"]
    if kind == "values":
        return tensor(
            name, shape, seed=seed, distribution=recipe["distribution"], dtype=_FLOATS[form],
            device=device,
        )  # fmt: skip
    if form in ("i32", "u8"):
        return _integers(xp, recipe, shape, seed)
    elements = 1
    for extent in shape:
        elements *= extent
    made = xp.empty(elements, xp.dtype("float32" if form == "f32" else "uint8"))
    for begin in range(0, elements, _CHUNK):
        end = min(begin + _CHUNK, elements)
        if kind == "codes":
            most, nan, dtype = _CODES[form]
            x = _values(xp, recipe["distribution"], seed, stream_of(name), begin, end, shape[-1]) * 64.0
            finite = xp.where(x > most, most, xp.where(x < -most, -most, xp.where(x == x, x, 0.0)))
            codes = xp.bytes(xp.cast(xp.f32(finite), xp.dtype(dtype)))
            made[begin:end] = xp.where(x == x, codes, nan)
            continue
        words = _philox(xp.index(begin, end), stream_of(name), seed, 0)
        exponent = words[0] % 9 - 4 + 127
        if form == "e8m0":
            made[begin:end] = exponent
        else:
            fraction = words[1] >> 9 if kind == "scales" else 0
            made[begin:end] = xp.from_bits(exponent << 23 | fraction)
    return made.reshape(shape)
