"""torchao's expert layers on the library, beside its own emulation."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao.prototype.moe_training")
import torchao.prototype.moe_training as training  # noqa: E402
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
