"""Records what torchao's float8 tensors and torch expressions of vLLM and SGLang return on a CPU.

    python3 record_torch_float8.py STACK_QUANTISERS.safetensors.xz OUT.safetensors

Of the first file, rows of x in three types.  Writes <stem>.<type>.{codes,scales}: stems
torchao_multiplier and torchao_tensor are torchao's own functions, the others typed again.  A stem
ends in the block where it is not a row: .tensor and .128x128 are of the finite rows, repeated, and
.e5m2 in the format where it is not e4m3.  Needs torch, torchao and safetensors.
"""
import lzma
import sys

import torch
import torchao
from safetensors.torch import load, save_file
from torchao.float8.float8_training_tensor import LinearMMConfig, hp_tensor_and_scale_to_float8
from torchao.float8.float8_utils import tensor_to_scale
from torchao.float8.config import ScalingGranularity
from torchao.quantization import PerBlock, PerRow, PerTensor
from torchao.quantization.quantize_.workflows import Float8Tensor

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def multiplier(x, format, block, down):
    how = (dict(scaling_granularity=ScalingGranularity.AXISWISE, axiswise_dim=-1)
           if block == "row" else {})
    scale = tensor_to_scale(x, format, round_scales_to_power_of_2=down, **how)
    cast = hp_tensor_and_scale_to_float8(x, scale, format, LinearMMConfig(),
                                         axiswise_dim=-1 if block == "row" else None)
    return cast._data, cast._scale


def tensor(x, format, block):
    granularity = {"row": PerRow(), "tensor": PerTensor(), "128x128": PerBlock((128, 128))}[block]
    cast = Float8Tensor.from_hp(x, float8_dtype=format, granularity=granularity)
    return cast.qdata, cast.scale


def scaled(x, format, block):
    """scaled_quantize: maximum / amax, in the type of x."""
    info = torch.finfo(format)
    axes = -1 if block == "row" else (-2, -1)
    amax = x.abs().amax(axes, keepdim=True).clamp(min=1e-12)
    scale = info.max / amax
    return (x * scale).clamp(min=info.min, max=info.max).to(format), scale.float().reciprocal()


def input_to_float8(x, format, block):
    amax = x.abs().amax(None if block == "tensor" else -1, keepdim=True).float().clamp(min=1e-12)
    scale = torch.finfo(format).max / amax
    top = torch.finfo(format).max
    return (x.float() * scale).clamp(min=-top, max=top).to(format), scale.float().reciprocal()


def mx(x, format, block):
    blocks = x.float().reshape(x.shape[0], -1, 32)
    amax = blocks.abs().amax(-1).clamp(min=torch.finfo(torch.float32).tiny)
    biased = torch.ceil(torch.log2(amax / torch.finfo(format).max)) + 127.0
    biased = biased.clamp(0, 254)
    codes = (blocks / torch.exp2(biased - 127.0).unsqueeze(-1)).to(format)
    return codes.reshape(x.shape), biased.to(torch.uint8)


def main(rows, out):
    with lzma.open(rows) as packed:
        given = load(packed.read())
    found = {}
    for name in ("f32", "bf16", "f16"):
        x = given[f"x.{name}"]
        finite = x[torch.isfinite(x).all(1)]
        tall = finite.repeat(6, 1)[:128]
        for block, of in (("row", x), ("tensor", finite[:6]), ("128x128", tall)):
            for format, ending in ((E4M3, ""), (E5M2, ".e5m2")):
                stems = {"torchao_tensor": tensor, "vllm_scaled": scaled,
                         "vllm_scaled_f32": lambda x, f, b: scaled(x.float(), f, b)}
                if block != "128x128":
                    for stem, down in (("torchao_multiplier", False),
                                       ("torchao_multiplier.down", True)):
                        stems[stem] = lambda x, f, b, down=down: multiplier(x, f, b, down)
                if block == "tensor":
                    stems["sglang"] = input_to_float8
                if block == "row" and format == E4M3:
                    stems["vllm_mx"] = mx
                for stem, cast in stems.items():
                    codes, scales = cast(of, format, block)
                    key = stem + ("" if block == "row" else "." + block) + ending + "." + name
                    found[f"{key}.codes"] = codes.view(torch.uint8).contiguous()
                    found[f"{key}.scales"] = scales.reshape(-1).contiguous()
    # One scale a block of 32, where logarithms turn: amax a few steps beside 448 2^k.
    steps = torch.arange(-8, 24, dtype=torch.int32)
    edges = [torch.tensor(448.0 * 2.0 ** e).view(torch.int32) + steps for e in range(-120, 119)]
    edges = torch.stack(edges).view(torch.float32).reshape(-1)
    found["vllm_mx.edges"] = mx(edges.reshape(-1, 1).repeat(1, 32), E4M3, "")[1].reshape(-1)
    versions = {"torch": torch.__version__, "torchao": torchao.__version__}
    save_file(found, out, metadata=versions)
    print(versions, len(found), "tensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
