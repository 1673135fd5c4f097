"""Operators of torch.library that move rows, and scales into tiles."""
from typing import Optional, Tuple

import torch
from torch import Tensor

from mxoracle._errors import Unsupported
from mxoracle.torch.arguments import as_int32, axes, operator
from mxoracle.torch.operators import _run


def _up(extent: int, multiple: int) -> int:
    return (extent + multiple - 1) // multiple * multiple


@operator("swizzle_scales")
def swizzle_scales(
    scales: Tensor, layout: str = "blocked", group_ends: Optional[Tensor] = None
) -> Tensor:
    """Scales [R, C] or [E, R, C] in tiles of 128 x 4, as `mxo list ops swizzle_scales` has the layouts
    blocked, m_groups, k_groups and per_group_3d."""
    ends = {} if group_ends is None else {"group_ends": as_int32("swizzle_scales: group_ends", group_ends)}
    _tiles(scales, layout, ends.get("group_ends"))
    return _run("swizzle_scales", {"scales": scales, **ends}, layout=layout)["blocked"]


def _tiles(scales, layout, ends):
    """The shape of what is in tiles."""
    rows, columns = scales.shape[-2:]
    matrices = scales.shape[0] if scales.dim() == 3 else 1
    padded = _up(rows, 128) * _up(columns, 4)
    if layout == "blocked":
        return (matrices * padded,)
    if layout == "per_group_3d":
        return (matrices, padded)
    if layout == "m_groups" and ends is not None:
        return (rows + 128 * ends.shape[0], _up(columns, 4))
    if layout == "k_groups" and ends is not None:
        return (_up(rows, 128), columns + 4 * ends.shape[0])
    raise Unsupported(f"swizzle_scales: found layout '{layout}', needs blocked, per_group_3d, or with "
                      "group_ends m_groups or k_groups")  # fmt: skip


@swizzle_scales.register_fake
def _(scales, layout="blocked", group_ends=None):
    return scales.new_empty(_tiles(scales, layout, group_ends))


@operator("pad_groups")
def pad_groups(x: Tensor, group_ends: Tensor, alignment: int = 32) -> Tuple[Tensor, Tensor, Tensor]:
    """Groups of rows that start on multiples of `alignment`, zeros between; their starts and ends.  As
    many rows as could be needed."""
    found = _run("pad_groups", {"x": x, "group_ends": group_ends}, alignment=alignment)
    return found["y"], found["padded_starts"], found["padded_ends"]


@pad_groups.register_fake
def _(x, group_ends, alignment=32):
    rows = _up(x.shape[0] + group_ends.shape[0] * alignment, alignment)
    empty = group_ends.new_empty(group_ends.shape, dtype=torch.int32)
    return x.new_empty((rows, x.shape[1])), empty, torch.empty_like(empty)


@operator("unpad_groups")
def unpad_groups(y: Tensor, group_ends: Tensor, padded_starts: Tensor, rows: int) -> Tensor:
    """Those groups back together, `rows` rows."""
    tensors = {"y": y, "group_ends": group_ends, "padded_starts": padded_starts}
    return _run("unpad_groups", tensors, rows=rows)["x"]


@unpad_groups.register_fake
def _(y, group_ends, padded_starts, rows):
    return y.new_empty((rows, y.shape[1]))


@operator("permute_indices")
def permute_indices(
    tokens_per_expert: Tensor, experts: int, ranks: int, alignment: int, max_len: int
) -> Tuple[Tensor, Tensor, Tensor]:
    """Where rows that came rank by rank lie expert by expert, -1 for padding; rows of every expert and
    their ends, multiples of `alignment`."""
    axes("permute_indices: tokens_per_expert", tokens_per_expert, 1)
    counts = as_int32("permute_indices: tokens_per_expert", tokens_per_expert)
    settings = {"experts": experts, "ranks": ranks, "alignment": alignment, "max_len": max_len}
    found = _run("permute_indices", {"tokens_per_expert": counts}, **settings)
    return found["indices"], found["sizes"], found["ends"]


@permute_indices.register_fake
def _(tokens_per_expert, experts, ranks, alignment, max_len):
    make = lambda extent: tokens_per_expert.new_empty((extent,), dtype=torch.int32)  # noqa: E731
    return make(max_len), make(experts), make(experts)


@operator("permute")
def permute(x: Tensor, indices: Tensor) -> Tensor:
    """Row i is row indices[i] of x, zeros for -1."""
    return _run("permute", {"x": x, "indices": indices})["y"]


@permute.register_fake
def _(x, indices):
    return x.new_empty((indices.shape[0], x.shape[1]))


@operator("unpermute")
def unpermute(y: Tensor, indices: Tensor, rows: int) -> Tensor:
    """Row indices[i] is row i of y: permute backwards."""
    return _run("unpermute", {"y": y, "indices": indices}, rows=rows)["x"]


@unpermute.register_fake
def _(y, indices, rows):
    return y.new_empty((rows, y.shape[1]))


def _keep_indices(ctx, inputs, output):
    ctx.save_for_backward(inputs[1])
    ctx.rows = inputs[0].shape[0]


permute.register_autograd(
    lambda ctx, dy: (unpermute(dy, ctx.saved_tensors[0], ctx.rows), None),
    setup_context=_keep_indices,
)
unpermute.register_autograd(
    lambda ctx, dx: (permute(dx, ctx.saved_tensors[0]), None, None), setup_context=_keep_indices
)
