"""torchao's expert layers on the library, beside its own emulation."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao.prototype.moe_training")
import torchao.prototype.moe_training as training  # noqa: E402
from torchao.prototype.mx_formats.config import ScaleCalculationMode  # noqa: E402
from torchao.prototype.mx_formats.mx_tensor import MXTensor, to_mx  # noqa: E402
from torchao.quantization.quantize_.common import KernelPreference  # noqa: E402

import mxoracle  # noqa: E402
from mxoracle.torch import torchao as ours  # noqa: E402


def operands():
    torch.manual_seed(0)
    a = torch.randn(128, 64, dtype=torch.bfloat16, requires_grad=True)
    w = torch.randn(3, 96, 64, dtype=torch.bfloat16, requires_grad=True)
    return a, w, torch.tensor([32, 96, 128], dtype=torch.int32)


def step(wgrad_with_hp):
    a, w, ends = operands()
    y = training._to_mxfp8_then_scaled_grouped_mm(
        a, w.transpose(-2, -1), ends, kernel_preference=KernelPreference.EMULATED,
        wgrad_with_hp=wgrad_with_hp,
    )  # fmt: skip
    y.float().square().sum().backward()
    return y.detach(), a.grad, w.grad


@pytest.mark.parametrize("wgrad_with_hp", [False, True])
def test_results_and_gradients_are_those_of_the_emulation(wgrad_with_hp):
    theirs = step(wgrad_with_hp)
    with ours.patch():
        mine = step(wgrad_with_hp)
    for want, have, name in zip(theirs, mine, ("y", "dA", "dB")):
        found = mxoracle.compare({name: want.contiguous()}, {name: have.contiguous()}, gate="sqnr=40")
        assert found, found


def test_the_patch_ends():
    before = training._to_mxfp8_then_scaled_grouped_mm
    with ours.patch():
        assert training._to_mxfp8_then_scaled_grouped_mm is ours.to_mxfp8_then_scaled_grouped_mm
    assert training._to_mxfp8_then_scaled_grouped_mm is before


def test_what_we_lack_is_refused():
    a, w, ends = operands()
    with pytest.raises(mxoracle.Error, match="needs the ends"):
        ours.to_mxfp8_then_scaled_grouped_mm(a, w.transpose(-2, -1))
    with pytest.raises(mxoracle.Unsupported, match="needs rceil or floor"):
        ours.to_mxfp8_then_scaled_grouped_mm(a, w.transpose(-2, -1), ends, scale_calculation_mode="even")
    with pytest.raises(AssertionError, match="needs wgrad_with_hp=True"):  # as torchao has it
        ours.to_mxfp8_then_scaled_grouped_mm(quantised(a), w.transpose(-2, -1), ends)


# What torchao's own tests ask (test/prototype/moe_training/test_mxfp8_grouped_mm.py at 0138f2c), at
# sizes for a CPU: distances from products of bf16, in decibels.
M, K, N = 512, 256, 384
ENDS = {1: [512], 8: [64, 128, 128, 256, 320, 416, 448, 512]}


def quantised(x):
    """x as an MXTensor, without a way back to it."""
    scales, codes = to_mx(x.detach(), elem_dtype=torch.float8_e4m3fn, block_size=32,
                          scaling_mode=ScaleCalculationMode.RCEIL)  # fmt: skip
    return MXTensor.from_qdata_and_scales(codes, scales, orig_dtype=x.dtype, block_size=32,
                                          is_swizzled_scales=False)  # fmt: skip


def problem(experts):
    torch.manual_seed(2)
    x = torch.randn(M, K, dtype=torch.bfloat16, requires_grad=True)
    w = torch.randn(experts, N, K, dtype=torch.bfloat16).transpose(-2, -1).requires_grad_(True)
    return x, w, torch.tensor(ENDS[experts], dtype=torch.int32)


def back(y):
    torch.nn.functional.mse_loss(y, torch.ones_like(y)).backward()


def near(want, have, decibels):
    found = mxoracle.compare(want.detach().contiguous(), have.detach().contiguous(),
                             gate=f"sqnr={decibels}")  # fmt: skip
    assert found, found


@pytest.mark.parametrize("experts", [1, 8])
@pytest.mark.parametrize("high", [True, False])
@pytest.mark.parametrize("mode", ["FLOOR", "RCEIL"])
@pytest.mark.parametrize("preference", ["AUTO", "EMULATED"])
def test_products_and_gradients_are_near_those_of_bf16(experts, high, mode, preference):
    (x, w, ends), (x_bf16, w_bf16, _) = problem(experts), problem(experts)
    with ours.patch():
        y = training._to_mxfp8_then_scaled_grouped_mm(
            x, w, offs=ends, kernel_preference=KernelPreference[preference], wgrad_with_hp=high,
            scale_calculation_mode=ScaleCalculationMode[mode],
        )  # fmt: skip
    y_bf16 = torch._grouped_mm(x_bf16, w_bf16, offs=ends, out_dtype=torch.bfloat16)
    back(y), back(y_bf16)
    near(y_bf16, y, 27)
    near(x_bf16.grad, x.grad, 25)
    near(w_bf16.grad, w.grad, 24)


def test_quantised_before_is_quantised_within():
    (x, w, ends), (x_within, w_within, _) = problem(8), problem(8)
    with ours.patch():
        product = training._to_mxfp8_then_scaled_grouped_mm
        y = product(quantised(x), w, offs=ends, wgrad_with_hp=True)
        y_within = product(x_within, w_within, offs=ends, wgrad_with_hp=True)
    assert torch.equal(y, y_within)
    back(y), back(y_within)
    assert x.grad is None
    near(w_within.grad, w.grad, 30)


def test_an_mxtensor_gives_what_the_emulation_gives():
    x, w, ends = problem(8)
    theirs = training._to_mxfp8_then_scaled_grouped_mm(
        quantised(x), w, offs=ends, kernel_preference=KernelPreference.EMULATED, wgrad_with_hp=True
    )
    with ours.patch():
        mine = training._to_mxfp8_then_scaled_grouped_mm(quantised(x), w, offs=ends, wgrad_with_hp=True)
    near(theirs, mine, 40)


def test_a_compiled_graph_is_eager_bit_for_bit():
    (x, w, ends), (x_compiled, w_compiled, _) = problem(8), problem(8)
    with ours.patch():
        product = training._to_mxfp8_then_scaled_grouped_mm
        y = product(x, w, offs=ends)
        compiled = torch.compile(product, fullgraph=True, backend="aot_eager")
        y_compiled = compiled(x_compiled, w_compiled, offs=ends)
    back(y), back(y_compiled)
    for have, want in ((y_compiled, y), (x_compiled.grad, x.grad), (w_compiled.grad, w.grad)):
        assert torch.equal(have, want)
