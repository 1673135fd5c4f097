"""Trains a small mixture-of-experts transformer of plain PyTorch in several recipes: loss curves in a CSV.

Usage: train_torch.py [--recipes bf16,mxfp8_rceil,..] [--linears] [--sum NAME] [--steps N] [--width D]
    [--layers N] [--experts E] [--output losses.csv].  bf16 is torch's own.  Needs torch alone.
"""
import argparse
import csv
import time

import torch
from torch import nn
from torch.nn import functional

import mxoracle.torch

VOCABULARY, CONTEXT, ROWS, TOP_K = 512, 128, 8, 2


class Experts(nn.Module):
    """Gated experts by two grouped products, of rows that are sorted by expert."""

    def __init__(self, count, width, inner):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(count, 2 * inner, width) * width**-0.5)
        self.w2 = nn.Parameter(torch.randn(count, width, inner) * inner**-0.5)

    def forward(self, rows, ends):
        gate, up = torch._grouped_mm(rows, self.w1.transpose(-2, -1), offs=ends).chunk(2, -1)
        return torch._grouped_mm(functional.silu(gate) * up, self.w2.transpose(-2, -1), offs=ends)


class Mixture(nn.Module):
    def __init__(self, count, width, inner, top_k):
        super().__init__()
        self.top_k, self.router = top_k, nn.Linear(width, count, bias=False)
        self.experts = Experts(count, width, inner)

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, chosen = self.router(rows).float().softmax(-1).topk(self.top_k)
        order = chosen.flatten().argsort(stable=True)
        experts = torch.arange(self.router.out_features, device=x.device)
        ends = torch.searchsorted(chosen.flatten()[order], experts, right=True, out_int32=True)
        y = self.experts(rows[order // self.top_k], ends)
        y = y * weights.flatten()[order, None].to(y.dtype)
        return torch.zeros_like(rows).index_add(0, order // self.top_k, y).view_as(x)


class Layer(nn.Module):
    def __init__(self, count, width, inner, heads, top_k):
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mixture = Mixture(count, width, inner, top_k)

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mixture(self.norms[1](x))


class Model(nn.Module):
    def __init__(self, layers=2, width=128, experts=8, inner=None, top_k=TOP_K, context=CONTEXT, heads=4,
                 vocabulary=VOCABULARY):  # fmt: skip
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.layers = nn.Sequential(*(Layer(experts, width, inner or width, heads, top_k)
                                      for _ in range(layers)))  # fmt: skip
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens) + self.place.weight[: tokens.shape[1]]
        return self.head(self.norm(self.layers(x)))


def batches(steps):
    """Text of a source in which every word is followed by one of eight, drawn once for all."""
    random = torch.Generator().manual_seed(1)
    after = torch.randint(VOCABULARY, (VOCABULARY, 8), generator=random)
    for _ in range(steps):
        text = [torch.randint(VOCABULARY, (ROWS,), generator=random)]
        for _ in range(CONTEXT):
            choice = torch.randint(8, (ROWS,), generator=random)
            text.append(after[text[-1], choice])
        yield torch.stack(text, 1)


def train(recipe, asked):
    """The loss of every step, seconds of a step by the clock and of processors, and parameters."""
    torch.manual_seed(0)
    model = Model(asked.layers, asked.width, asked.experts).bfloat16()
    if recipe != "bf16":
        mxoracle.torch.convert(model, recipe, linears=asked.linears, sum=asked.sum)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, start = [], (time.monotonic(), time.process_time())
    for text in batches(asked.steps):
        logits = model(text[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    size = sum(parameter.numel() for parameter in model.parameters())
    spent = time.monotonic() - start[0], time.process_time() - start[1]
    return losses, *(seconds / asked.steps for seconds in spent), size


def main(words=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--recipes", default="bf16,mxfp8_rceil,fp8_rowwise,te_blockwise")
    parser.add_argument("--linears", action="store_true")
    parser.add_argument("--sum", default="exact")
    parser.add_argument("--output", default="losses.csv")
    for name, value in {"steps": 200, "layers": 2, "width": 128, "experts": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    asked = parser.parse_args(words)
    curves = {}
    for recipe in asked.recipes.split(","):
        curves[recipe], seconds, of_processors, size = train(recipe, asked)
        last = curves[recipe][-20:]
        print(f"{recipe}: {size} parameters, loss {sum(last) / len(last):.4f}, {seconds:.3f} s a step, "
              f"{of_processors:.3f} s of processors", flush=True)  # fmt: skip
    with open(asked.output, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["step", *curves])
        out.writerows([step, *losses] for step, losses in enumerate(zip(*curves.values()), 1))
    print(f"written: {asked.output}")


if __name__ == "__main__":
    main()
