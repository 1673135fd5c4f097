"""Trains a small Mixtral on the CPU in bf16, mxfp8_rceil and e4m3fnuz: loss curves side by side.

Usage: loss_curves.py [STEPS [PICTURE]].  Needs torch, transformers and matplotlib.
"""
import sys

import torch
from mixtral import RUNS, batches, model

from mxoracle import plot


def train(run, steps):
    """The loss of every step."""
    net = model(run)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    losses = []
    for text in batches(steps):
        loss = net(input_ids=text, labels=text).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def main(steps=200, picture="loss_curves.svg"):
    curves = {run: train(run, steps) for run in RUNS}
    shown = sorted({1, *range(steps // 4, steps, max(1, steps // 4)), steps})
    print("step  " + "".join(f"{run:>14}" for run in RUNS))
    for step in shown:
        print(f"{step:<6}" + "".join(f"{curves[run][step - 1]:14.4f}" for run in RUNS))
    plot.save(plot.loss_curves(curves), picture)
    print(f"written: {picture}")


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((int, str), sys.argv[1:])))
