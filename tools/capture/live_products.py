"""Holds block-wise products and quantisers that libraries run on this GPU against mxo, bit for bit.

    python3 live_products.py MXO [--backend cuda] [--only NAME]
    CUBLASLT_WORKSPACE_SIZE=32768 python3 live_products.py MXO --backend cpu --only splits

DeepGEMM dense, contiguous (m_indices with -1), masked and k-grouped; cuBLASLt through
torch._scaled_mm; a product in Triton; DeepGEMM's casts.  Shapes of DeepSeek-V3.  `splits` draws
products of every N x K of the card's table for SECONDS seconds, 45 by default, those first that an
H200's table had wrong on an H100.  Needs a Hopper GPU, torch, triton, safetensors and, but for
`splits`, deep_gemm (54e2261 was run).  Prints a line a case and exits with 1 if a bit differs.
"""
import argparse
import importlib
import os
import random as chance
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from safetensors.torch import load_file, save_file

E4M3 = torch.float8_e4m3fn
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def bits(t):
    return t.contiguous().view(BITS[t.element_size()])


class Mxo:
    """Operators of the command, by files in memory."""

    def __init__(self, program, backend):
        self.program, self.backend = program, backend

    def __call__(self, op, operands, **parameters):
        given = {k: (bits(t) if t.element_size() == 1 else t).contiguous().cpu()
                 for k, t in operands.items()}
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            save_file(given, f"{folder}/in.safetensors")
            settings = [x for k, v in parameters.items()
                        for x in ("--set", f"{k.replace('__', '.')}={v}")]
            subprocess.run([self.program, "--backend", self.backend, "--quiet", "run", op,
                            "--input", f"{folder}/in.safetensors",
                            "--output", f"{folder}/out.safetensors", *settings], check=True)
            return load_file(f"{folder}/out.safetensors", device="cuda")


class Report:
    def __init__(self):
        self.failed = 0

    def hold(self, name, library, model):
        wrong = int((bits(library) != bits(model.view(library.shape))).sum())
        self.failed += wrong > 0
        print(f"{name}: {wrong} of {library.numel()} differ", flush=True)


def operands(x, w, ends):
    return {"x.codes": x[0], "x.scales": x[1], "w.codes": w[0], "w.scales": w[1],
            "group_ends": ends}


