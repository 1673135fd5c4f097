"""torchao's kernels for groups of tokens and weights of experts, under its names, on any device.

Arguments, shapes and strides after pytorch/ao 36027d8, moe_training/kernels; read.
"""
from __future__ import annotations

import torch
from torch import Tensor

from mxoracle._errors import Error, Unsupported
from mxoracle.torch.arguments import mode_of, name_of
from mxoracle.torch.operators import quantize
from mxoracle.torch.rows import pad_groups, swizzle_scales, unpad_groups
from mxoracle.torch.torchao_kernels import triton_mx_block_rearrange


def _column_major(codes: Tensor) -> Tensor:
    return codes.transpose(-2, -1).contiguous().transpose(-2, -1)


# Scales in tiles.


def triton_mx_block_rearrange_2d_M_groups(scales_tensor: Tensor, input_offsets: Tensor) -> Tensor:
    """Groups are rows."""
    return swizzle_scales(scales_tensor, "m_groups", input_offsets)


def mx_block_rearrange_2d_M_groups_cuda(
    scales_tensor: Tensor, input_offsets: Tensor, chunks_per_tb: int = 4
) -> Tensor:
    return triton_mx_block_rearrange_2d_M_groups(scales_tensor, input_offsets)


def triton_mx_block_rearrange_2d_K_groups(scales_tensor: Tensor, input_offsets: Tensor) -> Tensor:
    """Groups are columns."""
    return swizzle_scales(scales_tensor, "k_groups", input_offsets)


def triton_mx_block_rearrange_per_group_3d(scale_tensor: Tensor) -> Tensor:
    """A matrix for each expert."""
    return swizzle_scales(scale_tensor, "per_group_3d")


# Rows of groups.


def fused_pad_token_groups_cuda(
    inputs: Tensor, offsets: Tensor, alignment_size: int = 32
) -> tuple[Tensor, Tensor, Tensor]:
    return pad_groups(inputs, offsets, alignment_size)


def fused_unpad_token_groups_cuda(
    inputs: Tensor, offsets: Tensor, padded_group_start_offsets: Tensor, num_tokens: int,
    alignment_size: int = 32,
) -> Tensor:  # fmt: skip
    return unpad_groups(inputs, offsets, padded_group_start_offsets, num_tokens)


# MXFP8.


class Misaligned(Error, AssertionError):
    """What torchao asserts."""


def _check(op: str, x: Tensor, rank: int, block_size: int, axes: tuple[int, ...]) -> None:
    if x.dim() != rank or block_size != 32:
        raise Unsupported(f"{op}: found {x.dim()} axes in blocks of {block_size}, needs {rank} in blocks "
                          "of 32")  # fmt: skip
    for axis in axes:
        if x.shape[axis] % 32:
            raise Misaligned(f"{op}: found {x.shape[axis]} along axis {axis}, must be a multiple of "
                             "block_size, 32")  # fmt: skip


def _check_groups(op: str, offs: Tensor | None) -> None:
    sizes = [] if offs is None else torch.diff(offs, prepend=offs.new_zeros(1)).tolist()
    if any(size % 128 for size in sizes):
        raise Error(f"{op}: offs: found groups of {sizes} rows, needs multiples of 128")


def _quantized(x: Tensor, scaling_mode: str, block: str) -> tuple[Tensor, Tensor]:
    return quantize(x, "e4m3", mode_of("scaling_mode", scaling_mode), block, "e8m0")


