"""What codes and scales lose of the operands of a product, and the product with them."""
from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mxoracle.torch.operators import backend_of
from mxoracle.torch.recipes import Layer


@dataclass(frozen=True)
class Measured:
    """One operand of one product of one expert, as its codes and scales have it."""

    step: int
    layer: str
    product: str  # y, dx or dw
    operand: str  # x, w or dy; of a result, its own name
    expert: int
    tokens: int
    sqnr: float  # to the operand before it was quantised, or the product of such; dB, or infinite
    saturated: float = 0.0  # share of elements beyond the format's largest
    underflowed: float = 0.0  # share of elements that became zero
    scales: str = ""  # how many scales there are of each power of two: "-9:12 -8:4"
    bound: float = -math.inf  # the least SQNR where elements are rounded and none saturates or becomes zero

    @property
    def departs(self) -> bool:
        return not self.sqnr >= self.bound  # a NaN departs

    def __str__(self) -> str:
        return (f"{self.operand} of {self.product} of {self.layer}, expert {self.expert}, step {self.step}: "
                f"{self.sqnr:.2f} dB, {self.saturated:.3%} saturated, {self.underflowed:.3%} underflowed")  # fmt: skip


def _bound(kind: torch.dtype) -> float:
    """Rounding moves an element by half a step of its last bit at most: 24.08 dB for e4m3."""
    return -20 * math.log10(torch.finfo(kind).eps / 2)


def _values(codes: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """What codes and scales stand for, and the scale of every element."""
    scales = scales.float()
    for axis in (-2, -1):
        rows, blocks = codes.shape[axis], scales.shape[axis]
        if blocks != rows:
            size = -(-rows // blocks)
            size = size if blocks == 1 else 1 << (size - 1).bit_length()
            scales = scales.repeat_interleave(size, axis).narrow(axis, 0, rows)
    return codes.float() * scales, scales


def _sqnr(exact: Tensor, found: Tensor) -> float:
    noise = (exact.double() - found.double()).square().sum()
    return math.inf if noise == 0 else float(10 * torch.log10(exact.double().square().sum() / noise))


def _numbers(exact: Tensor, codes: Tensor, scales: Tensor) -> tuple[float, float, float, str, float]:
    """SQNR, shares and histogram of one expert's operand."""
    kind = codes.dtype
    values, spread = _values(codes, scales)
    exact = exact.float()
    largest, step = torch.finfo(kind).max, torch.finfo(kind).eps
    edge = largest + step * 2 ** math.floor(math.log2(largest)) / 2
    count = max(1, exact.numel())
    saturated = int((exact.abs() > edge * spread).sum()) / count
    underflowed = int(((exact != 0) & (values == 0)).sum()) / count
    positive = scales.float().flatten()
    powers, counts = positive[positive > 0].log2().floor().int().unique(return_counts=True)
    words = " ".join(f"{power}:{count}" for power, count in zip(powers.tolist(), counts.tolist()))
    return _sqnr(exact, values), saturated, underflowed, words, _bound(kind)


def measured(step: int, layer: str, forward: bool, call: dict[str, Any], out: Any) -> list[Measured]:
    """Of one call of a linear layer, or of its gradients, and what it gave."""
    rows = []
    for product, operand, exact, scaled, ends, contracted in _operands(forward, call):
        for expert, tokens, *parts in _by_expert(operand, exact, scaled, ends, contracted):
            rows.append(Measured(step, layer, product, operand, expert, tokens, *_numbers(*parts)))
    for product, expert, tokens, sqnr in _results(forward, call, out):
        rows.append(Measured(step, layer, product, product, expert, tokens, sqnr))
    return rows


def _operands(forward: bool, call: dict[str, Any]) -> Iterable[tuple]:
    """(product, operand, exact, (codes, scales), ends, whether tokens are contracted) of a call."""
    layer = Layer(call["recipe"], call["format"], "exact", backend_of(call["x"]))
    row, x, w, ends = layer.row, call["x"], call["w"], call["group_ends"]
    if not row.tokens:
        return
    if forward:
        yield "y", "x", x, layer.scaled(x, row.tokens, layer.format), ends, False
        yield "y", "w", w, layer.scaled(w, row.weight, layer.format, weight=True), ends, False
        return
    dy, wanted = call["dy"], (call.get("only") or "dx,dw").split(",")
    if "dx" in wanted:
        yield "dx", "dy", dy, layer.scaled(dy, row.tokens, layer.gradients), ends, False
        turned = w.transpose(1, 2)
        yield "dx", "w", turned, layer.scaled(turned, row.weight, layer.format, weight=True), ends, False
    if "dw" in wanted and not row.wgrad_high:
        for name, side, format in (("dy", dy, layer.gradients), ("x", x, layer.format)):
            yield "dw", name, side, functools.partial(_along_tokens, layer, format), ends, True


def _results(forward: bool, call: dict[str, Any], out: Any) -> Iterable[tuple[str, int, int, float]]:
    """(product, expert, tokens, SQNR) of results, to f32 products of operands before quantising."""
    if not Layer(call["recipe"], call["format"], "exact", "cpu").row.tokens:
        return
    names = ["y"] if forward else (call.get("only") or "dx,dw").split(",")
    results = dict(zip(names, [out] if forward else out))
    start = 0
    for expert, end in enumerate(call["group_ends"].tolist()):
        rows = slice(start, max(start, end))
        tokens, start = rows.stop - rows.start, rows.stop
        if not tokens:
            continue
        x, w = call["x"][rows].float(), call["w"][expert].float()
        if forward:
            bias = call["bias"]
            y = x @ w.t() + (0 if bias is None else bias[expert] if bias.dim() == 2 else bias)
            yield "y", expert, tokens, _sqnr(y, results["y"][rows])
            continue
        dy = call["dy"][rows].float()
        if "dx" in results:
            yield "dx", expert, tokens, _sqnr(dy @ w, results["dx"][rows])
        if "dw" in results:
            yield "dw", expert, tokens, _sqnr(dy.t() @ x, results["dw"][expert])


def _along_tokens(layer: Layer, format: str, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Of one group, whose last block is filled with zeros."""
    lacking = -len(rows) % layer.row.alignment
    padded = torch.nn.functional.pad(rows, (0, 0, 0, lacking))
    codes, scales = layer.scaled(padded, layer.row.along_tokens, format)
    return codes.narrow(0, 0, len(rows)), scales


def _by_expert(operand: str, exact: Tensor, scaled: Any, ends: Tensor, contracted: bool):
    """(expert, tokens, exact, codes, scales) of every expert that has tokens."""
    start = 0
    for expert, end in enumerate(ends.tolist()):
        rows = slice(start, max(start, end))
        tokens, start = rows.stop - rows.start, rows.stop
        if not tokens:
            continue
        if contracted:  # blocks start with the group
            yield expert, tokens, exact[rows], *scaled(exact[rows])
        elif operand == "w":
            yield expert, tokens, exact[expert], scaled[0][expert], scaled[1][expert]
        else:
            yield expert, tokens, exact[rows], scaled[0][rows], scaled[1][rows]
