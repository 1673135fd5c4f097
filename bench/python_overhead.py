#!/usr/bin/env python3
"""What a call from Python costs: quantize of 128 x 128 from numpy and from torch, in microseconds.

Usage: python_overhead.py [ROUNDS].  Needs the package, numpy and torch.  Prints the least and the
greatest median of 2000 calls.
"""
import statistics
import sys
import time

import numpy as np
import torch

import mxoracle


def median(x, calls=2000):
    times = []
    for _ in range(calls):
        start = time.perf_counter_ns()
        mxoracle.quantize(x)
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000


def main(rounds=10):
    x = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
    tensor = torch.from_numpy(x)
    for name, operand in (("numpy f32", x), ("torch f32", tensor), ("torch bf16", tensor.bfloat16())):
        medians = [median(operand) for _ in range(rounds)]
        print(f"{name:<12}{min(medians):6.1f} to {max(medians):.1f} us")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
