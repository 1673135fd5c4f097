"""Where a model in low precision parts from eager bf16: its first operator beyond the bound.

One batch goes forward and backward through the small Mixtral in each run.  Every product is held
against the exact sum of its own operands in bf16, so that an operator is blamed for what it does
itself and not for what it was given.

Usage: first_departure.py.  Needs torch and transformers.
"""
import torch
from mixtral import RUNS, batches, model

import mxoracle.torch


def judged(run, text):
    """The logits of one step, and the judge that saw it."""
    net = model(run)
    with mxoracle.torch.Judge(against="bf16", explain_work=0) as judge:
        out = net(input_ids=text, labels=text)
        out.loss.backward()
    return out.logits.detach().float(), judge


def main():
    text = next(batches(1))
    eager, _ = judged("bf16", text)
    for run in RUNS:
        logits, judge = judged(run, text)
        held = [row for row in judge.rows if row.verdict != "unjudged"]
        print(f"{run}: {len(judge.failures)} of {len(held)} products beyond their bound")
        if not judge.failures:
            continue
        first = judge.failures[0]
        before = judge.rows.index(first)
        noise = (logits - eager).square().sum() / eager.square().sum()
        place = f"{first.operator} of {first.module}"
        print(f"  first: {place}, after {before} within it: {first.cause}")
        print(f"  logits {-10 * torch.log10(noise):.1f} dB from eager bf16")


if __name__ == "__main__":
    main()
