"""Operators of torch.library for expert parallelism: rows by expert, to the ranks of their experts, and
weighted sums of what comes back."""
from typing import List, Tuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import _resolve_process_group

from mxoracle._errors import Error
from mxoracle.torch.arguments import operator
from mxoracle.torch.operators import _run, _type


@operator("all_to_all")
def all_to_all(x: Tensor, received: List[int], sent: List[int], group: str) -> Tensor:
    """sent[p] rows of x to rank p of the group of this name, received[p] from it.  Bytes travel, so any
    type does, by any backend."""
    ranks, mine = dist.get_world_size(_resolve_process_group(group)), dist.get_rank(_resolve_process_group(group))
    if len(sent) != ranks or len(received) != ranks or min(sent + received) < 0 or sent[mine] != received[mine]:
        raise Error(f"all_to_all: found {list(sent)} rows sent and {list(received)} received, needs a number a "
                    f"rank of {ranks}, as many to this rank as from it")  # fmt: skip
    if x.dim() == 0 or sum(sent) != x.shape[0]:
        raise Error(f"all_to_all: found shape {tuple(x.shape)}, needs {sum(sent)} rows", "shape")
    out = x.new_empty((sum(received), *x.shape[1:]))
    as_bytes = [tensor.unsqueeze(-1).view(torch.uint8) for tensor in (out, x.contiguous())]
    dist.all_to_all_single(*as_bytes, received, sent, group=_resolve_process_group(group))
    return out


@all_to_all.register_fake
def _(x, received, sent, group):
    return x.new_empty((sum(received), *x.shape[1:]))


def _keep_splits(ctx, inputs, output):
    ctx.splits = inputs[1:]


def _send_back(ctx, dy):
    received, sent, group = ctx.splits
    return all_to_all(dy, sent, received, group), None, None, None


all_to_all.register_autograd(_send_back, setup_context=_keep_splits)


def _local(op, tensors, experts, count, **settings):
    """An operator on ranks, for the rows of this one."""
    dense = {name: tensor.contiguous() for name, tensor in {**tensors, "experts": experts}.items()}
    return _run(op, dense, experts=count, layout="rank_major", **settings)


@operator("rows_by_expert")
def rows_by_expert(x: Tensor, experts: Tensor, count: int, slots: int) -> Tensor:
    """Row i is that of the i-th of `slots` selections, by (expert, token): x [T, D], experts [T, k] i32
    of `count`, -1 for none."""
    return _local("dispatch", {"x": x}, experts, count, precision="bf16")["x"]


@rows_by_expert.register_fake
def _(x, experts, count, slots):
    return x.new_empty((slots, x.shape[1]), dtype=torch.bfloat16)


@operator("rows_by_expert_backward")
def rows_by_expert_backward(dy: Tensor, experts: Tensor, count: int) -> Tensor:
    """The sum of the gradients of the rows of every token, slots ascending."""
    return _local("dispatch_backward", {"dy": dy}, experts, count, precision="bf16")["dx"]


@rows_by_expert_backward.register_fake
def _(dy, experts, count):
    return dy.new_empty((experts.shape[0], dy.shape[1]))


def _keep_experts(ctx, inputs, output):
    ctx.save_for_backward(inputs[1])
    ctx.count = inputs[2]


def _rows_gradient(ctx, dy):
    return rows_by_expert_backward(dy, ctx.saved_tensors[0], ctx.count), None, None, None


rows_by_expert.register_autograd(_rows_gradient, setup_context=_keep_experts)


def _codes_like(like, rows, columns, precision, format):
    block, scale = (32, "e8m0") if precision == "mxfp8" else (128, "f32")
    scales = (rows, (columns + block - 1) // block)
    return (like.new_empty((rows, columns), dtype=_type(format)),
            like.new_empty(scales, dtype=_type(scale)))  # fmt: skip


@operator("quantized_by_expert")
def quantized_by_expert(
    x: Tensor, experts: Tensor, count: int, slots: int, precision: str, format: str, scale_mode: str
) -> Tuple[Tensor, Tensor]:
    """Their codes and scales, as `mxo list ops dispatch` has the precisions mxfp8 and fp8_blockwise."""
    settings = {"precision": precision, "format": format, "scale_mode": scale_mode}
    found = _local("dispatch", {"x": x}, experts, count, **settings)
    return found["codes"], found["scales"]


@quantized_by_expert.register_fake
def _(x, experts, count, slots, precision, format, scale_mode):
    return _codes_like(x, slots, x.shape[1], precision, format)


@operator("combine")
def combine(rows: Tensor, experts: Tensor, weights: Tensor, count: int) -> Tensor:
    """For every token the weighted sum of its rows, which lie by expert, slots ascending; weights [T, k]
    f32."""
    return _local("combine", {"y": rows, "weights": weights}, experts, count)["out"]


@combine.register_fake
def _(rows, experts, weights, count):
    return rows.new_empty((experts.shape[0], rows.shape[1]))


@operator("combine_backward")
def combine_backward(
    dy: Tensor, rows: Tensor, experts: Tensor, weights: Tensor, count: int
) -> Tuple[Tensor, Tensor]:
    """Gradients of rows and weights."""
    tensors = {"y": rows, "dout": dy, "weights": weights}
    found = _local("combine_backward", tensors, experts, count, precision="bf16")
    return found["dy"], found["dweights"]


@combine_backward.register_fake
def _(dy, rows, experts, weights, count):
    return torch.empty_like(rows), torch.empty_like(weights)


@operator("combine_backward_quantized")
def combine_backward_quantized(
    dy: Tensor, rows: Tensor, experts: Tensor, weights: Tensor, count: int,
    precision: str, format: str, scale_mode: str,
) -> Tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Codes and scales of the gradient of rows, and the gradient of weights."""
    tensors = {"y": rows, "dout": dy, "weights": weights}
    settings = {"precision": precision, "format": format, "scale_mode": scale_mode}
    found = _local("combine_backward", tensors, experts, count, **settings)
    return found["dy.codes"], found["dy.scales"], found["dweights"]


@combine_backward_quantized.register_fake
def _(dy, rows, experts, weights, count, precision, format, scale_mode):
    return *_codes_like(rows, *rows.shape, precision, format), torch.empty_like(weights)


def _keep_combine(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3])
    ctx.count = inputs[3]


def _combine_gradients(ctx, dy):
    rows, dweights = combine_backward(dy, *ctx.saved_tensors, ctx.count)
    return rows, None, dweights, None


combine.register_autograd(_combine_gradients, setup_context=_keep_combine)
