"""Operators of torch.library: shapes for tracing, gradients, the library's bits."""
from collections.abc import Mapping
from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from mxoracle._arrays import NAMES, parts_of
from mxoracle._call import run
from mxoracle._errors import Error, Unsupported
from mxoracle.torch.arguments import name_of, operator

_TYPES = {ours: getattr(torch, theirs) for theirs, ours in NAMES.items() if hasattr(torch, theirs)}


def _type(name: str) -> torch.dtype:
    if name not in _TYPES:
        raise Error(f"found type '{name}', needs one of {', '.join(_TYPES)}")
    return _TYPES[name]


def backend_of(x: Tensor) -> str:
    if forward_ad._current_level >= 0:  # torch.library would give tangents of zero
        raise Unsupported("found forward-mode differentiation (torch.func.jvp), needs a backward pass")
    return str(x.device) if x.device.type == "cuda" else "cpu"


def _run(op: str, tensors: Mapping[str, Any], **parameters: Any) -> Mapping[str, Tensor]:
    """On the GPU of the first operand, if it is on one."""
    return run(op, tensors, backend=backend_of(next(iter(tensors.values()))), **parameters)


def _block(block: str, rows: int, columns: int) -> Tuple[int, int]:
    """"RxC", with R for all rows and K for all columns."""
    down, _, across = block.partition("x")
    if not (down.isdigit() or down == "R") or not (across.isdigit() or across == "K"):
        raise Error(f"quantize: block: found '{block}', needs rows x columns, such as 1x32 or RxK")
    return (rows if down == "R" else int(down)), (columns if across == "K" else int(across))


def _scale_type(block: str, scale: str) -> torch.dtype:
    """e8m0 for blocks of 32 elements unless said otherwise."""
    down, across = _block(block, 0, 0)
    return _type(scale or ("e8m0" if down * across == 32 else "f32"))


@operator("quantize")
def quantize(
    x: Tensor,
    format: str = "e4m3",
    scale_mode: str = "rceil",
    block: str = "1x32",
    scale: str = "",
    rule: str = "",
    power_of_2: str = "",
) -> Tuple[Tensor, Tensor]:
    """Codes and scales of blocks of rows x columns over the last two axes, as `mxo list ops
    quantize`: e8m0 scales for blocks of 32 elements and f32 for others, or as `scale` says."""
    mode = {"scale_mode": scale_mode} if _scale_type(block, scale) == _type("e8m0") else {}
    settings = {"format": format, "block": block, "scale": scale or None, "rule": rule or None,
                "power_of_2": power_of_2 or None, **mode}  # fmt: skip
    outputs = _run("quantize", {"x": x}, **settings)
    return outputs["codes"], outputs["scales"]


