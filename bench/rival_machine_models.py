#!/usr/bin/env python3
"""Who predicts what an H200 returned, and how fast: this library, MMA-Sim and mmaemu on one set of vectors.

Usage: rival_machine_models.py.  Needs mxoracle, torch, safetensors, and mmasim 2.1.1 and
mmaemu 0.1.0 of the Python package index.  Prints the tables of docs/machine_models.md.
Single instructions are those of tests/data/h200_matrix_unit and h200_f16_accumulators, products the
samples of gemm_samples.  MMA-Sim has instructions only: of a product it is given the order in which
cuBLASLt without a split adds.  mmaemu has fp8 and cuBLASLt on an H100 PCIe, splits included.
"""
import lzma
import time
import warnings
from pathlib import Path

import mmaemu
import torch
from mmaemu.model import dot
from mmasim.nv_ptx import MMA, WGMMA, TCGen05MMA
from safetensors.torch import load

import mxoracle

warnings.simplefilter("ignore")
DATA = Path(__file__).parents[1] / "tests" / "data"
E4M3, E5M2, BF16, F16 = torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16
F32 = torch.float32
UNITS = {  # operand types, our sum, MMA-Sim's instruction if it has one, and whether mmaemu has it
    "wgmma_e4m3": (E4M3, E4M3, "h200_wgmma_fast", "m64n8k32.f32.e4m3.e4m3", True),
    "wgmma_e5m2_e4m3": (E5M2, E4M3, "h200_wgmma_fast", "m64n8k32.f32.e5m2.e4m3", True),
    "wgmma_bf16": (BF16, BF16, "h200_wgmma_fast", "m64n8k16.f32.bf16.bf16", False),
    "wgmma_f16": (F16, F16, "h200_wgmma_fast", "m64n8k16.f32.f16.f16", False),
    "mma_sync_e4m3": (E4M3, E4M3, "h200_mma_sync", None, False),
    "mma_sync_bf16": (BF16, BF16, "h200_mma_sync", "m16n8k16.f32.bf16.bf16.f32", False),
    "wgmma_e4m3_f16": (E4M3, E4M3, "h200_wgmma_fast", "m64n8k32.f16.e4m3.e4m3", False),
    "wgmma_e5m2_e4m3_f16": (E5M2, E4M3, "h200_wgmma_fast", "m64n8k32.f16.e5m2.e4m3", False),
    "wgmma_f16_f16": (F16, F16, "h200_wgmma_fast", "m64n8k16.f16.f16.f16", False),
    "mma_sync_e4m3_f16": (E4M3, E4M3, "h200_mma_sync", None, False),
}
PUBLISHED = {  # our row, MMA-Sim's instruction; operands of which captured unit
    "ada_mma fp8": ("ada_mma", MMA, "Ada Lovelace", "m16n8k32.f32.e4m3.e4m3.f32", "mma_sync_e4m3"),
    "ada_mma bf16": ("ada_mma", MMA, "Ada Lovelace", "m16n8k16.f32.bf16.bf16.f32", "mma_sync_bf16"),
    "b200_tcgen05 fp8": ("b200_tcgen05", TCGen05MMA, "Blackwell", None, "wgmma_e4m3"),
    "b200_tcgen05 bf16": ("b200_tcgen05", TCGen05MMA, "Blackwell", None, "wgmma_bf16"),
}
TCGEN05 = {"wgmma_e4m3": "m64n8k32.kind::f8f6f4.f32.e4m3.e4m3",
           "wgmma_bf16": "m64n8k16.kind::f16.f32.bf16.bf16"}  # fmt: skip


def capture(name):
    return load(lzma.decompress((DATA / f"{name}.safetensors.xz").read_bytes()))


def differing(a, b):
    """NaN is one value."""
    a, b = a.float(), b.float()
    return int(((a.view(torch.int32) != b.view(torch.int32)) & ~(a.isnan() & b.isnan())).sum())


def timed(call):
    begin = time.perf_counter()
    result = call()
    return result, time.perf_counter() - begin


def ours(a, b, c, sum_name, **more):
    if a.itemsize == 1:
        more |= {"format_a": "e5m2" if a.dtype == E5M2 else "e4m3", "format_b": "e4m3"}
    return mxoracle.run("fused_dot", {"a": a, "b": b, "c": c.float()}, sum=sum_name, **more)["d"]


def sim(operation, a, b, c):
    return torch.stack([operation(x, w.T.contiguous(), y) for x, w, y in zip(a, b, c)])


def operands(data, unit):
    a_type, b_type = UNITS[unit][:2]
    d_type = F16 if unit.endswith("_f16") and unit != "wgmma_f16" else F32
    return (data[unit + ".a"].view(a_type), data[unit + ".b"].view(b_type),
            data[unit + ".c"].view(d_type), data[unit + ".d"].view(d_type))  # fmt: skip


def cell(wrong, seconds, count):
    return f"{wrong} | {count / seconds:.2g}"


