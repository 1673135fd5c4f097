"""Ours in the place of torchao's grouped products and kernels for expert layers."""
from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from mxoracle._arrays import parts_of
from mxoracle._errors import Error, Unsupported
from mxoracle.torch import ep, torchao_grouped, torchao_kernels
from mxoracle.torch.arguments import axes, checked, mode_of, name_of
from mxoracle.torch.operators import grouped_linear, grouped_linear_of_scaled
from mxoracle.torch.scaled_products import scaled_grouped_mm


class Refused(Unsupported, AssertionError):
    """What torchao asserts."""


def _is_scaled(A: Any) -> bool:
    """True of an MXTensor, whose codes and scales are what is multiplied."""
    if type(A).__name__ != "MXTensor":
        return False
    if A.block_size != 32 or A.elem_dtype != torch.float8_e4m3fn:
        raise Refused(f"A: found an MXTensor of {A.elem_dtype} in blocks of {A.block_size}, needs "
                      "float8_e4m3fn in blocks of 32")  # fmt: skip
    parts_of(A)  # refuses swizzled scales
    return True


@checked
@torch._dynamo.nonstrict_trace  # as torchao's: a compiled graph holds the operators within
def to_mxfp8_then_scaled_grouped_mm(
    A: Tensor,
    B_t: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = torch.bfloat16,
    kernel_preference: Any = None,
    wgrad_with_hp: bool = False,
    scale_calculation_mode: Any = None,
    pad_token_groups_for_grouped_mm: bool = False,
) -> Tensor:
    """torchao's function of this name: A [M, K], also an MXTensor, B_t [G, K, N], offs [G].  The
    products are the exact sums, rounded once; kernel_preference has no say in them."""
    scaled = _is_scaled(A)
    if scaled and not wgrad_with_hp:
        raise Refused("A: found an MXTensor, needs wgrad_with_hp=True: its values in bf16 stand for A "
                      "in the weight gradient")  # fmt: skip
    if offs is None:
        raise Error("to_mxfp8_then_scaled_grouped_mm: offs: missing, needs the ends of the groups")
    axes("to_mxfp8_then_scaled_grouped_mm: B_t", B_t, 3)
    mode = "rceil" if scale_calculation_mode is None else mode_of("scale_calculation_mode", scale_calculation_mode)
    recipe = f"mxfp8_{mode}" + ("_wgrad_with_hp" if wgrad_with_hp else "")
    w = B_t.transpose(-2, -1)
    settings = (recipe, "e4m3", name_of(out_dtype or torch.bfloat16), pad_token_groups_for_grouped_mm)
    if scaled:
        y = grouped_linear_of_scaled(A, w, offs, *settings)
    else:
        y = grouped_linear(A, w, offs, None, *settings)
    if bias is None:
        return y
    if not bias.is_floating_point() or bias.shape not in (y.shape, y.shape[1:], (1, y.shape[1])):
        raise Error(f"bias: found {bias.dtype} of shape {tuple(bias.shape)}, needs a number a column of "
                    f"{tuple(y.shape)}, or one an element")  # fmt: skip
    return y + bias.to(y.dtype)


# What patch() replaces: the module of torchao that defines it, where ours is, and the names there.
_MX, _EP = "torchao.prototype.mx_formats.kernels", "torchao.prototype.moe_training.ep"
_GROUPED = "torchao.prototype.moe_training.kernels"
_REPLACED = [
    (_MX, torchao_kernels, ("triton_to_mxfp8_dim0", "triton_to_mxfp8_dim1", "triton_mxfp8_dequant_dim0",
                            "triton_mx_block_rearrange", "mxfp8_quantize_cuda")),
    (_EP + ".kernels", torchao_kernels, ("generate_permute_indices",)),
    (_EP + ".permute", torchao_kernels, ("_triton_permute_bwd",)),
    (_EP, ep, ("a2a_dispatch_mxfp8_fwd_hp_bwd", "permute_mxfp8_fwd_hp_bwd", "unpermute_hp_fwd_mxfp8_bwd",
               "a2a_combine_hp_fwd_mxfp8_bwd")),
    (_GROUPED + ".mxfp8.quant", torchao_grouped, (
        "triton_mx_block_rearrange_2d_M_groups", "triton_mx_block_rearrange_2d_K_groups",
        "triton_mx_block_rearrange_per_group_3d", "mx_block_rearrange_2d_M_groups_cuda",
        "fused_pad_token_groups_cuda", "fused_unpad_token_groups_cuda", "mxfp8_quantize_cuda_3d",
        "mxfp8_quantize_2d_1x32_cutedsl", "mxfp8_quantize_2d_32x1_cutedsl",
        "mxfp8_quantize_2d_1x32_flydsl", "mxfp8_quantize_2d_32x1_flydsl",
        "mxfp8_quantize_3d_flydsl")),
    (_GROUPED + ".float8_rowwise", torchao_grouped, (
        "triton_fp8_rowwise_2d_scale_and_cast", "triton_fp8_colwise_3d_scale_and_cast",
        "triton_fp8_rowwise_3d_transpose_rhs", "triton_fp8_rowwise_3d_transpose_rhs_fused_reduction")),
    (_GROUPED + ".jagged_float8_scales", torchao_grouped, (
        "triton_fp8_per_group_rowwise_scales", "triton_fp8_per_group_colwise_scales",
        "triton_fp8_per_group_colwise_scales_dual")),
]  # fmt: skip

