"""A converter of torchtitan by the name of mxoracle: the products of its grouped experts in a recipe.

    --experimental.custom_import mxoracle_converter --model.converters mxoracle

The recipe is MXORACLE_RECIPE, mxfp8_rceil unless set.
"""
import os

import torch
import torch.nn.functional as F
import torchtitan.models.moe.moe as moe
import torchtitan.models.moe.utils
from torchtitan.protocols.model_converter import register_model_converter

from mxoracle.torch import grouped_linear
from mxoracle.torch.torchao_kernels import generate_permute_indices

RECIPE = os.environ.get("MXORACLE_RECIPE", "mxfp8_rceil")


def run_experts(w1, w2, w3, x, num_tokens_per_expert):
    """torchtitan's _run_experts_grouped_mm, with grouped_linear for torch._grouped_mm."""
    ends = torch.cumsum(num_tokens_per_expert, dim=0, dtype=torch.int32)

    def linear(rows, w):
        return grouped_linear(rows.bfloat16(), w.bfloat16(), ends, None, RECIPE, pad=True)

    h = F.silu(linear(x, w1)) * linear(x, w3)
    return linear(h, w2).type_as(x)


class Converter:
    def __init__(self, job_config, parallel_dims):
        pass

    def convert(self, model):
        layers = [layer for layer in model.modules() if isinstance(layer, moe.GroupedExperts)]
        if not layers:
            raise ValueError("mxoracle: the model has no grouped experts, needs some to convert")
        for layer in layers:
            layer.use_grouped_mm = True  # which torchtitan turns off without a GPU
        moe._run_experts_grouped_mm = run_experts
        torchtitan.models.moe.utils.generate_permute_indices = generate_permute_indices  # Triton's

    def post_optimizer_hook(self, model):
        pass


register_model_converter(Converter, "mxoracle")
