#!/usr/bin/env python3
"""A training step in a recipe beside torch's bf16 and torchao's emulation of the same model: seconds, memory.

Usage: torch_training.py [--names bf16,mxfp8_rceil,..] [--device cpu|cuda] [--layers N] [--width D] ..
Each name is a process of its own, one after another: bf16 is torch's, torchao its emulated MXFP8, all else
a recipe of `mxoracle.torch.recipes()`; linear layers and experts are converted.  A step is forward,
backward and fused AdamW of tokens drawn at random, or of --text FILE, cut into tokens by a BPE of the
package tokenizers that learns from that text; the first is left out.  --curve FILE writes losses.
"""
import argparse
import csv
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import train_torch  # noqa: E402

# Of the model, unless said otherwise.
SHAPE = {"layers": 12, "width": 512, "experts": 32, "inner": 1024, "top_k": 4, "context": 512, "heads": 8,
         "vocabulary": 8192}  # fmt: skip


def emulated(model, linears=True):
    """torchao's modules where the recipe's would be."""
    import torchao.prototype.moe_training as training
    from torchao.prototype.moe_training.mxfp8_linear import MXFP8Linear
    from torchao.quantization.quantize_.common import KernelPreference

    how = {"kernel_preference": KernelPreference.EMULATED}

    def grouped(x, w, offs):
        return training._to_mxfp8_then_scaled_grouped_mm(
            x, w, offs, pad_token_groups_for_grouped_mm=True, **how
        )

    def experts(self, rows, ends):
        gate, up = grouped(rows, self.w1.transpose(-2, -1), ends).chunk(2, -1)
        return grouped(functional.silu(gate) * up, self.w2.transpose(-2, -1), ends)

    for layer in model.layers:
        layer.mixture.experts.forward = experts.__get__(layer.mixture.experts)
        for name in ("qkv", "out") if linears else ():
            plain = getattr(layer, name)
            theirs = MXFP8Linear(plain.in_features, plain.out_features, **how)
            theirs.weight, theirs.bias = plain.weight, plain.bias
            setattr(layer, name, theirs)


def made(name, asked):
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(asked.device):
        model = train_torch.Model(**{key: getattr(asked, key) for key in SHAPE})
    if name == "torchao":
        emulated(model)
    elif name != "bf16":
        import mxoracle.torch

        mxoracle.torch.convert(model, name, linears=True, sum=asked.sum)
    return model


def used(device):
    """GB that the process, or its card, holds at most until now; caches keep what they had."""
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 2**30


def batches(asked):
    """Tokens [rows, context + 1], the same for every name."""
    random = torch.Generator().manual_seed(1)
    shape = asked.rows, asked.context + 1
    if not asked.text:
        while True:
            yield torch.randint(asked.vocabulary, shape, generator=random)
    from tokenizers import ByteLevelBPETokenizer

    bpe = ByteLevelBPETokenizer()
    bpe.train(asked.text, vocab_size=asked.vocabulary, show_progress=False)
    tokens = torch.tensor(bpe.encode(Path(asked.text).read_text()).ids)
    while True:
        starts = torch.randint(len(tokens) - asked.context, (asked.rows, 1), generator=random)
        yield tokens[starts + torch.arange(asked.context + 1)]


def recorded(step, text, optimizer):
    """`step` of any text like this one, as one CUDA graph; two steps are made before."""
    stream, graph, given = torch.cuda.Stream(), torch.cuda.CUDAGraph(), text.clone()
    with torch.cuda.stream(stream):
        for _ in range(2):
            step(text)
    torch.cuda.synchronize()
    optimizer.zero_grad()
    with torch.cuda.graph(graph, stream=stream):
        loss = step(given)

    def replay(text):
        given.copy_(text)
        graph.replay()
        return loss

    return replay


def trained(name, asked):
    """One process' own: what it took, as a dict."""
    model = made(name, asked)
    before = used(asked.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=asked.rate, fused=True, capturable=asked.graph)

    def step(text):
        optimizer.zero_grad()
        logits = model(text[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss

    losses, walls, processors = [], [], []
    for text in batches(asked):
        if len(losses) > asked.steps or (len(losses) > 1 and sum(walls) > asked.seconds):
            break
        text = text.to(asked.device)
        if asked.graph and not losses:
            step = recorded(step, text, optimizer)
        start = time.perf_counter(), time.process_time()
        losses.append(step(text).item())  # waits for a GPU
        walls.append(time.perf_counter() - start[0])
        processors.append(time.process_time() - start[1])
    count = sum(parameter.numel() for parameter in model.parameters())
    return {"name": name, "parameters": count, "losses": losses, "steps": len(losses) - 1,
            "wall": statistics.median(walls[1:]), "processors": statistics.median(processors[1:]),
            "memory": used(asked.device), "before": before}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", default="bf16,mxfp8_rceil")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sum", default="exact")
    parser.add_argument("--graph", action="store_true", help="a step is one CUDA graph, replayed")
    parser.add_argument("--rows", type=int, default=8, help="sequences of a step")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1e9, help="of steps, after which none begins")
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--text", help="file to learn from")
    parser.add_argument("--curve", help="CSV of losses")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    for key, value in SHAPE.items():
        parser.add_argument(f"--{key.replace('_', '-')}", type=int, default=value)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(trained(asked.one, asked)))
        return
    found = {}
    for name in asked.names.split(","):
        words = [sys.executable, __file__, *sys.argv[1:], "--one", name]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"{asked.device}, {name}: ended with {done.returncode}", flush=True)
            continue
        got = found[name] = json.loads(done.stdout.splitlines()[-1])
        first = next(iter(found.values()))
        tokens = asked.rows * asked.context
        print(f"{asked.device}, {name}: {got['parameters'] / 1e6:.1f} M parameters, {got['steps']} steps of "
              f"{tokens} tokens, {got['wall']:.3f} s a step ({got['wall'] / first['wall']:.2f} of "
              f"{first['name']}), {got['processors']:.3f} s of processors "
              f"({got['processors'] / first['processors']:.2f}), {tokens / got['wall']:.0f} tokens a second, "
              f"{got['memory']:.2f} GB at most ({got['memory'] / first['memory']:.2f}; {got['before']:.2f} "
              f"before the first step), loss {got['losses'][0]:.4f} to {got['losses'][-1]:.4f}",
              flush=True)  # fmt: skip
    if asked.curve:
        with open(asked.curve, "w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["step", *found])
            columns = zip(*(got["losses"] for got in found.values()))
            out.writerows([step, *losses] for step, losses in enumerate(columns, 1))


if __name__ == "__main__":
    main()
