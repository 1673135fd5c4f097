"""What is expected of a product where the catalogue has no operator for it: real sums in doubles.

The catalogue sums codes and bf16.  Products of f16 and f32 operands, FP8 products whose scales are
f32, and attention are held here against sums of doubles whose own error is bounded; where that
error leaves a rounding open, the terms are added without any (math.fsum).
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mxoracle._errors import Error

U32, U64 = 2.0**-24, 2.0**-53
UP = 1 + 2.0**-40  # more than the few roundings with which a bound is computed
# type: the pattern of infinity, the integer that holds one
_TYPES = {
    torch.bfloat16: (0x7F80, torch.int16),
    torch.float16: (0x7C00, torch.int16),
    torch.float32: (0x7F800000, torch.int32),
}


def gamma(roundings: int, unit: float) -> float:
    """n u / (1 - n u): of n factors (1 + d), |d| <= u (Higham, 2nd ed., 3.1)."""
    total = roundings * unit
    return math.inf if total >= 1 else total / (1 - total) * UP


@dataclass(frozen=True)
class RealProduct:
    """y[r, n] = sum over k of x[r, k] w[g, n, k], g the group of row r: factors as doubles."""

    x: Tensor  # [R, K]
    w: Tensor  # [E, N, K]
    ends: Tensor  # [E]
    roundings: int = 0  # in f32, of a term by factors that are not summed: scales
    factor: float = 1.0  # at least the largest such factor: it multiplies what underflowed
    inexact: int = 0  # roundings of the doubles themselves: products of codes and f32 scales

    def _groups(self):
        start = 0
        for group, end in enumerate(self.ends.tolist()):
            yield group, start, max(start, end)
            start = max(start, end)

    def sums(self) -> tuple[Tensor, Tensor]:
        """The real sums to within gamma64, and the sums of magnitudes; NaN for rows of no group."""
        total = torch.full((self.x.shape[0], self.w.shape[1]), math.nan, dtype=torch.float64)
        sizes = total.clone()
        for group, start, end in self._groups():
            total[start:end] = self.x[start:end] @ self.w[group].t()
            sizes[start:end] = self.x[start:end].abs() @ self.w[group].abs().t()
        return total, sizes

    def owned(self) -> int:
        """Rows that a group has; rows after them are not compared."""
        return max([0, *self.ends.tolist()])

    def terms(self, row: int, column: int) -> list[float]:
        """What is added for one output.  Exact where the factors are."""
        group = int(torch.searchsorted(self.ends.long(), torch.tensor(row), right=True))
        return (self.x[row] * self.w[group, column]).tolist()


@dataclass(frozen=True)
class Held:
    """One output against the real sums."""

    elements: int
    differing: int  # are not the real number, rounded once
    beyond: int  # are outside of the bound
    worst: float  # the largest distance, as a multiple of the bound
    unbounded: int = 0  # of those that differ: no bound exists, a sum in f32 may overflow


def _value(pattern: Tensor, dtype: torch.dtype) -> Tensor:
    return pattern.to(_TYPES[dtype][1]).view(dtype).double()


def _interval(actual: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The reals that round to |actual|: from low to high; its sign; whether the ends are among
    them."""
    dtype = actual.dtype
    infinity, integer = _TYPES[dtype]
    bits = actual.view(integer).long()
    pattern = bits & (infinity | (infinity - 1))
    sign = torch.where(bits < 0, -1.0, 1.0).double()
    below = _value((pattern - 1).clamp(min=0), dtype)
    magnitude = _value(pattern, dtype)
    largest = _value(torch.tensor([infinity - 1]), dtype)
    step = largest - _value(torch.tensor([infinity - 2]), dtype)
    past = largest + step  # where the next number would be
    magnitude = torch.where(pattern == infinity, past, magnitude)
    low = torch.where(pattern == 0, 0.0, (below + magnitude) / 2)
    above = _value((pattern + 1).clamp(max=infinity), dtype)
    above = torch.where(pattern + 1 == infinity, past, above)
    high = torch.where(pattern == infinity, math.inf, (magnitude + above) / 2)
    closed = (pattern % 2 == 0) | (pattern == infinity)
    return low, high, sign, closed


