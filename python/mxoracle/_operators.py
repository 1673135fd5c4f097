"""The operators as functions.  Written by tools/generate_operators.py from the catalogue."""
from __future__ import annotations

from typing import Any, Literal

from mxoracle._call import run

__all__ = [
    "encode",
    "decode",
    "quantize",
    "dequantize",
    "delayed_scale",
    "swizzle_scales",
    "unswizzle_scales",
    "grouped_matmul",
    "grouped_matmul_wgrad",
    "pad_groups",
    "unpad_groups",
    "permute_indices",
    "permute",
    "unpermute",
    "rows_to_groups",
    "groups_to_rows",
    "groups_to_masked",
    "masked_to_groups",
    "map_experts",
    "mask_to_experts",
    "experts_to_mask",
    "moe_align_block_size",
    "blocks_to_experts",
    "route",
    "swiglu",
    "swiglu_backward",
    "scaling_aware_transpose",
    "swiglu_quantize",
    "swiglu_quantize_backward",
    "cast",
    "add_bias",
    "column_sum",
    "approximate",
    "fused_dot",
    "grouped_linear",
    "dispatch",
    "dispatch_backward",
    "combine",
    "combine_backward",
    "moe_layer",
]


def _in_order(outputs: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The outputs that there are, in the order of `names`; one alone as itself."""
    values = tuple(outputs[name] for name in names if name in outputs)
    return values[0] if len(values) == 1 else values


def encode(
    x: Any,
    *,
    format: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0"] | Any = None,
    overflow: Literal["saturate", "nonfinite"] | Any = None,
    nan: Literal["positive", "signed"] | Any = None,
    rounding: Literal["nearest", "up", "zero"] | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Floats to codes of a small format, element by element.

    Operands:
        x: any shape, f32, bf16 or f16
    Returns:
        codes: shape of x, u8
    Parameters, the first value is the default:
        format: the small format (e4m3, e4m3fnuz, e5m2, e5m2fnuz, e8m0)
        overflow: largest finite value, or infinity/NaN (saturate, nonfinite)
        nan: NaN byte 7F, or 7F/FF by the sign (fnuz: always 80) (positive, signed)
        rounding: e8m0 only (nearest, up, zero)
    It is returned alone.
    """
    outputs = run(
        "encode",
        {
            "x": x,
        },
        backend=backend,
        threads=threads,
        format=format,
        overflow=overflow,
        nan=nan,
        rounding=rounding,
    )
    return _in_order(outputs, ("codes",))


def decode(
    codes: Any,
    *,
    format: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0"] | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Codes to f32, exactly.

    Operands:
        codes: any shape, u8
    Returns:
        x: shape of codes, f32
    Parameters, the first value is the default:
        format: the small format (e4m3, e4m3fnuz, e5m2, e5m2fnuz, e8m0)
    It is returned alone.
    """
    outputs = run(
        "decode",
        {
            "codes": codes,
        },
        backend=backend,
        threads=threads,
        format=format,
    )
    return _in_order(outputs, ("x",))


def quantize(
    x: Any,
    group_ends: Any = None,
    given: Any = None,
    *,
    format: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    block: str | int | float | None = None,
    rule: str | int | float | None = None,
    scale: str | int | float | None = None,
    scale_mode: Literal["rceil", "floor", "ceil", "even"] | Any = None,
    power_of_2: str | int | float | None = None,
    epsilon: str | int | float | None = None,
    scale_max: str | int | float | None = None,
    rounding: str | int | float | None = None,
    overflow: str | int | float | None = None,
    transpose: bool | None = None,
    scale_layout: Literal[
        "row_major", "blocked", "mn_major_tma", "cublas_1x128", "packed_ue8m0", "tiles_8x4",
    ]
    | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """High precision to 8-bit codes and a scale for each block.

    Operands:
        x: [.., R, K], f32, bf16 or f16
        group_ends: [E], blocks of rows start again, i32; optional
        given: [.., ceil(R/r), ceil(K/c)], static scales: x is multiplied by them under the rules
            torchao, torchao_multiplier, te, flow, vllm_scaled, vllm_scaled_f32, fbgemm,
            fbgemm_triton and, for RxK, sglang; divided under the others, f32; optional
    Returns:
        codes: [.., R, K], u8
        scales: [.., ceil(R/r), ceil(K/c)], u8 or f32
    Parameters, the first value is the default:
        format: the element format (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        block: rows x columns that share a scale: RxC, 1xK a row, Rx1 a column, RxK all; default:
            the rule's first (1x32)
        rule: a row of `mxo list rules` (torchao)
        scale: type of scales, e8m0 or f32; default: e8m0 for blocks of 32 elements, else f32
        scale_mode: e8m0 scales: how amax becomes a power of two (rceil, floor, ceil, even)
        power_of_2: f32 scales: none, down or up; default: the rule's
        epsilon: f32 scales: floor of amax; default: the rule's
        scale_max: f32 scales: bound of amax; default: the rule's
        rounding: rounding of elements: even, ties_away, ties_zero, zero, away, down, up or odd;
            default: the rule's
        overflow: elements beyond the largest value: saturate or nonfinite; default: the rule's.
            torch's casts to e4m3 are nonfinite up to 2.11, which rules in torch follow, and
            saturate since
        transpose: blocks of more than one row: last axes exchanged (false, true)
        scale_layout: blocked: 128x4 tiles, one matrix per expert; others as swizzle_scales
            (row_major, blocked, mn_major_tma, cublas_1x128, packed_ue8m0, tiles_8x4)
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "quantize",
        {
            "x": x,
            "group_ends": group_ends,
            "given": given,
        },
        backend=backend,
        threads=threads,
        format=format,
        block=block,
        rule=rule,
        scale=scale,
        scale_mode=scale_mode,
        power_of_2=power_of_2,
        epsilon=epsilon,
        scale_max=scale_max,
        rounding=rounding,
        overflow=overflow,
        transpose=transpose,
        scale_layout=scale_layout,
    )
    return _in_order(outputs, ("codes", "scales"))


def dequantize(
    codes: Any,
    scales: Any,
    group_ends: Any = None,
    *,
    format: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    block: str | int | float | None = None,
    scale: str | int | float | None = None,
    transpose: bool | None = None,
    out: Literal["bf16", "f32"] | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Codes and scales to bf16 or f32, one rounding.

    Operands:
        codes: [.., R, K], u8
        scales: [.., ceil(R/r), ceil(K/c)], u8 or f32
        group_ends: [E], blocks of rows start again, i32; optional
    Returns:
        x: [.., R, K], bf16 or f32
    Parameters, the first value is the default:
        format: the element format (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        block: rows x columns that share a scale; default: from the shape of scales (1x32)
        scale: type of scales, e8m0 or f32; default: e8m0 for blocks of 32 elements, else f32
        transpose: blocks of more than one row: last axes exchanged (false, true)
        out: type of the result (bf16, f32)
    It is returned alone.
    """
    outputs = run(
        "dequantize",
        {
            "codes": codes,
            "scales": scales,
            "group_ends": group_ends,
        },
        backend=backend,
        threads=threads,
        format=format,
        block=block,
        scale=scale,
        transpose=transpose,
        out=out,
    )
    return _in_order(outputs, ("x",))


def delayed_scale(
    history: Any,
    scale: Any,
    x: Any = None,
    *,
    format: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    amax: Literal["max", "most_recent"] | Any = None,
    margin: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """The next step's scale of a tensor from a history of amax.

    Operands:
        x: [.., R, K], f32, bf16 or f16; optional
        history: [H], newest first, then oldest on, f32
        scale: [1], what x is multiplied by, f32
    Returns:
        next_history: [H], f32
        next_scale: [1], f32
    Parameters, the first value is the default:
        format: the element format (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        amax: the amax of the history that is used (max, most_recent)
        margin: the largest value is multiplied by 2^-margin (0)
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "delayed_scale",
        {
            "x": x,
            "history": history,
            "scale": scale,
        },
        backend=backend,
        threads=threads,
        format=format,
        amax=amax,
        margin=margin,
    )
    return _in_order(outputs, ("next_history", "next_scale"))


def swizzle_scales(
    scales: Any,
    group_ends: Any = None,
    *,
    layout: Literal[
        "blocked", "m_groups", "k_groups", "per_group_3d", "mn_major_tma", "cublas_1x128",
            "packed_ue8m0", "tiles_8x4",
    ]
    | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Scale bytes to 128x4 tiles, padding 0.

    Operands:
        scales: [R, C] or [E, R, C], u8 (e8m0), or f32
        group_ends: [G], m_groups: rows, k_groups: columns, i32; optional
    Returns:
        blocked: flat, a matrix, or as the layout has it, u8 (e8m0), f32 or i32
    Parameters, the first value is the default:
        layout: layout of the 128x4 tiles of several matrices, or of another library (blocked,
            m_groups, k_groups, per_group_3d, mn_major_tma, cublas_1x128, packed_ue8m0, tiles_8x4)
    It is returned alone.
    """
    outputs = run(
        "swizzle_scales",
        {
            "scales": scales,
            "group_ends": group_ends,
        },
        backend=backend,
        threads=threads,
        layout=layout,
    )
    return _in_order(outputs, ("blocked",))


def unswizzle_scales(
    blocked: Any,
    group_ends: Any = None,
    *,
    layout: Literal[
        "blocked", "m_groups", "k_groups", "per_group_3d", "mn_major_tma", "cublas_1x128",
            "packed_ue8m0", "tiles_8x4",
    ]
    | Any = None,
    rows: str | int | float | None = None,
    columns: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """128x4 tiles to scale bytes.

    Operands:
        blocked: flat, a matrix, or as the layout has it, u8 (e8m0), f32 or i32
        group_ends: [G], m_groups: rows, k_groups: columns, i32; optional
    Returns:
        scales: [R, C] or [E, R, C], u8 (e8m0), or f32
    Parameters, the first value is the default:
        layout: layout of the 128x4 tiles of several matrices, or of another library (blocked,
            m_groups, k_groups, per_group_3d, mn_major_tma, cublas_1x128, packed_ue8m0, tiles_8x4)
        rows: rows of scales
        columns: columns of scales
    It is returned alone.
    """
    outputs = run(
        "unswizzle_scales",
        {
            "blocked": blocked,
            "group_ends": group_ends,
        },
        backend=backend,
        threads=threads,
        layout=layout,
        rows=rows,
        columns=columns,
    )
    return _in_order(outputs, ("scales",))


def grouped_matmul(
    x: Any,
    w: Any,
    group_ends: Any,
    y: Any = None,
    *,
    format_x: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    format_w: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    block_x: str | int | float | None = None,
    block_w: str | int | float | None = None,
    out: Literal["bf16", "f32"] | Any = None,
    sum__machine: Literal["h200", "h100"] | Any = None,
    sum: str | int | float | None = None,
    sum__chunk: str | int | float | None = None,
    sum__bits: str | int | float | None = None,
    sum__output: str | int | float | None = None,
    sum__floor: str | int | float | None = None,
    sum__promote: str | int | float | None = None,
    sum__fold: str | int | float | None = None,
    sum__block: str | int | float | None = None,
    sum__split: str | int | float | None = None,
    sum__tile: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Y = x w^T per group, of scaled or plain operands.

    Operands:
        x: [R, K], bf16, f16 or f32; or codes and scales
        w: [E, N, K], bf16, f16 or f32; or codes and scales
        group_ends: [E], i32 or i64
        y: [R, N], the output to find sum.split for, bf16 or f32; optional
    Returns:
        y: [R, N], bf16 or f32
        splits: [S], instead, with sum.split=auto, i32; where asked for
    Parameters, the first value is the default:
        format_x: format of x.codes (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        format_w: format of w.codes (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        block_x: block of its scales (1x128, RxK, ..) where shapes leave it open
        block_w: block of its scales (1x128, RxK, ..) where shapes leave it open
        out: type of the result (bf16, f32)
        sum__machine: the card whose table sum.split=table uses (h200, h100)
        sum: how products are summed: a name of `mxo list sums` (exact)
        sum__chunk: k of one fused sum
        sum__bits: fraction bits kept below the largest exponent of a chunk
        sum__output: result of a chunk: rz_f32, rz_e8m13, rne_f16 or rne_f32
        sum__floor: least value of the largest exponent
        sum__promote: instructions between additions to an f32 sum; 0: no such sum
        sum__fold: where scales are multiplied: term, x_then_w, joint, joint_add, after or
            after_joint
        sum__block: k of a partial sum that restarts; 0: as the blocks of scales
        sum__split: number of parts of K; auto finds it from the operand y, table is cuBLASLt's
            choice
        sum__tile: k of a tile of the split
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "grouped_matmul",
        {
            "x": x,
            "w": w,
            "group_ends": group_ends,
            "y": y,
        },
        backend=backend,
        threads=threads,
        format_x=format_x,
        format_w=format_w,
        block_x=block_x,
        block_w=block_w,
        out=out,
        sum__machine=sum__machine,
        sum=sum,
        sum__chunk=sum__chunk,
        sum__bits=sum__bits,
        sum__output=sum__output,
        sum__floor=sum__floor,
        sum__promote=sum__promote,
        sum__fold=sum__fold,
        sum__block=sum__block,
        sum__split=sum__split,
        sum__tile=sum__tile,
    )
    return _in_order(outputs, ("y", "splits"))


def grouped_matmul_wgrad(
    dy: Any,
    x: Any,
    group_ends: Any,
    main_grad: Any = None,
    y: Any = None,
    *,
    format_dy: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    format_x: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    block_dy: str | int | float | None = None,
    block_x: str | int | float | None = None,
    product: Literal["f32", "bf16"] | Any = None,
    out: Literal["bf16", "f32"] | Any = None,
    sum: str | int | float | None = None,
    sum__chunk: str | int | float | None = None,
    sum__bits: str | int | float | None = None,
    sum__output: str | int | float | None = None,
    sum__floor: str | int | float | None = None,
    sum__promote: str | int | float | None = None,
    sum__fold: str | int | float | None = None,
    sum__block: str | int | float | None = None,
    sum__split: str | int | float | None = None,
    sum__tile: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Dw = dy^T x per group, of scaled or plain operands.

    Operands:
        dy: [R, N], bf16, f16 or f32; or codes and scales
        x: [R, K], bf16, f16 or f32; or codes and scales
        group_ends: [E], i32 or i64
        main_grad: [E, N, K], what the product is added to, f32; optional
        y: [E, N, K], the output to find sum.split for, bf16 or f32; optional
    Returns:
        dw: [E, N, K], bf16 or f32
        splits: [S], instead, with sum.split=auto, i32; where asked for
    Parameters, the first value is the default:
        format_dy: format of dy.codes (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        format_x: format of x.codes (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        block_dy: block of its scales (1x128, RxK, ..) where shapes leave it open
        block_x: block of its scales (1x128, RxK, ..) where shapes leave it open
        product: type that a sum is rounded to before it is added to main_grad (f32, bf16)
        out: type of the result; f32 with main_grad (bf16, f32)
        sum: how products are summed: a name of `mxo list sums` (exact)
        sum__chunk: k of one fused sum
        sum__bits: fraction bits kept below the largest exponent of a chunk
        sum__output: result of a chunk: rz_f32, rz_e8m13, rne_f16 or rne_f32
        sum__floor: least value of the largest exponent
        sum__promote: instructions between additions to an f32 sum; 0: no such sum
        sum__fold: where scales are multiplied: term, x_then_w, joint, joint_add, after or
            after_joint
        sum__block: k of a partial sum that restarts; 0: as the blocks of scales
        sum__split: number of parts of K; auto finds it from the operand y, table is cuBLASLt's
            choice
        sum__tile: k of a tile of the split
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "grouped_matmul_wgrad",
        {
            "dy": dy,
            "x": x,
            "group_ends": group_ends,
            "main_grad": main_grad,
            "y": y,
        },
        backend=backend,
        threads=threads,
        format_dy=format_dy,
        format_x=format_x,
        block_dy=block_dy,
        block_x=block_x,
        product=product,
        out=out,
        sum=sum,
        sum__chunk=sum__chunk,
        sum__bits=sum__bits,
        sum__output=sum__output,
        sum__floor=sum__floor,
        sum__promote=sum__promote,
        sum__fold=sum__fold,
        sum__block=sum__block,
        sum__split=sum__split,
        sum__tile=sum__tile,
    )
    return _in_order(outputs, ("dw", "splits"))


def pad_groups(
    x: Any,
    group_ends: Any,
    *,
    alignment: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Groups of rows padded with zero rows to start on multiples.

    Operands:
        x: [T, D], any
        group_ends: [E], i32
    Returns:
        y: [T + E*alignment, rounded up to alignment; D], the type of x
        padded_starts: [E], i32
        padded_ends: [E], i32
    Parameters, the first value is the default:
        alignment: any positive number of rows (32)
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "pad_groups",
        {
            "x": x,
            "group_ends": group_ends,
        },
        backend=backend,
        threads=threads,
        alignment=alignment,
    )
    return _in_order(outputs, ("y", "padded_starts", "padded_ends"))


def unpad_groups(
    y: Any,
    group_ends: Any,
    padded_starts: Any,
    *,
    rows: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Padded groups of rows moved back together.

    Operands:
        y: [P, D], any
        group_ends: [E], i32
        padded_starts: [E], i32
    Returns:
        x: [T, D], the type of y
    Parameters, the first value is the default:
        rows: T; without it, the rows of y
    It is returned alone.
    """
    outputs = run(
        "unpad_groups",
        {
            "y": y,
            "group_ends": group_ends,
            "padded_starts": padded_starts,
        },
        backend=backend,
        threads=threads,
        rows=rows,
    )
    return _in_order(outputs, ("x",))


def permute_indices(
    tokens_per_expert: Any,
    *,
    experts: str | int | float | None = None,
    ranks: str | int | float | None = None,
    alignment: str | int | float | None = None,
    max_len: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Indices that reorder received rows from by-rank to by-expert.

    Operands:
        tokens_per_expert: [P*E], rank-major, i32
    Returns:
        indices: [max_len], -1 is padding, i32
        sizes: [E], i32
        ends: [E], i32
    Parameters, the first value is the default:
        experts: E, experts of this rank (1)
        ranks: P, the ranks that sent the rows (1)
        alignment: any positive number of rows (32)
        max_len: entries of indices, at least ends[E-1] (0)
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "permute_indices",
        {
            "tokens_per_expert": tokens_per_expert,
        },
        backend=backend,
        threads=threads,
        experts=experts,
        ranks=ranks,
        alignment=alignment,
        max_len=max_len,
    )
    return _in_order(outputs, ("indices", "sizes", "ends"))


def permute(
    x: Any,
    indices: Any,
    *,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Rows gathered by index, zeros for -1.

    Operands:
        x: [T, D], any
        indices: [len], i32
    Returns:
        y: [len, D], the type of x
    It is returned alone.
    """
    outputs = run(
        "permute",
        {
            "x": x,
            "indices": indices,
        },
        backend=backend,
        threads=threads,
    )
    return _in_order(outputs, ("y",))


def unpermute(
    y: Any,
    indices: Any,
    *,
    rows: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Rows scattered by index, the inverse of permute.

    Operands:
        y: [len, D], any
        indices: [len], i32
    Returns:
        x: [T, D], the type of y
    Parameters, the first value is the default:
        rows: T; without it, the rows of y
    It is returned alone.
    """
    outputs = run(
        "unpermute",
        {
            "y": y,
            "indices": indices,
        },
        backend=backend,
        threads=threads,
        rows=rows,
    )
    return _in_order(outputs, ("x",))


def rows_to_groups(
    m_indices: Any,
    *,
    experts: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """The group of every row, as DeepGEMM has it, to ends of groups.

    Operands:
        m_indices: [M], -1 is padding, i32
    Returns:
        group_ends: [E], i32
    Parameters, the first value is the default:
        experts: E, how many experts there are
    It is returned alone.
    """
    outputs = run(
        "rows_to_groups",
        {
            "m_indices": m_indices,
        },
        backend=backend,
        threads=threads,
        experts=experts,
    )
    return _in_order(outputs, ("group_ends",))


def groups_to_rows(
    group_ends: Any,
    counts: Any = None,
    *,
    rows: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Ends of groups to the group of every row.

    Operands:
        group_ends: [E], i32
        counts: [E], rows that are no padding, i32; optional
    Returns:
        m_indices: [M], -1 is padding, i32
    Parameters, the first value is the default:
        rows: M
    It is returned alone.
    """
    outputs = run(
        "groups_to_rows",
        {
            "group_ends": group_ends,
            "counts": counts,
        },
        backend=backend,
        threads=threads,
        rows=rows,
    )
    return _in_order(outputs, ("m_indices",))


def groups_to_masked(
    x: Any,
    group_ends: Any,
    *,
    max_rows: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Rows of groups to one matrix per group, with row counts.

    Operands:
        x: [R, D], any
        group_ends: [E], i32
    Returns:
        y: [E, M, D], the type of x
        counts: [E], i32
    Parameters, the first value is the default:
        max_rows: M, rows of each matrix
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "groups_to_masked",
        {
            "x": x,
            "group_ends": group_ends,
        },
        backend=backend,
        threads=threads,
        max_rows=max_rows,
    )
    return _in_order(outputs, ("y", "counts"))


def masked_to_groups(
    y: Any,
    counts: Any,
    *,
    rows: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """A matrix for each group to rows one after another.

    Operands:
        y: [E, M, D], any
        counts: [E], i32
    Returns:
        x: [R, D], the type of y
        group_ends: [E], i32
    Parameters, the first value is the default:
        rows: R; without it, E M
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "masked_to_groups",
        {
            "y": y,
            "counts": counts,
        },
        backend=backend,
        threads=threads,
        rows=rows,
    )
    return _in_order(outputs, ("x", "group_ends"))


def map_experts(
    experts: Any,
    expert_map: Any = None,
    weights: Any = None,
    *,
    experts_: str | int | float | None = None,
    capacity: str | int | float | None = None,
    drop: Literal["position", "weight"] | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Experts of this rank, those beyond a capacity dropped.

    Operands:
        experts: [T, k], -1 is none, i32
        expert_map: [G], -1 or an expert of this rank, i32; optional
        weights: [T, k], with drop=weight, f32; optional
    Returns:
        local: [T, k], i32
        tokens_per_expert: [E], i32
    Parameters, the first value is the default:
        experts_: E, how many experts there are
        capacity: most slots of an expert; default: no bound
        drop: slots that are dropped first: the later ones, or those of smaller weight (position,
            weight)
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "map_experts",
        {
            "experts": experts,
            "expert_map": expert_map,
            "weights": weights,
        },
        backend=backend,
        threads=threads,
        experts=experts_,
        capacity=capacity,
        drop=drop,
    )
    return _in_order(outputs, ("local", "tokens_per_expert"))


def mask_to_experts(
    mask: Any,
    probs: Any = None,
    *,
    top_k: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """A routing mask to the experts of every token.

    Operands:
        mask: [T, E], 0 or 1, u8 or bool
        probs: [T, E], f32; optional
    Returns:
        experts: [T, k], -1 is none, i32
        weights: [T, k], f32; where asked for
    Parameters, the first value is the default:
        top_k: slots of a token
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "mask_to_experts",
        {
            "mask": mask,
            "probs": probs,
        },
        backend=backend,
        threads=threads,
        top_k=top_k,
    )
    return _in_order(outputs, ("experts", "weights"))


def experts_to_mask(
    experts: Any,
    weights: Any = None,
    *,
    experts_: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """The experts of every token to a routing mask.

    Operands:
        experts: [T, k], -1 is none, i32
        weights: [T, k], f32; optional
    Returns:
        mask: [T, E], 0 or 1, u8
        probs: [T, E], f32; where asked for
    Parameters, the first value is the default:
        experts_: E, how many experts there are
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "experts_to_mask",
        {
            "experts": experts,
            "weights": weights,
        },
        backend=backend,
        threads=threads,
        experts=experts_,
    )
    return _in_order(outputs, ("mask", "probs"))


def moe_align_block_size(
    experts: Any,
    expert_map: Any = None,
    *,
    experts_: str | int | float | None = None,
    block: str | int | float | None = None,
    pad_sorted_ids: bool | None = None,
    length: str | int | float | None = None,
    unused: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Slots by expert in blocks, as vLLM and SGLang have them.

    Operands:
        experts: [T, k], -1 is none, i32
        expert_map: [E], -1 or more, i32; optional
    Returns:
        sorted_token_ids: [L], T k is padding, i32
        expert_ids: [ceil(L/block)], i32
        num_tokens_post_pad: [1], i32
        group_ends: [E], i32
    Parameters, the first value is the default:
        experts_: E, how many experts there are
        block: rows of a block (64)
        pad_sorted_ids: make the default L a multiple of block (false, true)
        length: L; default: T k + E (block - 1)
        unused: expert of blocks after the last one, 0 or -1 (0)
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "moe_align_block_size",
        {
            "experts": experts,
            "expert_map": expert_map,
        },
        backend=backend,
        threads=threads,
        experts=experts_,
        block=block,
        pad_sorted_ids=pad_sorted_ids,
        length=length,
        unused=unused,
    )
    return _in_order(outputs, ("sorted_token_ids", "expert_ids", "num_tokens_post_pad", "group_ends"))


def blocks_to_experts(
    sorted_token_ids: Any,
    expert_ids: Any,
    num_tokens_post_pad: Any,
    *,
    block: str | int | float | None = None,
    tokens: str | int | float | None = None,
    top_k: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Aligned blocks to the experts of every token.

    Operands:
        sorted_token_ids: [L], T k is padding, i32
        expert_ids: [ceil(L/block)], i32
        num_tokens_post_pad: [1], i32
    Returns:
        experts: [T, k], -1 is none, i32
    Parameters, the first value is the default:
        block: rows of a block (64)
        tokens: T
        top_k: slots of a token (1)
    It is returned alone.
    """
    outputs = run(
        "blocks_to_experts",
        {
            "sorted_token_ids": sorted_token_ids,
            "expert_ids": expert_ids,
            "num_tokens_post_pad": num_tokens_post_pad,
        },
        backend=backend,
        threads=threads,
        block=block,
        tokens=tokens,
        top_k=top_k,
    )
    return _in_order(outputs, ("experts",))


def route(
    logits: Any,
    bias: Any = None,
    *,
    top_k: str | int | float | None = None,
    score: Literal["softmax", "sigmoid", "softmax_of_chosen", "sqrtsoftplus"] | Any = None,
    groups: str | int | float | None = None,
    limited_groups: str | int | float | None = None,
    group_score: Literal["two_best", "best"] | Any = None,
    other_groups: Literal["excluded", "zero"] | Any = None,
    normalize: bool | None = None,
    scale: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Experts and weights of every token.

    Operands:
        logits: [T, E], f32, bf16 or f16
        bias: [E], f32; optional
    Returns:
        experts: [T, k], i32
        weights: [T, k], f32
        tokens_per_expert: [E], i32
    Parameters, the first value is the default:
        top_k: experts of a token (1)
        score: of a logit; softmax_of_chosen, gpt-oss: logits choose, softmax of the k chosen
            weighs; sqrtsoftplus, DeepSeek-V4 (softmax, sigmoid, softmax_of_chosen, sqrtsoftplus)
        groups: groups of experts, of equal size (1)
        limited_groups: groups that a token may choose from; default: all
        group_score: score of a group: the sum of its two best experts, or its best (two_best, best)
        other_groups: experts of the other groups: excluded, or with score 0 (excluded, zero)
        normalize: divide the weights of a token by their sum (true, false)
        scale: factor of the weights (1)
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "route",
        {
            "logits": logits,
            "bias": bias,
        },
        backend=backend,
        threads=threads,
        top_k=top_k,
        score=score,
        groups=groups,
        limited_groups=limited_groups,
        group_score=group_score,
        other_groups=other_groups,
        normalize=normalize,
        scale=scale,
    )
    return _in_order(outputs, ("experts", "weights", "tokens_per_expert"))


def swiglu(
    x: Any,
    probs: Any = None,
    *,
    rounding: Literal["none", "bf16", "f16"] | Any = None,
    activation: Literal["silu", "gelu", "gelu_tanh", "relu_squared"] | Any = None,
    halves: Literal["gate_first", "up_first", "interleaved", "gate_only"] | Any = None,
    bf16_steps: Literal["none", "activation", "every"] | Any = None,
    alpha: str | int | float | None = None,
    limit: str | int | float | None = None,
    up_offset: str | int | float | None = None,
    arithmetic: Literal["rounded", "triton_sm90", "triton_sm90_quotient"] | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Gate activation (a * sigma(a)) * b * p, and those of other stacks.

    Operands:
        x: [R, 2F], or [R, F] without up, f32, bf16 or f16
        probs: [R], f32; optional
    Returns:
        y: [R, F], f32, bf16 or f16
    Parameters, the first value is the default:
        rounding: of the result (none, bf16, f16)
        activation: of the gate (silu, gelu, gelu_tanh, relu_squared)
        halves: order of gate and up in a row of x (gate_first, up_first, interleaved, gate_only)
        bf16_steps: steps that are rounded to bf16 (to f16 if x is f16) before the result (none,
            activation, every)
        alpha: of silu: a * sigma(alpha * a) (1)
        limit: bound of gate, and of up on both sides; default: none
        up_offset: added to up (0)
        arithmetic: silu with a correctly rounded sigma, or Triton's a * sigmoid(a) or a / (1 +
            exp(-a)) on Hopper (rounded, triton_sm90, triton_sm90_quotient)
    It is returned alone.
    """
    outputs = run(
        "swiglu",
        {
            "x": x,
            "probs": probs,
        },
        backend=backend,
        threads=threads,
        rounding=rounding,
        activation=activation,
        halves=halves,
        bf16_steps=bf16_steps,
        alpha=alpha,
        limit=limit,
        up_offset=up_offset,
        arithmetic=arithmetic,
    )
    return _in_order(outputs, ("y",))


def swiglu_backward(
    x: Any,
    dy: Any,
    probs: Any = None,
    *,
    rounding: Literal["none", "bf16", "f16"] | Any = None,
    activation: Literal["silu", "gelu", "gelu_tanh", "relu_squared"] | Any = None,
    halves: Literal["gate_first", "up_first", "interleaved", "gate_only"] | Any = None,
    bf16_steps: Literal["none", "activation", "every"] | Any = None,
    alpha: str | int | float | None = None,
    limit: str | int | float | None = None,
    up_offset: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Gradients of swiglu.

    Operands:
        x: [R, 2F], or [R, F] without up, f32, bf16 or f16
        dy: [R, F], f32, bf16 or f16
        probs: [R], f32; optional
    Returns:
        dx: [R, 2F], f32, bf16 or f16
        dprobs: [R], f32; where asked for
    Parameters, the first value is the default:
        rounding: of the result (none, bf16, f16)
        activation: of the gate (silu, gelu, gelu_tanh, relu_squared)
        halves: order of gate and up in a row of x (gate_first, up_first, interleaved, gate_only)
        bf16_steps: steps that are rounded to bf16 (to f16 if x is f16) before the result (none,
            activation, every)
        alpha: of silu: a * sigma(alpha * a) (1)
        limit: bound of gate, and of up on both sides; default: none
        up_offset: added to up (0)
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "swiglu_backward",
        {
            "x": x,
            "dy": dy,
            "probs": probs,
        },
        backend=backend,
        threads=threads,
        rounding=rounding,
        activation=activation,
        halves=halves,
        bf16_steps=bf16_steps,
        alpha=alpha,
        limit=limit,
        up_offset=up_offset,
    )
    return _in_order(outputs, ("dx", "dprobs"))


def scaling_aware_transpose(
    codes: Any,
    scales: Any,
    group_ends: Any,
    *,
    format: Literal["e4m3", "e4m3fnuz"] | Any = None,
    underflow: Literal["round", "keep_mantissa", "flush"] | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Row-wise FP8 to column-wise FP8 by moving exponents.

    Operands:
        codes: [M, K], u8 (e4m3)
        scales: [M, K/128], powers of two, f32
        group_ends: [E], i32
    Returns:
        codes: [K, M], u8 (e4m3)
        scales: [G, K], f32
    Parameters, the first value is the default:
        format: format of the codes; e4m3fnuz supports round only (e4m3, e4m3fnuz)
        underflow: what a code below the normal range becomes (round, keep_mantissa, flush)
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "scaling_aware_transpose",
        {
            "codes": codes,
            "scales": scales,
            "group_ends": group_ends,
        },
        backend=backend,
        threads=threads,
        format=format,
        underflow=underflow,
    )
    return _in_order(outputs, ("codes", "scales"))


def swiglu_quantize(
    x: Any,
    probs: Any = None,
    group_ends: Any = None,
    *,
    rounding: Literal["none", "bf16", "f16"] | Any = None,
    format: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    block: str | int | float | None = None,
    rule: str | int | float | None = None,
    scale: str | int | float | None = None,
    scale_mode: Literal["rceil", "floor", "ceil", "even"] | Any = None,
    power_of_2: str | int | float | None = None,
    epsilon: str | int | float | None = None,
    scale_max: str | int | float | None = None,
    overflow: str | int | float | None = None,
    transpose: bool | None = None,
    activation: Literal["silu", "gelu", "gelu_tanh", "relu_squared"] | Any = None,
    halves: Literal["gate_first", "up_first", "interleaved", "gate_only"] | Any = None,
    bf16_steps: Literal["none", "activation", "every"] | Any = None,
    alpha: str | int | float | None = None,
    limit: str | int | float | None = None,
    up_offset: str | int | float | None = None,
    arithmetic: Literal["rounded", "triton_sm90", "triton_sm90_quotient"] | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Swiglu and quantize in one pass.

    Operands:
        x: [R, 2F], or [R, F] without up, f32, bf16 or f16
        probs: [R], f32; optional
        group_ends: [E], blocks of rows start again, i32; optional
    Returns:
        codes: [R, F], u8
        scales: [ceil(R/r), ceil(F/c)], u8 or f32
    Parameters, the first value is the default:
        rounding: before quantising (none, bf16, f16)
        format: of codes (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        block: rows x columns that share a scale: RxC, 1xK a row, Rx1 a column, RxK all; default:
            the rule's first (1x32)
        rule: a row of `mxo list rules` (torchao)
        scale: type of scales, e8m0 or f32; default: e8m0 for blocks of 32 elements, else f32
        scale_mode: e8m0 scales: how amax becomes a power of two (rceil, floor, ceil, even)
        power_of_2: f32 scales: none, down or up; default: the rule's
        epsilon: f32 scales: floor of amax; default: the rule's
        scale_max: f32 scales: bound of amax; default: the rule's
        overflow: elements beyond the largest value: saturate or nonfinite; default: the rule's.
            torch's casts to e4m3 are nonfinite up to 2.11, which rules in torch follow, and
            saturate since
        transpose: blocks of more than one row: axes exchanged (false, true)
        activation: of the gate (silu, gelu, gelu_tanh, relu_squared)
        halves: order of gate and up in a row of x (gate_first, up_first, interleaved, gate_only)
        bf16_steps: steps that are rounded to bf16 (to f16 if x is f16) before the result (none,
            activation, every)
        alpha: of silu: a * sigma(alpha * a) (1)
        limit: bound of gate, and of up on both sides; default: none
        up_offset: added to up (0)
        arithmetic: silu with a correctly rounded sigma, or Triton's a * sigmoid(a) or a / (1 +
            exp(-a)) on Hopper (rounded, triton_sm90, triton_sm90_quotient)
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "swiglu_quantize",
        {
            "x": x,
            "probs": probs,
            "group_ends": group_ends,
        },
        backend=backend,
        threads=threads,
        rounding=rounding,
        format=format,
        block=block,
        rule=rule,
        scale=scale,
        scale_mode=scale_mode,
        power_of_2=power_of_2,
        epsilon=epsilon,
        scale_max=scale_max,
        overflow=overflow,
        transpose=transpose,
        activation=activation,
        halves=halves,
        bf16_steps=bf16_steps,
        alpha=alpha,
        limit=limit,
        up_offset=up_offset,
        arithmetic=arithmetic,
    )
    return _in_order(outputs, ("codes", "scales"))


def swiglu_quantize_backward(
    x: Any,
    dy: Any,
    probs: Any = None,
    group_ends: Any = None,
    *,
    rounding: Literal["none", "bf16", "f16"] | Any = None,
    format: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    block: str | int | float | None = None,
    rule: str | int | float | None = None,
    scale: str | int | float | None = None,
    scale_mode: Literal["rceil", "floor", "ceil", "even"] | Any = None,
    power_of_2: str | int | float | None = None,
    epsilon: str | int | float | None = None,
    scale_max: str | int | float | None = None,
    overflow: str | int | float | None = None,
    transpose: bool | None = None,
    activation: Literal["silu", "gelu", "gelu_tanh", "relu_squared"] | Any = None,
    halves: Literal["gate_first", "up_first", "interleaved", "gate_only"] | Any = None,
    bf16_steps: Literal["none", "activation", "every"] | Any = None,
    alpha: str | int | float | None = None,
    limit: str | int | float | None = None,
    up_offset: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Gradients of swiglu, quantised in the same pass.

    Operands:
        x: [R, 2F], or [R, F] without up, f32, bf16 or f16
        dy: [R, F], f32, bf16 or f16
        probs: [R], f32; optional
        group_ends: [E], blocks of rows start again, i32; optional
    Returns:
        codes: [R, 2F], u8
        scales: [ceil(R/r), ceil(2F/c)], u8 or f32
        dprobs: [R], f32; where asked for
    Parameters, the first value is the default:
        rounding: before quantising (none, bf16, f16)
        format: of codes (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        block: rows x columns that share a scale: RxC, 1xK a row, Rx1 a column, RxK all; default:
            the rule's first (1x32)
        rule: a row of `mxo list rules` (torchao)
        scale: type of scales, e8m0 or f32; default: e8m0 for blocks of 32 elements, else f32
        scale_mode: e8m0 scales: how amax becomes a power of two (rceil, floor, ceil, even)
        power_of_2: f32 scales: none, down or up; default: the rule's
        epsilon: f32 scales: floor of amax; default: the rule's
        scale_max: f32 scales: bound of amax; default: the rule's
        overflow: elements beyond the largest value: saturate or nonfinite; default: the rule's.
            torch's casts to e4m3 are nonfinite up to 2.11, which rules in torch follow, and
            saturate since
        transpose: blocks of more than one row: axes exchanged (false, true)
        activation: of the gate (silu, gelu, gelu_tanh, relu_squared)
        halves: order of gate and up in a row of x (gate_first, up_first, interleaved, gate_only)
        bf16_steps: steps that are rounded to bf16 (to f16 if x is f16) before the result (none,
            activation, every)
        alpha: of silu: a * sigma(alpha * a) (1)
        limit: bound of gate, and of up on both sides; default: none
        up_offset: added to up (0)
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "swiglu_quantize_backward",
        {
            "x": x,
            "dy": dy,
            "probs": probs,
            "group_ends": group_ends,
        },
        backend=backend,
        threads=threads,
        rounding=rounding,
        format=format,
        block=block,
        rule=rule,
        scale=scale,
        scale_mode=scale_mode,
        power_of_2=power_of_2,
        epsilon=epsilon,
        scale_max=scale_max,
        overflow=overflow,
        transpose=transpose,
        activation=activation,
        halves=halves,
        bf16_steps=bf16_steps,
        alpha=alpha,
        limit=limit,
        up_offset=up_offset,
    )
    return _in_order(outputs, ("codes", "scales", "dprobs"))


def cast(
    x: Any,
    *,
    out: Literal["bf16", "f32", "f16"] | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Floats to another wide type, to nearest even.

    Operands:
        x: any shape, f32, bf16 or f16
    Returns:
        y: shape of x, bf16, f32 or f16
    Parameters, the first value is the default:
        out: type of the result (bf16, f32, f16)
    It is returned alone.
    """
    outputs = run(
        "cast",
        {
            "x": x,
        },
        backend=backend,
        threads=threads,
        out=out,
    )
    return _in_order(outputs, ("y",))


def add_bias(
    y: Any,
    bias: Any,
    group_ends: Any = None,
    *,
    out: Literal["bf16", "f32"] | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """A bias added in f32 and rounded.

    Operands:
        y: [R, N], f32 or bf16
        bias: [N] or [E, N], f32 or bf16
        group_ends: [E], i32; optional
    Returns:
        out: [R, N], bf16 or f32
    Parameters, the first value is the default:
        out: type of the result (bf16, f32)
    It is returned alone.
    """
    outputs = run(
        "add_bias",
        {
            "y": y,
            "bias": bias,
            "group_ends": group_ends,
        },
        backend=backend,
        threads=threads,
        out=out,
    )
    return _in_order(outputs, ("out",))


def column_sum(
    x: Any,
    group_ends: Any = None,
    *,
    over: Literal["rows", "groups"] | Any = None,
    out: Literal["f32", "bf16"] | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Columns summed in f32, rows ascending.

    Operands:
        x: [R, N], f32 or bf16
        group_ends: [E], i32; optional
    Returns:
        sum: [N], or [E, N] over groups, f32 or bf16
    Parameters, the first value is the default:
        over: one sum over all rows, or one for each group (rows, groups)
        out: type of the result (f32, bf16)
    It is returned alone.
    """
    outputs = run(
        "column_sum",
        {
            "x": x,
            "group_ends": group_ends,
        },
        backend=backend,
        threads=threads,
        over=over,
        out=out,
    )
    return _in_order(outputs, ("sum",))


def approximate(
    x: Any,
    b: Any = None,
    *,
    function: Literal["ex2", "rcp", "rsqrt", "sqrt", "lg2", "tanh", "div_full"] | Any = None,
    machine: str | int | float | None = None,
    ftz: bool | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """Approximate functions of a chip, bit for bit.

    Operands:
        x: any shape, f32
        b: shape of x, of div_full alone, f32; optional
    Returns:
        y: shape of x, f32
    Parameters, the first value is the default:
        function: the function: FUNCTION.approx.f32, or div.full.f32 (ex2, rcp, rsqrt, sqrt, lg2,
            tanh, div_full)
        machine: the chip whose bits are computed (sm90)
        ftz: flush subnormal operands and results to zero; no effect on tanh (true, false)
    It is returned alone.
    """
    outputs = run(
        "approximate",
        {
            "x": x,
            "b": b,
        },
        backend=backend,
        threads=threads,
        function=function,
        machine=machine,
        ftz=ftz,
    )
    return _in_order(outputs, ("y",))


def fused_dot(
    a: Any,
    b: Any,
    c: Any,
    a_scales: Any = None,
    b_scales: Any = None,
    *,
    format_a: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    format_b: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    sum: str | int | float | None = None,
    sum__chunk: str | int | float | None = None,
    sum__bits: str | int | float | None = None,
    sum__output: str | int | float | None = None,
    sum__floor: str | int | float | None = None,
    sum__promote: str | int | float | None = None,
    sum__fold: str | int | float | None = None,
    sum__block: str | int | float | None = None,
    sum__split: str | int | float | None = None,
    sum__tile: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """D = a b^T + c on a matrix unit, one instruction or a chain.

    Operands:
        a: [B, M, K], u8 (the format), bf16 or f16
        b: [B, N, K], u8 (the format), bf16 or f16
        c: [B, M, N], f32
        a_scales: [B, M, K/32], u8 (e8m0); optional
        b_scales: [B, N, K/32], u8 (e8m0); optional
    Returns:
        d: [B, M, N], f32
    Parameters, the first value is the default:
        format_a: format of codes a (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        format_b: format of codes b (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        sum: how products are summed: a name of `mxo list sums` (exact)
        sum__chunk: k of one fused sum
        sum__bits: fraction bits kept below the largest exponent of a chunk
        sum__output: result of a chunk: rz_f32, rz_e8m13, rne_f16 or rne_f32
        sum__floor: least value of the largest exponent
        sum__promote: instructions between additions to an f32 sum; 0: no such sum
        sum__fold: where scales are multiplied: term, x_then_w, joint, joint_add, after or
            after_joint
        sum__block: k of a partial sum that restarts; 0: as the blocks of scales
        sum__split: number of parts of K; auto finds it from the operand y, table is cuBLASLt's
            choice
        sum__tile: k of a tile of the split
    It is returned alone.
    """
    outputs = run(
        "fused_dot",
        {
            "a": a,
            "b": b,
            "c": c,
            "a.scales": a_scales,
            "b.scales": b_scales,
        },
        backend=backend,
        threads=threads,
        format_a=format_a,
        format_b=format_b,
        sum=sum,
        sum__chunk=sum__chunk,
        sum__bits=sum__bits,
        sum__output=sum__output,
        sum__floor=sum__floor,
        sum__promote=sum__promote,
        sum__fold=sum__fold,
        sum__block=sum__block,
        sum__split=sum__split,
        sum__tile=sum__tile,
    )
    return _in_order(outputs, ("d",))


def grouped_linear(
    x: Any,
    w: Any,
    group_ends: Any,
    bias: Any = None,
    dy: Any = None,
    main_grad: Any = None,
    *,
    recipe: Literal[
        "mxfp8_rceil", "mxfp8_floor", "mxfp8_rceil_wgrad_with_hp", "mxfp8_floor_wgrad_with_hp",
            "fp8_rowwise", "fp8_blockwise", "vllm", "vllm_up", "bf16",
    ]
    | Any = None,
    format: Literal["e4m3", "e4m3fnuz"] | Any = None,
    out: Literal["bf16", "f32"] | Any = None,
    product: Literal["f32", "bf16"] | Any = None,
    pad: bool | None = None,
    alignment: str | int | float | None = None,
    only: str | int | float | None = None,
    sum: str | int | float | None = None,
    sum__chunk: str | int | float | None = None,
    sum__bits: str | int | float | None = None,
    sum__output: str | int | float | None = None,
    sum__floor: str | int | float | None = None,
    sum__promote: str | int | float | None = None,
    sum__fold: str | int | float | None = None,
    sum__block: str | int | float | None = None,
    sum__split: str | int | float | None = None,
    sum__tile: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
) -> Any:
    """An expert layer y = x w^T + bias in low precision, with its gradients.

    Operands:
        x: [T, K], bf16 or f32
        w: [E, N, K], bf16 or f32
        group_ends: [E], i32
        bias: [N] or [E, N], bf16 or f32; optional
        dy: [T, N], for the backward pass, bf16 or f32; optional
        main_grad: [E, N, K], with dy: what the weight gradient is added to, f32; optional
    Returns:
        y: [T, N], bf16 or f32
        dx: [T, K], with dy, bf16 or f32
        dw: [E, N, K], with dy, bf16 or f32; f32 with main_grad
        dbias: shape of bias, with dy, bf16 or f32
    Parameters, the first value is the default:
        recipe: how the three products are scaled (mxfp8_rceil, mxfp8_floor,
            mxfp8_rceil_wgrad_with_hp, mxfp8_floor_wgrad_with_hp, fp8_rowwise, fp8_blockwise, vllm,
            vllm_up, bf16)
        format: of codes (e4m3, e4m3fnuz)
        out: type of the results (bf16, f32)
        product: type that a weight gradient is rounded to before it is added to main_grad (f32,
            bf16)
        pad: pad groups where tokens are contracted (false, true)
        alignment: of padded groups; 32 for mxfp8, 128 blockwise, 16 otherwise
        only: outputs to compute, such as dx,dw; default: all
        sum: how products are summed: a name of `mxo list sums` (exact)
        sum__chunk: k of one fused sum
        sum__bits: fraction bits kept below the largest exponent of a chunk
        sum__output: result of a chunk: rz_f32, rz_e8m13, rne_f16 or rne_f32
        sum__floor: least value of the largest exponent
        sum__promote: instructions between additions to an f32 sum; 0: no such sum
        sum__fold: where scales are multiplied: term, x_then_w, joint, joint_add, after or
            after_joint
        sum__block: k of a partial sum that restarts; 0: as the blocks of scales
        sum__split: number of parts of K; auto finds it from the operand y, table is cuBLASLt's
            choice
        sum__tile: k of a tile of the split
    One output is returned alone, several as a tuple in this order.
    """
    outputs = run(
        "grouped_linear",
        {
            "x": x,
            "w": w,
            "group_ends": group_ends,
            "bias": bias,
            "dy": dy,
            "main_grad": main_grad,
        },
        backend=backend,
        threads=threads,
        recipe=recipe,
        format=format,
        out=out,
        product=product,
        pad=pad,
        alignment=alignment,
        only=only,
        sum=sum,
        sum__chunk=sum__chunk,
        sum__bits=sum__bits,
        sum__output=sum__output,
        sum__floor=sum__floor,
        sum__promote=sum__promote,
        sum__fold=sum__fold,
        sum__block=sum__block,
        sum__split=sum__split,
        sum__tile=sum__tile,
    )
    return _in_order(outputs, ("y", "dx", "dw", "dbias"))


def dispatch(
    experts: Any,
    x: Any = None,
    codes: Any = None,
    scales: Any = None,
    weights: Any = None,
    *,
    experts_: str | int | float | None = None,
    alignment: str | int | float | None = None,
    layout: Literal["rank_major", "expert_major_padded"] | Any = None,
    rows: Literal["received", "worst_case"] | Any = None,
    precision: Literal["mxfp8", "bf16", "fp8_blockwise"] | Any = None,
    placement: Literal["fused", "unfused"] | Any = None,
    format: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    scale_mode: Literal["rceil", "floor", "ceil", "even"] | Any = None,
    rule: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
    ranks: int | None = None,
) -> dict[str, Any]:
    """Rows to the ranks of their experts.

    Operands:
        x: [T_p, D], bf16, f16 or f32; optional
        codes: [T_p, D], in place of x, u8; optional
        scales: [T_p, D/32], or [T_p, D/128], u8 (e8m0) or f32; optional
        experts: [T_p, k]; -1 names none, i32
        weights: [T_p, k], multiply x before it travels, f32 or bf16; optional
    Returns:
        x: [rows, D], bf16; where asked for
        codes: [rows, D], u8; where asked for
        scales: [rows, D/32] or [rows, D/128], u8 or f32; where asked for
        tokens_per_expert: [P*E/P], rank-major, i32
        indices: [rows], i32; where asked for
        group_ends: [E/P], i32; where asked for
    Parameters, the first value is the default:
        experts_: of all ranks; a multiple of them
        alignment: each expert's padded rows are a multiple of this (32)
        layout: of received rows (rank_major, expert_major_padded)
        rows: rows of received tensors: as many as are received, or as can be at most (received,
            worst_case)
        precision: format of rows in dispatch and in combine's gradient (mxfp8, bf16, fp8_blockwise)
        placement: how rows reach their place; both give the same bytes (fused, unfused)
        format: of codes (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        scale_mode: of scales (rceil, floor, ceil, even)
        rule: rule of the scales; default: torchao, or flow with fp8_blockwise

    An operand of each rank is a list, with one rank the tensor itself; `ranks` may be left out.
    All outputs come in a dict.
    """
    outputs = run(
        "dispatch",
        {
            "x": x,
            "codes": codes,
            "scales": scales,
            "experts": experts,
            "weights": weights,
        },
        backend=backend,
        threads=threads,
        ranks=ranks,
        experts=experts_,
        alignment=alignment,
        layout=layout,
        rows=rows,
        precision=precision,
        placement=placement,
        format=format,
        scale_mode=scale_mode,
        rule=rule,
    )
    return outputs


def dispatch_backward(
    dy: Any,
    experts: Any,
    weights: Any = None,
    x: Any = None,
    *,
    experts_: str | int | float | None = None,
    alignment: str | int | float | None = None,
    layout: Literal["rank_major", "expert_major_padded"] | Any = None,
    rows: Literal["received", "worst_case"] | Any = None,
    precision: Literal["mxfp8", "bf16", "fp8_blockwise"] | Any = None,
    placement: Literal["fused", "unfused"] | Any = None,
    format: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    scale_mode: Literal["rceil", "floor", "ceil", "even"] | Any = None,
    rule: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
    ranks: int | None = None,
) -> dict[str, Any]:
    """Gradient of dispatch: rows back, summed by slots.

    Operands:
        dy: [rows, D], bf16, f16 or f32
        experts: [T_p, k]; -1 names none, i32
        weights: [T_p, k], multiply x before it travels, f32 or bf16; optional
        x: [T_p, D], with weights: for dweights, bf16, f16 or f32; optional
    Returns:
        dx: [T_p, D], bf16, f16 or f32, as dy
        dweights: [T_p, k], with x, f32; where asked for
    Parameters, the first value is the default:
        experts_: of all ranks; a multiple of them
        alignment: each expert's padded rows are a multiple of this (32)
        layout: of received rows (rank_major, expert_major_padded)
        rows: rows of received tensors: as many as are received, or as can be at most (received,
            worst_case)
        precision: format of rows in dispatch and in combine's gradient (mxfp8, bf16, fp8_blockwise)
        placement: how rows reach their place; both give the same bytes (fused, unfused)
        format: of codes (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        scale_mode: of scales (rceil, floor, ceil, even)
        rule: rule of the scales; default: torchao, or flow with fp8_blockwise

    An operand of each rank is a list, with one rank the tensor itself; `ranks` may be left out.
    All outputs come in a dict.
    """
    outputs = run(
        "dispatch_backward",
        {
            "dy": dy,
            "experts": experts,
            "weights": weights,
            "x": x,
        },
        backend=backend,
        threads=threads,
        ranks=ranks,
        experts=experts_,
        alignment=alignment,
        layout=layout,
        rows=rows,
        precision=precision,
        placement=placement,
        format=format,
        scale_mode=scale_mode,
        rule=rule,
    )
    return outputs


def combine(
    y: Any,
    experts: Any,
    weights: Any = None,
    *,
    experts_: str | int | float | None = None,
    alignment: str | int | float | None = None,
    layout: Literal["rank_major", "expert_major_padded"] | Any = None,
    rows: Literal["received", "worst_case"] | Any = None,
    precision: Literal["mxfp8", "bf16", "fp8_blockwise"] | Any = None,
    placement: Literal["fused", "unfused"] | Any = None,
    format: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    scale_mode: Literal["rceil", "floor", "ceil", "even"] | Any = None,
    rule: str | int | float | None = None,
    steps: Literal["f32", "bf16", "fused"] | Any = None,
    backend: str = "cpu",
    threads: int | None = None,
    ranks: int | None = None,
) -> dict[str, Any]:
    """Rows back to their tokens, weighted and summed by slots.

    Operands:
        y: [rows, D], bf16, f16 or f32
        experts: [T_p, k]; -1 names none, i32
        weights: [T_p, k], f32; optional
    Returns:
        out: [T_p, D], bf16, f16 or f32, as y
    Parameters, the first value is the default:
        experts_: of all ranks; a multiple of them
        alignment: each expert's padded rows are a multiple of this (32)
        layout: of received rows (rank_major, expert_major_padded)
        rows: rows of received tensors: as many as are received, or as can be at most (received,
            worst_case)
        precision: format of rows in dispatch and in combine's gradient (mxfp8, bf16, fp8_blockwise)
        placement: how rows reach their place; both give the same bytes (fused, unfused)
        format: of codes (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        scale_mode: of scales (rceil, floor, ceil, even)
        rule: rule of the scales; default: torchao, or flow with fp8_blockwise
        steps: type that products and sums are rounded to (bf16: f16 for f16 rows), or one fma (f32,
            bf16, fused)

    An operand of each rank is a list, with one rank the tensor itself; `ranks` may be left out.
    All outputs come in a dict.
    """
    outputs = run(
        "combine",
        {
            "y": y,
            "experts": experts,
            "weights": weights,
        },
        backend=backend,
        threads=threads,
        ranks=ranks,
        experts=experts_,
        alignment=alignment,
        layout=layout,
        rows=rows,
        precision=precision,
        placement=placement,
        format=format,
        scale_mode=scale_mode,
        rule=rule,
        steps=steps,
    )
    return outputs


def combine_backward(
    y: Any,
    dout: Any,
    experts: Any,
    weights: Any = None,
    *,
    experts_: str | int | float | None = None,
    alignment: str | int | float | None = None,
    layout: Literal["rank_major", "expert_major_padded"] | Any = None,
    rows: Literal["received", "worst_case"] | Any = None,
    precision: Literal["mxfp8", "bf16", "fp8_blockwise"] | Any = None,
    placement: Literal["fused", "unfused"] | Any = None,
    format: Literal["e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz"] | Any = None,
    scale_mode: Literal["rceil", "floor", "ceil", "even"] | Any = None,
    rule: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
    ranks: int | None = None,
) -> dict[str, Any]:
    """Gradients of combine.

    Operands:
        y: [rows, D], bf16, f16 or f32
        dout: [T_p, D], bf16, f16 or f32
        experts: [T_p, k]; -1 names none, i32
        weights: [T_p, k], f32; optional
    Returns:
        dy: [rows, D], bf16; where asked for
        dy.codes: [rows, D], u8; where asked for
        dy.scales: [rows, D/32] or [rows, D/128], u8 or f32; where asked for
        dweights: [T_p, k], f32; where asked for
    Parameters, the first value is the default:
        experts_: of all ranks; a multiple of them
        alignment: each expert's padded rows are a multiple of this (32)
        layout: of received rows (rank_major, expert_major_padded)
        rows: rows of received tensors: as many as are received, or as can be at most (received,
            worst_case)
        precision: format of rows in dispatch and in combine's gradient (mxfp8, bf16, fp8_blockwise)
        placement: how rows reach their place; both give the same bytes (fused, unfused)
        format: of codes (e4m3, e4m3fnuz, e5m2, e5m2fnuz)
        scale_mode: of scales (rceil, floor, ceil, even)
        rule: rule of the scales; default: torchao, or flow with fp8_blockwise

    An operand of each rank is a list, with one rank the tensor itself; `ranks` may be left out.
    All outputs come in a dict.
    """
    outputs = run(
        "combine_backward",
        {
            "y": y,
            "dout": dout,
            "experts": experts,
            "weights": weights,
        },
        backend=backend,
        threads=threads,
        ranks=ranks,
        experts=experts_,
        alignment=alignment,
        layout=layout,
        rows=rows,
        precision=precision,
        placement=placement,
        format=format,
        scale_mode=scale_mode,
        rule=rule,
    )
    return outputs


def moe_layer(
    x: Any,
    router: Any,
    w1: Any,
    w2: Any,
    router_bias: Any = None,
    logits_bias: Any = None,
    w1_bias: Any = None,
    w2_bias: Any = None,
    shared_w1: Any = None,
    shared_w2: Any = None,
    dy: Any = None,
    *,
    top_k: str | int | float | None = None,
    pipeline: Literal["mxfp8", "bf16", "quantize_after", "flow", "fp8_blockwise"] | Any = None,
    scores: Literal[
        "combine", "swiglu", "input", "input_bf16", "first_product", "second_product",
    ]
    | Any = None,
    second_bias: Literal["weighted", "plain"] | Any = None,
    recipe: Literal[
        "mxfp8_rceil", "mxfp8_floor", "mxfp8_rceil_wgrad_with_hp", "mxfp8_floor_wgrad_with_hp",
            "fp8_rowwise", "fp8_blockwise", "vllm", "vllm_up", "bf16",
    ]
    | Any = None,
    format: Literal["e4m3", "e4m3fnuz"] | Any = None,
    score: Literal["softmax", "sigmoid", "softmax_of_chosen", "sqrtsoftplus"] | Any = None,
    groups: str | int | float | None = None,
    limited_groups: str | int | float | None = None,
    group_score: Literal["two_best", "best"] | Any = None,
    other_groups: Literal["excluded", "zero"] | Any = None,
    normalize: bool | None = None,
    scale: str | int | float | None = None,
    activation: Literal["silu", "gelu", "gelu_tanh", "relu_squared"] | Any = None,
    halves: Literal["gate_first", "up_first", "interleaved", "gate_only"] | Any = None,
    bf16_steps: Literal["none", "activation", "every"] | Any = None,
    alpha: str | int | float | None = None,
    limit: str | int | float | None = None,
    up_offset: str | int | float | None = None,
    arithmetic: Literal["rounded", "triton_sm90", "triton_sm90_quotient"] | Any = None,
    router_logits: Literal["f32", "bf16"] | Any = None,
    combine_steps: Literal["f32", "bf16", "fused"] | Any = None,
    alignment: str | int | float | None = None,
    placement: Literal["fused", "unfused"] | Any = None,
    recompute: bool | None = None,
    keep_stages: bool | None = None,
    sum: str | int | float | None = None,
    sum__chunk: str | int | float | None = None,
    sum__bits: str | int | float | None = None,
    sum__output: str | int | float | None = None,
    sum__floor: str | int | float | None = None,
    sum__promote: str | int | float | None = None,
    sum__fold: str | int | float | None = None,
    sum__block: str | int | float | None = None,
    sum__split: str | int | float | None = None,
    sum__tile: str | int | float | None = None,
    backend: str = "cpu",
    threads: int | None = None,
    ranks: int | None = None,
) -> dict[str, Any]:
    """A mixture-of-experts layer across ranks, with its gradients.

    Operands:
        x: [T_p, D], bf16
        router: [E, D], bf16
        router_bias: [E]; decides, never weighs, f32; optional
        logits_bias: [E]; of a router that is a linear layer with one, bf16 or f32; optional
        w1: [E, 2F, D], or [E, F, D] with halves=gate_only, bf16 or f32
        w2: [E, D, F], bf16 or f32
        w1_bias: [E, 2F], added to the first product, bf16 or f32; optional
        w2_bias: [E, D], to the second, bf16 or f32; optional
        shared_w1: [2S, D], bf16 or f32; optional
        shared_w2: [D, S], bf16 or f32; optional
        dy: [T_p, D], for the backward pass, bf16; optional
    Returns:
        y: [T_p, D], bf16
        dx: [T_p, D], with dy, bf16; where asked for
        drouter: [E, D], with dy, f32; where asked for
        logits.dbias: [E], with dy, f32; where asked for
        dw1: [E, 2F, D], with dy, bf16; where asked for
        dw2: [E, D, F], with dy, bf16; where asked for
        w1.dbias: [E, 2F], with dy, bf16; where asked for
        w2.dbias: [E, D], with dy, bf16; where asked for
        shared.dw1: [2S, D], with dy, bf16; where asked for
        shared.dw2: [D, S], with dy, bf16; where asked for
        STAGE: every step's tensor, with keep_stages, f32, bf16, i32 or u8; where asked for
    Parameters, the first value is the default:
        top_k: experts of a token (1)
        pipeline: what ranks send, and where it is quantised (mxfp8, bf16, quantize_after, flow,
            fp8_blockwise)
        scores: what a token's weights multiply; input_bf16: x, rounded to bf16 first; a product:
            its sums in f32, no gradients (combine, swiglu, input, input_bf16, first_product,
            second_product)
        second_bias: scores=swiglu: w2.bias is multiplied by the row's weight (Megatron), or added
            unweighted (weighted, plain)
        recipe: how the experts' products are scaled; pipelines bf16 and flow have their own
            (mxfp8_rceil, mxfp8_floor, mxfp8_rceil_wgrad_with_hp, mxfp8_floor_wgrad_with_hp,
            fp8_rowwise, fp8_blockwise, vllm, vllm_up, bf16)
        format: of codes (e4m3, e4m3fnuz)
        score: of the router (softmax, sigmoid, softmax_of_chosen, sqrtsoftplus)
        groups: of experts (1)
        limited_groups: groups that a token may choose from; default: all
        group_score: score of a group: the sum of its two best experts, or its best (two_best, best)
        other_groups: experts of the other groups: excluded, or with score 0 (excluded, zero)
        normalize: weights of a token add up to scale (true, false)
        scale: of weights (1)
        activation: of the gate (silu, gelu, gelu_tanh, relu_squared)
        halves: order of gate and up in a row of x (gate_first, up_first, interleaved, gate_only)
        bf16_steps: steps that are rounded to bf16 (to f16 if x is f16) before the result (none,
            activation, every)
        alpha: of silu: a * sigma(alpha * a) (1)
        limit: bound of gate, and of up on both sides; default: none
        up_offset: added to up (0)
        arithmetic: silu with a correctly rounded sigma, or Triton's a * sigmoid(a) or a / (1 +
            exp(-a)) on Hopper (rounded, triton_sm90, triton_sm90_quotient)
        router_logits: type that the exact logits are rounded to (f32, bf16)
        combine_steps: type that combine rounds products and sums to, or one fma (f32, bf16, fused)
        alignment: each expert's padded rows are a multiple of this; for blocks of 128, of at least
            128 (32)
        placement: how rows reach their place; both give the same bytes (fused, unfused)
        recompute: compute h and act again in the backward pass; the same bits (false, true)
        keep_stages: also return every step's tensor (false, true)
        sum: how products are summed: a name of `mxo list sums` (exact)
        sum__chunk: k of one fused sum
        sum__bits: fraction bits kept below the largest exponent of a chunk
        sum__output: result of a chunk: rz_f32, rz_e8m13, rne_f16 or rne_f32
        sum__floor: least value of the largest exponent
        sum__promote: instructions between additions to an f32 sum; 0: no such sum
        sum__fold: where scales are multiplied: term, x_then_w, joint, joint_add, after or
            after_joint
        sum__block: k of a partial sum that restarts; 0: as the blocks of scales
        sum__split: number of parts of K; auto finds it from the operand y, table is cuBLASLt's
            choice
        sum__tile: k of a tile of the split

    An operand of each rank is a list, with one rank the tensor itself; `ranks` may be left out.
    All outputs come in a dict.
    """
    outputs = run(
        "moe_layer",
        {
            "x": x,
            "router": router,
            "router.bias": router_bias,
            "logits.bias": logits_bias,
            "w1": w1,
            "w2": w2,
            "w1.bias": w1_bias,
            "w2.bias": w2_bias,
            "shared.w1": shared_w1,
            "shared.w2": shared_w2,
            "dy": dy,
        },
        backend=backend,
        threads=threads,
        ranks=ranks,
        top_k=top_k,
        pipeline=pipeline,
        scores=scores,
        second_bias=second_bias,
        recipe=recipe,
        format=format,
        score=score,
        groups=groups,
        limited_groups=limited_groups,
        group_score=group_score,
        other_groups=other_groups,
        normalize=normalize,
        scale=scale,
        activation=activation,
        halves=halves,
        bf16_steps=bf16_steps,
        alpha=alpha,
        limit=limit,
        up_offset=up_offset,
        arithmetic=arithmetic,
        router_logits=router_logits,
        combine_steps=combine_steps,
        alignment=alignment,
        placement=placement,
        recompute=recompute,
        keep_stages=keep_stages,
        sum=sum,
        sum__chunk=sum__chunk,
        sum__bits=sum__bits,
        sum__output=sum__output,
        sum__floor=sum__floor,
        sum__promote=sum__promote,
        sum__fold=sum__fold,
        sum__block=sum__block,
        sum__split=sum__split,
        sum__tile=sum__tile,
    )
    return outputs
