"""A linear layer of many experts, or of one, in any recipe and with any sum, as a torch operator."""
from __future__ import annotations

from typing import List, Optional

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from mxoracle._call import run
from mxoracle.torch.arguments import axes, name_of, operator
from mxoracle.torch.operators import backend_of
from mxoracle.torch.recipes import Layer, aligned, library_takes, recipe_named


def pads(recipe: str, ends: Tensor, rows: int) -> bool:
    """True if a weight gradient needs groups padded."""
    return not aligned(ends, rows, recipe_named(recipe).alignment)


# Ends of groups that are right: their number of rows, the version of the tensor, and whether they
# are so in every replay of a graph.
_right: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def _version(ends: Tensor) -> int | None:
    return None if ends.is_inference() else ends._version


def right(ends: Tensor, rows: int) -> Tensor:
    """These ends, which ascend and lie within the rows because of how they are computed, and which
    nothing else writes."""
    if not torch.compiler.is_compiling():
        _right[ends] = rows, _version(ends), True
    return ends


def waits(x: Tensor, ends: Tensor) -> bool:
    """True if a call must wait, because a GPU may refuse its ends."""
    return not (x.is_cuda and _are_right(ends, len(x)))


def _are_right(ends: Tensor, rows: int) -> bool:
    """True if a GPU will refuse none of these ends.  The host waits for them, once for each tensor.
    A CUDA graph that is recorded gets a check of its own, which ends all work on the GPU."""
    known, version = _right.get(ends), _version(ends)
    if known == (rows, version, True):
        return True
    if ends.is_cuda and torch.cuda.is_current_stream_capturing():
        bounds = torch.nn.functional.pad(ends.flatten(), (1, 0))
        ascend = (bounds.diff() >= 0).all() & (bounds[-1] <= rows)
        torch._assert_async(ascend, f"group_ends: needs ends that ascend and lie within {rows} rows")
        return True
    if known == (rows, version, False):
        return True
    numbers = [0, *ends.flatten().tolist(), rows]
    if any(end < start for start, end in zip(numbers, numbers[1:])):
        return False
    if version is not None:
        _right[ends] = rows, version, False
    return True


def _in_library(x: Tensor, w: Tensor, ends: Tensor, bias: Tensor | None, recipe: str, format: str,
                sum: str, dy: Tensor | None = None, only: str = "y") -> dict:  # fmt: skip
    """One call of grouped_linear."""
    tensors = {"x": x, "w": w, "group_ends": ends, "bias": bias, "dy": dy}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    pad = pads(recipe, ends, len(x))
    return run("grouped_linear", tensors, backend=backend_of(x), recipe=recipe, format=format, sum=sum,
               out=name_of(x.dtype), pad=pad, only=only, wait=waits(x, ends))  # fmt: skip


def _kinds(*tensors: Tensor | None) -> set[torch.dtype]:
    return {tensor.dtype for tensor in tensors if tensor is not None}


@operator("scaled_linear")
def scaled_linear(
    x: Tensor,
    w: Tensor,
    group_ends: Tensor,
    bias: Optional[Tensor] = None,
    recipe: str = "mxfp8_rceil",
    format: str = "e4m3",
    sum: str = "exact",
) -> Tensor:
    """y = x w^T + bias for each group of rows: x [T, K], w [E, N, K], group_ends [E] i32, all of one
    type of bf16, f16 and f32.  recipe: one of `mxoracle.torch.recipes()`; format: of codes, of
    gradients behind a slash where it is another; sum: a name of `mxo list sums`, of weight
    gradients behind a slash where it is another.  Groups are padded where tokens are contracted.
    Its gradients are those of the recipe."""
    axes("scaled_linear: x", x, 2)
    if library_takes(recipe, format, sum, _kinds(x, w, bias)):
        return _in_library(x, w, group_ends, bias, recipe, format, sum)["y"]
    return Layer(recipe, format, sum, backend_of(x)).forward(x, w, group_ends, bias)


@scaled_linear.register_fake
def _(x, w, group_ends, bias=None, recipe="mxfp8_rceil", format="e4m3", sum="exact"):
    return x.new_empty((x.shape[0], w.shape[1]))


@operator("scaled_linear_backward")
def scaled_linear_backward(
    dy: Tensor,
    x: Tensor,
    w: Tensor,
    group_ends: Tensor,
    bias: Optional[Tensor],
    recipe: str,
    format: str,
    sum: str,
    only: str,
) -> List[Tensor]:
    """Of dx, dw and dbias those that `only` names, separated by commas."""
    like = {"dx": x, "dw": w, "dbias": bias}
    names = only.split(",")
    if library_takes(recipe, format, sum, _kinds(x, w, bias, dy)):
        found = _in_library(x, w, group_ends, bias, recipe, format, sum, dy, only)
        return [found[name].to(like[name].dtype) for name in names]
    layer = Layer(recipe, format, sum, backend_of(x))
    makes = {
        "dx": lambda: layer.input_gradient(dy, w, group_ends, x),
        "dw": lambda: layer.weight_gradient(dy, x, group_ends, w),
        "dbias": lambda: layer.bias_gradient(dy, group_ends, bias),
    }
    return [makes[name]() for name in names]


@scaled_linear_backward.register_fake
def _(dy, x, w, group_ends, bias, recipe, format, sum, only):
    like = {"dx": x, "dw": w, "dbias": bias}
    return [like[name].new_empty(like[name].shape) for name in only.split(",")]


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:4])
    ctx.settings = inputs[4:]


def _gradients(ctx, dy):
    wanted = zip(("dx", "dw", "", "dbias"), ctx.needs_input_grad)
    names = [name for name, needed in wanted if needed and name]
    found = scaled_linear_backward(dy, *ctx.saved_tensors, *ctx.settings, ",".join(names)) if names else []
    gradients = dict(zip(names, found))
    return gradients.get("dx"), gradients.get("dw"), None, gradients.get("dbias"), None, None, None


scaled_linear.register_autograd(_gradients, setup_context=_keep)
