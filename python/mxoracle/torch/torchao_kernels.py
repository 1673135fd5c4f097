"""torchao's kernels for a GPU that the catalogue has, under torchao's names, on any device.

Arguments and shapes after torchao/prototype/mx_formats/kernels.py and moe_training/ep of 0.18; read.
"""
from __future__ import annotations

import torch
from torch import Tensor

from mxoracle._errors import Unsupported
from mxoracle.torch.arguments import mode_of, name_of
from mxoracle.torch.operators import dequantize, quantize
from mxoracle.torch.rows import permute_indices, swizzle_scales, unpermute


def triton_to_mxfp8_dim0(
    x: Tensor, inner_block_size: int = 32, scaling_mode: str = "rceil"
) -> tuple[Tensor, Tensor]:
    """Blocks along the last axis."""
    flat = x.reshape(-1, x.shape[-1])
    codes, scales = quantize(flat, "e4m3", mode_of("scaling_mode", scaling_mode), f"1x{inner_block_size}", "e8m0")
    return codes.view(x.shape), scales.view(*x.shape[:-1], scales.shape[-1])


def triton_to_mxfp8_dim1(
    x: Tensor, inner_block_size: int = 32, scaling_mode: str = "rceil"
) -> tuple[Tensor, Tensor]:
    """Blocks along the rows: codes column-major, scales a row of x's columns."""
    codes, scales = quantize(x, "e4m3", mode_of("scaling_mode", scaling_mode), f"{inner_block_size}x1", "e8m0")
    return codes.t().contiguous().t(), scales.t().contiguous()


def triton_mxfp8_dequant_dim0(
    e4m3_data: Tensor, e8m0_scales: Tensor, out_dtype: torch.dtype, scale_block_size: int = 32
) -> Tensor:
    """The values of codes with a scale for each block along the last axis."""
    flat = e4m3_data.reshape(-1, e4m3_data.shape[-1])
    scales = e8m0_scales.reshape(flat.shape[0], -1).view(torch.float8_e8m0fnu)
    return dequantize(flat, scales, "e4m3", name_of(out_dtype), f"1x{scale_block_size}").view(e4m3_data.shape)


def mxfp8_quantize(
    input: Tensor, rowwise: bool, colwise: bool, scale_dim_x: int, scale_dim_y: int,
    fp8_format: str, scaling_mode: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """torch.ops.torchao.mxfp8_quantize, which a torchao without its CUDA kernels has not: codes along
    rows and along columns, then their scales; empty where they are not asked for."""
    for asked, name, extent in ((rowwise, "rowwise output requires scale_dim_x", scale_dim_x),
                                (colwise, "colwise output requires scale_dim_y", scale_dim_y)):  # fmt: skip
        if asked and extent != 32:
            raise Unsupported(f"mxfp8_quantize: {name} == 32, found {extent}")
    if fp8_format != "e4m3":
        raise Unsupported(f"mxfp8_quantize: fp8_format: found {fp8_format}, needs e4m3")
    none = input.new_empty(0, dtype=torch.float8_e4m3fn), input.new_empty(0, dtype=torch.float8_e8m0fnu)
    rows = triton_to_mxfp8_dim0(input, 32, scaling_mode) if rowwise else none
    columns = triton_to_mxfp8_dim1(input, 32, scaling_mode) if colwise else none
    column_scales = columns[1].t().contiguous().t() if colwise else columns[1]
    return rows[0], columns[0], rows[1], column_scales


def mxfp8_quantize_cuda(
    x: Tensor, rowwise: bool = False, colwise: bool = True, scaling_mode: str = "rceil"
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """That operator in blocks of 32."""
    return torch.ops.torchao.mxfp8_quantize.default(x, rowwise, colwise, 32, 32, "e4m3", scaling_mode)


MXFP8_QUANTIZE = ("(Tensor input, bool rowwise, bool colwise, int scale_dim_x, "
                  "int scale_dim_y, str fp8_format, str scaling_mode) "
                  "-> (Tensor, Tensor, Tensor, Tensor)")  # fmt: skip


def triton_mx_block_rearrange(scale_tensor: Tensor) -> Tensor:
    """One matrix of scales in tiles of 128 x 4, padded with zeros."""
    rows, columns = (-(-extent // tile) * tile for extent, tile in zip(scale_tensor.shape, (128, 4)))
    return swizzle_scales(scale_tensor).view(rows, columns)


def generate_permute_indices(
    tokens_per_expert_group: Tensor, experts_per_rank: int, num_ranks: int, max_len: int, alignment: int,
    use_cpu: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Where tokens that came rank by rank lie expert by expert."""
    return permute_indices(tokens_per_expert_group, experts_per_rank, num_ranks, alignment, max_len)


def _triton_permute_bwd(
    grad_output: Tensor, permuted_indices: Tensor, original_rows: int, original_cols: int
) -> Tensor:
    """Rows back to where they came from; those of index -1 are padding."""
    return unpermute(grad_output, permuted_indices, original_rows)
