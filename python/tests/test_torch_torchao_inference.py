"""torchao's kernels for inference, run by Triton's interpreter: the rule torchao_inference."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("torchao.kernel.blockwise_quantization")

# Triton reads its environment when it is imported; its interpreter's own cast to 8 bits loses carries.
CHILD = """
import numpy, sys, torch, torch.utils._triton
import mxoracle
from triton.runtime import interpreter
torch.utils._triton.has_triton = lambda: True
from torchao.kernel import blockwise_quantization as theirs

KINDS = {"fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}
own_cast = interpreter._convert_float
def cast(data, source, target, rounding):
    if target.name not in KINDS:
        return own_cast(data, source, target, rounding)
    return torch.tensor(data).to(KINDS[target.name]).view(torch.uint8).numpy()
interpreter._convert_float = cast

torch.manual_seed(0)
x = torch.randn(128, 256) * torch.exp2(torch.randint(-40, 40, (128, 1)).float())
for kind in KINDS.values():
    for block, quantizer in (("1x128", theirs.fp8_blockwise_act_quant),
                             ("128x128", theirs.fp8_blockwise_weight_quant)):
        codes, scales = quantizer(x, 128, kind)
        ours = mxoracle.quantize(x, rule="torchao_inference", block=block, format=kind, scale="f32")
        assert torch.equal(codes.view(torch.uint8), ours[0].view(torch.uint8)), (kind, block)
        assert torch.equal(scales, ours[1]), (kind, block)
"""


def test_torchaos_inference_kernels_are_the_rule():
    child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True,
                           env=os.environ | {"TRITON_INTERPRET": "1"})  # fmt: skip
    assert child.returncode == 0, child.stderr
