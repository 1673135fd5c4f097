"""Puts the library's expert layers in the place of a model's."""
from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mxoracle._errors import Error, Unsupported
from mxoracle._library import core
from mxoracle._tables import operators
from mxoracle.torch import probe
from mxoracle.torch.experts import Experts, GroupedProducts, Layout, grouped_names

_NAMES_OF_GROUPED = {"_grouped_mm", "grouped_mm"}
_DEPTH = 4  # functions that a forward calls


def _calls_grouped(function: Any, owner: type, depth: int = _DEPTH) -> bool:
    """True if a function, or one of its module or class that it calls, calls torch._grouped_mm."""
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    if code is None or depth == 0:
        return False
    names = set(code.co_names)
    if names & _NAMES_OF_GROUPED:
        return True
    others = [function.__globals__.get(name, getattr(owner, name, None)) for name in names]
    return any(_calls_grouped(other, owner, depth - 1) for other in others if callable(other))


def _own_gate(module: nn.Module, first: Tensor) -> Tensor:
    return module._apply_gate(first)


def _act(module: nn.Module, first: Tensor) -> Tensor:
    return module.act_fn(first)


def _act_gate(module: nn.Module, first: Tensor) -> Tensor:
    gate, up = first.chunk(2, dim=-1)
    return module.act_fn(gate) * up


def _given(gate: Callable, module: nn.Module, first: Tensor) -> Tensor:
    return gate(first)


def _activation(module: nn.Module, gate: Callable | None, gated: bool) -> Callable | None:
    """What is between the products: `gate`, the module's `_apply_gate`, or its `act_fn`."""
    if gate is not None:
        return functools.partial(_given, gate)
    if gated and hasattr(module, "_apply_gate"):
        return _own_gate
    if not hasattr(module, "act_fn"):
        return None
    return _act_gate if gated else _act


