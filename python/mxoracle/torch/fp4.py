"""FP4 operands of PyTorch's scaled products, as bf16: a code of 2 bits by the scale of its block,
of 4 bits or a power of two, is exact there.

Shapes after aten/src/ATen/native/cuda/ScaledBlas.cpp of PyTorch 2.15; read.
"""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mxoracle.torch.scaled import untiled

PACKED = getattr(torch, "float4_e2m1fn_x2", None)  # two codes a byte, the first in the low half
_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_TENSOR, _1X16, _1X32 = 0, 2, 3


class Side(NamedTuple):
    """[rows, K] in bf16, and what all of it is multiplied by."""

    values: Tensor
    factor: Tensor | None


def _decoded(codes: Tensor) -> Tensor:
    """Packed [rows, K / 2] as [rows, K] in f32."""
    packed = codes.view(torch.uint8)
    nibbles = torch.stack([packed & 15, packed >> 4], -1).flatten(-2).long()
    return torch.tensor([*_VALUES, *(-v for v in _VALUES)])[nibbles]


def _blocks(codes: Tensor, scales: Tensor, block: int) -> Tensor | None:
    """Codes by the scales of their blocks, which lie in tiles of 128 x 4."""
    values = _decoded(codes)
    rows, k = values.shape
    found = untiled(scales, rows, -(-k // block))
    if found is None:
        return None
    wide = found.view(scales.dtype).float().repeat_interleave(block, 1)[:, :k]
    product = (values * wide).bfloat16()
    return None if product.isinf().any() else product


def of_v1(codes: Tensor, scales: Tensor) -> Side | None:
    """One side of `_scaled_mm`: e4m3 scales of blocks of 16."""
    if scales.dtype != torch.float8_e4m3fn:
        return None
    values = _blocks(codes, scales, 16)
    return None if values is None else Side(values, None)


def of_v2(codes: Tensor, scales: list, recipe: list, swizzle: list) -> Side | None:
    """One side of `_scaled_mm_v2`: blocks of 16 with e4m3 scales and, it may be, one f32 scale for
    all; or blocks of 32 with e8m0 scales."""
    kinds = [int(kind) for kind in recipe]
    if not swizzle or int(swizzle[0]) != 1:
        return None
    if kinds == [_1X32] and scales[0].dtype == torch.float8_e8m0fnu:
        values, factor = _blocks(codes, scales[0], 32), None
    elif kinds in ([_1X16], [_1X16, _TENSOR]) and scales[0].dtype == torch.float8_e4m3fn:
        values = _blocks(codes, scales[0], 16)
        factor = scales[1].reshape(1) if len(kinds) == 2 else None
    else:
        return None
    if values is None or (factor is not None and factor.dtype != torch.float32):
        return None
    return Side(values, factor)
