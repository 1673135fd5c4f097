#!/usr/bin/env python3
"""Records tests/data/gpt_oss_router.safetensors.xz: the router of gpt-oss by its own Python.

Usage: record_gpt_oss_router.py [OUTPUT_FOLDER], with torch and transformers 5.23.0 installed.
GptOssTopKRouter is handed its logits (its weight is the identity, its bias zero) and runs on a CPU
in bf16 and f32, as it is and with softmax through binary64 (keys `exact.`), as record_stack_gates.py
does.
"""
import contextlib
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import transformers
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssTopKRouter

from record_stack_gates import EXPERTS, NAMES, ROOT, TOP_K, by_expert, correctly_rounded
from pack_captures import compressed, container


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "data"
    torch.manual_seed(3)
    logits = torch.randn(200, EXPERTS) * 2
    tensors = {"logits": logits, "logits.bf16": logits.bfloat16()}
    for suffix in ("", ".bf16"):
        x = tensors[f"logits{suffix}"]
        own = SimpleNamespace(top_k=TOP_K, weight=torch.eye(EXPERTS, dtype=x.dtype),
                              bias=torch.zeros(EXPERTS, dtype=x.dtype))
        for kind, how in (("", contextlib.nullcontext), ("exact.", correctly_rounded)):
            with how():
                weights, experts = by_expert(*GptOssTopKRouter.forward(own, x)[1:])
            tensors[f"{kind}weights{suffix}"] = weights
        tensors[f"experts{suffix}"] = experts
    packed = {name: (NAMES[t.dtype], list(t.shape),
                     t.detach().contiguous().view(torch.uint8).numpy().tobytes())
              for name, t in tensors.items()}  # fmt: skip
    data = container(packed, {"torch": torch.__version__, "transformers": transformers.__version__,
                              "device": "cpu"})  # fmt: skip
    (folder / "gpt_oss_router.safetensors.xz").write_bytes(compressed(data))


if __name__ == "__main__":
    main()