def instructions(data):
    print("| instruction | outputs | ours | a second | MMA-Sim | a second | mmaemu | a second |")
    print("|---|---|---|---|---|---|---|---|")
    for unit, (a_type, b_type, sum_name, shape, emulated) in UNITS.items():
        a, b, c, d = operands(data, unit)
        more = {"sum.output": "rne_f16"} if d.dtype == F16 else {}
        count = d.numel()
        found, seconds = timed(lambda: ours(a, b, c, sum_name, **more))
        if d.dtype == F16:
            found = found.half()
        row = [f"`{unit}`", f"{count:,}", cell(differing(d, found), seconds, count)]
        if shape:
            operation = (WGMMA if unit.startswith("wgmma") else MMA)("Hopper", shape)
            found, seconds = timed(lambda: sim(operation, a, b, c))
            row.append(cell(differing(d, found), seconds, count))
        else:
            row.append("- | -")
        if emulated:
            shape = *c.shape, a.shape[-1]
            left, right = a[:, :, None].expand(shape), b[:, None].expand(shape)
            found, seconds = timed(lambda: dot(left, right, c, preset="hopper"))
            row.append(cell(differing(d, found), seconds, count))
        else:
            row.append("- | -")
        print("| " + " | ".join(row) + " |")


def published(data):
    print("\n| row | outputs | ours and MMA-Sim differ |")
    print("|---|---|---|")
    for name, (row, kind, arch, shape, unit) in PUBLISHED.items():
        a, b, c, d = operands(data, unit)
        found = ours(a, b, c, row)
        other = sim(kind(arch, shape or TCGEN05[unit]), a, b, c)
        print(f"| `{name}` | {d.numel():,} | {differing(found, other)} |")


def chain(a, b, fast):
    """MMA-Sim's fp8 instruction over K, promoted every 128 k without fast accumulation."""
    operation = WGMMA("Hopper", "m64n8k32.f32.e4m3.e4m3").arithmetic_op
    x, w = a.view(E4M3)[:, None, :], b.view(E4M3)[None, :, :]
    shape = a.shape[0], b.shape[0]
    total, acc = torch.zeros(shape), torch.zeros(shape)
    for k in range(0, a.shape[1], 32):
        part = slice(k, k + 32)
        acc = operation.dpa(x[..., part].expand(*shape, -1), w[..., part].expand(*shape, -1), acc)
        if not fast and k % 128 == 96:
            total, acc = total + acc, torch.zeros(shape)
    return acc if fast else total


def product(a, b, fast, split):
    sum_name = "h200_wgmma_fast" if fast else "h200_wgmma_promote4"
    operands = {"x.codes": a, "x.scales": torch.ones(len(a)), "w.codes": b[None],
                "w.scales": torch.ones(1, len(b)),
                "group_ends": torch.tensor([len(a)], dtype=torch.int32)}  # fmt: skip
    return mxoracle.run("grouped_matmul", operands, sum=sum_name, out="f32",
                        **{"sum.split": split})["y"]  # fmt: skip


def products(data):
    """Splits are those that the outputs of tests/emu/sums_captures_test.cc were found to have."""
    print("\n| product M x K x N | fast | outputs | ours, split found | MMA-Sim, no split "
          "| mmaemu, its table for an H100 PCIe | mmaemu, our split |")
    print("|---|---|---|---|---|---|---|")
    for key in sorted(data):
        if not (key.startswith("fp8.fast") and key.endswith(".y")):
            continue
        _, kind, shape, _ = key.split(".")
        fast, (m, k, n) = kind == "fast1", map(int, shape.split("x"))
        a, b, y = data[f"fp8.{shape}.a"], data[f"fp8.{shape}.b"], data[key]
        split = SPLITS.get(shape, 1)
        wrong = [differing(y, product(a, b, fast, split)), differing(y, chain(a, b, fast))]
        try:
            decision = mmaemu.resolve_splitk(
                m, n, k, a_dtype=E4M3, b_dtype=E4M3, out_dtype=F32, use_fast_accum=fast)
            by_table = mmaemu.accumulate(a.view(E4M3), b.view(E4M3), use_fast_accum=fast,
                                         splitk=decision.splitk)  # fmt: skip
            wrong.append(f"{differing(y, by_table)} (split {decision.S})")
        except mmaemu.MmaemuError as error:
            wrong.append(type(error).__name__)
        own = (split, "contiguous") if split > 1 else (1, "none")
        wrong.append(differing(y, mmaemu.accumulate(a.view(E4M3), b.view(E4M3),
                                                    use_fast_accum=fast, splitk=own)))  # fmt: skip
        print(f"| {shape} | {'yes' if fast else 'no'} | {y.numel()} | {wrong[0]} (split {split}) | "
              + " | ".join(map(str, wrong[1:])) + " |")


SPLITS = {"16x7168x2048": 2, "64x16384x512": 6, "256x16384x256": 3}


def speed():
    torch.manual_seed(0)
    m = n = 128
    a, b = ((torch.randn(r, 2048) * 40).clamp(-448, 448).to(E4M3) for r in (m, n))
    u8 = a.view(torch.uint8), b.view(torch.uint8)
    for name, call in (("ours", lambda: product(*u8, True, 1)), ("MMA-Sim", lambda: chain(*u8, True)),
                       ("mmaemu", lambda: mmaemu.accumulate(a, b, use_fast_accum=True,
                                                            splitk=(1, "none")))):  # fmt: skip
        seconds = sorted(timed(call)[1] for _ in range(3))[1]
        print(f"{name}: {m} x {n} x 2048 in {seconds:.3g} s, {m * n * 2048 / seconds:.3g} products a second")


def main():
    units = {**capture("h200_matrix_unit"), **capture("h200_f16_accumulators")}
    instructions(units)
    published(units)
    products(capture("gemm_samples"))
    print()
    speed()


if __name__ == "__main__":
    main()
