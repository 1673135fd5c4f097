"""Weight gradients added in place to f32 accumulators, as Megatron's fused weight gradients are."""
from __future__ import annotations

import torch
from torch import Tensor

from mxoracle._call import run_into
from mxoracle._errors import Error
from mxoracle.torch.linear import pads, scaled_linear, scaled_linear_backward, waits
from mxoracle.torch.operators import backend_of
from mxoracle.torch.recipes import Layer, library_takes


def main_grad_of(w: Tensor) -> Tensor | None:
    """The `main_grad` of the parameter that w is or is a view of, seen as w is."""
    owner = w._base if w._is_view() else w
    main = getattr(owner, "main_grad", None)
    if main is None:
        return None
    if main.dtype != torch.float32 or main.shape != owner.shape or main.stride() != owner.stride():
        raise Error(f"main_grad: found {main.dtype} {tuple(main.shape)} for a weight {tuple(owner.shape)}, "
                    "needs f32 of its shape and strides")  # fmt: skip
    start = main.storage_offset() + w.storage_offset() - owner.storage_offset()
    return main.as_strided(w.shape, w.stride(), start)


def _add(main: Tensor, dy: Tensor, x: Tensor, w: Tensor, ends: Tensor, settings: tuple[str, str, str]) -> None:
    """main = fl32(main + fl32(the weight gradient))."""
    recipe, format, sum = settings
    if library_takes(*settings, {x.dtype, w.dtype, dy.dtype}):
        tensors = {"x": x, "w": w, "group_ends": ends, "dy": dy, "main_grad": main}
        run_into("grouped_linear", tensors, {"dw": main}, backend=backend_of(x), recipe=recipe, format=format,
                 sum=sum, pad=pads(recipe, ends, len(x)), only="dw", wait=waits(x, ends))  # fmt: skip
    else:
        main += Layer(*settings, backend_of(x)).weight_gradient(dy, x, ends, main)


class _Accumulated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, ends, bias, main, settings):
        ctx.save_for_backward(x, w, ends, bias)
        ctx.main, ctx.settings = main, settings
        return scaled_linear(x, w, ends, bias, *settings)

    @staticmethod
    def backward(ctx, dy):
        x, w, ends, bias = ctx.saved_tensors
        wanted = zip(("dx", "", "", "dbias"), ctx.needs_input_grad)
        names = [name for name, needed in wanted if needed and name]
        found = scaled_linear_backward(dy, x, w, ends, bias, *ctx.settings, ",".join(names)) if names else []
        gradients = dict(zip(names, found))
        if ctx.needs_input_grad[1]:
            _add(ctx.main, dy, x, w, ends, ctx.settings)
        return gradients.get("dx"), None, None, gradients.get("dbias"), None, None


def product(x: Tensor, w: Tensor, ends: Tensor, bias: Tensor | None, settings: tuple[str, str, str]) -> Tensor:
    """`scaled_linear`; where the weight has a `main_grad`, its gradient is added there and not to `grad`."""
    main = None if torch.compiler.is_compiling() or not w.requires_grad else main_grad_of(w)
    if main is None:
        return scaled_linear(x, w, ends, bias, *settings)
    return _Accumulated.apply(x, w, ends, bias, main, settings)
