"""Records what Triton's elementwise and row kernels return on the GPU at hand.

    python3 triton_kernels.py OUT_FOLDER

writes triton_kernels.safetensors (inputs and outputs, keys as KERNEL.DTYPE.NAME) and the PTX of
every kernel.  Needs torch and triton with a GPU; nothing else.
"""
import json
import struct
import sys
from pathlib import Path

import torch
import triton
import triton.language as tl


@triton.jit
def silu_mul(x, y, width, FORM: tl.constexpr, BLOCK: tl.constexpr):
    """y[r, f] = silu(x[r, f]) * x[r, width + f]; the forms of silu that kernels have."""
    row = tl.program_id(0)
    f = tl.arange(0, BLOCK)
    inside = f < width
    a = tl.load(x + row * 2 * width + f, mask=inside, other=0.0)
    b = tl.load(x + row * 2 * width + width + f, mask=inside, other=0.0)
    g = a.to(tl.float32)
    if FORM == "sigmoid":  # every step in f32
        out = (g * tl.sigmoid(g)) * b.to(tl.float32)
    elif FORM == "quotient":
        out = (g / (1.0 + tl.exp(-g))) * b.to(tl.float32)
    else:  # "rounded": silu in the type of x, and the product in it
        out = (g / (1.0 + tl.exp(-g))).to(a.dtype) * b
    tl.store(y + row * width + f, out.to(y.dtype.element_ty), mask=inside)


@triton.jit
def softmax(x, y, sums, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    f = tl.arange(0, BLOCK)
    inside = f < width
    v = tl.load(x + row * width + f, mask=inside, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    total = tl.sum(e, axis=0)
    tl.store(sums + row, total)
    tl.store(y + row * width + f, e / total, mask=inside)


@triton.jit
def rms_norm(x, w, y, sums, scales, width, eps, FORM: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    f = tl.arange(0, BLOCK)
    inside = f < width
    v = tl.load(x + row * width + f, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(w + f, mask=inside, other=0.0).to(tl.float32)
    total = tl.sum(v * v, axis=0)
    if FORM == "rsqrt":
        scale = tl.rsqrt(total / width + eps)
    else:
        scale = 1.0 / tl.sqrt(total / width + eps)
    tl.store(sums + row, total)
    tl.store(scales + row, scale)
    tl.store(y + row * width + f, ((v * scale) * weight).to(y.dtype.element_ty), mask=inside)


NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


def write(path: Path, tensors: dict) -> None:
    header, parts, at = {"__metadata__": {
        "source": f"Triton {triton.__version__}, torch {torch.__version__}, "
                  f"{torch.cuda.get_device_name()}; tools/capture/triton_kernels.py"}}, [], 0
    for name, t in tensors.items():
        data = t.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape),
                        "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def gate_inputs(dtype: torch.dtype) -> torch.Tensor:
    """[rows, 2 * 256]: every a of 16 bits, or floats of every size; b of every sign and size."""
    g = torch.Generator().manual_seed(20261122)
    if dtype == torch.float32:
        sizes = torch.exp2(torch.randint(-30, 7, (256, 1), generator=g).float())
        a = torch.randn(256, 256, generator=g) * sizes
        a[0, :16] = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 88.0, -88.0,
                                  -87.4, 104.0, -104.0, -126.5, 127.9, -127.9, 1e-40, -1e-40, 3e38])
    else:
        a = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(dtype)
        a = a.reshape(256, 256)
    sizes = torch.exp2(torch.randint(-12, 13, (256, 256), generator=g).float())
    b = torch.randn(256, 256, generator=g) * sizes
    return torch.cat([a, b.to(dtype)], dim=1).cuda()


def main() -> None:
    out = Path(sys.argv[1])
    kept, ptx = {}, {}
    for dtype, tag in ((torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.float16, "f16")):
        x = gate_inputs(dtype)
        kept[f"silu_mul.{tag}.x"] = x
        for form in ("sigmoid", "quotient", "rounded"):
            y = torch.empty(256, 256, dtype=dtype, device="cuda")
            k = silu_mul[(256,)](x, y, 256, FORM=form, BLOCK=256)
            kept[f"silu_mul.{tag}.{form}"] = y
            ptx[f"silu_mul.{tag}.{form}"] = k.asm["ptx"]
        g = torch.Generator().manual_seed(7)
        for width, block, warps in ((512, 512, 4), (1000, 1024, 4), (2048, 2048, 8)):
            v = (torch.randn(16, width, generator=g) * 4).to(dtype).cuda()
            key = f"softmax.{tag}.{width}"
            y, s = torch.empty(16, width, device="cuda"), torch.empty(16, device="cuda")
            k = softmax[(16,)](v, y, s, width, BLOCK=block, num_warps=warps)
            kept.update({f"{key}.x": v, f"{key}.y": y, f"{key}.sums": s})
            ptx[key] = k.asm["ptx"]
            w = torch.randn(width, generator=g).to(dtype).cuda()
            for form in ("rsqrt", "sqrt"):
                key = f"rms_norm.{tag}.{width}.{form}"
                y = torch.empty(16, width, dtype=dtype, device="cuda")
                s, r = torch.empty(16, device="cuda"), torch.empty(16, device="cuda")
                k = rms_norm[(16,)](v, w, y, s, r, width, 1e-6, FORM=form, BLOCK=block,
                                    num_warps=warps)
                kept.update({f"{key}.y": y, f"{key}.sums": s, f"{key}.scales": r,
                             f"rms_norm.{tag}.{width}.w": w})
                ptx[key] = k.asm["ptx"]
    write(out / "triton_kernels.safetensors", kept)
    texts = [f"// ==== {name}\n{text}" for name, text in ptx.items()]
    (out / "triton_kernels.ptx.txt").write_text("\n".join(texts))
    print(f"{len(kept)} tensors")


if __name__ == "__main__":
    main()
