"""torch._scaled_grouped_mm on a CPU, where PyTorch has none: exact sums, rounded once."""
from __future__ import annotations

import torch
from torch import Tensor

from mxoracle._errors import Unsupported
from mxoracle.torch.arguments import name_of
from mxoracle.torch.operators import _run
from mxoracle.torch.scaled import Scales, of_contracted_groups, of_groups


def _side(name: str, codes: Tensor, scales: Tensor, block: int) -> dict:
    """Scales of rows get the axis that they are one along."""
    if block:
        return {f"{name}.codes": codes, f"{name}.scales": scales.view(torch.float8_e8m0fnu)}
    return {f"{name}.codes": codes, f"{name}.scales": scales.unsqueeze(-1)}


def _of_rows(a: Tensor, b: Tensor, found: Scales, ends: Tensor, out: str) -> Tensor:
    tensors = {**_side("x", a, found.x, found.block),
               **_side("w", b.transpose(1, 2), found.w, found.block), "group_ends": ends}  # fmt: skip
    settings = {"format_x": name_of(a.dtype), "format_w": name_of(b.dtype), "out": out}
    block = "1x32" if found.block else "1xK"
    return _run("grouped_matmul", tensors, block_x=block, block_w=block, **settings)["y"]


def _of_columns(a: Tensor, b: Tensor, found: Scales, ends: Tensor, out: str) -> Tensor:
    """Contracted over the rows of each group; a scale a column of each comes as [E, columns]."""
    tensors, scales = {"group_ends": ends}, torch.float8_e8m0fnu if found.block else torch.float32
    for name, codes, given in (("dy", a.t(), found.x), ("x", b, found.w)):
        tensors |= {f"{name}.codes": codes, f"{name}.scales": given.contiguous().view(scales)}
    settings = {"format_dy": name_of(a.dtype), "format_x": name_of(b.dtype), "out": out}
    block = "32x1" if found.block else "Rx1"
    return _run("grouped_matmul_wgrad", tensors, block_dy=block, block_x=block, **settings)["dw"]


def scaled_grouped_mm(
    self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Tensor | None = None,
    bias: Tensor | None = None, scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None, use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    """Groups of rows [R, K] by [E, K, N], or contracted groups [N, R] by [R, K], with f32 scales of rows
    and columns or e8m0 scales of 32 in tiles; use_fast_accum has no say in exact sums."""
    shapes = f"{self.dim()} and {mat2.dim()} axes"
    found, product = None, _of_rows if mat2.dim() == 3 else _of_columns
    if offs is not None and bias is None and scale_result is None and self.dim() == 2:
        scales = of_groups if mat2.dim() == 3 else of_contracted_groups
        found = scales(self, mat2, scale_a, scale_b, offs)
    if found is None:
        raise Unsupported(f"_scaled_grouped_mm: found {shapes} with scales {list(scale_a.shape)} and "
                          f"{list(scale_b.shape)}, needs groups of rows, scales of rows or in tiles, "
                          "and neither bias nor scale_result")  # fmt: skip
    return product(self, mat2, found, offs.to(torch.int32), name_of(out_dtype or torch.bfloat16))
