"""Products of PyTorch as calls of the catalogue: which operator, which operands, which output."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import mxoracle.torch.operators  # noqa: F401  # defines torch.ops.mxoracle
from mxoracle._arrays import NAMES
from mxoracle.torch import attention, fp4, scaled
from mxoracle.torch.attention import Attention
from mxoracle.torch.reals import Held, RealProduct, doubles, hold
from mxoracle.torch.scaled import Scales

aten = torch.ops.aten


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

    bits = True  # its real sum, rounded once, is what is owed

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
        )

    def _groups(self) -> list[Product]:
        """As forward products: a weight gradient is one a group, of its rows."""
        if self.output != "dw":
            return [self]
        parts, start = [], 0
        for group, end in enumerate(self.inputs["group_ends"].tolist()):
            dy, x = (_of_group(self.inputs[name], start, end) for name in ("dy", "x"))
            parts.append(_plain(dy.t(), x.t()[None], _ends(dy.shape[1]), self.actual[group]))
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


def _ends(rows: int, groups: int = 1) -> Tensor:
    return torch.arange(1, groups + 1, dtype=torch.int32) * (rows // groups)


def _out(actual: Tensor) -> str:
    return NAMES[str(actual.dtype).removeprefix("torch.")]


_FLOATS = (torch.bfloat16, torch.float16, torch.float32)


def _written(op: str, actual: Tensor) -> str:
    """The operator, where it writes that type."""
    return "" if actual.dtype == torch.float16 else op


def _plain(x: Tensor, w: Tensor, ends: Tensor, actual: Tensor) -> Product | None:
    return _of_floats("grouped_matmul", {"x": x, "w": w}, ends, "y", actual)


def _of_floats(op: str, sides: dict, ends: Tensor, output: str, actual: Tensor) -> Product | None:
    """Of operands without scales."""
    kinds = {side.dtype for side in sides.values()}
    if not kinds <= set(_FLOATS) or actual.dtype not in _FLOATS:
        return None
    inputs = {**sides, "group_ends": ends}
    return Product(_written(op, actual), inputs, output, actual, {"out": _out(actual)})


def _wgrad(dy: Tensor, x: Tensor, ends: Tensor, actual: Tensor) -> Product | None:
    return _of_floats("grouped_matmul_wgrad", {"dy": dy, "x": x}, ends, "dw", actual)


def _with_ones(x: Tensor) -> Tensor:
    return torch.cat([x, x.new_ones((*x.shape[:-1], 1))], -1)


def _mm(actual: Tensor, a: Tensor, b: Tensor) -> Product | None:
    return _plain(a, b.t()[None], _ends(a.shape[0]), actual)


def _addmm(
    actual: Tensor, bias: Tensor, a: Tensor, b: Tensor, *, beta=1, alpha=1
) -> Product | None:
    if beta != 1 or alpha != 1:
        return None
    # A bias is one more term of every sum: 1 times itself.
    bias = bias.expand(a.shape[0], b.shape[1])
    if a.shape[0] > 1 and bias.stride(0) != 0:
        return None
    w = torch.cat([b.t(), bias[:1].t()], -1)
    product = _plain(_with_ones(a), w[None], _ends(a.shape[0]), actual)
    return product and replace(product, biased=True)


def _mv(actual: Tensor, a: Tensor, v: Tensor) -> Product | None:
    return _mm(actual[:, None], a, v[:, None])


def _dot(actual: Tensor, a: Tensor, b: Tensor) -> Product | None:
    return _mm(actual.reshape(1, 1), a[None], b[:, None])


def _bmm(actual: Tensor, a: Tensor, b: Tensor) -> Product | None:
    batch, rows, _ = a.shape
    ends = _ends(batch * rows, batch)
    return _plain(a.flatten(0, 1), b.transpose(1, 2), ends, actual.flatten(0, 1))


def _grouped_mm(actual: Tensor, a: Tensor, b: Tensor, offs: Tensor | None = None, *rest: Any,
                **options: Any) -> Product | None:  # fmt: skip
    if offs is None and a.dim() == 3 and b.dim() == 3:
        return _bmm(actual, a, b)
    if offs is not None and a.dim() == 2 and b.dim() == 3:
        return _plain(a, b.transpose(1, 2), offs, actual)
    if offs is not None and a.dim() == 2 and b.dim() == 2:
        return _wgrad(a.t(), b, offs, actual)
    return None


def _of_codes(actual: Tensor, x: Tensor, w: Tensor, ends: Tensor, found: Scales | None,
              bias: Any, scale_result: Any = None) -> Product | None:  # fmt: skip
    """y of codes x [R, K] and w [E, N, K]."""
    if found is None or bias is not None or scale_result is not None:
        return None
    w_scales = found.w.view(*w.shape[:2], *found.x.shape[1:])
    return _scaled("grouped_matmul", "y", actual, ends, found.block,
                   {"x": (x, found.x), "w": (w, w_scales)})  # fmt: skip


_BLOCKS = {0: "1xK", 32: "1x32", 128: "1x128"}
_ROW_BLOCKS = {0: "Rx1", 32: "32x1"}


def _scaled(op: str, output: str, actual: Tensor, ends: Tensor, block: int,
            sides: dict[str, tuple]) -> Product | None:  # fmt: skip
    """Of codes and their scales; rows of a weight gradient share a scale in each group."""
    settings: dict[str, Any] = {"out": _out(actual)} if actual.dtype in _FLOATS else {}
    for name, (codes, _) in sides.items():
        kind = NAMES.get(str(codes.dtype).removeprefix("torch."), "")
        if kind not in _FORMATS or not settings or (output == "dw" and not _written(op, actual)):
            return None
        settings["format_" + name] = kind
        settings["block_" + name] = (_ROW_BLOCKS if output == "dw" else _BLOCKS)[block]
    return Product(_written(op, actual), {**sides, "group_ends": ends}, output, actual, settings)


_FORMATS = ("e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz")


def _of_fp4(actual: Tensor, x: fp4.Side | None, w: fp4.Side | None, bias: Any) -> Product | None:
    """Of numbers of bf16; with a factor for all of a side it is held against sums of doubles."""
    if x is None or w is None or bias is not None:
        return None
    plain = _plain(x.values, w.values[None], _ends(actual.shape[0]), actual)
    if plain is None or (x.factor is None and w.factor is None):
        return plain
    one = torch.ones(1)
    x_scales = (one if x.factor is None else x.factor).expand(len(x.values))
    w_scales = (one if w.factor is None else w.factor).expand(1, len(w.values))
    sides = {"x": (x.values, x_scales), "w": (w.values[None], w_scales)}
    return replace(plain, op="", inputs={**plain.inputs, **sides})


def _scaled_mm(
    actual: Tensor, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias=None,
    scale_result=None, out_dtype=None, use_fast_accum=False,
) -> Product | None:  # fmt: skip
    if a.dtype == fp4.PACKED and b.dtype == fp4.PACKED:
        sides = fp4.of_v1(a, scale_a), fp4.of_v1(b.t(), scale_b)
        return None if scale_result is not None else _of_fp4(actual, *sides, bias)
    found = scaled.of_v1(a, b, scale_a, scale_b)
    return _of_codes(actual, a, b.t()[None], _ends(a.shape[0]), found, bias, scale_result)


def _scaled_mm_v2(
    actual: Tensor, a: Tensor, b: Tensor, scale_a: list, recipe_a: list, swizzle_a: list,
    scale_b: list, recipe_b: list, swizzle_b: list, bias=None, out_dtype=None,
    contraction_dim=(), use_fast_accum=False,
) -> Product | None:  # fmt: skip
    if a.dtype == fp4.PACKED and b.dtype == fp4.PACKED:
        x = fp4.of_v2(a, scale_a, recipe_a, swizzle_a)
        return _of_fp4(actual, x, fp4.of_v2(b.t(), scale_b, recipe_b, swizzle_b), bias)
    found = scaled.of_v2(a, b, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b)
    return _of_codes(actual, a, b.t()[None], _ends(a.shape[0]), found, bias)


def _scaled_grouped_mm(
    actual: Tensor, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, offs=None, bias=None,
    scale_result=None, out_dtype=None, use_fast_accum=False,
) -> Product | None:  # fmt: skip
    if offs is None and a.dim() == 3 and b.dim() == 3:
        found = scaled.of_batches(a, b, scale_a, scale_b)
        ends = _ends(a.shape[0] * a.shape[1], a.shape[0])
        return _of_codes(actual.flatten(0, 1), a.flatten(0, 1), b.transpose(1, 2), ends, found,
                         bias, scale_result)  # fmt: skip
    if offs is None or a.dim() != 2:
        return None
    if b.dim() == 2:
        found = scaled.of_contracted_groups(a, b, scale_a, scale_b, offs)
        if found is None or bias is not None or scale_result is not None:
            return None
        return _scaled("grouped_matmul_wgrad", "dw", actual, offs, found.block,
                       {"dy": (a.t(), found.x), "x": (b, found.w)})  # fmt: skip
    found = scaled.of_groups(a, b, scale_a, scale_b, offs)
    return _of_codes(actual, a, b.transpose(1, 2), offs, found, bias, scale_result)


def _scaled_grouped_mm_v2(
    actual: Tensor, a: Tensor, b: Tensor, scale_a: list, recipe_a: list, swizzle_a: list,
    scale_b: list, recipe_b: list, swizzle_b: list, offs=None, bias=None, out_dtype=None,
    contraction_dim=(), use_fast_accum=False,
) -> Product | None:  # fmt: skip
    if len(scale_a) != 1 or len(scale_b) != 1:
        return None
    return _scaled_grouped_mm(actual, a, b, scale_a[0], scale_b[0], offs, bias)


def _linear(actual: Tensor, x: Tensor, w: Tensor, ends: Tensor, bias: Tensor | None = None,
            recipe: str = "mxfp8_rceil", format: str = "e4m3", out: str = "bf16",
            pad: bool = False) -> Product:  # fmt: skip
    inputs = {"x": x, "w": w, "group_ends": ends}
    if bias is not None:
        inputs["bias"] = bias
    settings = {"recipe": recipe, "format": format, "out": out, "pad": pad}
    return Product("grouped_linear", inputs, "y", actual, settings)


def _linear_backward(actual: list[Tensor], dy: Tensor, x: Tensor, w: Tensor, ends: Tensor,
                     bias: Tensor | None, *settings: Any) -> list[Product]:  # fmt: skip
    forward = _linear(actual[0], x, w, ends, bias, *settings)
    inputs = {**forward.inputs, "dy": dy}
    names = ("dx", "dw", "dbias")
    return [replace(forward, inputs=inputs, output=name, actual=part)
            for name, part in zip(names, actual)]  # fmt: skip


def _linear_codes(actual: Tensor, codes: Tensor, scales: Tensor, w: Tensor, ends: Tensor,
                  *settings: Any) -> Product:  # fmt: skip
    return _linear(actual, (codes, scales), w, ends, None, *settings)


def _linear_codes_backward(actual: Tensor, dy: Tensor, codes: Tensor, scales: Tensor, w: Tensor,
                           ends: Tensor, *settings: Any) -> Product:  # fmt: skip
    forward = _linear(actual, (codes, scales), w, ends, None, *settings)
    return replace(forward, inputs={**forward.inputs, "dy": dy}, output="dw")


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
        return _plain(x, w, ends, product.actual)
    if product.output == "dx":
        return _plain(dy, w.transpose(1, 2), ends, product.actual)
    return _wgrad(dy, x, ends, product.actual)


def _into(rule: Callable) -> Callable:
    """The rule of an operator that writes its result into `out`."""
    return lambda actual, *args, out, **options: rule(actual, *args, **options)


Judged = Product | Attention
RULES: dict[Any, Callable[..., Judged | list[Product] | None]] = {
    torch.ops.mxoracle.grouped_linear.default: _linear,
    torch.ops.mxoracle.grouped_linear_backward.default: _linear_backward,
    torch.ops.mxoracle.grouped_linear_codes.default: _linear_codes,
    torch.ops.mxoracle.grouped_linear_codes_backward.default: _linear_codes_backward,
}
for _name, _rule in {
    "mm": _mm, "addmm": _addmm, "bmm": _bmm, "mv": _mv, "dot": _dot, "_scaled_mm": _scaled_mm,
    "_scaled_mm_v2": _scaled_mm_v2, "_scaled_grouped_mm": _scaled_grouped_mm,
    "_scaled_grouped_mm_v2": _scaled_grouped_mm_v2, "_grouped_mm": _grouped_mm,
    "_scaled_dot_product_flash_attention": attention.flash,
    "_scaled_dot_product_flash_attention_for_cpu": attention.flash,
    "_scaled_dot_product_efficient_attention": attention.efficient,
    "_scaled_dot_product_cudnn_attention": attention.efficient,
    "_scaled_dot_product_fused_attention_overrideable": attention.overrideable,
}.items():  # fmt: skip
    _operator = getattr(aten, _name, None)  # not every torch has all of them
    if _operator is not None:
        RULES[_operator.default] = _rule
        if "out" in _operator.overloads():  # as compiled code calls it
            RULES[_operator.out] = _into(_rule)