@quantize.register_fake
def _(x, format="e4m3", scale_mode="rceil", block="1x32", scale="", rule="", power_of_2=""):
    rows, columns = x.shape[-2:]
    down, across = _block(block, rows, columns)
    scales = (*x.shape[:-2], (rows + down - 1) // down, (columns + across - 1) // across)
    return x.new_empty(x.shape, dtype=_type(format)), x.new_empty(scales, dtype=_scale_type(block, scale))


@operator("dequantize")
def dequantize(
    codes: Tensor, scales: Tensor, format: str = "e4m3", out: str = "bf16", block: str = ""
) -> Tensor:
    """The values of codes and scales, one rounding; of blocks as the shapes say, or `block`."""
    tensors = {"codes": codes, "scales": scales}
    return _run("dequantize", tensors, format=format, out=out, block=block or None)["x"]


@dequantize.register_fake
def _(codes, scales, format="e4m3", out="bf16", block=""):
    return codes.new_empty(codes.shape, dtype=_type(out))


@operator("grouped_linear")
def grouped_linear(
    x: Tensor,
    w: Tensor,
    group_ends: Tensor,
    bias: Optional[Tensor] = None,
    recipe: str = "mxfp8_rceil",
    format: str = "e4m3",
    out: str = "bf16",
    pad: bool = False,
) -> Tensor:
    """y = x w^T + bias for each group of rows in low precision, as `mxo list ops grouped_linear`:
    x [T, K], w [E, N, K], group_ends [E] i32; `pad` pads groups where tokens are contracted.  Its
    gradients are those of the recipe."""
    tensors = {"x": x, "w": w, "group_ends": group_ends, "bias": bias}
    return _run("grouped_linear", tensors, recipe=recipe, format=format, out=out, pad=pad)["y"]


@grouped_linear.register_fake
def _(x, w, group_ends, bias=None, recipe="mxfp8_rceil", format="e4m3", out="bf16", pad=False):
    return x.new_empty((x.shape[0], w.shape[1]), dtype=_type(out))


@operator("grouped_linear_backward")
def grouped_linear_backward(
    dy: Tensor,
    x: Tensor,
    w: Tensor,
    group_ends: Tensor,
    bias: Optional[Tensor],
    recipe: str,
    format: str,
    out: str,
    pad: bool,
) -> List[Tensor]:
    """dx, dw and, where there is a bias, dbias."""
    tensors = {"x": x, "w": w, "group_ends": group_ends, "bias": bias, "dy": dy.contiguous()}
    wanted = [("dx", x), ("dw", w)] + ([("dbias", bias)] if bias is not None else [])
    settings = {"recipe": recipe, "format": format, "out": out, "pad": pad}
    outputs = _run("grouped_linear", tensors, **settings, only=",".join(name for name, _ in wanted))
    return [outputs[name].to(like.dtype) for name, like in wanted]


@grouped_linear_backward.register_fake
def _(dy, x, w, group_ends, bias, recipe, format, out, pad):
    return [torch.empty_like(t) for t in (x, w) + ((bias,) if bias is not None else ())]


def _keep_linear(ctx, inputs, output):
    x, w, group_ends, bias, *settings = inputs
    ctx.save_for_backward(x, w, group_ends, bias)
    ctx.settings = settings


def _plain(dy):
    """A gradient that comes as codes and scales (torchao's MXTensor), as the numbers that those are:
    exact in bf16."""
    parts = _parts(dy)
    if parts is None:
        return dy
    return dequantize(*parts, name_of(parts[0].dtype), name_of(dy.dtype))


def _parts(dy):
    return None if type(dy) is Tensor else parts_of(dy)


def _input_gradient(dx, dy, w, group_ends, settings):
    """`dx`, or where dy comes as codes their own product with w, as its recipe scales w along N."""
    parts = _parts(dy)
    if parts is None or not settings[0].startswith("mxfp8"):
        return dx
    return grouped_linear_codes(*parts, w.transpose(1, 2), group_ends, *settings)


def _linear_gradients(ctx, dy):
    x, w, group_ends, bias = ctx.saved_tensors
    gradients = grouped_linear_backward(_plain(dy), x, w, group_ends, bias, *ctx.settings)
    dbias = gradients[2] if bias is not None else None
    dx = _input_gradient(gradients[0], dy, w, group_ends, ctx.settings).to(x.dtype)
    return dx, gradients[1], None, dbias, None, None, None, None


grouped_linear.register_autograd(_linear_gradients, setup_context=_keep_linear)


@operator("grouped_linear_codes")
def grouped_linear_codes(
    codes: Tensor,
    scales: Tensor,
    w: Tensor,
    group_ends: Tensor,
    recipe: str = "mxfp8_rceil",
    format: str = "e4m3",
    out: str = "bf16",
    pad: bool = False,
) -> Tensor:
    """`grouped_linear` of x that is quantised already, codes [T, K] with e8m0 scales [T, K/32].  Only
    w has a gradient, in which the values of the codes stand for x in bf16."""
    tensors = {"x.codes": codes, "x.scales": scales, "w": w, "group_ends": group_ends}
    return _run("grouped_linear", tensors, recipe=recipe, format=format, out=out, pad=pad)["y"]


@grouped_linear_codes.register_fake
def _(codes, scales, w, ends, recipe="mxfp8_rceil", format="e4m3", out="bf16", pad=False):
    return w.new_empty((codes.shape[0], w.shape[1]), dtype=_type(out))


@operator("grouped_linear_codes_backward")
def grouped_linear_codes_backward(
    dy: Tensor,
    codes: Tensor,
    scales: Tensor,
    w: Tensor,
    group_ends: Tensor,
    recipe: str,
    format: str,
    out: str,
    pad: bool,
    only: str,
) -> List[Tensor]:
    """dx and dw, or those that `only` names."""
    tensors = {"x.codes": codes, "x.scales": scales, "w": w, "group_ends": group_ends,
               "dy": dy.contiguous()}  # fmt: skip
    settings = {"recipe": recipe, "format": format, "out": out, "pad": pad}
    outputs = _run("grouped_linear", tensors, **settings, only=only)
    kinds = {"dx": _type(out), "dw": w.dtype}
    return [outputs[name].to(kinds[name]) for name in only.split(",")]


@grouped_linear_codes_backward.register_fake
def _(dy, codes, scales, w, group_ends, recipe, format, out, pad, only):
    like = {"dx": codes.new_empty(codes.shape, dtype=_type(out)), "dw": torch.empty_like(w)}
    return [like[name] for name in only.split(",")]


def _keep_codes(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:4])
    ctx.settings = inputs[4:]


