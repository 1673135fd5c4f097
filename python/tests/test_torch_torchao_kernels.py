"""torchao's kernels on the library: its own references, gradients of scaled tensors, two ranks."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao.prototype.moe_training")
import torch.multiprocessing as mp  # noqa: E402
import torchao.prototype.mx_formats.kernels as kernels  # noqa: E402
from torchao.prototype.mx_formats.config import ScaleCalculationMode  # noqa: E402
from torchao.prototype.mx_formats.mx_tensor import MXTensor, to_mx  # noqa: E402
from torchao.prototype.mx_formats.utils import to_blocked  # noqa: E402

import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402
from mxoracle.torch import torchao as ours  # noqa: E402

E4M3 = torch.float8_e4m3fn


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def same(have, want):
    return torch.equal(bits(have), bits(want))


def reference(x, mode, block=32):
    scales, codes = to_mx(x.contiguous(), E4M3, block, ScaleCalculationMode[mode.upper()])
    return codes, scales


@pytest.mark.parametrize("mode", ["rceil", "floor"])
@pytest.mark.parametrize("block", [16, 32])
def test_quantisers_are_torchaos_references(mode, block):
    torch.manual_seed(0)
    x = torch.randn(64, 128).bfloat16() * torch.logspace(-20, 20, 64, 2)[:, None].bfloat16()
    with ours.patch():
        codes, scales = kernels.triton_to_mxfp8_dim0(x, block, mode)
        turned, turned_scales = kernels.triton_to_mxfp8_dim1(x, block, mode)
        back = kernels.triton_mxfp8_dequant_dim0(codes, scales.view(torch.uint8), torch.float32, block)
    want, want_scales = reference(x, mode, block)
    assert same(codes, want) and same(scales, want_scales)
    want, want_scales = reference(x.t(), mode, block)
    assert same(turned.t(), want) and same(turned_scales, want_scales)
    assert turned.stride() == (1, 64)
    values = codes.float() * scales.float().repeat_interleave(block, 1)
    assert torch.equal(back, values)


@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize("colwise", [False, True])
def test_the_cuda_quantiser_is_an_operator_inside(rowwise, colwise):
    x = torch.randn(64, 96).bfloat16()
    with ours.patch():
        call = torch.ops.torchao.mxfp8_quantize
        found = call(x, rowwise, colwise, 32, 32, "e4m3", "floor")
        assert all(map(same, kernels.mxfp8_quantize_cuda(x, rowwise, colwise, "floor"), found))
        if rowwise:
            with pytest.raises(RuntimeError, match="rowwise output requires scale_dim_x == 32"):
                call(x, True, colwise, 1, 32, "e4m3", "floor")
    assert not hasattr(torch.ops.torchao, "mxfp8_quantize")
    codes, scales = reference(x, "floor")
    turned, turned_scales = reference(x.t(), "floor")
    assert same(found[0], codes) and same(found[2], scales) if rowwise else found[0].numel() == 0
    assert same(found[1].t(), turned) and same(found[3], turned_scales) if colwise else True
    assert found[1].numel() == (x.numel() if colwise else 0)


@pytest.mark.parametrize("shape", [(128, 4), (133, 9), (300, 1)])
def test_scales_are_rearranged_as_torchao_does(shape):
    scales = torch.randint(256, shape, dtype=torch.uint8)
    with ours.patch():
        assert same(to_blocked(scales, True).flatten(), to_blocked(scales, False).flatten())


BLOCKS = ["1x32", "32x1", "1x16", "4x8", "1x128", "32x32", "128x128", "1xK", "Rx1", "RxK"]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("scale", ["", "e8m0", "f32"])
def test_any_block_is_an_operator(block, scale):
    x = torch.randn(2, 128, 256)
    torch.library.opcheck(mxt.quantize, (x, "e4m3", "rceil", block, scale))
    codes, scales = mxt.quantize(x, block=block, scale=scale)
    want = mxoracle.quantize(x, block=block, **({"scale": scale} if scale else {}))
    assert torch.equal(codes.float(), want[0].float()) and torch.equal(scales.float(), want[1].float())
    back = mxt.dequantize(codes, scales, "e4m3", "f32", block)
    assert mxoracle.compare(x, back, gate="sqnr=20")


@pytest.mark.parametrize("block", ["32", "0.5x3", "1xR", ""])
def test_blocks_that_are_none_are_refused(block):
    with pytest.raises(mxoracle.Error, match="block"):
        mxt.quantize(torch.randn(32, 32), block=block)


class Scaled(torch.autograd.Function):
    """x as an MXTensor that knows where it came from."""

    @staticmethod
    def forward(ctx, x):
        return MXTensor.to_mx(x.detach(), E4M3, 32, ScaleCalculationMode.RCEIL)

    @staticmethod
    def backward(ctx, dx):
        return dx


class ScaledGradient(torch.autograd.Function):
    """The gradient of y comes as an MXTensor."""

    @staticmethod
    def forward(ctx, y):
        return y.view_as(y)

    @staticmethod
    def backward(ctx, dy):
        return MXTensor.to_mx(dy.contiguous(), E4M3, 32, ScaleCalculationMode.RCEIL)


@pytest.mark.parametrize("mode", ["RCEIL", "FLOOR"])
@pytest.mark.parametrize("scaled_x", [False, True])
@pytest.mark.parametrize("scaled_dy", [False, True])
@pytest.mark.parametrize("frozen", ["", "x", "w"])
def test_scaled_tensors_have_gradients(mode, scaled_x, scaled_dy, frozen):
    torch.manual_seed(0)
    leaves = {"x": torch.randn(64, 64).bfloat16(), "w": torch.randn(2, 96, 64).bfloat16()}
    for name, leaf in leaves.items():
        leaf.requires_grad_(name != frozen)
    ends = torch.tensor([32, 64], dtype=torch.int32)
    dy = torch.randn(64, 96).bfloat16()
    x = Scaled.apply(leaves["x"]) if scaled_x else leaves["x"]
    y = ours.to_mxfp8_then_scaled_grouped_mm(
        x, leaves["w"].transpose(-2, -1), ends, wgrad_with_hp=True,
        scale_calculation_mode=ScaleCalculationMode[mode],
    )  # fmt: skip
    (ScaledGradient.apply(y) if scaled_dy else y).backward(dy)
    mode, w = mode.lower(), leaves["w"].detach()
    quantised = Scaled.apply(leaves["x"].detach())
    codes = {"x.codes": quantised.qdata, "x.scales": quantised.scale}
    plain = codes if scaled_x else {"x": leaves["x"].detach()}
    plain |= {"w": w, "group_ends": ends, "dy": Scaled.apply(dy).dequantize() if scaled_dy else dy}
    want = mxoracle.run("grouped_linear", plain, recipe=f"mxfp8_{mode}_wgrad_with_hp")
    if scaled_dy:  # its codes are multiplied as they are
        turned = mxoracle.quantize(w.transpose(1, 2).contiguous(), scale_mode=mode)
        codes = Scaled.apply(dy)
        sides = {"x": (codes.qdata, codes.scale), "w": turned, "group_ends": ends}
        want["dx"] = mxoracle.run("grouped_matmul", sides)["y"]
    assert torch.equal(y.detach(), want["y"])
    for name, leaf in leaves.items():
        assert leaf.grad is None if name == frozen else torch.equal(leaf.grad, want[f"d{name}"])


def expert_parallel(rank, folder):
    """One of two ranks: dispatch, permute, product, unpermute, combine, and back."""
    import torch.distributed as dist
    from torchao.prototype.moe_training import ep
    from torchao.prototype.moe_training import mxfp8_grouped_mm as home

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.manual_seed(rank)
    x = torch.randn(64, 128).bfloat16().requires_grad_()
    torch.manual_seed(9)
    w = torch.randn(2, 96, 128).bfloat16().requires_grad_()
    counts = torch.tensor([[10, 22, 8, 24], [30, 2, 16, 16]], dtype=torch.int64)
    mine, others = counts[rank], counts[:, 2 * rank : 2 * rank + 2]
    sent, received = mine.view(2, 2).sum(1).tolist(), others.sum(1).tolist()
    group = dist.group.WORLD.group_name
    with ours.patch():
        there = ep.a2a_dispatch_mxfp8_fwd_hp_bwd(x, received, sent, group_name=group)
        shape, rows, indices, _, ends = ep.permute_mxfp8_fwd_hp_bwd(there, others.flatten(), 2, 2, 32)
        y = home._to_mxfp8_then_scaled_grouped_mm(rows, w.transpose(-2, -1), offs=ends,
                                                  wgrad_with_hp=True)  # fmt: skip
        y = ep.unpermute_hp_fwd_mxfp8_bwd(y, indices, torch.Size([shape[0], 96]))
        y = ep.a2a_combine_hp_fwd_mxfp8_bwd(y, output_splits=sent, input_splits=received,
                                            group_name=group)  # fmt: skip
        torch.manual_seed(20 + rank)
        dy = torch.randn(64, 96).bfloat16()
        y.backward(dy)
    torch.save([x.detach(), dy, y.detach(), x.grad, w.grad], f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_expert_parallelism_trains_on_two_ranks(tmp_path):
    mp.start_processes(expert_parallel, (str(tmp_path),), nprocs=2, start_method="spawn")
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    torch.manual_seed(9)
    w = torch.randn(2, 96, 128).bfloat16()
    counts = torch.tensor([[10, 22, 8, 24], [30, 2, 16, 16]])
    for rank, (x, dy, y, dx, _) in enumerate(ranks):
        # Each row by its expert; both ranks were given the same two of them.
        experts = torch.repeat_interleave(torch.arange(4) % 2, counts[rank])
        for expert in (0, 1):
            rows = experts == expert
            settings = {"recipe": "mxfp8_rceil_wgrad_with_hp", "only": "y,dx"}
            ends = torch.tensor([int(rows.sum())], dtype=torch.int32)
            tensors = {"x": x[rows], "w": w[expert][None], "group_ends": ends, "dy": dy[rows]}
            want = mxoracle.run("grouped_linear", tensors, **settings)
            assert torch.equal(y[rows], want["y"]) and torch.equal(dx[rows], want["dx"])
    ends = counts.cumsum(1)
    for number in range(4):  # an expert's gradient has the rows of both ranks
        spans = [slice(int(ends[r, number] - counts[r, number]), int(ends[r, number])) for r in (0, 1)]
        rows = torch.cat([ranks[r][0][span] for r, span in enumerate(spans)]).float()
        gradients = torch.cat([ranks[r][1][span] for r, span in enumerate(spans)]).float()
        have = ranks[number // 2][4][number % 2].float()
        assert mxoracle.compare(gradients.t() @ rows, have, gate="sqnr=20")
