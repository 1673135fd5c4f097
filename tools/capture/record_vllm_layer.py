#!/usr/bin/env python3
"""Records tests/data/vllm_layer.safetensors.xz: every stage of an expert layer in plain PyTorch.

Usage: record_vllm_layer.py [OUTPUT_FOLDER].  Needs torch on a CPU and nothing of this library; the
steps are those of python/tests/vllm_layer.py.  The same torch gives the same bytes.
"""
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "python" / "tests"), str(ROOT / "tests" / "data")]
import vllm_layer  # noqa: E402
from pack_captures import compressed, container  # noqa: E402

NAMES = {torch.bfloat16: "BF16", torch.float32: "F32", torch.int32: "I32",
         torch.float8_e4m3fn: "F8_E4M3"}


def tokens():
    """24 rows of their own magnitudes; a block of zeros, and a row of tiny numbers."""
    torch.manual_seed(5)
    x = torch.randn(24, 256).bfloat16() * torch.exp2(torch.randint(-4, 4, (24, 1))).bfloat16()
    x[7, 128:] = 0
    x[11] *= 2.0**-40
    return x


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "data"
    x, operands = tokens(), vllm_layer.weights()
    tensors = {"x": x}
    for name, up in (("vllm", False), ("vllm_up", True)):
        stages = vllm_layer.layer(x, operands, up)
        tensors |= {f"{name}.{stage}": tensor for stage, tensor in stages.items()}
    packed = {name: (NAMES[t.dtype], list(t.shape),
                     t.contiguous().view(torch.uint8).numpy().tobytes())
              for name, t in tensors.items()}  # fmt: skip
    data = container(packed, {"torch": torch.__version__, "device": "cpu",
                              "steps": "python/tests/vllm_layer.py, after vLLM 055e47c"})
    (folder / "vllm_layer.safetensors.xz").write_bytes(compressed(data))


if __name__ == "__main__":
    main()