def _layout(module: nn.Module, names: Mapping[str, str], gate: Callable | None,
            transposed: bool | None) -> Layout | str:  # fmt: skip
    """How `module` keeps its experts; or why that is not known."""
    first = ("gate_up",) if "gate_up" in names else ("gate", "up") if "gate" in names else ("up",)
    weights = [getattr(module, names[key]) for key in (*first, "down")]
    kinds = {weight.dtype for weight in weights} - {torch.bfloat16, torch.float32}
    if kinds:
        return f"{kinds.pop()}, needs bf16 or f32"
    up, down = weights[0].shape, weights[-1].shape
    halved = 2 if first == ("gate_up",) else 1
    plain = down == (up[0], up[2], up[1] // halved)
    turned = down == (up[0], up[2] // halved, up[1])
    if transposed is None:
        transposed = turned and (not plain or bool(getattr(module, "is_transposed", False)))
    if not (turned if transposed else plain):
        shape = "[E, K, N]" if transposed else "[E, N, K]"
        return f"{names[first[0]]} {tuple(up)} and {names['down']} {tuple(down)}, needs {shape}"
    biases = [names.get(f"{key}_bias") for key in first]
    if None in biases and any(biases):
        return "a bias for one of gate and up, needs both or none"
    activation = _activation(module, gate, gated=first != ("up",))
    if activation is None:
        return "neither act_fn nor _apply_gate, needs gate=, a function of the first product"
    return Layout(tuple(names[key] for key in first), tuple(name for name in biases if name),
                  names["down"], names.get("down_bias"), transposed, activation)  # fmt: skip


def _recipes() -> list[str]:
    entry = next(entry for entry in operators() if entry["name"] == "grouped_linear")
    spec = next(spec for spec in entry["parameters"] if spec["key"] == "recipe")
    return spec["values"].split("|")


def _experts(path: str, module: nn.Module, names: dict, gate: Callable | None,
             transposed: bool | None, check: bool, recipe: str, format: str) -> Experts:  # fmt: skip
    if isinstance(module, Experts):
        if gate is None and transposed is None:
            return Experts(module.theirs, module.layout, recipe, format)
        module = module.theirs
    layout = _layout(module, names, gate, transposed)
    if isinstance(layout, str):
        raise Unsupported(f"convert: {path or type(module).__name__}: found {layout}")
    if check:
        why = probe.difference(module, layout)
        if why and transposed is None:  # shapes alone may not tell
            other = _layout(module, names, gate, not layout.transposed)
            if isinstance(other, Layout) and not probe.difference(module, other):
                return Experts(module, other, recipe, format)
        if why:
            raise Unsupported(
                f"convert: {path or type(module).__name__}: {why}; needs the same, or gate=, a "
                "function of the first product, or check=False to have ours nevertheless"
            )
    return Experts(module, layout, recipe, format)


def convert(
    model: nn.Module, recipe: str = "mxfp8_rceil", *, format: str = "e4m3",
    names: Mapping[str, str] | None = None, gate: Callable[[Tensor], Tensor] | None = None,
    transposed: bool | None = None, check: bool = True,
) -> nn.Module:  # fmt: skip
    """Puts expert layers of the library in the place of those of `model`, and returns `model`; of an
    expert layer itself, what takes its place.

    model = mxoracle.torch.convert(MixtralForCausalLM(config).bfloat16(), "mxfp8_rceil")

    Taken are modules with experts `gate_up_proj` [E, 2F, D] and `down_proj` [E, D, F] (or both
    transposed, with `gate_up_proj_bias` and `down_proj_bias`, or with `up_proj` and no gate), as
    transformers has them from version 5 on; and modules that call torch._grouped_mm, of which
    nothing but that is replaced.  Parameters, their names and so checkpoints and optimizers stay.
    `recipe` and `format` are those of `mxo list ops grouped_linear`; a model may be converted again.

    names: parameters of one's own, such as {"gate_up": "w13", "down": "w2", "down_bias": "b2"}, or
        {"gate": "w1", "up": "w3", "down": "w2"}.
    gate: what is between the products, a function of [S, 2F] that gives [S, F].  None: the
        module's `_apply_gate`, or act_fn(gate) up.
    transposed: weights are [E, K, N].  None: by their shapes.
    check: an expert layer's own forward and ours are run on a probe in doubles, rows of all
        magnitudes and both signs, with gradients; they must agree.

    Errors: mxoracle.Error if a recipe is unknown or there is no expert layer; Unsupported for
    experts whose own forward computes something else, with the first difference.
    """
    try:
        recipe = core().recipe_named(recipe)
    except Error:
        raise Error(
            f"convert: recipe: found '{recipe}', needs one of {', '.join(_recipes())}"
        ) from None
    found: dict[str, nn.Module] = {}
    for path, module in model.named_modules():
        if any(path.startswith(f"{outer}.") or outer == "" for outer in found):
            continue  # a part of one
        parts = grouped_names(module, names)
        if parts:
            found[path] = _experts(path, module, parts, gate, transposed, check, recipe, format)
        elif isinstance(module, GroupedProducts):
            found[path] = GroupedProducts(module.theirs, recipe, format)
        elif _has_experts(module) and _calls_grouped(type(module).forward, type(module)):
            found[path] = GroupedProducts(module, recipe, format)
    if not found:
        raise Error(
            "convert: model: found no expert layer in it, needs parameters gate_up_proj [E, 2F, D] "
            "and down_proj [E, D, F], as transformers has them from version 5 on, or names=, or a "
            "module that calls torch._grouped_mm"
        )
    for path, ours in found.items():
        if path == "":
            return ours
        parent, _, child = path.rpartition(".")
        setattr(model.get_submodule(parent), child, ours)
    return model


def _has_experts(module: nn.Module) -> bool:
    own = (parameter for parameter in module._parameters.values() if parameter is not None)
    return any(parameter.dim() == 3 for parameter in own)