def mxfp8_quantize_cuda_3d(
    x: Tensor, block_size: int = 32, scale_block_dim1: int = 32, scale_block_dim2: int = 1,
    scaling_mode: str = "rceil", stage_count: int = 2, blocked_scale_output: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Codes of x [E, N, K], the columns of an expert adjacent, and scales of 32 x 1 or 32 x 32 elements,
    in rows or in tiles."""
    op = "mxfp8_quantize_3d"
    _check(op, x, 3, block_size, (1, 2))
    if scale_block_dim1 != 32 or scale_block_dim2 not in (1, 32):
        raise Unsupported(f"{op}: found blocks of {scale_block_dim1} x {scale_block_dim2}, needs 32 x 1 "
                          "or 32 x 32")  # fmt: skip
    codes, scales = _quantized(x, scaling_mode, f"32x{scale_block_dim2}")
    if blocked_scale_output:
        turned = scales.view(torch.uint8).transpose(-2, -1).repeat_interleave(scale_block_dim2, 1)
        scales = triton_mx_block_rearrange_per_group_3d(turned).view(scales.dtype)
    return _column_major(codes), scales


def mxfp8_quantize_3d_flydsl(
    x: Tensor, block_size: int = 32, scale_block_dim1: int = 32, scale_block_dim2: int = 1,
    scaling_mode: str = "rceil", stage_count: int = 2, blocked_scale_output: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return mxfp8_quantize_cuda_3d(x, block_size, scale_block_dim1, scale_block_dim2, scaling_mode,
                                  stage_count, blocked_scale_output)  # fmt: skip


def mxfp8_quantize_2d_1x32_flydsl(
    x: Tensor, block_size: int = 32, scaling_mode: str = "rceil", stage_count: int = 2,
    offs: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Blocks along rows, scales in rows."""
    _check("mxfp8_quantize_2d_1x32", x, 2, block_size, (1,))
    _check_groups("mxfp8_quantize_2d_1x32", offs)
    return _quantized(x, scaling_mode, "1x32")


def mxfp8_quantize_2d_1x32_cutedsl(
    x: Tensor, block_size: int = 32, scaling_mode: str = "rceil", stage_count: int = 2,
    offs: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Scales in tiles."""
    codes, scales = mxfp8_quantize_2d_1x32_flydsl(x, block_size, scaling_mode, stage_count, offs)
    return codes, triton_mx_block_rearrange(scales)


def mxfp8_quantize_2d_32x1_cutedsl(
    x: Tensor, block_size: int = 32, scaling_mode: str = "rceil", stage_count: int = 2,
    blocked_scale_output: bool = True, offs: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Blocks along columns: codes column-major, scales a row of each column, or in tiles."""
    _check("mxfp8_quantize_2d_32x1", x, 2, block_size, (0,))
    _check_groups("mxfp8_quantize_2d_32x1", offs)
    codes, scales = _quantized(x, scaling_mode, "32x1")
    turned = scales.t().contiguous()
    return _column_major(codes), swizzle_scales(turned) if blocked_scale_output else turned


def mxfp8_quantize_2d_32x1_flydsl(
    x: Tensor, block_size: int = 32, scaling_mode: str = "rceil", stage_count: int = 2,
    blocked_scale_output: bool = False, offs: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return mxfp8_quantize_2d_32x1_cutedsl(x, block_size, scaling_mode, stage_count,
                                          blocked_scale_output, offs)  # fmt: skip


# FP8 with the f32 scales of rows and columns, which are what x was multiplied by.


def _float8(x: Tensor, output_dtype: torch.dtype, block: str, down: bool) -> tuple[Tensor, Tensor]:
    format = name_of(output_dtype)
    return quantize(x, format, "rceil", block, "f32", "torchao_multiplier", "down" if down else "none")


def triton_fp8_rowwise_2d_scale_and_cast(
    hp_tensor: Tensor, output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return _float8(hp_tensor, output_dtype, "1xK", round_scales_to_power_of_2)


def triton_fp8_colwise_3d_scale_and_cast(
    hp_tensor: Tensor, output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Scales [E, 1, N] of x [E, K, N]; codes column-major."""
    codes, scales = _float8(hp_tensor, output_dtype, "Rx1", round_scales_to_power_of_2)
    return _column_major(codes), scales


def triton_fp8_rowwise_3d_transpose_rhs(
    hp_tensor: Tensor, output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Codes [E, N, K], column-major, and scales [E, K] of x [E, K, N]."""
    codes, scales = _float8(hp_tensor, output_dtype, "1xK", round_scales_to_power_of_2)
    return codes.transpose(-2, -1), scales.squeeze(-1)


def triton_fp8_rowwise_3d_transpose_rhs_fused_reduction(
    hp_tensor: Tensor, output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return triton_fp8_rowwise_3d_transpose_rhs(hp_tensor, output_dtype, round_scales_to_power_of_2)


def triton_fp8_per_group_rowwise_scales(
    hp_tensor: Tensor, offsets: Tensor, output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Groups are columns: the scales of the rows, group by group."""
    ends = offsets.tolist()
    parts = [_float8(hp_tensor[:, start:end], output_dtype, "1xK", round_scales_to_power_of_2)
             for start, end in zip([0, *ends], ends)]  # fmt: skip
    codes = torch.cat([part.view(torch.uint8) for part, _ in parts], 1).view(output_dtype)
    return codes, torch.cat([scales.flatten() for _, scales in parts])


def triton_fp8_per_group_colwise_scales(
    hp_tensor: Tensor, offsets: Tensor, output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Groups are rows: the scales of the columns, group by group; codes column-major."""
    turned, scales = triton_fp8_per_group_rowwise_scales(hp_tensor.t(), offsets, output_dtype,
                                                         round_scales_to_power_of_2)  # fmt: skip
    return turned.t(), scales


def triton_fp8_per_group_colwise_scales_dual(
    hp_tensor_1: Tensor, hp_tensor_2: Tensor, offsets: Tensor,
    output_dtype: torch.dtype = torch.float8_e4m3fn, round_scales_to_power_of_2: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Of two tensors."""
    settings = offsets, output_dtype, round_scales_to_power_of_2
    return (*triton_fp8_per_group_colwise_scales(hp_tensor_1, *settings),
            *triton_fp8_per_group_colwise_scales(hp_tensor_2, *settings))  # fmt: skip
