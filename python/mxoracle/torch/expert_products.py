"""Operators of torch.library between dispatch and combine: the gate, products of rows that came as codes,
and the experts of FP8-Flow-MoE."""
from typing import List, Tuple

import torch
from torch import Tensor
from torch.library import custom_op

from mxoracle.torch.operators import _run, dequantize


@custom_op("mxoracle::swiglu", mutates_args=())
def swiglu(h: Tensor) -> Tensor:
    """silu(a) b of rows [a | b], rounded to bf16."""
    return _run("swiglu", {"x": h}, rounding="bf16")["y"]


@swiglu.register_fake
def _(h):
    return h.new_empty((h.shape[0], h.shape[1] // 2), dtype=torch.bfloat16)


@custom_op("mxoracle::swiglu_backward", mutates_args=())
def swiglu_backward(dy: Tensor, h: Tensor) -> Tensor:
    return _run("swiglu_backward", {"x": h, "dy": dy.contiguous()}, rounding="bf16")["dx"]


@swiglu_backward.register_fake
def _(dy, h):
    return torch.empty_like(h)


swiglu.register_autograd(
    lambda ctx, dy: swiglu_backward(dy, ctx.saved_tensors[0]),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@custom_op("mxoracle::weight_gradient", mutates_args=())
def weight_gradient(dy: Tensor, x: Tensor, group_ends: Tensor) -> Tensor:
    """dy^T x for each group, plain operands, exact and rounded once."""
    return _run("grouped_matmul_wgrad", {"dy": dy, "x": x, "group_ends": group_ends})["dw"]


@weight_gradient.register_fake
def _(dy, x, group_ends):
    return x.new_empty((group_ends.shape[0], dy.shape[1], x.shape[1]), dtype=torch.bfloat16)


def weight_gradient_of_codes(codes: Tensor, scales: Tensor, x: Tensor, group_ends: Tensor, format: str):
    """The same where dy came as codes: what they stand for, in bf16."""
    return weight_gradient(dequantize(codes, scales, format, "bf16"), x, group_ends)


def _weight(w: Tensor, format: str) -> dict:
    found = _run("quantize", {"x": w}, rule="flow", block="128x128", scale="f32", format=format)
    return {"w.codes": found["codes"], "w.scales": found["scales"]}


def _turned(weight: dict) -> dict:
    return {name: tensor.transpose(1, 2) for name, tensor in weight.items()}


def _product(codes: Tensor, scales: Tensor, weight: dict, group_ends: Tensor, format: str) -> Tensor:
    tensors = {"x.codes": codes, "x.scales": scales, **weight, "group_ends": group_ends}
    return _run("grouped_matmul", tensors, block_x="1x128", block_w="128x128", format_x=format,
                format_w=format)["y"]  # fmt: skip


_ROWS = {"rule": "flow", "block": "1x128", "scale": "f32"}


@custom_op("mxoracle::flow_experts", mutates_args=())
def flow_experts(
    codes: Tensor, scales: Tensor, w1: Tensor, w2: Tensor, group_ends: Tensor, format: str
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Both products of rows that came as codes with f32 scales of 128, the gate and its cast in one pass
    between: the result, h, and the codes and scales of the activations."""
    h = _product(codes, scales, _weight(w1, format), group_ends, format)
    act = _run("swiglu_quantize", {"x": h}, format=format, **_ROWS)
    y = _product(act["codes"], act["scales"], _weight(w2, format), group_ends, format)
    return y, h, act["codes"], act["scales"]


@flow_experts.register_fake
def _(codes, scales, w1, w2, group_ends, format):
    rows, make = codes.shape[0], w1.new_empty
    features = w2.shape[2]
    return (make((rows, w2.shape[1]), dtype=torch.bfloat16),
            make((rows, w1.shape[1]), dtype=torch.bfloat16),
            make((rows, features), dtype=codes.dtype),
            make((rows, (features + 127) // 128), dtype=torch.float32))  # fmt: skip


@custom_op("mxoracle::flow_experts_backward", mutates_args=())
def flow_experts_backward(
    dy_codes: Tensor, dy_scales: Tensor, codes: Tensor, scales: Tensor, h: Tensor, act_codes: Tensor,
    act_scales: Tensor, w1: Tensor, w2: Tensor, group_ends: Tensor, format: str,
) -> List[Tensor]:  # fmt: skip
    """Gradients of the rows, w1 and w2, that of y being codes, too; what is contracted over tokens gets
    its codes by moving exponents."""
    dact = _product(dy_codes, dy_scales, _turned(_weight(w2, format)), group_ends, format)
    dw2 = _over_tokens((dy_codes, dy_scales), (act_codes, act_scales), group_ends, format)
    found = _run("swiglu_quantize_backward", {"x": h, "dy": dact}, format=format, **_ROWS)
    dh = found["codes"], found["scales"]
    dx = _product(*dh, _turned(_weight(w1, format)), group_ends, format)
    return [dx, _over_tokens(dh, (codes, scales), group_ends, format), dw2]


def _over_tokens(dy, x, group_ends, format):
    tensors = {"group_ends": group_ends}
    for side, (codes, scales) in (("dy", dy), ("x", x)):
        operands = {"codes": codes, "scales": scales, "group_ends": group_ends}
        turned = _run("scaling_aware_transpose", operands, format=format)
        tensors |= {f"{side}.codes": turned["codes"].t(), f"{side}.scales": turned["scales"]}
    return _run("grouped_matmul_wgrad", tensors, block_dy="128x1", block_x="128x1", format_dy=format,
                format_x=format)["dw"]  # fmt: skip


@flow_experts_backward.register_fake
def _(dy_codes, dy_scales, codes, scales, h, act_codes, act_scales, w1, w2, group_ends, format):
    make = w1.new_empty
    return [make(codes.shape, dtype=torch.bfloat16), make(w1.shape), make(w2.shape)]
