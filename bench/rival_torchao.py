#!/usr/bin/env python3
"""torchao's emulated MXFP8 expert product beside ours in its place: forward and backward.

Usage: rival_torchao.py TOKENS K N EXPERTS [ROUNDS].  Needs the package, torch and torchao.  Prints the
median elapsed time of each and their ratio; contestants take turns in every round.
"""
import statistics
import sys
import time

import torch
import torchao.prototype.moe_training as training
from torchao.quantization.quantize_.common import KernelPreference

import mxoracle.torch.torchao


def step(x, w, ends, dy):
    """One product of an expert layer and its gradients."""
    y = training._to_mxfp8_then_scaled_grouped_mm(
        x, w.transpose(-2, -1), offs=ends, kernel_preference=KernelPreference.EMULATED
    )
    y.backward(dy)
    x.grad = w.grad = None


def timed(*operands):
    start = time.perf_counter()
    step(*operands)
    return time.perf_counter() - start


def main(tokens, k, n, experts, rounds=5):
    torch.manual_seed(0)
    x = torch.randn(tokens, k, dtype=torch.bfloat16, requires_grad=True)
    w = torch.randn(experts, n, k, dtype=torch.bfloat16, requires_grad=True)
    ends = torch.arange(1, experts + 1, dtype=torch.int32) * (tokens // experts // 32 * 32)
    dy = torch.randn(tokens, n, dtype=torch.bfloat16)
    times = {"torchao": [], "mxoracle": []}
    for round in range(rounds + 1):  # the first warms up
        theirs = timed(x, w, ends, dy)
        with mxoracle.torch.torchao.patch():
            ours = timed(x, w, ends, dy)
        if round > 0:
            times["torchao"].append(theirs)
            times["mxoracle"].append(ours)
    theirs, ours = (1e3 * statistics.median(times[name]) for name in times)
    print(f"{tokens} x {k} x {n}, {experts} experts, {torch.get_num_threads()} threads: "
          f"torchao {theirs:.1f} ms, mxoracle {ours:.1f} ms, {theirs / ours:.1f} times")  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
