"""Convolutions and their gradients as products of unfolded windows, a group of rows for each group of channels."""
from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mxoracle.torch.products import Product, even_ends, plain, wgrad

_MOST = 1 << 28  # elements of all windows together, which are copied


def _windows(x: Tensor, extents: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
             groups: int) -> Tensor | None:  # fmt: skip
    """Rows [groups, one for each place of an output, channels of the group * extents], of a padded x."""
    for axis, (extent, step, apart) in enumerate(zip(extents, stride, dilation)):
        x = x.unfold(2 + axis, apart * (extent - 1) + 1, step)[..., ::apart]
    if x.numel() > _MOST:
        return None
    axes = len(extents)
    x = x.unflatten(1, (groups, -1)).movedim(1, 0).movedim(2, 2 + axes)  # [G, B, places.., C, extents..]
    return x.flatten(1, 1 + axes).flatten(2)


def _rows(y: Tensor, groups: int) -> Tensor:
    """[G, places, channels] of an output [B, G * channels, places..]."""
    return y.unflatten(1, (groups, -1)).movedim(1, 0).movedim(2, -1).flatten(1, -2)


def _padded(x: Tensor, sides: Sequence[tuple[int, int]]) -> Tensor:
    """Negative sides cut."""
    return F.pad(x, [end for side in reversed(sides) for end in side])


def _spread(x: Tensor, stride: Sequence[int]) -> Tensor:
    """Zeros between the elements of each axis, stride - 1 of them."""
    places = [(extent - 1) * step + 1 for extent, step in zip(x.shape[2:], stride)]
    wide = x.new_zeros((*x.shape[:2], *places))
    wide[(..., *(slice(None, None, step) for step in stride))] = x
    return wide


def _straight(actual: Tensor, x: Tensor, w: Tensor, bias: Tensor | None, stride: Sequence[int],
              dilation: Sequence[int], groups: int) -> Product | None:  # fmt: skip
    """Of a padded x; w [G * N, C, extents..]."""
    rows = _windows(x, w.shape[2:], stride, dilation, groups)
    if rows is None:
        return None
    w, y = w.flatten(1).unflatten(0, (groups, -1)), _rows(actual, groups)
    if bias is not None:  # one more term of every sum: 1 times itself
        rows = torch.cat([rows, rows.new_ones((*rows.shape[:2], 1))], -1)
        w = torch.cat([w, bias.reshape(groups, -1, 1)], -1)
    ends = even_ends(groups * rows.shape[1], groups)
    return plain(rows.flatten(0, 1), w, ends, y.flatten(0, 1))


def _transposed(actual: Tensor, x: Tensor, w: Tensor, bias: Tensor | None, stride: Sequence[int],
                padding: Sequence[int], dilation: Sequence[int], groups: int) -> Product | None:  # fmt: skip
    """The gradient of a convolution of w [G * C, N, extents..]: w mirrored over x, spread."""
    x = _spread(x, stride)
    sides = [(apart * (extent - 1) - pad, places - have + pad) for apart, extent, pad, places, have in
             zip(dilation, w.shape[2:], padding, actual.shape[2:], x.shape[2:])]  # fmt: skip
    w = w.flip(tuple(range(2, w.dim()))).unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    return _straight(actual, _padded(x, sides), w, bias, [1] * len(sides), dilation, groups)


def _each(w: Tensor, *settings: Sequence[int]) -> list[list[int]]:
    """One number for each axis, where torch takes one for all."""
    axes = w.dim() - 2
    return [list(each) * (axes if len(each) == 1 else 1) for each in settings]


def convolution(actual: Tensor, x: Tensor, w: Tensor, bias: Tensor | None, stride: Sequence[int],
                padding: Sequence[int], dilation: Sequence[int], transposed: bool,
                output_padding: Sequence[int], groups: int) -> Product | None:  # fmt: skip
    stride, padding, dilation = _each(w, stride, padding, dilation)
    if transposed:
        return _transposed(actual, x, w, bias, stride, padding, dilation, groups)
    return _straight(actual, _padded(x, [(pad, pad) for pad in padding]), w, bias, stride, dilation, groups)


def convolution_backward(actual: Sequence[Tensor], dy: Tensor, x: Tensor, w: Tensor,
                         bias_sizes: Sequence[int] | None, stride: Sequence[int],
                         padding: Sequence[int], dilation: Sequence[int], transposed: bool,
                         output_padding: Sequence[int], groups: int,
                         output_mask: Sequence[bool]) -> dict[str, Product | None]:  # fmt: skip
    """dx is the convolution that is transposed where this one was not, straight where it was; dw and
    dbias are sums over places."""
    stride, padding, dilation = _each(w, stride, padding, dilation)
    found: dict[str, Product | None] = {}
    dx, dw, dbias = actual
    wide, narrow = (dy, x) if transposed else (x, dy)  # that windows are of, and one place of each
    wide = _padded(wide, [(pad, pad) for pad in padding])
    if output_mask[0] and transposed:
        found["dx"] = _straight(dx, wide, w, None, stride, dilation, groups)
    elif output_mask[0]:
        found["dx"] = _transposed(dx, dy, w, None, stride, padding, dilation, groups)
    if output_mask[1]:
        windows, places = _windows(wide, w.shape[2:], stride, dilation, groups), _rows(narrow, groups)
        ends = even_ends(groups * places.shape[1], groups)
        dw = dw.flatten(1).unflatten(0, (groups, -1))
        found["dw"] = None if windows is None else wgrad(places.flatten(0, 1), windows.flatten(0, 1), ends, dw)
    if output_mask[2]:
        slopes = _rows(dy, 1)[0]
        ones = slopes.new_ones((1, 1, len(slopes)))
        found["dbias"] = plain(slopes.t(), ones, even_ends(slopes.shape[1]), dbias[:, None])
    return found
