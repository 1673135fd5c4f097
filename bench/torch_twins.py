#!/usr/bin/env python3
"""A model trained with torchao's emulated MXFP8 grouped product, and the same with ours: their weights.

Usage: torch_twins.py [--device cuda --sum h200_wgmma_fast] [--steps N] [--replay 1,10,50] [--layers N] ..
On a GPU torchao's products are torch._grouped_mm's own, and --sum is how the card adds; on a CPU, whose
torch._grouped_mm adds in no defined order, they are taken in doubles and rounded once, and --sum is exact.
At the steps of --replay a CPU repeats ours from their inputs.  Exits 1 if a bit differs.
"""
import argparse
import copy
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))
import torch_training  # noqa: E402

import mxoracle.torch  # noqa: E402
from mxoracle.torch import linear  # noqa: E402

SHAPE = {"layers": 2, "width": 128, "experts": 4, "inner": 128, "top_k": 2, "context": 64, "heads": 2,
         "vocabulary": 256}  # fmt: skip


def rounded_once(y):
    """bf16 of doubles, by floats that are rounded to odd."""
    near = y.float()
    toward_zero = near.view(torch.int32) - (near.double().abs() > y.abs()).int()
    odd = toward_zero | (near.double() != y).int()
    return odd.view(torch.float32).bfloat16()


def in_doubles(x, w, offs, bias=None, out_dtype=None):
    parts = list(zip([0, *offs.tolist()], offs.tolist()))
    if w.dim() == 2:
        return torch.stack([rounded_once(x[:, a:b].double() @ w[a:b].double()) for a, b in parts])
    y = x.new_zeros((x.shape[0], w.shape[2]))
    for expert, (a, b) in enumerate(parts):
        y[a:b] = rounded_once(x[a:b].double() @ w[expert].double())
    return y


class Replay:
    """Calls of the library, again on a CPU."""

    def __init__(self):
        self.run, self.calls, self.differing, self.on = linear.run, 0, 0, False
        linear.run = self

    def __call__(self, op, tensors, *, backend, **settings):
        found = self.run(op, tensors, backend=backend, **settings)
        if self.on:
            there = self.run(op, {name: t.cpu() for name, t in tensors.items()}, backend="cpu", **settings)
            self.calls += 1
            self.differing += sum(int((found[name].cpu() != t).sum()) for name, t in there.items())
        return found


def trained(model, asked, before):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    random = torch.Generator().manual_seed(1)
    for step in range(1, asked.steps + 1):
        text = torch.randint(asked.vocabulary, (4, asked.context + 1), generator=random).to(asked.device)
        before(step)
        logits = model(text[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def apart(one, other):
    return sum(int((a != b).sum()) for a, b in zip(one.parameters(), other.parameters()))


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sum", default="exact")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--replay", default="")
    for key, value in SHAPE.items():
        parser.add_argument(f"--{key.replace('_', '-')}", type=int, default=value)
    asked = parser.parse_args(words)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        return compared(asked)
    finally:
        torch.use_deterministic_algorithms(False)


def compared(asked):
    torch.manual_seed(0)
    shape = {key: getattr(asked, key) for key in SHAPE}
    theirs = torch_training.train_torch.Model(**shape).bfloat16().to(asked.device)
    ours = mxoracle.torch.convert(copy.deepcopy(theirs), "mxfp8_rceil", sum=asked.sum)
    first = [parameter.detach().clone() for parameter in ours.parameters()]
    torch_training.emulated(theirs, linears=False)
    again = copy.deepcopy(theirs)
    on_cpu = asked.device == "cpu"
    with mock.patch.object(torch, "_grouped_mm", in_doubles) if on_cpu else nullcontext():
        loss = trained(theirs, asked, lambda step: None)
    if not on_cpu:  # else what differs may be the card's own
        trained(again, asked, lambda step: None)
        print(f"torchao's trained twice: {apart(theirs, again)} weights differ", flush=True)
    replay, chosen = Replay(), {int(step) for step in asked.replay.split(",") if step}

    def before(step):
        replay.on = step in chosen

    try:
        trained(ours, asked, before)
    finally:
        linear.run = replay.run
    differing, count = apart(ours, theirs), sum(parameter.numel() for parameter in first)
    moved = sum(int((a != b).sum()) for a, b in zip(ours.parameters(), first))
    print(f"{asked.device}, {asked.sum}, {asked.steps} steps, loss {loss:.4f}: {differing} of {count} weights "
          f"differ from torchao's, {moved} moved; {replay.differing} numbers of {replay.calls} calls repeated "
          "on a CPU differ")  # fmt: skip
    return int(differing + replay.differing > 0)


if __name__ == "__main__":
    sys.exit(main())
