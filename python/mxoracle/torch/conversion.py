"""Replaces layers of a model by layers of the library, in a recipe."""
from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from mxoracle import _checks
from mxoracle._errors import Error, Unsupported
from mxoracle.torch import finding, probe
from mxoracle.torch.dense import Linear
from mxoracle.torch.experts import Experts, GroupedProducts, Layout, grouped_names, take_hooks
from mxoracle.torch.linear import scaled_linear, scaled_linear_backward
from mxoracle.torch.recipes import canonical, recipe_named
from mxoracle.torch.weights import wrap

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
    kinds = {weight.dtype for weight in weights} - {torch.bfloat16, torch.float16, torch.float32}
    if kinds:
        return f"{kinds.pop()}, needs bf16, f16 or f32"
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


def _experts(path: str, module: nn.Module, names: dict, gate: Callable | None,
             transposed: bool | None, check: bool) -> tuple[nn.Module, Layout]:  # fmt: skip
    """The module and how it keeps its experts, once its own forward was found to be ours."""
    if isinstance(module, Experts):
        if gate is None and transposed is None:
            return module.theirs, module.layout
        module = module.theirs
    layout = _layout(module, names, gate, transposed)
    if isinstance(layout, str):
        raise Unsupported(f"convert: {path or type(module).__name__}: found {layout}")
    if check:
        why = probe.difference(module, layout)
        if why and transposed is None:  # shapes alone may not tell
            other = _layout(module, names, gate, not layout.transposed)
            if isinstance(other, Layout) and not probe.difference(module, other):
                return module, other
        if why:
            raise Unsupported(
                f"convert: {path or type(module).__name__}: {why}; needs the same, or gate=, a "
                "function of the first product, or check=False to convert without this check"
            )
    return module, layout


def _of_experts(module: nn.Module) -> list[str]:
    """Its own parameters of three dimensions."""
    return [name for name, parameter in module._parameters.items()
            if parameter is not None and parameter.dim() == 3]  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """What `convert` makes of one layer."""

    path: str
    kind: str  # experts, grouped (products alone), linear (of a list of experts, too), or stays
    why: str = ""  # it stays

    def __str__(self) -> str:
        return f"{self.path or '(the model)'}: {self.kind}{f', {self.why}' if self.why else ''}"


def _expert_kinds(model: nn.Module, names: Mapping[str, str] | None) -> dict[str, str]:
    """Paths of expert layers, and of which kind each is."""
    found: dict[str, str] = {}
    for path, module in model.named_modules():
        if any(path.startswith(f"{outer}.") or outer == "" for outer in found):
            continue  # a part of one
        if grouped_names(module, names):
            found[path] = "experts"
        elif isinstance(module, GroupedProducts):
            found[path] = "grouped"
        elif _of_experts(module) and _calls_grouped(type(module).forward, type(module)):
            found[path] = "grouped"
        elif path and finding.experts_in_list(module, model.get_submodule(finding.parent_of(path))):
            found[path] = "list"
    return found