def random(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def int32(values):
    return torch.tensor(values, device="cuda", dtype=torch.int32)


def cast_each(cast, w):
    parts = [cast(one, use_ue8m0=False) for one in w]
    return torch.stack([p[0] for p in parts]), torch.stack([p[1] for p in parts])


def dense(dg, mxo, report):
    for m, n, k in ((4096, 2112, 7168), (4096, 24576, 1536), (4096, 7168, 16384), (128, 7168, 2048),
                    (1, 4096, 7168)):
        x = dg.utils.per_token_cast_to_fp8(random(m, k), use_ue8m0=False)
        w = dg.utils.per_block_cast_to_fp8(random(n, k), use_ue8m0=False)
        y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        dg.fp8_gemm_nt(x, w, y, disable_ue8m0_cast=True)
        one = (w[0][None], w[1][None])
        model = mxo("grouped_matmul", operands(x, one, int32([m])), sum="deepgemm_sm90")
        report.hold(f"DeepGEMM dense {m} x {n} x {k}", y, model["y"])


def contiguous(dg, mxo, report):
    step = dg.get_theoretical_mk_alignment_for_contiguous_layout()
    dg.set_mk_alignment_for_contiguous_layout(step)
    for sizes, n, k in (((1500, 0, 2048, 777), 4096, 7168), ((1, 900, 1300, 640), 7168, 2048)):
        indices = []
        for e, size in enumerate(sizes):
            indices += [e] * size + [-1] * (-size % step)
        groups = int32(indices)
        x = random(len(indices), k)
        x[groups < 0] = 0
        x = dg.utils.per_token_cast_to_fp8(x, use_ue8m0=False)
        w = cast_each(dg.utils.per_block_cast_to_fp8, random(len(sizes), n, k))
        y = torch.zeros(len(indices), n, device="cuda", dtype=torch.bfloat16)
        dg.m_grouped_fp8_gemm_nt_contiguous(x, w, y, groups, disable_ue8m0_cast=True)
        ends = mxo("rows_to_groups", {"m_indices": groups}, experts=len(sizes))["group_ends"]
        model = mxo("grouped_matmul", operands(x, w, ends), sum="deepgemm_sm90")["y"]
        real = groups >= 0
        report.hold(f"DeepGEMM contiguous {sizes} x {n} x {k}", y[real], model[real])


def masked(dg, mxo, report):
    for counts, most, n, k in (((192, 0, 20, 511), 512, 4096, 7168),
                               ((1, 64, 250, 512, 3, 100, 0, 333), 512, 7168, 2048)):
        e = len(counts)
        x = cast_each(dg.utils.per_token_cast_to_fp8, random(e, most, k))
        w = cast_each(dg.utils.per_block_cast_to_fp8, random(e, n, k))
        y = torch.zeros(e, most, n, device="cuda", dtype=torch.bfloat16)
        held = int32(counts)
        dg.m_grouped_fp8_gemm_nt_masked(x, w, y, held, max(counts), disable_ue8m0_cast=True)
        rows = sum(counts)
        codes = mxo("masked_to_groups", {"y": bits(x[0]), "counts": held}, rows=rows)
        scales = mxo("masked_to_groups", {"y": x[1], "counts": held}, rows=rows)["x"]
        model = mxo("grouped_matmul", operands((codes["x"], scales), w, codes["group_ends"]),
                    sum="deepgemm_sm90")["y"]
        mine = torch.cat([y[i, :c] for i, c in enumerate(counts)])
        report.hold(f"DeepGEMM masked {counts} of {most} x {n} x {k}", mine, model)


def k_grouped(dg, mxo, report):
    """dw[e] += dy[e]^T x[e]: both sides have a scale for 128 tokens of a column."""
    for sizes, n, k in (((1024, 0, 2048, 128), 4096, 7168), ((256, 1920, 384, 512), 7168, 2048)):
        dg.set_mk_alignment_for_contiguous_layout(128)
        rows = sum(sizes)
        dy, x = (dg.utils.per_channel_cast_to_fp8(random(rows, wide), use_ue8m0=False)
                 for wide in (n, k))
        c = torch.randn(len(sizes), n, k, device="cuda") * 32
        d = c.clone()

        def lines(t):  # each group's columns, one after another
            parts = t.split(list(sizes))
            return torch.cat([p.t().contiguous().flatten() for p in parts])

        dg.k_grouped_fp8_gemm_nt_contiguous((lines(dy[0]), dy[1].t()), (lines(x[0]), x[1].t()), d,
                                            list(sizes), int32(sizes), d, recipe=(1, 1, 128))
        ends = int32(sizes).cumsum(0, dtype=torch.int32)
        model = mxo("grouped_matmul_wgrad",
                    {"dy.codes": dy[0], "dy.scales": dy[1], "x.codes": x[0], "x.scales": x[1],
                     "group_ends": ends}, sum="deepgemm_sm90", out="f32")["dw"]
        report.hold(f"DeepGEMM k-grouped {sizes} x {n} x {k}, added to f32", d, c + model)


def cublaslt(dg, mxo, report):
    for m, n, k in ((4096, 4096, 7168), (4096, 7168, 2048), (64, 4096, 7168), (512, 7168, 2048)):
        x = dg.utils.per_token_cast_to_fp8(random(m, k), use_ue8m0=False)
        w = dg.utils.per_block_cast_to_fp8(random(n, k), use_ue8m0=False)
        for out in (torch.bfloat16, torch.float32):
            y = torch._scaled_mm(x[0], w[0].t(), scale_a=x[1].t().contiguous().t(),
                                 scale_b=w[1].contiguous().t(), out_dtype=out)
            model = mxo("grouped_matmul", operands(x, (w[0][None], w[1][None]), int32([m])),
                        sum="cublaslt_blockwise_sm90", sum__split="table",
                        out="bf16" if out == torch.bfloat16 else "f32")
            report.hold(f"cuBLASLt {m} x {n} x {k} {out}", y, model["y"])


@triton.jit
def block_product(a, b, sa, sb, y, n, k, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, 128)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for block in range(0, k // 128):
        at = block * 128 + depth
        left = tl.load(a + rows[:, None] * k + at[None, :])
        right = tl.load(b + columns[None, :] * k + at[:, None])
        of_rows = tl.load(sa + rows * (k // 128) + block)
        of_columns = tl.load(sb + columns // 128 * (k // 128) + block)
        total += tl.dot(left, right) * of_rows[:, None] * of_columns[None, :]
    tl.store(y + rows[:, None] * n + columns[None, :], total.to(y.dtype.element_ty))


def in_triton(dg, mxo, report):
    for m, n, k in ((2048, 4096, 7168), (2048, 7168, 2048)):
        x = dg.utils.per_token_cast_to_fp8(random(m, k), use_ue8m0=False)
        w = dg.utils.per_block_cast_to_fp8(random(n, k), use_ue8m0=False)
        y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        block_product[(m // 64, n // 128)](*x[:1], w[0], x[1].contiguous(), w[1].contiguous(), y,
                                           n, k, BM=64, BN=128)
        model = mxo("grouped_matmul", operands(x, (w[0][None], w[1][None]), int32([m])),
                    sum="triton_block_sm90")
        report.hold(f"Triton {triton.__version__} {m} x {n} x {k}", y, model["y"])


def casts(dg, mxo, report):
    wide = torch.exp2(torch.randint(-20, 20, (8192, 7168), device="cuda").float())
    x = (torch.randn(8192, 7168, device="cuda") * wide).bfloat16()
    x[:3, :256] = torch.tensor([0.0, 1e-6, 448.0], device="cuda", dtype=torch.bfloat16)[:, None]
    for name, cast, block in (("token", dg.utils.per_token_cast_to_fp8, "1x128"),
                              ("block", dg.utils.per_block_cast_to_fp8, "128x128"),
                              ("channel", dg.utils.per_channel_cast_to_fp8, "128x1")):
        for ue8m0 in (False, True):
            codes, scales = cast(x, use_ue8m0=ue8m0)
            model = mxo("quantize", {"x": x}, rule="deepgemm", block=block, scale="f32",
                        **({"power_of_2": "up"} if ue8m0 else {}))
            said = f"per_{name}_cast_to_fp8 of 8192 x 7168, use_ue8m0={ue8m0}"
            report.hold(f"{said}: codes", codes, model["codes"])
            report.hold(f"{said}: scales", scales, model["scales"])


def drawn():
    """Products of few rows more often than of many, none beyond 32 G multiplications."""
    chance.seed(os.environ.get("SEED", "0"))
    yield "bf16", 384, 256, 7168
    yield from ((kind, m, 256, 7168) for m in (768, 1024) for kind in ("fast_f32", "promoted_f32"))
    table = Path(__file__).parents[2] / "ops/h100_split_layers.h"  # as an H200's, which has as many
    asked = re.search(r"kAsked\[\] = {(.*?)};", table.read_text(), re.S)[1]
    shapes = [(int(n), int(k)) for n, k in re.findall(r"{(\d+), (\d+)}", asked)]
    kinds = ("bf16", "fast", "fast_f32", "promoted", "promoted_f32", "blocks", "blocks_f32")
    while True:
        (n, k), m = chance.choice(shapes), int(2 ** chance.uniform(0, 12))
        kind = chance.choice(kinds)
        blocks = kind.startswith("blocks")
        if m * n * k < 1 << 35 and not (blocks and (n % 128 or k % 512)):
            yield kind, m + (-m % 4 if blocks else 0), n, k


def splits(dg, mxo, report):
    if os.environ.get("CUBLASLT_WORKSPACE_SIZE") != "32768":
        raise RuntimeError("needs CUBLASLT_WORKSPACE_SIZE=32768, the workspace of the tables")
    torch.backends.cuda.preferred_blas_library("cublaslt")
    machine = "h200" if "H200" in torch.cuda.get_device_name() else "h100"
    ends = time.monotonic() + float(os.environ.get("SECONDS", "45"))
    for count, (kind, m, n, k) in enumerate(drawn()):
        if time.monotonic() > ends:
            print(f"{count} products drawn for an {machine}")
            break
        x, w = random(m, k), random(n, k)
        wide, blocks = kind.endswith("_f32"), kind.startswith("blocks")
        out = torch.float32 if wide else torch.bfloat16
        if kind == "bf16":
            y = x @ w.t()
            given = {"x": x, "w": w[None], "group_ends": int32([m])}
        else:
            x, w = x.to(E4M3), w.to(E4M3)
            if blocks:
                sx, sw = (torch.rand(t.shape[0] // tall, k // 128, device="cuda") + 0.5
                          for t, tall in ((x, 1), (w, 128)))
                y = torch._scaled_mm(x, w.t(), scale_a=sx.t().contiguous().t(),
                                     scale_b=sw.t(), out_dtype=out)
            else:
                sx, sw = (torch.rand(1, device="cuda") + 0.5 for _ in range(2))
                y = torch._scaled_mm(x, w.t(), scale_a=sx, scale_b=sw, out_dtype=out,
                                     use_fast_accum=kind.startswith("fast"))
            given = operands((x, sx), (w[None], sw[None] if blocks else sw), int32([m]))
        model = ("cublaslt_blockwise_sm90" if blocks else
                 "h200_wgmma_promote4" if kind.startswith("promoted") else "h200_wgmma_fast")
        place = {} if blocks or kind == "bf16" else {"sum__fold": "after_joint"}
        y2 = mxo("grouped_matmul", given, sum=model, sum__split="table", sum__machine=machine,
                 out="f32" if wide else "bf16", **place)["y"]
        report.hold(f"{kind} {m} x {n} x {k}", y, y2)


CASES = {"casts": casts, "dense": dense, "contiguous": contiguous, "masked": masked,
         "k_grouped": k_grouped, "cublaslt": cublaslt, "triton": in_triton, "splits": splits}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mxo", type=Path)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--only", choices=CASES, action="append")
    args = parser.parse_args()
    chosen = args.only or [name for name in CASES if name != "splits"]
    deep_gemm = None if chosen == ["splits"] else importlib.import_module("deep_gemm")
    torch.manual_seed(0)
    report = Report()
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    for name in chosen:
        try:
            CASES[name](deep_gemm, Mxo(args.mxo.resolve(), args.backend), report)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            report.failed += 1
            print(f"{name}: {error}", flush=True)
    return report.failed > 0


if __name__ == "__main__":
    sys.exit(main())
