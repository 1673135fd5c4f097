"""Records what DeepGEMM's casts return on the GPU at hand.

    python3 record_deepgemm_casts.py MATH_PY STACK_QUANTISERS.safetensors.xz OUT.safetensors

MATH_PY is deep_gemm/utils/math.py (54e2261 was run); of the second file, rows of x in three types.
Writes deepgemm_cuda[.up].<type>.{codes,scales} of blocks of 1x128, `column.` and `block.` before
the type for 128x1 and 128x128 of the first 128 columns of as many rows, repeated.  Needs torch
with a GPU and safetensors.
"""
import importlib.util
import lzma
import sys

import torch
from safetensors.torch import load, save_file


def main(math_py, rows, out):
    spec = importlib.util.spec_from_file_location("casts", math_py)
    casts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(casts)
    with lzma.open(rows) as packed:
        given = load(packed.read())
    found = {}
    for name in ("f32", "bf16", "f16"):
        x = given[f"x.{name}"].cuda()
        tall = x.repeat(4, 1)[:128]
        for shape, cast, of in (("", casts.per_token_cast_to_fp8, x),
                                ("column.", casts.per_channel_cast_to_fp8, tall),
                                ("block.", casts.per_block_cast_to_fp8, tall)):
            for up in (False, True):
                codes, scales = cast(of, use_ue8m0=up)
                key = f"deepgemm_cuda{'.up' if up else ''}.{shape}{name}"
                found[f"{key}.codes"] = codes.view(torch.uint8).contiguous().cpu()
                found[f"{key}.scales"] = scales.contiguous().cpu()
    device = torch.cuda.get_device_name()
    save_file(found, out, metadata={"device": device, "torch": torch.__version__})
    print(device, len(found), "tensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
