"""Triton's gates on a Hopper GPU against arithmetic=triton_sm90: every float there is."""
from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
import mxoracle  # noqa: E402

hopper = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
pytestmark = pytest.mark.skipif(not hopper, reason="needs a Hopper GPU")

FORMS = {
    "sigmoid": {"arithmetic": "triton_sm90"},
    "quotient": {"arithmetic": "triton_sm90_quotient"},
    "rounded": {"arithmetic": "triton_sm90_quotient", "bf16_steps": "activation"},
}


@pytest.fixture(scope="module")
def kernels():
    path = Path(__file__).parents[2] / "tools" / "capture" / "triton_kernels.py"
    spec = importlib.util.spec_from_file_location("triton_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def differing(kernels, form: str, x: torch.Tensor) -> int:
    """Of [rows, 2 * 256], beside the NaNs that both have."""
    theirs = torch.empty(x.shape[0], 256, dtype=x.dtype, device="cuda")
    kernels.silu_mul[(x.shape[0],)](x, theirs, 256, FORM=form, BLOCK=256)
    rounding = "bf16" if x.dtype == torch.bfloat16 else "none"
    ours = mxoracle.run("swiglu", {"x": x}, backend="cuda:0", rounding=rounding, **FORMS[form])["y"]
    bits = torch.int16 if x.dtype == torch.bfloat16 else torch.int32
    return int(((theirs.view(bits) != ours.view(bits)) & ~(theirs.isnan() & ours.isnan())).sum())


@pytest.mark.parametrize("form", ["sigmoid", "quotient"])
def test_every_f32(kernels, form):
    rows = 1 << 18
    b = torch.ones(rows, 256, device="cuda")
    differ = 0
    for first in range(-(1 << 31), 1 << 31, rows * 256):
        a = torch.arange(first, first + rows * 256, dtype=torch.int64, device="cuda").to(torch.int32)
        differ += differing(kernels, form, torch.cat([a.view(torch.float32).view(rows, 256), b], 1))
    print(f"{form}: {differ} of 2^32 differ")
    assert differ == 0


@pytest.mark.parametrize("form", FORMS)
def test_random_bf16(kernels, form):
    torch.manual_seed(0)
    x = (torch.randn(1 << 16, 512, device="cuda") * 4).to(torch.bfloat16)
    differ = differing(kernels, form, x)
    print(f"{form}: {differ} of {x.numel() // 2} differ")
    assert differ == 0
