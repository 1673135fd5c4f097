"""Expert parallelism with gradients: torchao's four steps, and whole expert layers across ranks.

The four after pytorch/ao 36027d8, moe_training/ep, whose names, arguments and results they have; any
backend of torch.distributed carries them.  Every function that takes a group is collective.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from mxoracle import _checks
from mxoracle._arrays import parts_of
from mxoracle._errors import Error, Unsupported
from mxoracle.torch import exchange, expert_products
from mxoracle.torch.arguments import as_int32, axes, checked, mode_of
from mxoracle.torch.exchange import all_to_all
from mxoracle.torch.linear import scaled_linear
from mxoracle.torch.operators import (
    grouped_linear,
    grouped_linear_codes,
    grouped_linear_codes_backward,
    quantize,
)
from mxoracle.torch.recipes import canonical, recipe_named
from mxoracle.torch.rows import _up, permute, permute_indices, unpermute


def _group(name: str | None) -> str:
    """The name of a process group that there is."""
    if not dist.is_initialized():
        raise Error("group: found no process group, needs torch.distributed.init_process_group")
    if name is None:
        return dist.group.WORLD.group_name
    try:
        dist.distributed_c10d._resolve_process_group(name)
    except RuntimeError:
        raise _checks.refusal("group", name, "the name of a process group") from None
    return name


def _scaled(codes: Tensor, scales: Tensor, kind: torch.dtype, block: int) -> Tensor:
    """torchao's MXTensor of them."""
    from torchao.prototype.mx_formats.mx_tensor import MXTensor

    return MXTensor(codes, scales.view(torch.float8_e8m0fnu), torch.float8_e4m3fn, block, kind, None, None,
                    False)  # fmt: skip


def _each(tensor: Tensor, move: Any) -> Tensor:
    """`move` of a tensor, or of the codes and scales of a scaled one."""
    parts = None if type(tensor) is Tensor else parts_of(tensor)
    if parts is None:
        return move(tensor)
    return _scaled(*map(move, parts), tensor.dtype, tensor.block_size)


class _Dispatch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, splits, mode, block):
        ctx.splits = splits
        parts = quantize(input, "e4m3", mode, f"1x{block}", "e8m0")
        return _scaled(*(all_to_all(part, *splits) for part in parts), input.dtype, block)

    @staticmethod
    def backward(ctx, dy):
        received, sent, group = ctx.splits
        return all_to_all(dy, sent, received, group), None, None, None


class _Permute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, indices):
        ctx.save_for_backward(indices)
        ctx.rows = rows.shape[0]
        return _each(rows, lambda part: permute(part, indices))

    @staticmethod
    def backward(ctx, dy):
        return unpermute(dy, ctx.saved_tensors[0], ctx.rows), None


class _Unpermute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, indices, count):
        ctx.save_for_backward(indices)
        return unpermute(rows, indices, count)

    @staticmethod
    def backward(ctx, dy):
        indices = ctx.saved_tensors[0]
        return _each(dy, lambda part: permute(part, indices)), None, None


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, splits, mode, block, quantized):
        ctx.splits, ctx.how = splits, (mode, block, quantized)
        return all_to_all(rows, *splits)

    @staticmethod
    def backward(ctx, dy):
        (received, sent, group), (mode, block, quantized) = ctx.splits, ctx.how
        if quantized:
            parts = quantize(dy.contiguous(), "e4m3", mode, f"1x{block}", "e8m0")
            back = [all_to_all(part, sent, received, group) for part in parts]
            return _scaled(*back, dy.dtype, block), None, None, None, None
        return all_to_all(dy, sent, received, group), None, None, None, None


# torchao's decorator: a compiled graph holds the operators within, not this Python.
_traced = torch._dynamo.nonstrict_trace


