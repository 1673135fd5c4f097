#!/usr/bin/env python3
"""A training step of PyTorch in bf16, of the model that mxo train trains: transformers' Mixtral.

Usage: rival_train_torch.py [LAYERS WIDTH HEADS EXPERTS EXPERT_WIDTH TOP_K CONTEXT TOKENS [STEPS]].
Prints, for each implementation of experts that torch has here, CPU seconds and seconds a step: forward,
backward, clipping and AdamW, the first step left out.
"""
import sys
import time

import torch
from transformers import MixtralConfig, MixtralForCausalLM

LAYERS, WIDTH, HEADS, EXPERTS, FEATURES, TOP_K, CONTEXT, TOKENS = (
    map(int, sys.argv[1:9]) if len(sys.argv) > 8 else (2, 128, 4, 8, 128, 2, 128, 1024))
STEPS = int(sys.argv[9]) if len(sys.argv) > 9 else 5


def step_of(experts):
    torch.manual_seed(1)
    config = MixtralConfig(
        vocab_size=256, hidden_size=WIDTH, intermediate_size=FEATURES, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, num_local_experts=EXPERTS,
        num_experts_per_tok=TOP_K, max_position_embeddings=CONTEXT)
    model = MixtralForCausalLM(config).to(torch.bfloat16)
    model.set_experts_implementation(experts)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    tokens = torch.randint(256, (TOKENS // CONTEXT, CONTEXT))

    def step():
        optimizer.zero_grad()
        model(tokens, labels=tokens).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step()
    return sum(p.numel() for p in model.parameters()), step


for experts in ["eager", "batched_mm", "grouped_mm"]:
    try:
        parameters, step = step_of(experts)
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(STEPS):
            step()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(f"torch {torch.__version__}, bf16, {experts}: {parameters} parameters, "
              f"{cpu / STEPS:.2f} CPU s, {wall / STEPS:.2f} s a step of {TOKENS} tokens", flush=True)
    except (RuntimeError, NotImplementedError, ValueError) as error:
        print(f"torch {torch.__version__}, bf16, {experts}: {str(error).splitlines()[0]}", flush=True)
