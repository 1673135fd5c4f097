"""Ours in the place of torchao's grouped products for expert layers."""
from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from mxoracle._arrays import NAMES, parts_of
from mxoracle._errors import Error, Unsupported
from mxoracle.torch.operators import grouped_linear, grouped_linear_codes


class Refused(Unsupported, AssertionError):
    """What torchao asserts."""


def _name(out: torch.dtype | None) -> str:
    return NAMES[str(out or torch.bfloat16).removeprefix("torch.")]


def _codes_of(A: Any) -> tuple[Tensor, Tensor] | None:
    """Codes and scales of an MXTensor."""
    if type(A).__name__ != "MXTensor":
        return None
    if A.block_size != 32:
        raise Unsupported(f"A: found an MXTensor with blocks of {A.block_size}, needs 32")
    return parts_of(A)


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
    codes = _codes_of(A)
    if codes is not None and not wgrad_with_hp:
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
    if codes is not None:
        y = grouped_linear_codes(*codes, w, offs, *settings)
    else:
        y = grouped_linear(A, w, offs, None, *settings)
    return y if bias is None else y + bias.to(y.dtype)


@contextlib.contextmanager
def patch() -> Iterator[None]:
    """Inside of it, torchao's expert layers in MXFP8 call the library.

    with mxoracle.torch.torchao.patch():
        model(batch)
    """
    import torchao.prototype.moe_training.mxfp8_grouped_mm as home

    name = "_to_mxfp8_then_scaled_grouped_mm"
    theirs = getattr(home, name)
    holders = [
        module
        for module in list(sys.modules.values())
        if getattr(module, "__dict__", {}).get(name) is theirs
    ]
    for module in holders:
        setattr(module, name, to_mxfp8_then_scaled_grouped_mm)
    try:
        yield
    finally:
        for module in holders:
            setattr(module, name, theirs)
