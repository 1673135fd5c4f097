"""Products of PyTorch as calls of the catalogue: which operator, which operands, which output."""
from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mxoracle._arrays import NAMES
from mxoracle.torch import fp4, scaled
from mxoracle.torch.attention import Attention
from mxoracle.torch.reals import Held, RealProduct, doubles, hold
from mxoracle.torch.scaled import Scales


@dataclass(frozen=True)
class Product:
    """One product: y[r, n] = sum over k of x[r, k] w[g, n, k], or its weight gradient
    dw[g, n, k] = sum over the rows r of group g of dy[r, n] x[r, k].  Without an operator `op` the
    catalogue does not write its type, and it is held against sums of doubles."""

    op: str
    inputs: dict[str, Any]
    output: str
    actual: Tensor
    parameters: dict[str, Any]
    biased: bool = False  # the last k is a bias, 1 times itself
    device: torch.device = torch.device("cpu")  # that computed it

    bits = True  # its real sum, rounded once, is what is expected

    @property
    def elements(self) -> int:
        """Of the output that there is a sum for: rows that no group has are without one."""
        ends = self.inputs["group_ends"]
        owned = self.output in ("dw", "dbias") or max([0, *ends.tolist()]) > 0
        return self.actual.numel() if owned else 0

    @property
    def shape(self) -> tuple[int, ...]:
        """That an output y or dw needs."""
        x, w, dy = (side[0] if isinstance(side, tuple) else side for side in
                    (self.inputs.get(name) for name in ("x", "w", "dy")))  # fmt: skip
        if self.output == "dw":
            return len(self.inputs["group_ends"]), dy.shape[1], x.shape[1]
        return len(x), w.shape[-2]

    @property
    def macs(self) -> int:
        sides = [value for name, value in self.inputs.items() if name != "group_ends"]
        shapes = [side[0].shape if isinstance(side, tuple) else side.shape for side in sides]
        if self.output == "dw":
            return shapes[0][0] * shapes[0][1] * shapes[1][1]
        return shapes[0][0] * shapes[0][1] * shapes[1][-2]

    def real(self) -> RealProduct | None:
        """Its factors as doubles; None for what is more than one product."""
        if self.output != "y" or self.op == "grouped_linear":
            return None
        x, w = (doubles(self.inputs[name]) for name in ("x", "w"))
        scales = sum(isinstance(self.inputs[name], tuple) for name in ("x", "w"))
        sizes = [float(side[1].abs().nan_to_num().max()) for side in (x, w) if side[1].numel()]
        factor = max(1.0, math.prod(sizes))
        # Of a term: the product with each scale, and a block's sum in the sum of blocks.
        return RealProduct(x[0], w[0], self.inputs["group_ends"], 4 * scales, factor,
                           3 * (scales > 0))  # fmt: skip

    def held(self) -> Held:
        """Against sums of doubles."""
        parts = [hold(part.actual, part.real()) for part in self._groups()]
        return Held(
            sum(part.elements for part in parts),
            sum(part.differing for part in parts),
            sum(part.beyond for part in parts),
            max((part.worst for part in parts), default=0.0),
            sum(part.unbounded for part in parts),
        )

    def _groups(self) -> list[Product]:
        """As forward products: a weight gradient is one a group, of its rows."""
        if self.output != "dw":
            return [self]
        parts, start = [], 0
        for group, end in enumerate(self.inputs["group_ends"].tolist()):
            dy, x = (_of_group(self.inputs[name], start, end) for name in ("dy", "x"))
            parts.append(plain(dy.t(), x.t()[None], even_ends(dy.shape[1]), self.actual[group]))
            start = max(start, end)
        return parts

    @property
    def by_rows(self) -> bool:
        """True if rows of the output need only the same rows of one operand."""
        return self.op != "grouped_linear" or self.output == "y"

    def sampled(self, macs: int) -> Product | None:
        """The same product of some rows of the output only, spread evenly, of at most `macs`; None
        where it cannot be cut."""
        if self.macs > macs and not self.by_rows:
            return None
        extent = self.actual.shape[1 if self.output == "dw" else 0]
        return self.of_rows(extent * macs // max(self.macs, 1))

    def of_rows(self, count: int) -> Product:
        """The same product of `count` rows of the output, spread evenly; at least one."""
        axis = 1 if self.output == "dw" else 0
        extent = self.actual.shape[axis]
        if count >= extent:
            return self
        rows = _spread(extent, count)
        side = "dy" if self.output == "dw" else "x"
        inputs = {**self.inputs, side: _lines(self.inputs[side], rows, axis)}
        if axis == 0:
            ends = inputs["group_ends"].long()
            inputs["group_ends"] = torch.searchsorted(rows, ends).to(torch.int32)
        return replace(self, inputs=inputs, actual=self.actual.index_select(axis, rows))

    def corner(self, rows: int) -> Product:
        """At most `rows` rows and as many columns of a product's output, spread evenly.  All
        columns of an expert layer, whose recipe may scale several columns of w together."""
        few = self.of_rows(rows)
        if self.op == "grouped_linear":
            return few
        last = few.actual.dim() - 1
        columns = _spread(few.actual.shape[last], rows)
        side = "x" if self.output == "dw" else "w"
        inputs = {**few.inputs, side: _lines(few.inputs[side], columns, 1)}
        return replace(few, inputs=inputs, actual=few.actual.index_select(last, columns))


def corner_of(actual: Tensor, product: Product, rows: int) -> Tensor:
    """Of a tensor in the shape of the output of `product`, the elements that `corner` keeps."""
    first, last = actual.dim() - 2, actual.dim() - 1
    part = actual.index_select(first, _spread(actual.shape[first], rows))
    if product.op == "grouped_linear":
        return part
    return part.index_select(last, _spread(actual.shape[last], rows))


def _spread(extent: int, count: int) -> Tensor:
    """`count` indices below `extent`, or all of them."""
    return torch.linspace(0, extent - 1, max(1, min(extent, count))).round().long().unique()


def _lines(side: Any, lines: Tensor, axis: int) -> Any:
    """Some rows (axis 0) or columns (axis 1) of an operand, and their scales."""
    if isinstance(side, tuple):
        return tuple(_lines(part, lines, axis) for part in side)
    bits = side.view(torch.uint8) if side.element_size() == 1 else side
    return bits.index_select(axis, lines).view(side.dtype)


def _of_group(side: Tensor, start: int, end: int) -> Tensor:
    """The rows of one group, as a contraction of at least one term; without scales."""
    return side[start:end] if end > start else side.new_zeros((1, side.shape[1]))


def even_ends(rows: int, groups: int = 1) -> Tensor:
    return torch.arange(1, groups + 1, dtype=torch.int32) * (rows // max(groups, 1))


def type_name(actual: Tensor) -> str:
    return NAMES[str(actual.dtype).removeprefix("torch.")]


FLOATS = (torch.bfloat16, torch.float16, torch.float32)


def written(op: str, actual: Tensor) -> str:
    """The operator, where it writes that type."""
    return "" if actual.dtype == torch.float16 else op


def plain(x: Tensor, w: Tensor, ends: Tensor, actual: Tensor) -> Product | None:
    return _of_floats("grouped_matmul", {"x": x, "w": w}, ends, "y", actual)


def _of_floats(op: str, sides: dict, ends: Tensor, output: str, actual: Tensor) -> Product | None:
    """Of operands without scales."""
    kinds = {side.dtype for side in sides.values()}
    if not kinds <= set(FLOATS) or actual.dtype not in FLOATS:
        return None
    inputs = {**sides, "group_ends": ends}
    return Product(written(op, actual), inputs, output, actual, {"out": type_name(actual)})


def wgrad(dy: Tensor, x: Tensor, ends: Tensor, actual: Tensor) -> Product | None:
    return _of_floats("grouped_matmul_wgrad", {"dy": dy, "x": x}, ends, "dw", actual)


def as_bf16(product: Product) -> Product | None:
    """An expert layer's product as that of its operands in bf16, whatever its recipe rounds them
    to; None where there is no such: a bias, a sum of columns, operands in f32."""
    if product.op != "grouped_linear":
        return product
    x, w, ends = (product.inputs[name] for name in ("x", "w", "group_ends"))
    dy = product.inputs.get("dy")
    sides = [getattr(side, "dtype", None) for side in (x, w, dy) if side is not None]
    if any(kind != torch.bfloat16 for kind in sides) or "bias" in product.inputs:
        return None
    if product.output == "y":
        return plain(x, w, ends, product.actual)
    if product.output == "dx":
        return plain(dy, w.transpose(1, 2), ends, product.actual)
    return wgrad(dy, x, ends, product.actual)


Judged = Product | Attention
