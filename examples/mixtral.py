"""A small Mixtral of transformers, a text to learn, and its experts in a recipe of the library."""
import torch
import transformers

import mxoracle.torch

# name: recipe and format of the experts, as `mxo list ops grouped_linear` has them; None is torch.
RUNS = {
    "bf16": None,
    "mxfp8_rceil": ("mxfp8_rceil", "e4m3"),
    "e4m3fnuz": ("mxfp8_rceil", "e4m3fnuz"),
}


def model(run):
    """The same weights for every run; `run` says how the experts compute."""
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
        tie_word_embeddings=False,
    )  # fmt: skip
    net = transformers.MixtralForCausalLM(config).bfloat16()
    if RUNS[run] is None:
        return net
    recipe, format = RUNS[run]
    return mxoracle.torch.convert(net, recipe, format=format)


def batches(steps, rows=4, length=32, letters=64):
    """Text of a source in which every letter is followed by one of four, drawn once for all."""
    random = torch.Generator().manual_seed(1)
    after = torch.randint(letters, (letters, 4), generator=random)
    for _ in range(steps):
        text = torch.randint(letters, (rows, 1), generator=random)
        for _ in range(length - 1):
            choice = torch.randint(4, (rows,), generator=random)
            text = torch.cat([text, after[text[:, -1], choice, None]], 1)
        yield text
