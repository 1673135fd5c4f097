"""torchao's kernels for groups of tokens and weights of experts, against its own references in torch."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao.prototype.moe_training")
from torchao.prototype.moe_training import utils  # noqa: E402
from torchao.prototype.moe_training.kernels import float8_rowwise, jagged_float8_scales  # noqa: E402
from torchao.prototype.moe_training.kernels.mxfp8 import quant  # noqa: E402
from torchao.prototype.mx_formats import kernels  # noqa: E402
from torchao.prototype.mx_formats.config import ScaleCalculationMode  # noqa: E402
from torchao.prototype.mx_formats.mx_tensor import to_mx  # noqa: E402
from torchao.prototype.mx_formats.utils import to_blocked  # noqa: E402

import mxoracle  # noqa: E402
from mxoracle.torch import rows  # noqa: E402
from mxoracle.torch import torchao as ours  # noqa: E402

E4M3 = torch.float8_e4m3fn
ENDS = torch.tensor([64, 64, 160, 256], dtype=torch.int32)  # one group is empty


def same(have, want):
    have, want = ([t] if isinstance(t, torch.Tensor) else t for t in (have, want))
    assert len(have) == len(want)
    for a, b in zip(have, want):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def values(*shape):
    torch.manual_seed(0)
    return torch.randn(shape).bfloat16() * torch.logspace(-9, 9, shape[-1], 2).bfloat16()


SCALES = torch.randint(256, (256, 12), dtype=torch.uint8).view(torch.float8_e8m0fnu)
WEIGHTS = torch.randint(256, (3, 96, 6), dtype=torch.uint8).view(torch.float8_e8m0fnu)
COLUMNS = torch.tensor([3, 8, 12], dtype=torch.int32)
TILES = [
    ("triton_mx_block_rearrange_2d_M_groups", (SCALES, ENDS),
     lambda: quant.torch_to_blocked_2d_M_groups(SCALES, ENDS)[0]),
    ("mx_block_rearrange_2d_M_groups_cuda", (SCALES, ENDS),
     lambda: quant.torch_to_blocked_2d_M_groups(SCALES, ENDS)[0]),
    ("triton_mx_block_rearrange_2d_K_groups", (SCALES, COLUMNS),
     lambda: quant.torch_to_blocked_2d_K_groups(SCALES, COLUMNS)[0]),
    ("triton_mx_block_rearrange_per_group_3d", (WEIGHTS,),
     lambda: quant.torch_to_blocked_per_group_3d(WEIGHTS)),
    ("fused_pad_token_groups_cuda", (values(256, 40), ENDS, 32),
     lambda: quant.torch_pad_token_groups(values(256, 40), ENDS, 32)),
]  # fmt: skip


@pytest.mark.parametrize("name, args, want", TILES, ids=[row[0] for row in TILES])
def test_scales_and_rows_move_as_torchao_moves_them(name, args, want):
    with ours.patch():
        same(getattr(quant, name)(*args), want())


def test_padding_is_undone():
    x = values(256, 40)
    with ours.patch():
        padded, starts, _ = quant.fused_pad_token_groups_cuda(x, ENDS, 32)
        same(quant.fused_unpad_token_groups_cuda(padded, ENDS, starts, 256, 32), x)


@pytest.mark.parametrize("mode", ["rceil", "floor"])
@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("columns", [1, 32])
def test_weights_of_experts_are_quantised_as_torchao_does(mode, tiles, columns):
    x = values(2, 64, 96)
    settings = {"block_size": 32, "scale_block_dim1": 32, "scale_block_dim2": columns,
                "scaling_mode": mode, "blocked_scale_output": tiles}  # fmt: skip
    codes, scales = quant._mxfp8_quantize_reference_3d(x, **{**settings, "blocked_scale_output": False})
    scales = scales.reshape(2, 2, -1)  # the reference leaves an axis
    if tiles:
        turned = scales.transpose(-2, -1).repeat_interleave(columns, 1)
        scales = quant.torch_to_blocked_per_group_3d(turned)
    want = codes, scales
    with ours.patch():
        have = quant.mxfp8_quantize_cuda_3d(x, **settings)
        if hasattr(quant, "mxfp8_quantize_3d_flydsl"):
            same(quant.mxfp8_quantize_3d_flydsl(x, **settings), want)
        same(torch.ops.torchao.mxfp8_quantize_3d_cutedsl(x, 32, 32, columns, mode, 2, tiles), want)
    same(have, want)
    assert have[0].stride() == want[0].stride()


@pytest.mark.parametrize("mode", ["rceil", "floor"])
def test_rows_and_columns_are_quantised_as_torchao_does(mode):
    x = values(128, 96)
    scales, codes = to_mx(x, E4M3, 32, ScaleCalculationMode(mode))
    turned_scales, turned = to_mx(x.t().contiguous(), E4M3, 32, ScaleCalculationMode(mode))
    with ours.patch():
        same(quant.mxfp8_quantize_2d_1x32_cutedsl(x, 32, mode), (codes, to_blocked(scales).view(128, 4)))
        have = quant.mxfp8_quantize_2d_32x1_cutedsl(x, 32, mode, blocked_scale_output=False)
        same(have, (turned.t(), turned_scales))
        assert have[0].stride() == (1, 128)
        same(quant.mxfp8_quantize_2d_32x1_cutedsl(x, 32, mode)[1], to_blocked(turned_scales))


@pytest.mark.parametrize("call, error, words", [
    (lambda: quant.mxfp8_quantize_2d_32x1_cutedsl(values(33, 96)), AssertionError, "must be a multiple of"),
    (lambda: quant.mxfp8_quantize_2d_1x32_cutedsl(values(256, 96), offs=ENDS), mxoracle.Error,
     "needs multiples of 128"),
    (lambda: quant.mxfp8_quantize_cuda_3d(values(64, 96)), mxoracle.Unsupported, "needs 3 in blocks of 32"),
    (lambda: quant.mxfp8_quantize_cuda_3d(values(1, 64, 96), scale_block_dim2=2), mxoracle.Unsupported,
     "needs 32 x 1"),
    (lambda: rows.swizzle_scales(SCALES, "m_groups"), mxoracle.Unsupported, "with group_ends"),
])  # fmt: skip
def test_what_a_kernel_does_not_take_is_refused(call, error, words):
    with ours.patch(), pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_f32_scales_are_what_torchao_multiplies_by(down, kind):
    x, w = values(256, 96), values(3, 96, 64).transpose(-2, -1)
    columns = torch.tensor([32, 40, 96], dtype=torch.int32)
    turned = w.transpose(-2, -1).reshape(-1, 64)
    with ours.patch():
        flat = float8_rowwise.triton_fp8_rowwise_2d_scale_and_cast(turned, kind, down)
        stacked = float8_rowwise.triton_fp8_colwise_3d_scale_and_cast(w, kind, down)
        weights = [name(w, kind, down) for name in (
            float8_rowwise.triton_fp8_rowwise_3d_transpose_rhs,
            float8_rowwise.triton_fp8_rowwise_3d_transpose_rhs_fused_reduction)]  # fmt: skip
        across = jagged_float8_scales.triton_fp8_per_group_rowwise_scales(x, columns, kind, down)
        both = jagged_float8_scales.triton_fp8_per_group_colwise_scales_dual(x, x, ENDS[1:], kind, down)
    codes, scales = utils.torch_to_3d_rowwise_float8_transpose_rhs(w, kind, down)
    for have in weights:
        same(have, (codes, scales.squeeze(1)))
        assert have[0].stride() == codes.stride()
    same(across, utils.torch_to_float8_per_group_rowwise(x, columns, kind, down))
    want = utils.torch_to_float8_per_group_colwise(x, ENDS[1:], kind, down)
    same(both, want * 2)
    same(stacked[0].transpose(-2, -1).reshape(-1, 64), flat[0])
    same(stacked[1].flatten(), flat[1].flatten())
    same(flat, utils.torch_to_float8_per_group_rowwise(turned, torch.tensor([64]), kind, down)[:1]
         + (flat[1],))  # fmt: skip


def in_doubles(codes, scales, block):
    return codes.double() * scales.double().repeat_interleave(block, -1)


@pytest.mark.parametrize("out", [torch.bfloat16, torch.float32])
def test_scaled_grouped_products_are_exact_sums(out):
    x, w = values(256, 96), values(4, 64, 96)
    starts = [0, *ENDS[:-1].tolist()]
    groups = list(zip(starts, ENDS.tolist()))
    with ours.patch():
        codes, scales = kernels.triton_to_mxfp8_dim0(x)
        turned, tiles = quant.mxfp8_quantize_cuda_3d(w.transpose(1, 2), blocked_scale_output=True)
        plain = quant.mxfp8_quantize_cuda_3d(w.transpose(1, 2), blocked_scale_output=False)[1]
        moved = quant.triton_mx_block_rearrange_2d_M_groups(scales, ENDS)
        y = torch._scaled_grouped_mm(codes, turned, moved, tiles, offs=ENDS, out_dtype=out)
        rowwise, by_row = float8_rowwise.triton_fp8_rowwise_2d_scale_and_cast(x)
        columns, by_column = float8_rowwise.triton_fp8_colwise_3d_scale_and_cast(w.transpose(1, 2))
        z = torch._scaled_grouped_mm(rowwise, columns, by_row.reciprocal().squeeze(-1),
                                     by_column.reciprocal().squeeze(1), offs=ENDS, out_dtype=out)  # fmt: skip
        ends = ENDS[1:]  # no group is empty
        one, along = jagged_float8_scales.triton_fp8_per_group_colwise_scales(x, ends)
        dw = torch._scaled_grouped_mm(one.t(), one, along.reciprocal(), along.reciprocal(), offs=ends,
                                      out_dtype=out)  # fmt: skip
        with pytest.raises(mxoracle.Unsupported, match="neither bias"):
            torch._scaled_grouped_mm(codes, turned, moved, tiles, offs=ENDS, bias=by_row)
    u, v = in_doubles(codes, scales, 32), in_doubles(turned.transpose(1, 2), plain.transpose(1, 2), 32)
    u2 = rowwise.double() * by_row.reciprocal().double()
    v2 = columns.double() * by_column.reciprocal().double()
    for group, (start, end) in enumerate(groups):
        want = (u[start:end] @ v[group].t()).to(out), (u2[start:end] @ v2[group]).to(out)
        assert torch.equal(y[start:end], want[0])
        torch.testing.assert_close(z[start:end], want[1], rtol=2**-7, atol=0)
    factors = along.view(3, -1).reciprocal().double()
    for group, (start, end) in enumerate(zip([0, 64, 160], [64, 160, 256])):
        side = one[start:end].double() * factors[group]
        torch.testing.assert_close(dw[group], (side.t() @ side).to(out), rtol=2**-7, atol=0)


INDICES = torch.tensor([3, -1, 0], dtype=torch.int32)
OPERATORS = [
    (rows.swizzle_scales, lambda: (SCALES.view(torch.uint8), "blocked")),
    (rows.swizzle_scales, lambda: (SCALES.view(torch.uint8), "m_groups", ENDS)),
    (rows.swizzle_scales, lambda: (SCALES.view(torch.uint8), "k_groups", COLUMNS)),
    (rows.swizzle_scales, lambda: (WEIGHTS.view(torch.uint8), "per_group_3d")),
    (rows.pad_groups, lambda: (torch.randn(256, 8), ENDS, 32)),
    (rows.unpad_groups, lambda: (torch.randn(288, 8), ENDS, ENDS * 0, 256)),
    (rows.permute_indices, lambda: (torch.tensor([3, 5, 0, 7]), 2, 2, 32, 96)),
    (rows.permute, lambda: (torch.randn(4, 8, requires_grad=True), INDICES)),
    (rows.unpermute, lambda: (torch.randn(3, 8, requires_grad=True), INDICES, 4)),
]  # fmt: skip


@pytest.mark.parametrize("op, args", OPERATORS)
def test_operators_are_what_torch_expects(op, args):
    torch.library.opcheck(op, args())


def test_rows_go_back_where_gradients_belong():
    x = torch.randn(4, 8, requires_grad=True)
    rows.unpermute(rows.permute(x, INDICES) * 2, INDICES, 4).sum().backward()
    assert torch.equal(x.grad, torch.tensor([2.0, 0, 0, 2])[:, None].expand(4, 8))
