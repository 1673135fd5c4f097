"""Scales of PyTorch's scaled products as the catalogue has them: one row of scales a row of codes.

Shapes after aten/src/ATen/native/cuda/ScaledBlas.cpp and torch/_meta_registrations.py of PyTorch
2.15; read.
"""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# torch.nn.functional.ScalingType and SwizzleType
_TENSOR, _ROW, _1X32, _1X128, _128X128 = 0, 1, 3, 4, 5
_PLAIN, _32_4_4 = 0, 1


class Scales(NamedTuple):
    """Of both sides, for blocks of `block` along K: [rows, ceil(K / block)]; block 0: [rows]."""

    block: int
    x: Tensor
    w: Tensor


def _ceil(value: int, step: int) -> int:
    return -(-value // step)


def blocked_bytes(rows: int, k: int) -> int:
    """Of one matrix's e8m0 scales in tiles of 128 x 4."""
    return _tiled_bytes(rows, _ceil(k, 32))


def _tiled_bytes(rows: int, columns: int) -> int:
    return _ceil(rows, 128) * 128 * _ceil(columns, 4) * 4


def untiled(scales: Tensor, rows: int, columns: int) -> Tensor | None:
    """The bytes of scales in tiles of 128 x 4, as block-scaled matrix units read them, in rows."""
    if scales.numel() != _tiled_bytes(rows, columns):
        return None
    down, across = _ceil(rows, 128), _ceil(columns, 4)
    tiles = scales.reshape(-1).view(torch.uint8).view(down, across, 32, 4, 4)
    return tiles.permute(0, 3, 2, 1, 4).reshape(down * 128, across * 4)[:rows, :columns]


def from_blocked(scales: Tensor, rows: int, k: int) -> Tensor | None:
    """The same of e8m0 scales of blocks of 32 along K."""
    return untiled(scales, rows, _ceil(k, 32))


def _blocks(scales: Tensor, rows: int) -> Tensor:
    """One row of scales for each of 128 rows, as one for each row."""
    return scales.repeat_interleave(128, 0)[:rows]


def of_v1(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Scales | None:
    """`_scaled_mm`, which tells its recipes by shapes: a [M, K], b [K, N]."""
    (m, k), n = a.shape, b.shape[1]
    if scale_a.dtype == torch.float8_e8m0fnu and scale_b.dtype == torch.float8_e8m0fnu:
        if torch.version.hip is not None:  # whose layout depends on the device
            return None
        x, w = from_blocked(scale_a, m, k), from_blocked(scale_b, n, k)
        return None if x is None or w is None else Scales(32, x, w)
    if scale_a.dtype != torch.float32 or scale_b.dtype != torch.float32:
        return None
    if scale_a.numel() == 1 and scale_b.numel() == 1:
        return Scales(0, scale_a.reshape(1).expand(m), scale_b.reshape(1).expand(n))
    if scale_a.shape == (m, 1) and scale_b.shape == (1, n):
        return Scales(0, scale_a[:, 0], scale_b[0])
    blocks = _ceil(k, 128)
    if scale_a.dim() != 2 or scale_a.shape[1] != blocks or scale_b.shape[0] != blocks:
        return None
    across, down = scale_b.shape[1], scale_a.shape[0]
    if down == m and across == _ceil(n, 128):
        return Scales(128, scale_a, _blocks(scale_b.t(), n))
    if down == m and across == n:
        return Scales(128, scale_a, scale_b.t())
    if down == _ceil(m, 128) and across == n:
        return Scales(128, _blocks(scale_a, m), scale_b.t())
    return None


def _of_recipe(scales: list, recipe: list, swizzle: list, rows: int, k: int) -> tuple | None:
    """One side of `_scaled_mm_v2`: the block, and the scales of each row."""
    if len(scales) != 1 or len(recipe) != 1 or len(swizzle) > 1:
        return None  # two levels of scales
    given, kind = scales[0], int(recipe[0])
    tiled = (int(swizzle[0]) if swizzle else _PLAIN) == _32_4_4
    if kind == _1X32:
        if given.dtype != torch.float8_e8m0fnu or not tiled:
            return None
        found = from_blocked(given, rows, k)
        return None if found is None else (32, found)
    if given.dtype != torch.float32 or tiled:
        return None
    if kind == _TENSOR and given.numel() == 1:
        return 0, given.reshape(1).expand(rows)
    if kind == _ROW and given.numel() == rows:
        return 0, given.reshape(rows)
    blocks = _ceil(k, 128)
    if kind == _1X128 and given.shape == (rows, blocks):
        return 128, given
    # K first, and padded to four.
    if kind == _128X128 and given.shape == (_ceil(blocks, 4) * 4, _ceil(rows, 128)):
        return 128, _blocks(given[:blocks].t(), rows)
    return None


def of_v2(a: Tensor, b: Tensor, scale_a: list, recipe_a: list, swizzle_a: list, scale_b: list,
          recipe_b: list, swizzle_b: list) -> Scales | None:  # fmt: skip
    """`_scaled_mm_v2`, which has arguments for its recipes."""
    x = _of_recipe(scale_a, recipe_a, swizzle_a, a.shape[0], a.shape[1])
    w = _of_recipe(scale_b, recipe_b, swizzle_b, b.shape[1], b.shape[0])
    if x is None or w is None or x[0] != w[0]:
        return None
    return Scales(x[0], x[1], w[1])


def of_groups(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, ends: Tensor
) -> Scales | None:
    """`_scaled_grouped_mm` of a [R, K] and b [E, K, N]: rows, or blocks of 32 of which those of
    each group are tiled on their own."""
    (rows, k), (groups, _, n) = a.shape, b.shape
    if scale_a.dtype == torch.float32 and scale_b.dtype == torch.float32:
        fit = scale_a.shape == (rows,) and scale_b.shape == (groups, n)
        return Scales(0, scale_a, scale_b) if fit else None
    if {scale_a.dtype, scale_b.dtype} != {torch.float8_e8m0fnu}:
        return None
    each = blocked_bytes(n, k)
    if scale_b.numel() != groups * each:
        return None
    w = [from_blocked(part, n, k) for part in scale_b.reshape(groups, each)]
    parts, start, at = [], 0, 0
    flat = scale_a.reshape(-1)
    for end in ends.tolist():
        size = blocked_bytes(end - start, k)
        if end < start or at + size > flat.numel():
            return None
        parts.append(from_blocked(flat[at : at + size], end - start, k))
        start, at = end, at + size
    parts.append(torch.zeros(rows - start, _ceil(k, 32), dtype=torch.uint8))
    return Scales(32, torch.cat(parts), torch.stack(w))


def of_batches(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Scales | None:
    """`_scaled_grouped_mm` of a [E, M, K] and b [E, K, N]: a scale a row of each."""
    (groups, m, _), n = a.shape, b.shape[2]
    if scale_a.dtype != torch.float32 or scale_b.dtype != torch.float32:
        return None
    fit = scale_a.shape == (groups, m) and scale_b.shape == (groups, n)
    return Scales(0, scale_a.flatten(), scale_b) if fit else None


def of_contracted_groups(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, ends: Tensor
) -> Scales | None:
    """`_scaled_grouped_mm` of a [N, R] and b [R, K], contracted over the rows R of each group: a
    scale a row of a and a column of b in each group, as [E, N] and [E, K]; or one of 32 rows, which
    restart in each group and are tiled separately, as [blocks, N] and [blocks, K]."""
    groups = ends.shape[0]
    if {scale_a.dtype, scale_b.dtype} == {torch.float8_e8m0fnu}:
        sides = [_of_blocks_of_rows(scales, columns, ends)
                 for scales, columns in ((scale_a, a.shape[0]), (scale_b, b.shape[1]))]  # fmt: skip
        return None if sides[0] is None or sides[1] is None else Scales(32, *sides)
    if scale_a.dtype != torch.float32 or scale_b.dtype != torch.float32:
        return None
    if scale_a.shape != (groups * a.shape[0],) or scale_b.shape != (groups * b.shape[1],):
        return None
    return Scales(0, scale_a.view(groups, -1), scale_b.view(groups, -1))


def _of_blocks_of_rows(scales: Tensor, columns: int, ends: Tensor) -> Tensor | None:
    """[blocks of all groups, columns] of tiles that hold [columns, blocks] of each group."""
    parts, start, at = [torch.zeros(0, columns, dtype=torch.uint8)], 0, 0
    flat = scales.reshape(-1)
    for end in ends.tolist():
        size = blocked_bytes(columns, end - start)
        if end < start or at + size > flat.numel():
            return None
        if end > start:
            parts.append(from_blocked(flat[at : at + size], columns, end - start).t())
        start, at = end, at + size
    return torch.cat(parts)
