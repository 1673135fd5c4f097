"""Operators of PyTorch that are products: which call of the catalogue each of them is."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import mxoracle.torch.linear  # noqa: F401
import mxoracle.torch.operators  # noqa: F401  # both define torch.ops.mxoracle
from mxoracle._arrays import NAMES
from mxoracle.torch import attention, convolutions, fp4, scaled
from mxoracle.torch.operands import named
from mxoracle.torch.products import (
    FLOATS, Judged, Product, even_ends, plain, type_name, wgrad, written,
)  # fmt: skip
from mxoracle.torch.recipes import library_takes
from mxoracle.torch.scaled import Scales
from mxoracle.torch.unruled import WITHOUT_A_RULE

aten = torch.ops.aten


def _with_ones(x: Tensor) -> Tensor:
    return torch.cat([x, x.new_ones((*x.shape[:-1], 1))], -1)


def mm(actual: Tensor, a: Tensor, b: Tensor) -> Product | None:
    return plain(a, b.t()[None], even_ends(a.shape[0]), actual)


def addmm(
    actual: Tensor, bias: Tensor, a: Tensor, b: Tensor, *, beta=1, alpha=1
) -> Product | None:
    if beta != 1 or alpha != 1:
        return None
    # A bias is one more term of every sum: 1 times itself.
    bias = bias.expand(max(1, a.shape[0]), b.shape[1])
    if a.shape[0] > 1 and bias.stride(0) != 0:
        return None
    w = torch.cat([b.t(), bias[:1].t()], -1)
    product = plain(_with_ones(a), w[None], even_ends(a.shape[0]), actual)
    return product and replace(product, biased=True)


def _mv(actual: Tensor, a: Tensor, v: Tensor) -> Product | None:
    return mm(actual[:, None], a, v[:, None])


def _dot(actual: Tensor, a: Tensor, b: Tensor) -> Product | None:
    return mm(actual.reshape(1, 1), a[None], b[:, None])


def bmm(actual: Tensor, a: Tensor, b: Tensor) -> Product | None:
    batch, rows, _ = a.shape
    ends = even_ends(batch * rows, batch)
    return plain(a.flatten(0, 1), b.transpose(1, 2), ends, actual.flatten(0, 1))


def _grouped_mm(actual: Tensor, a: Tensor, b: Tensor, offs: Tensor | None = None, *rest: Any,
                **options: Any) -> Product | None:  # fmt: skip
    if offs is None and a.dim() == 3 and b.dim() == 3:
        return bmm(actual, a, b)
    if offs is not None and a.dim() == 2 and b.dim() == 3:
        return plain(a, b.transpose(1, 2), offs, actual)
    if offs is not None and a.dim() == 2 and b.dim() == 2:
        return wgrad(a.t(), b, offs, actual)
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
    settings: dict[str, Any] = {"out": type_name(actual)} if actual.dtype in FLOATS else {}
    for name, (codes, _) in sides.items():
        kind = NAMES.get(str(codes.dtype).removeprefix("torch."), "")
        if kind not in _FORMATS or not settings or (output == "dw" and not written(op, actual)):
            return None
        settings["format_" + name] = kind
        settings["block_" + name] = (_ROW_BLOCKS if output == "dw" else _BLOCKS)[block]
    return Product(written(op, actual), {**sides, "group_ends": ends}, output, actual, settings)


_FORMATS = ("e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz")


def _of_fp4(actual: Tensor, x: fp4.Side | None, w: fp4.Side | None, bias: Any) -> Product | None:
    """Of numbers of bf16; with a factor for all of a side it is held against sums of doubles."""
    if x is None or w is None or bias is not None:
        return None
    bare = plain(x.values, w.values[None], even_ends(actual.shape[0]), actual)
    if bare is None or (x.factor is None and w.factor is None):
        return bare
    one = torch.ones(1)
    x_scales = (one if x.factor is None else x.factor).expand(len(x.values))
    w_scales = (one if w.factor is None else w.factor).expand(1, len(w.values))
    sides = {"x": (x.values, x_scales), "w": (w.values[None], w_scales)}
    return replace(bare, op="", inputs={**bare.inputs, **sides})


def _scaled_mm(
    actual: Tensor, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias=None,
    scale_result=None, out_dtype=None, use_fast_accum=False,
) -> Product | None:  # fmt: skip
    if a.dtype == fp4.PACKED and b.dtype == fp4.PACKED:
        sides = fp4.of_v1(a, scale_a), fp4.of_v1(b.t(), scale_b)
        return None if scale_result is not None else _of_fp4(actual, *sides, bias)
    found = scaled.of_v1(a, b, scale_a, scale_b)
    return _of_codes(actual, a, b.t()[None], even_ends(a.shape[0]), found, bias, scale_result)


def _scaled_mm_v2(
    actual: Tensor, a: Tensor, b: Tensor, scale_a: list, recipe_a: list, swizzle_a: list,
    scale_b: list, recipe_b: list, swizzle_b: list, bias=None, out_dtype=None,
    contraction_dim=(), use_fast_accum=False,
) -> Product | None:  # fmt: skip
    if a.dtype == fp4.PACKED and b.dtype == fp4.PACKED:
        x = fp4.of_v2(a, scale_a, recipe_a, swizzle_a)
        return _of_fp4(actual, x, fp4.of_v2(b.t(), scale_b, recipe_b, swizzle_b), bias)
    found = scaled.of_v2(a, b, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b)
    return _of_codes(actual, a, b.t()[None], even_ends(a.shape[0]), found, bias)


def _scaled_grouped_mm(
    actual: Tensor, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, offs=None, bias=None,
    scale_result=None, out_dtype=None, use_fast_accum=False,
) -> Product | None:  # fmt: skip
    if offs is None and a.dim() == 3 and b.dim() == 3:
        found = scaled.of_batches(a, b, scale_a, scale_b)
        ends = even_ends(a.shape[0] * a.shape[1], a.shape[0])
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


def _scaled_linear(actual: Tensor, x: Tensor, w: Tensor, ends: Tensor, bias: Tensor | None = None,
                   recipe: str = "mxfp8_rceil", format: str = "e4m3",
                   sum: str = "exact") -> Product | None:  # fmt: skip
    """What one call of grouped_linear is; of a machine's sum, or another stack's recipe, None."""
    kinds = {side.dtype for side in (x, w, actual)}
    if sum != "exact" or not library_takes(recipe, format, sum, kinds):
        return None
    return _linear(actual, x, w, ends, bias, recipe, format, type_name(x), True)


def _scaled_linear_backward(actual: list[Tensor], dy: Tensor, x: Tensor, w: Tensor, ends: Tensor,
                            bias: Tensor | None, recipe: str, format: str, sum: str,
                            only: str) -> list[Product] | None:  # fmt: skip
    forward = _scaled_linear(actual[0], x, w, ends, bias, recipe, format, sum)
    return forward and [replace(forward, inputs={**forward.inputs, "dy": dy}, output=name, actual=part)
                        for name, part in zip(only.split(","), actual)]  # fmt: skip


def _linear_codes(actual: Tensor, codes: Tensor, scales: Tensor, w: Tensor, ends: Tensor,
                  *settings: Any) -> Product:  # fmt: skip
    return _linear(actual, (codes, scales), w, ends, None, *settings)


def _linear_codes_backward(actual: list[Tensor], dy: Tensor, codes: Tensor, scales: Tensor,
                           w: Tensor, ends: Tensor, *settings: Any) -> list[Product]:  # fmt: skip
    *settings, only = settings
    forward = _linear(actual[0], (codes, scales), w, ends, None, *settings)
    inputs = {**forward.inputs, "dy": dy}
    return [replace(forward, inputs=inputs, output=name, actual=part)
            for name, part in zip(only.split(","), actual)]  # fmt: skip


def _into(rule: Callable) -> Callable:
    """The rule of an operator that writes its result into `out`."""
    return lambda actual, *args, out, **options: rule(actual, *args, **options)


def _typed(rule: Callable) -> Callable:
    """The rule of an operator that has an argument for the type of its result, which is that of `actual`."""
    return lambda actual, *args, **options: rule(actual, *args[:-1], **options)


RULES: dict[Any, Callable[..., Judged | list[Product] | None]] = {
    torch.ops.mxoracle.grouped_linear.default: _linear,
    torch.ops.mxoracle.grouped_linear_backward.default: _linear_backward,
    torch.ops.mxoracle.scaled_linear.default: _scaled_linear,
    torch.ops.mxoracle.scaled_linear_backward.default: _scaled_linear_backward,
    torch.ops.mxoracle.grouped_linear_codes.default: _linear_codes,
    torch.ops.mxoracle.grouped_linear_codes_backward.default: _linear_codes_backward,
}
for _name, _rule in {
    "mm": mm, "addmm": addmm, "bmm": bmm, "mv": _mv, "dot": _dot, "vdot": _dot, "_scaled_mm": _scaled_mm,
    "_scaled_mm_v2": _scaled_mm_v2, "_scaled_grouped_mm": _scaled_grouped_mm,
    "_scaled_grouped_mm_v2": _scaled_grouped_mm_v2, "_grouped_mm": _grouped_mm,
    "convolution": convolutions.convolution, "convolution_backward": convolutions.convolution_backward,
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
        if "dtype" in _operator.overloads():
            RULES[_operator.dtype] = _typed(_rule)

# Operators of which some calls have a rule, and those that have none.
PRODUCTS = frozenset([*WITHOUT_A_RULE, *(str(op).split(".")[1] for op in RULES)])
# Torch computes these by operators that have rules.
COMPOSED = frozenset((
    "linear", "Linear", "matmul", "linalg_matmul", "linalg_multi_dot", "chain_matmul", "einsum",
    "inner", "tensordot", "scaled_dot_product_attention",
))  # fmt: skip


def type_of_result(func: Any, args: tuple, kwargs: dict) -> torch.dtype | None:
    """The type that an operator of torch's has to give: that which it is asked for, or of its operands;
    None where it writes into `out`, or where they are codes."""
    arguments = named(func, args, kwargs)
    if func.namespace != "aten" or "out" in arguments:
        return None
    asked = arguments.get("out_dtype")
    first = next((value.dtype for value in arguments.values() if isinstance(value, Tensor)), None)
    return asked or (first if first in FLOATS else None)


def covers(op: Any) -> bool:
    """True if calls of `op` are judged: an operator (torch.ops.aten.mm, or an overload of it), its
    name ("aten::mm", "linear"), or a function of torch.  Of an operator that torch computes by
    several, the products among them are judged."""
    if isinstance(op, torch._ops.OpOverload):
        return op in RULES or op.overloadpacket.__name__ in COMPOSED
    name = op if isinstance(op, str) else getattr(op, "__name__", str(op))
    name = name.rpartition("::")[2].partition(".")[0]
    rules = {str(rule).split(".")[1].lstrip("_") for rule in RULES}
    return name in COMPOSED or name.lstrip("_") in rules
