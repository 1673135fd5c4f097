"""How the GPU that ran a product may have added it: rows of `mxo list sums`, and splits of K."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from mxoracle import _judge
from mxoracle._call import run
from mxoracle._errors import Error
from mxoracle.torch.products import Product

# Compute capability: its matrix units as libraries use them, the most usual first.
_CUDA = {
    (8, 9): ("ada_mma",),
    (9, 0): ("h200_wgmma_fast", "h200_wgmma_promote4", "cublaslt_blockwise_sm90",
             "triton_block_sm90", "h200_mma_sync"),
    (10, 0): ("b200_tcgen05", "b200_mxf8f6f4"),
    (12, 0): ("sm120_mxf8f6f4",),
}  # fmt: skip
# Where scales of rows or tensors may multiply; cuBLASLt multiplies those of tensors first.
_PLACES: tuple[dict[str, Any], ...] = ({}, {"sum__fold": "after_joint"})
_SEARCHED = 1 << 22  # products that are added in every way before all are in one
_MOST_PARTS = 16


def sums_of(device: torch.device) -> tuple[str, ...]:
    """The known sums of a device; none of a CPU, whose order is not documented."""
    if device.type != "cuda":
        return ()
    if torch.version.hip is not None:
        name = getattr(torch.cuda.get_device_properties(device), "gcnArchName", "")
        return ("mi300_mfma",) if name.startswith("gfx942") else ()
    return _CUDA.get(torch.cuda.get_device_capability(device), ())


def sum_found(product: Product, names: tuple[str, ...], settings: Mapping) -> dict[str, Any] | None:
    """Which of the sums gives the bits of `product`, and in how many parts K was cut: parameters
    of the catalogue.  None where none does."""
    few = product.sampled(_SEARCHED)
    if few is None:
        return None
    for name in names:
        for place in _PLACES:
            way = {"sum": name, **place}
            try:
                for parts in _parts(few, way, settings):
                    how = _in_parts(way, parts)
                    if few is product or same_bits(product, how, settings):
                        return how
            except Error as error:
                if error.fault not in ("unsupported", "argument"):
                    raise  # else a sum of other operands or scales, or one that is never split
    return None


def _parts(product: Product, way: Mapping[str, Any], settings: Mapping) -> Iterator[int]:
    """The numbers of parts that give the bits of `product`, which may be few of another."""
    k = product.inputs["x"]
    longest = (k[0] if isinstance(k, tuple) else k).shape[0 if product.output == "dw" else 1]
    for parts in range(1, max(1, min(_MOST_PARTS, longest // 32)) + 1):
        if same_bits(product, _in_parts(way, parts), settings):
            yield parts


def _in_parts(way: Mapping[str, Any], parts: int) -> dict[str, Any]:
    return {**way} if parts == 1 else {**way, "sum__split": parts}


def same_bits(product: Product, how: Mapping[str, Any], settings: Mapping) -> bool:
    """True if `product` has the bits that the sum `how` gives, a NaN being any NaN.  A machine adds
    a bias to the finished sum, and rounds from f32 to what the catalogue does not write."""
    if product.op and not product.biased:
        outputs = {product.output: product.actual}
        return bool(_judge.judge(product.op, product.inputs, outputs, **settings, **how,
                                 **product.parameters))  # fmt: skip
    inputs, bias = dict(product.inputs), None
    if product.biased:
        x, w = inputs["x"], inputs["w"]
        inputs.update(x=x[..., :-1], w=w[..., :-1])
        bias = w[0, :, -1].float()
    op = "grouped_matmul_wgrad" if product.output == "dw" else "grouped_matmul"
    y = run(op, inputs, **settings, **how, **{**product.parameters, "out": "f32"})[product.output]
    y = (y if bias is None else y + bias).to(product.actual.dtype)
    owned = slice(None) if product.output == "dw" else slice(_owned(product))
    return bool(_judge.compare(y[owned], product.actual[owned]))


def _owned(product: Product) -> int:
    """Rows that a group has."""
    return max([0, *product.inputs["group_ends"].tolist()])


def words(how: Mapping[str, Any]) -> str:
    """"as h200_wgmma_fast, K in 2 parts"."""
    parts = f", K in {how['sum__split']} parts" if "sum__split" in how else ""
    place = f", sum.fold={how['sum__fold']}" if "sum__fold" in how else ""
    return f"as {how['sum']}{parts}{place}"


def device_of(values: list[Any]) -> torch.device:
    """Where the operands of a call lie: on a GPU if any of them does."""
    devices = [value.device for value in values if isinstance(value, Tensor)]
    return next((each for each in devices if each.type != "cpu"), torch.device("cpu"))
