"""Ours in the place of torchao's grouped products and kernels for expert layers."""
from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from mxoracle._arrays import NAMES, parts_of
from mxoracle._errors import Error, Unsupported
from mxoracle.torch import torchao_kernels
from mxoracle.torch.operators import grouped_linear, grouped_linear_of_scaled


class Refused(Unsupported, AssertionError):
    """What torchao asserts."""


def _name(out: torch.dtype | None) -> str:
    return NAMES[str(out or torch.bfloat16).removeprefix("torch.")]


def _is_scaled(A: Any) -> bool:
    """True of an MXTensor, whose codes and scales are what is multiplied."""
    if type(A).__name__ != "MXTensor":
        return False
    if A.block_size != 32 or A.elem_dtype != torch.float8_e4m3fn:
        raise Refused(f"A: found an MXTensor of {A.elem_dtype} in blocks of {A.block_size}, needs "
                      "float8_e4m3fn in blocks of 32")  # fmt: skip
    parts_of(A)  # refuses swizzled scales
    return True


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
    mode = str(getattr(scale_calculation_mode, "value", scale_calculation_mode or "rceil")).lower()
    if mode not in ("rceil", "floor"):
        raise Unsupported(f"scale_calculation_mode: found {mode}, needs rceil or floor")
    recipe = f"mxfp8_{mode}" + ("_wgrad_with_hp" if wgrad_with_hp else "")
    w = B_t.transpose(-2, -1)
    settings = (recipe, "e4m3", _name(out_dtype), pad_token_groups_for_grouped_mm)
    if scaled:
        y = grouped_linear_of_scaled(A, w, offs, *settings)
    else:
        y = grouped_linear(A, w, offs, None, *settings)
    return y if bias is None else y + bias.to(y.dtype)


# What patch() replaces: the module of torchao that defines it, its name there, and ours.
_MX, _EP = "torchao.prototype.mx_formats.kernels", "torchao.prototype.moe_training.ep"
_REPLACED = [
    ("torchao.prototype.moe_training.mxfp8_grouped_mm", "_to_mxfp8_then_scaled_grouped_mm",
     to_mxfp8_then_scaled_grouped_mm),
    (_MX, "triton_to_mxfp8_dim0", torchao_kernels.triton_to_mxfp8_dim0),
    (_MX, "triton_to_mxfp8_dim1", torchao_kernels.triton_to_mxfp8_dim1),
    (_MX, "triton_mxfp8_dequant_dim0", torchao_kernels.triton_mxfp8_dequant_dim0),
    (_MX, "triton_mx_block_rearrange", torchao_kernels.triton_mx_block_rearrange),
    (_MX, "mxfp8_quantize_cuda", torchao_kernels.mxfp8_quantize_cuda),
    (_EP + ".kernels", "fill_indices_wrapper", torchao_kernels.fill_indices_wrapper),
    (_EP + ".permute", "_triton_permute_bwd", torchao_kernels._triton_permute_bwd),
    (_EP + ".a2a_dispatch", "all_to_all_single", torchao_kernels.all_to_all_single),
    (_EP + ".a2a_combine", "all_to_all_single", torchao_kernels.all_to_all_single),
]  # fmt: skip


def _replace(stack: contextlib.ExitStack, home: str, name: str, ours: Any) -> None:
    """In every module that holds it, but torch's; what this torchao has not is left out."""
    try:
        theirs = getattr(importlib.import_module(home), name)
    except (ImportError, AttributeError):
        return
    for module in list(sys.modules.values()):
        if module.__name__.startswith("torch.") or module is torchao_kernels:
            continue
        if getattr(module, "__dict__", {}).get(name) is theirs:
            setattr(module, name, ours)
            stack.callback(setattr, module, name, theirs)


@contextlib.contextmanager
def patch() -> Iterator[None]:
    """Inside of it, torchao's expert layers in MXFP8 call the library: their grouped product, the
    quantisers and the indices of tokens that expert parallelism needs.

    with mxoracle.torch.torchao.patch():
        model(batch)
    """
    import torchao.prototype.moe_training.mxfp8_grouped_mm  # noqa: F401  # else nothing to replace

    with contextlib.ExitStack() as stack:
        for home, name, ours in _REPLACED:
            _replace(stack, home, name, ours)
        library = torch.library.Library("torchao", "FRAGMENT")
        stack.callback(library._destroy)
        if not hasattr(torch.ops.torchao, "mxfp8_quantize"):
            library.define(torchao_kernels.MXFP8_QUANTIZE)
        library.impl("mxfp8_quantize", torchao_kernels.mxfp8_quantize, "CPU")
        yield