def wrongly_rounded(actual: Tensor, product: RealProduct, total: Tensor, error: Tensor) -> Tensor:
    """Where `actual` is not the real sum rounded once to nearest, ties to even.  A zero of a zero
    sum may have either sign."""
    low, high, sign, closed = _interval(actual)
    value = total * sign
    right = (value - error > low) & (value + error < high)
    wrong = (value + error < low) | (value - error > high)
    special = ~total.isfinite() | actual.isnan()
    same = (total.isnan() & actual.isnan()) | (total == actual.double())
    wrong = torch.where(special, ~same, wrong)
    for row, column in torch.nonzero(~special & ~right & ~wrong).tolist():
        terms = [float(sign[row, column]) * term for term in product.terms(row, column)]
        ends = (float(low[row, column]), float(high[row, column]))
        over = math.fsum([*terms, -ends[0]])
        under = -1.0 if math.isinf(ends[1]) else math.fsum([*terms, -ends[1]])
        inside = over > 0 and under < 0
        touched = over == 0 or under == 0
        zero = ends[0] == 0 and over == 0
        wrong[row, column] = not (inside or zero or (touched and bool(closed[row, column])))
    return wrong


def against(actual: Tensor, total: Tensor, stray: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where no number within `stray` of `total` has `actual` as a nearest one; the distance as a
    multiple of what is allowed; and where nothing is known to be allowed."""
    low, high, sign, _ = _interval(actual)
    low = torch.where(low == 0, -high, low)  # those that round to a zero of either sign
    value, size, stray = total * sign, actual.double().abs(), stray * UP
    beyond = torch.maximum(low - value, value - high) > stray
    room = stray + torch.where(value < size, size - low, high - size)
    distance = torch.where(actual.isinf(), torch.where(beyond, math.inf, 0.0),
                           (value - size).abs() / room)
    special = ~total.isfinite()
    # Beyond f32's range nothing is expected.
    unowed = ~special & ~(total.abs() + stray <= torch.finfo(torch.float32).max)
    same = (total.isnan() & actual.isnan()) | (total == actual.double())
    beyond = torch.where(special, ~same, (beyond | actual.isnan()) & ~unowed)
    distance = torch.where(special | actual.isnan(), torch.where(beyond, math.inf, 0.0), distance)
    return beyond, torch.where(unowed, 0.0, distance), unowed


def shape_checked(actual: Tensor, expected: Sequence[int]) -> None:
    if actual.shape != expected:
        raise Error(f"found {list(actual.shape)}, needs {list(expected)}", "shape")


def hold(actual: Tensor, product: RealProduct) -> Held:
    """The output of one product against its real sums: rounded once, and in any order of additions
    in f32."""
    shape_checked(actual, (product.x.shape[0], product.w.shape[1]))
    rows = product.owned()
    total, sizes = (part[:rows] for part in product.sums())
    actual = actual[:rows].contiguous()
    terms = product.x.shape[1]
    own = gamma(terms + product.inexact, U64)
    sizes = sizes * (1 + 2 * own)
    error = torch.nan_to_num(sizes * own, nan=0.0, posinf=0.0)
    stray = sizes * (gamma(terms + product.roundings, U32) + own)
    stray = torch.nan_to_num(stray, nan=0.0, posinf=0.0)
    stray = stray + (terms * product.factor + product.roundings) * 2.0**-149
    beyond, distance, unowed = against(actual, total, stray)
    if product.inexact:
        wrong = actual.double() != total.to(actual.dtype).double()
    else:
        wrong = wrongly_rounded(actual, product, total, error)
    worst = float(distance.max()) if distance.numel() else 0.0
    return Held(actual.numel(), int(wrong.sum()), int(beyond.sum()), worst,
                int((wrong & unowed & ~beyond).sum()))  # fmt: skip


def doubles(side: Any) -> tuple[Tensor, Tensor]:
    """An operand as doubles, and its scales: one a row, or a row of them for blocks along K."""
    if not isinstance(side, tuple):
        return side.double(), torch.ones((), dtype=torch.float64)
    codes, scales = side
    if scales.dtype == torch.uint8:
        scales = scales.view(torch.float8_e8m0fnu).float()
    scales = scales.double()
    if scales.dim() < codes.dim():
        return codes.double() * scales.unsqueeze(-1), scales
    block = 32 if side[1].dtype == torch.uint8 else 128
    wide = scales.repeat_interleave(block, -1)[..., : codes.shape[-1]]
    return codes.double() * wide, scales