def _may_be_called(name: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise _checks.refusal(f"convert: {name}", value, "a function, or None")


def plan(
    model: nn.Module, recipe: str = "mxfp8_rceil", *, experts: finding.Choice = True,
    linears: finding.Choice = False, filter: Callable[[nn.Module, str], bool] | None = None,
    exclude: finding.Choice = (), names: Mapping[str, str] | None = None,
) -> list[Planned]:  # fmt: skip
    """What `convert` with the same arguments makes of each layer of `model`; why, if a layer stays."""
    if not isinstance(model, nn.Module):
        raise _checks.refusal("convert: model", model, "a torch.nn.Module")
    if any(isinstance(each, nn.parameter.UninitializedTensorMixin)
           for each in [*model.parameters(), *model.buffers()]):  # fmt: skip
        raise Error("convert: model: found a layer whose parameters have no shape yet, needs a forward "
                    "pass before")  # fmt: skip
    for choice in (experts, linears, exclude):
        finding.chosen(choice if not callable(choice) else False, model, "")
    _may_be_called("filter", filter)
    if names is not None:
        _checks.mapping("convert: names", names, "a dict of names of parameters")
    step = recipe_named(recipe).steps
    kinds = _expert_kinds(model, names)
    counts = {path: finding.number_of_experts(model.get_submodule(path)) for path in kinds}
    head = finding.head_of(model)
    found: list[Planned] = []
    candidates: list[str] = []  # of `linears`; of `experts`, each of `kinds`
    for path, module in model.named_modules():
        home = next((layer for layer in kinds if f"{path}.".startswith(f"{layer}.") or not layer), None)
        if home is not None:
            kind = kinds[home]
            owner = model.get_submodule(home)
            if not (path == home if kind != "list" else finding.is_linear(module)):
                continue
            wanted, why = finding.chosen(experts, owner, home), ""
            kind = "linear" if kind == "list" else kind
        elif isinstance(module, nn.Linear):
            candidates.append(path)
            wanted, kind, why = finding.chosen(linears, module, path), "linear", ""
            if linears is True and module is head:
                why = "the head"
            elif linears is True and finding.is_router(module, path, counts):
                why = "a router"
            elif not finding.is_linear(module):
                why = f"{type(module).__name__}, whose forward may be its own"
            elif module.weight.dtype not in (torch.bfloat16, torch.float16, torch.float32):
                why = f"weights of {module.weight.dtype}, not of bfloat16, float16 or float32"
            elif module.in_features % step or module.out_features % step:
                why = f"{module.out_features} x {module.in_features}, not multiples of {step}"
        else:
            continue
        if not wanted:
            why = "not asked for"
        elif finding.chosen(exclude, module, path) or (filter and not filter(module, path)):
            why = "excluded"
        found.append(Planned(path, "stays" if why else kind, why))
    finding.check_patterns("experts", experts, list(kinds))
    finding.check_patterns("linears", linears, candidates)
    finding.check_patterns("exclude", exclude, [layer.path for layer in found], model)
    return found


def _tried(recipe: str, format: str, sum: str, kind: torch.dtype) -> None:
    """One small layer forward and back: what the library refuses, it refuses here."""
    x, w = torch.ones(32, 128, dtype=kind), torch.ones(1, 32, 128, dtype=kind)
    ends, dy = torch.tensor([32], dtype=torch.int32), torch.ones(32, 32, dtype=kind)
    try:
        with _disable_current_modes():  # these are not measured
            scaled_linear(x, w, ends, None, recipe, format, sum)
            scaled_linear_backward(dy, x, w, ends, None, recipe, format, sum, "dx,dw")
    except Error as error:
        words = f"convert: recipe={recipe}, format={format}, sum={sum}: {error}"
        raise type(error)(words, error.fault) from None


def convert(
    model: nn.Module, recipe: str = "mxfp8_rceil", *, experts: finding.Choice = True,
    linears: finding.Choice = False, filter: Callable[[nn.Module, str], bool] | None = None,
    exclude: finding.Choice = (), sum: str = "exact", format: str = "e4m3",
    names: Mapping[str, str] | None = None, gate: Callable[[Tensor], Tensor] | None = None,
    transposed: bool | None = None, check: bool = True, tensors: bool = False,
) -> nn.Module:  # fmt: skip
    """Replaces layers of `model` by layers of the library, and returns `model`.  If `model` is itself
    such a layer, returns its replacement.

    model = mxoracle.torch.convert(MixtralForCausalLM(config).bfloat16(), "mxfp8_rceil", linears=True)

    Experts are modules with `gate_up_proj` [E, 2F, D] and `down_proj` [E, D, F] (or both
    transposed, with `gate_up_proj_bias` and `down_proj_bias`, or with `up_proj` and no gate), as
    transformers has them from version 5 on; modules that call torch._grouped_mm, of which nothing
    but that is replaced; and lists of perceptrons beside a router [E, D].  Linear layers are all
    others that the recipe has blocks for, but the head and routers, which need to be named.
    Parameters, their names and so checkpoints and optimizers stay.  A model may be converted again,
    so that linear layers get another recipe than experts.  `plan` lists what becomes of each layer.

    recipe: one of `recipes()`; format: of codes, "e4m3", "e4m3fnuz", or "e4m3/e5m2" where gradients
        have another; sum: how a GPU adds, a name of `mxo list sums`, or two with a slash where
        weight gradients are added otherwise.
    experts, linears: True, False, patterns of paths, or a function of a module and its path.
    filter, exclude: of both, a function of a module and its path that must be true, and what stays.
    names: parameters under other names, such as {"gate_up": "w13", "down": "w2", "down_bias": "b2"}, or
        {"gate": "w1", "up": "w3", "down": "w2"}.
    gate: what is between the products, a function of [S, 2F] that gives [S, F].  None: the
        module's `_apply_gate`, or act_fn(gate) up.
    transposed: weights are [E, K, N].  None: by their shapes.
    check: an expert layer's own forward and ours are run on a probe, while it is trained and not, in
        doubles, rows of all magnitudes and both signs, with gradients, and in its own type; they must
        agree.
    tensors: modules stay, and their weights become `ScaledWeight`s, as torchao has them.  Parameters
        are then new ones: convert before an optimizer is made.

    Errors: mxoracle.Error if a recipe is unknown or there is no such layer; Unsupported for
    experts whose own forward computes something else, with the first difference, and for a sum or
    format that the recipe does not have.
    """
    _may_be_called("gate", gate)
    for name, value in (("sum", sum), ("format", format)):
        _checks.text(f"convert: {name}", value)
    for name, value in (("transposed", transposed), ("check", check), ("tensors", tensors)):
        if not isinstance(value, bool) and not (name == "transposed" and value is None):
            raise _checks.refusal(f"convert: {name}", value, "True or False")
    recipe = canonical(recipe)
    layers = plan(model, recipe, experts=experts, linears=linears, filter=filter, exclude=exclude,
                  names=names)  # fmt: skip
    layers = [layer for layer in layers if layer.kind != "stays"]
    if not layers:
        raise Error(_NOTHING if linears is False else
                    "convert: model: found no layer to convert; print(plan(..)) says why")  # fmt: skip
    kind = next((each.dtype for each in model.parameters() if each.is_floating_point()), torch.bfloat16)
    _tried(recipe, format, sum, kind if kind in _FLOATS else torch.float32)
    settings = (recipe, format, sum)
    if tensors:
        found = [(layer, model.get_submodule(layer.path)) for layer in layers]
        wrap(model, [module._parameters[name] for layer, module in found for name in
                     (["weight"] if layer.kind == "linear" else _of_experts(module))], settings)  # fmt: skip
        return model
    ready: dict[str, Callable[[], nn.Module]] = {}  # nothing is replaced before all are known
    for layer in layers:
        module = model.get_submodule(layer.path)
        if layer.kind == "linear":
            ready[layer.path] = functools.partial(Linear.of, module, *settings)
        elif layer.kind == "grouped":
            theirs = module.theirs if isinstance(module, GroupedProducts) else module
            ready[layer.path] = functools.partial(GroupedProducts, theirs, *settings)
        else:
            parts = grouped_names(module, names)
            theirs, layout = _experts(layer.path, module, parts, gate, transposed, check)
            ready[layer.path] = functools.partial(Experts, theirs, layout, *settings)
    ours = {model.get_submodule(path): make() for path, make in ready.items()}
    for module, made in ours.items():
        if isinstance(module, (Experts, GroupedProducts)):  # converted before
            take_hooks(made, module)
    if "" in ready:
        return ours[model]
    for path, module in list(model.named_modules(remove_duplicate=False)):
        if module in ours:  # also where it is held twice
            parent, _, child = path.rpartition(".")
            setattr(model.get_submodule(parent), child, ours[module])
    return model


_FLOATS = (torch.bfloat16, torch.float16, torch.float32)
_NOTHING = (
    "convert: model: found no expert layer in it, needs parameters gate_up_proj [E, 2F, D] "
    "and down_proj [E, D, F], as transformers has them from version 5 on, or names=, or a "
    "module that calls torch._grouped_mm, or linears=True"
)