# torch.ops.torchao: what is run on a CPU, and how a torchao without its CUDA kernels lacks it.
_PAIR = "(Tensor inputs, Tensor offsets, int alignment_size) -> (Tensor, Tensor, Tensor)"
_OPERATORS = [
    ("mxfp8_quantize", torchao_kernels.mxfp8_quantize, torchao_kernels.MXFP8_QUANTIZE),
    ("mx_block_rearrange_2d_M_groups", torchao_grouped.mx_block_rearrange_2d_M_groups_cuda,
     "(Tensor scales_tensor, Tensor input_offsets, int chunks_per_tb) -> Tensor"),
    ("fused_pad_token_groups", torchao_grouped.fused_pad_token_groups_cuda, _PAIR),
    ("fused_unpad_token_groups", torchao_grouped.fused_unpad_token_groups_cuda,
     "(Tensor inputs, Tensor offsets, Tensor padded_group_start_offsets, int num_tokens, "
     "int alignment_size) -> Tensor"),
    ("mxfp8_quantize_3d_cutedsl", torchao_grouped.mxfp8_quantize_cuda_3d, ""),
    ("mxfp8_quantize_2d_1x32_cutedsl", torchao_grouped.mxfp8_quantize_2d_1x32_cutedsl, ""),
    ("mxfp8_quantize_2d_32x1_cutedsl", torchao_grouped.mxfp8_quantize_2d_32x1_cutedsl, ""),
    ("mxfp8_quantize_3d_flydsl", torchao_grouped.mxfp8_quantize_3d_flydsl, ""),
    ("mxfp8_quantize_2d_1x32_flydsl", torchao_grouped.mxfp8_quantize_2d_1x32_flydsl, ""),
    ("mxfp8_quantize_2d_32x1_flydsl", torchao_grouped.mxfp8_quantize_2d_32x1_flydsl, ""),
]  # fmt: skip


def _replace(stack: contextlib.ExitStack, home: str, name: str, ours: Any) -> None:
    """In every module that holds it, but torch's; what this torchao has not is left out."""
    try:
        theirs = getattr(importlib.import_module(home), name)
    except (ImportError, AttributeError):
        return
    for module in list(sys.modules.values()):
        if module.__name__.startswith(("torch.", "mxoracle.")):
            continue
        if getattr(module, "__dict__", {}).get(name) is theirs:
            setattr(module, name, ours)
            stack.callback(setattr, module, name, theirs)


def _operators(stack: contextlib.ExitStack) -> None:
    library = torch.library.Library("torchao", "FRAGMENT")
    stack.callback(library._destroy)
    for name, ours, schema in _OPERATORS:
        if not hasattr(torch.ops.torchao, name):
            if not schema:
                continue
            library.define(name + schema)
        library.impl(name, ours, "CPU")
    if not torch._C._dispatch_has_kernel_for_dispatch_key("aten::_scaled_grouped_mm", "CPU"):
        products = torch.library.Library("aten", "IMPL")
        stack.callback(products._destroy)
        products.impl("_scaled_grouped_mm", scaled_grouped_mm, "CPU")


@contextlib.contextmanager
def patch() -> Iterator[None]:
    """Inside of it, torchao's expert layers call the library: their grouped product in MXFP8, the
    quantisers of MXFP8 and FP8, scales in tiles, and the indices of tokens that expert parallelism
    needs; `torch.ops.torchao` has its operators on the CPU, and `torch._scaled_grouped_mm` runs there.

    with mxoracle.torch.torchao.patch():
        model(batch)
    """
    import torchao.prototype.moe_training.mxfp8_grouped_mm  # noqa: F401  # else nothing to replace

    with contextlib.ExitStack() as stack:
        _replace(stack, "torchao.prototype.moe_training.mxfp8_grouped_mm",
                 "_to_mxfp8_then_scaled_grouped_mm", to_mxfp8_then_scaled_grouped_mm)  # fmt: skip
        for home, ours, names in _REPLACED:
            for name in names:
                _replace(stack, home, name, getattr(ours, name))
        _operators(stack)
        yield