@checked
@_traced
def a2a_dispatch_mxfp8_fwd_hp_bwd(
    input: Tensor, output_splits: list[int], input_splits: list[int], group_name: str | None = None,
    scaling_mode: Any = "rceil", block_size: int = 32,
) -> Tensor:  # fmt: skip
    """Sends rows in MXFP8 to the ranks of their experts; gradients return in high precision."""
    splits = output_splits, input_splits, _group(group_name)
    return _Dispatch.apply(input, splits, mode_of("scaling_mode", scaling_mode), block_size)


@checked
@_traced
def permute_mxfp8_fwd_hp_bwd(
    mx_tensor: Tensor, num_tokens_per_expert: Tensor, ep_degree: int, num_local_experts: int,
    group_size_multiple_of: int = 32, use_mxfp8: bool = True, use_triton_for_bwd: bool = True,
) -> tuple[torch.Size, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Received rows, sorted by expert in padded groups.  Returns the shape before, with one row more;
    the rows; the source of each (-1: padding); and the sizes and ends of the groups."""
    axes("permute_mxfp8_fwd_hp_bwd: mx_tensor", mx_tensor, 2)
    rows, columns = mx_tensor.shape
    most = _up(rows + num_local_experts * group_size_multiple_of, group_size_multiple_of)
    indices, sizes, ends = permute_indices(num_tokens_per_expert, num_local_experts, ep_degree,
                                           group_size_multiple_of, most)  # fmt: skip
    return torch.Size((rows + 1, columns)), _Permute.apply(mx_tensor, indices), indices, sizes, ends


@checked
@_traced
def unpermute_hp_fwd_mxfp8_bwd(
    input: Tensor, permuted_indices: Tensor, padded_shape: torch.Size
) -> Tensor:
    """Restores the received order, without the padding; a gradient in MXFP8 stays in MXFP8."""
    return _Unpermute.apply(input, permuted_indices, padded_shape[0] - 1)


@checked
@_traced
def a2a_combine_hp_fwd_mxfp8_bwd(
    input: Tensor, output_splits: list[int], input_splits: list[int], group_name: str | None = None,
    scaling_mode: Any = "rceil", block_size: int = 32, mxfp8_bwd: bool = True,
) -> Tensor:  # fmt: skip
    """Returns rows to the ranks that sent them; gradients are sent in MXFP8."""
    splits = output_splits, input_splits, _group(group_name)
    _checks.whole_from("block_size", block_size, 1)
    return _Combine.apply(input, splits, mode_of("scaling_mode", scaling_mode), block_size, mxfp8_bwd)


_MOST = 1 << 20  # experts


class Plan(NamedTuple):
    """Where the rows of one step go, as one rank sees it."""

    experts: Tensor  # i32 [T, k], of all ranks; -1 for none
    count: int
    sent: list[int]  # rows to each rank
    received: list[int]
    indices: Tensor  # i32 [rows]: which received row each is, -1 padding
    ends: Tensor  # i32, of the padded groups of this rank's experts
    group: str


@checked
def plan(experts: Tensor, count: int, group: str | None = None, alignment: int = 32) -> Plan:
    """The plan of tokens with the chosen experts [T, k] out of `count`; expert e is on rank
    e / (count / ranks).  Pipelines flow and fp8_blockwise need
    alignment 128."""
    group = _group(group)
    ranks = dist.get_world_size(dist.distributed_c10d._resolve_process_group(group))
    _checks.whole_between("plan: count", count, 1, _MOST)
    axes("plan: experts", experts, 2)
    if count % ranks:
        raise Error(f"plan: count: found {count} experts on {ranks} ranks, needs a multiple of them")
    experts = as_int32("plan: experts", experts).contiguous()
    chosen = experts[experts >= 0].long()
    counts = torch.bincount(chosen, minlength=count)
    if len(counts) != count:
        raise Error(f"plan: experts: found {int(chosen.max())}, needs less than {count}")
    local = count // ranks
    came = all_to_all(counts, [local] * ranks, [local] * ranks, group)
    sent, received = (sizes.view(ranks, local).sum(1).tolist() for sizes in (counts, came))
    most = _up(sum(received) + local * alignment, alignment)
    indices, _, ends = permute_indices(came, local, ranks, alignment, most)
    return Plan(experts, count, sent, received, indices, ends, group)


def _there(part: Tensor, plan: Plan) -> Tensor:
    return permute(all_to_all(part, plan.received, plan.sent, plan.group), plan.indices)


def _back(rows: Tensor, plan: Plan) -> Tensor:
    came = unpermute(rows, plan.indices, sum(plan.received))
    return all_to_all(came, plan.sent, plan.received, plan.group)


@checked
def dispatch(x: Tensor, plan: Plan) -> Tensor:
    """Sends rows [T, D] of tokens to their experts, in bf16: sorted by expert, in padded groups."""
    rows = exchange.rows_by_expert(x, plan.experts, plan.count, sum(plan.sent))
    return _there(rows, plan)


@checked
def combine(rows: Tensor, weights: Tensor, plan: Plan) -> Tensor:
    """For every token, the weighted sum of its experts' outputs; weights [T, k] f32."""
    return exchange.combine(_back(rows, plan), plan.experts, weights, plan.count)


def _sent(x: Tensor, plan: Plan, recipe: str, format: str) -> tuple[Tensor, ...]:
    """Codes and scales of the rows that travel, in their order."""
    slots = sum(plan.sent)
    if recipe.startswith("mxfp8"):
        mode = recipe.split("_")[1]
        return exchange.quantized_by_expert(x, plan.experts, plan.count, slots, "mxfp8", format, mode)
    parts = quantize(x, format, block="1x128", **recipe_named(recipe).settings)
    chosen = plan.experts.flatten()
    order = chosen.argsort(stable=True)[chosen.numel() - slots :]  # -1 comes first, and stays
    return tuple(permute(part, (order // plan.experts.shape[1]).to(torch.int32)) for part in parts)


class _FirstOfCodes(torch.autograd.Function):
    """h = x w1^T, x quantised before it is sent; its gradient returns in bf16."""

    @staticmethod
    def forward(ctx, x, w1, plan, recipe, format):
        parts = [_there(part, plan) for part in _sent(x, plan, recipe, format)]
        ctx.save_for_backward(*parts, w1)
        ctx.plan, ctx.settings = plan, (recipe, format, "bf16", False)
        return grouped_linear_codes(*parts, w1, plan.ends, *ctx.settings)

    @staticmethod
    def backward(ctx, dh):
        codes, scales, w1 = ctx.saved_tensors
        plan = ctx.plan
        du, dw = grouped_linear_codes_backward(dh, codes, scales, w1, plan.ends, *ctx.settings, "dx,dw")
        dx = exchange.rows_by_expert_backward(_back(du, plan), plan.experts, plan.count)
        return dx, dw, None, None, None


class _SecondOfCodes(torch.autograd.Function):
    """y = the weighted sums of act w2^T; the gradient is quantised before it travels."""

    @staticmethod
    def forward(ctx, act, w2, weights, plan, recipe, format):
        rows = _back(grouped_linear(act, w2, plan.ends, None, recipe, format), plan)
        ctx.save_for_backward(act, w2, weights, rows)
        ctx.plan, ctx.settings = plan, (recipe, format)
        return exchange.combine(rows, plan.experts, weights, plan.count)

    @staticmethod
    def backward(ctx, dy):
        act, w2, weights, rows = ctx.saved_tensors
        plan, (recipe, format) = ctx.plan, ctx.settings
        *parts, dweights = exchange.combine_backward_quantized(
            dy, rows, plan.experts, weights, plan.count, "mxfp8", format, recipe.split("_")[1]
        )
        codes, scales = (_there(part, plan) for part in parts)
        dact = grouped_linear_codes(codes, scales, w2.transpose(1, 2), plan.ends, recipe, format)
        dw = expert_products.weight_gradient_of_codes(codes, scales, act, plan.ends, format)
        return dact, dw, dweights, None, None, None


class _Flow(torch.autograd.Function):
    """Rows as codes all the way, forward and backward."""

    @staticmethod
    def forward(ctx, x, weights, w1, w2, plan, format):
        sent = exchange.quantized_by_expert(x, plan.experts, plan.count, sum(plan.sent), "fp8_blockwise",
                                            format, "rceil")  # fmt: skip
        parts = [_there(part, plan) for part in sent]
        out, *kept = expert_products.flow_experts(*parts, w1, w2, plan.ends, format)
        rows = _back(out, plan)
        ctx.save_for_backward(*parts, *kept, w1, w2, rows, weights)
        ctx.plan, ctx.format = plan, format
        return exchange.combine(rows, plan.experts, weights, plan.count)

    @staticmethod
    def backward(ctx, dy):
        *kept, rows, weights = ctx.saved_tensors
        plan = ctx.plan
        *parts, dweights = exchange.combine_backward_quantized(
            dy, rows, plan.experts, weights, plan.count, "fp8_blockwise", ctx.format, "rceil"
        )
        there = [_there(part, plan) for part in parts]
        du, dw1, dw2 = expert_products.flow_experts_backward(*there, *kept, plan.ends, ctx.format)
        dx = exchange.rows_by_expert_backward(_back(du, plan), plan.experts, plan.count)
        return dx, dweights, dw1, dw2, None, None


@checked
def experts(
    x: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, plan: Plan, pipeline: str = "mxfp8",
    recipe: str = "", format: str = "e4m3",
) -> Tensor:  # fmt: skip
    """A layer of SwiGLU experts across ranks, as `mxo run moe_layer` has its pipelines bf16,
    quantize_after, mxfp8, flow and fp8_blockwise, from the experts and weights of every token on:
    x [T, D] bf16, weights [T, k] f32, and of this rank's experts w1 [E, 2F, D], w2 [E, D, F], bf16.
    recipe: mxfp8_rceil unless given, and of fp8_blockwise that, vllm or vllm_up; it may have another
    library's name (`MXFP8_RCEIL`).  format: of codes, e4m3 or e4m3fnuz."""
    if pipeline == "flow":
        return _Flow.apply(x, weights, w1, w2, plan, format)
    if pipeline not in _PIPELINES:
        raise Unsupported(f"experts: pipeline: found {pipeline}, needs {', '.join(_PIPELINES)} or flow")
    default, takes = _PIPELINES[pipeline]
    recipe = canonical(recipe) if recipe else default
    if takes and recipe not in takes:
        raise Error(f"experts: recipe: found {recipe}, needs one of {', '.join(takes)} where rows travel so")
    if pipeline in ("bf16", "quantize_after"):
        h = grouped_linear(dispatch(x, plan), w1, plan.ends, None, recipe, format)
        act = expert_products.swiglu(h)
        return combine(grouped_linear(act, w2, plan.ends, None, recipe, format), weights, plan)
    if pipeline == "fp8_blockwise":
        act = expert_products.swiglu(_FirstOfCodes.apply(x, w1, plan, recipe, format))
        high = recipe if recipe_named(recipe).wgrad_high else f"{recipe}_wgrad_with_hp"
        return combine(scaled_linear(act, w2, plan.ends, None, high, format), weights, plan)
    recipe = recipe.removesuffix("_wgrad_with_hp") + "_wgrad_with_hp"
    act = expert_products.swiglu(_FirstOfCodes.apply(x, w1, plan, recipe, format))
    return _SecondOfCodes.apply(act, w2, weights, plan, recipe, format)


_MX = tuple(f"mxfp8_{mode}{end}" for mode in ("rceil", "floor") for end in ("", "_wgrad_with_hp"))
# The recipe unless one is given, and those that it may be; empty: any.
_PIPELINES = {
    "bf16": ("bf16", ("bf16",)),
    "quantize_after": ("mxfp8_rceil", ()),
    "mxfp8": ("mxfp8_rceil", _MX),
    "fp8_blockwise": ("fp8_blockwise", ("fp8_blockwise", "vllm", "vllm_up")),
}