def _codes_gradients(ctx, dy):
    dw = grouped_linear_codes_backward(_plain(dy), *ctx.saved_tensors, *ctx.settings, "dw")[0]
    return None, None, dw, None, None, None, None, None


grouped_linear_codes.register_autograd(_codes_gradients, setup_context=_keep_codes)


class _LinearOfScaled(torch.autograd.Function):
    """`grouped_linear_codes` of a scaled tensor with a history, to which dx goes."""

    @staticmethod
    def forward(ctx, x, w, group_ends, settings):
        parts = parts_of(x)
        ctx.save_for_backward(*parts, w, group_ends)
        ctx.settings, ctx.dtype = settings, x.dtype
        return grouped_linear_codes(*parts, w, group_ends, *settings)

    @staticmethod
    def backward(ctx, dy):
        names = [name for name, wanted in zip(("dx", "dw"), ctx.needs_input_grad) if wanted]
        found = grouped_linear_codes_backward(_plain(dy), *ctx.saved_tensors, *ctx.settings,
                                              ",".join(names))  # fmt: skip
        gradients = dict(zip(names, found))
        if "dx" in gradients:
            _, _, w, group_ends = ctx.saved_tensors
            dx = _input_gradient(gradients["dx"], dy, w, group_ends, ctx.settings)
            gradients["dx"] = dx.to(ctx.dtype)
        return gradients.get("dx"), gradients.get("dw"), None, None


def grouped_linear_of_scaled(x: Any, w: Tensor, group_ends: Tensor, *settings: Any) -> Tensor:
    """`grouped_linear_codes` of torchao's MXTensor: gradients go to it and to w."""
    return _LinearOfScaled.apply(x, w, group_ends, settings)


@operator("moe_layer")
def moe_layer(
    x: Tensor,
    router: Tensor,
    w1: Tensor,
    w2: Tensor,
    top_k: int = 1,
    pipeline: str = "mxfp8",
    recipe: str = "mxfp8_rceil",
    score: str = "softmax",
) -> Tensor:
    """A mixture-of-experts layer on one rank, as `mxo list ops moe_layer`: x [T, D],
    router [E, D], w1 [E, 2F, D], w2 [E, D, F], bf16."""
    tensors = {"x": x, "router": router, "w1": w1, "w2": w2}
    settings = {"top_k": top_k, "pipeline": pipeline, "score": score}
    return _run("moe_layer", tensors, **settings, **_recipe(pipeline, recipe))["y"]


def _recipe(pipeline: str, recipe: str) -> dict:
    return {} if pipeline in ("bf16", "flow") else {"recipe": recipe}  # those have their own


@moe_layer.register_fake
def _(x, router, w1, w2, top_k=1, pipeline="mxfp8", recipe="mxfp8_rceil", score="softmax"):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@operator("moe_layer_backward")
def moe_layer_backward(
    dy: Tensor,
    x: Tensor,
    router: Tensor,
    w1: Tensor,
    w2: Tensor,
    top_k: int,
    pipeline: str,
    recipe: str,
    score: str,
) -> List[Tensor]:
    """dx, drouter, dw1, dw2."""
    tensors = {"x": x, "router": router, "w1": w1, "w2": w2, "dy": dy.contiguous()}
    settings = {"top_k": top_k, "pipeline": pipeline, "score": score}
    outputs = _run("moe_layer", tensors, **settings, **_recipe(pipeline, recipe))
    wanted = (("dx", x), ("drouter", router), ("dw1", w1), ("dw2", w2))
    return [outputs[name].to(like.dtype) for name, like in wanted]


@moe_layer_backward.register_fake
def _(dy, x, router, w1, w2, top_k, pipeline, recipe, score):
    return [torch.empty_like(t) for t in (x, router, w1, w2)]


def _keep_layer(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:4])
    ctx.settings = inputs[4:]


def _layer_gradients(ctx, dy):
    return (*moe_layer_backward(dy, *ctx.saved_tensors, *ctx.settings), None, None, None, None)


moe_layer.register_autograd(_layer_gradients, setup_context=_keep_layer)
