"""The expert layers of transformers' models, on the library."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from mxoracle._arrays import NAMES
from mxoracle._errors import Error, Unsupported
from mxoracle._tables import operators
from mxoracle.torch.operators import grouped_linear


class Experts(nn.Module):
    """Experts of a gated layer, whose two products are `grouped_linear` in a recipe:

    y[t] = sum over j of weights[t, j] down[e] (act(gate) up), e = experts[t, j],
    gate and up the halves of gate_up[e] x[t].

    hidden_states [T, D]; top_k_index [T, k], of which a number from num_experts on is no expert
    here and adds zero; top_k_weights [T, k]; gate_up_proj [E, 2F, D]; down_proj [E, D, F]; bf16 or
    f32.  The parameters are those of the module that it stands for, under their names.
    """

    def __init__(self, theirs: nn.Module, recipe: str, format: str) -> None:
        super().__init__()
        self.num_experts = theirs.gate_up_proj.shape[0]
        self.gate_up_proj = theirs.gate_up_proj
        self.down_proj = theirs.down_proj
        self.act_fn = theirs.act_fn
        self.recipe = recipe
        self.format = format
        self.train(theirs.training)

    def extra_repr(self) -> str:
        return f"{self.num_experts} experts, recipe={self.recipe}, format={self.format}"

    def _linear(self, x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
        out = NAMES[str(x.dtype).removeprefix("torch.")]
        return grouped_linear(x, w, ends, None, self.recipe, self.format, out, True)

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        tokens, top_k = top_k_index.shape
        experts, order = torch.sort(top_k_index.reshape(-1), stable=True)
        numbers = torch.arange(self.num_experts, device=experts.device, dtype=experts.dtype)
        ends = torch.searchsorted(experts, numbers, right=True).to(torch.int32)
        x = hidden_states[order // top_k]
        gate, up = self._linear(x, self.gate_up_proj, ends).chunk(2, dim=-1)
        y = self._linear(self.act_fn(gate) * up, self.down_proj, ends)
        y = y * top_k_weights.reshape(-1)[order].unsqueeze(-1)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.numel(), device=order.device)
        y = y[back].view(tokens, top_k, -1).sum(dim=1)
        return y.to(hidden_states.dtype)


def _why_not(module: nn.Module) -> str:
    """Why a module with experts is none of ours; empty if it is."""
    expected = {
        "has_gate": True, "has_bias": False, "is_transposed": False, "is_concatenated": True,
        "has_post_expert_norm": False,
    }  # fmt: skip
    for name, value in expected.items():
        if getattr(module, name, value) != value:
            return f"{name}={getattr(module, name)}"
    up, down = module.gate_up_proj, module.down_proj
    if up.dim() != 3 or down.shape != (up.shape[0], up.shape[2], up.shape[1] // 2):
        return f"gate_up_proj {tuple(up.shape)} and down_proj {tuple(down.shape)}"
    if up.dtype not in (torch.bfloat16, torch.float32):
        return str(up.dtype)
    gate = getattr(type(module), "_apply_gate", None)
    if gate is not None and gate.__name__ != "_default_apply_gate":
        return "a gate of its own"
    return ""


def _recipes() -> list[str]:
    entry = next(entry for entry in operators() if entry["name"] == "grouped_linear")
    spec = next(spec for spec in entry["parameters"] if spec["key"] == "recipe")
    return spec["values"].split("|")


def convert(model: nn.Module, recipe: str = "mxfp8_rceil", *, format: str = "e4m3") -> nn.Module:
    """Puts `Experts` in the place of every expert layer of `model`, and returns `model`.

    model = mxoracle.torch.convert(MixtralForCausalLM(config).bfloat16(), "mxfp8_rceil")

    Taken are modules with `gate_up_proj` [E, 2F, D] and `down_proj` [E, D, F], as transformers has
    them from version 5 on: Mixtral, Qwen3-MoE, DeepSeek-V3 and the like.  Parameters, their names
    and so checkpoints and optimizers stay.  `recipe` and `format` are those of `mxo list ops
    grouped_linear`; a model may be converted again to another.
    Errors: mxoracle.Error if a recipe is unknown or there is no expert layer; Unsupported for
    experts with biases, with a gate that is not act(gate) up, or of another element type.
    """
    known = _recipes()
    if recipe not in known:
        raise Error(f"convert: recipe: found '{recipe}', needs one of {', '.join(known)}")
    found = [
        (name, module)
        for name, module in model.named_modules()
        if hasattr(module, "gate_up_proj") and hasattr(module, "down_proj")
        and isinstance(module.gate_up_proj, nn.Parameter)
    ]  # fmt: skip
    if not found or found[0][0] == "":
        raise Error(
            "convert: model: found no expert layer in it, needs gate_up_proj [E, 2F, D] and "
            "down_proj [E, D, F], as transformers has them from version 5 on"
        )
    for name, module in found:
        why = _why_not(module)
        if why:
            raise Unsupported(f"convert: {name}: found {why}, needs act(gate) up of bf16 or f32, "
                              "without biases")  # fmt: skip
    for name, module in found:
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, Experts(module, recipe, format))
    return model
