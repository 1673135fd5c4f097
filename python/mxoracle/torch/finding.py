"""Which layers of a model are experts, which are linear layers, and which of those stay."""
from __future__ import annotations

import difflib
import fnmatch
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn

from mxoracle import _checks
from mxoracle._errors import Error
from mxoracle.torch.dense import Linear

# True, False, a pattern of paths, several, or a function of a module and its path
Choice = Any
_MLP = (2, 3)  # linear layers of an expert
_NEAR = 2  # dots in the name of a router's weight, as its block has it: router.gate.weight


def chosen(choice: Choice, module: nn.Module, path: str) -> bool:
    if isinstance(choice, bool):
        return choice
    if callable(choice):
        return bool(choice(module, path))
    patterns = [choice] if isinstance(choice, str) else choice
    if not isinstance(patterns, Sequence) or not all(isinstance(each, str) for each in patterns):
        raise _checks.refusal("convert", choice, "True, False, patterns of paths, or a function of a "
                              "module and its path")  # fmt: skip
    return any(fnmatch.fnmatchcase(path, each) for each in patterns)


def check_patterns(name: str, choice: Choice, layers: list[str], model: nn.Module | None = None) -> None:
    """Refuses a pattern that matches no layer, and no module of `model` beside them."""
    if isinstance(choice, bool) or callable(choice):
        return
    for pattern in [choice] if isinstance(choice, str) else choice:
        paths = itertools.chain(layers, _beside(model, layers) if model else ())
        if not any(fnmatch.fnmatchcase(path, pattern) for path in paths):
            near = ", ".join(difflib.get_close_matches(pattern, layers, 3, 0)) or "no such layer"
            raise Error(f"convert: {name}: found {pattern!r}, which matches no layer; there are {near}")


def _beside(model: nn.Module, layers: list[str]) -> Iterable[str]:
    """Modules that are no part of a layer and that hold none."""
    for path, _ in model.named_modules():
        ours = (f"{layer}." for layer in layers)
        if path and not any(f"{path}.".startswith(each) or each.startswith(f"{path}.") for each in ours):
            yield path


def is_linear(module: nn.Module) -> bool:
    """An nn.Linear whose forward is nn.Linear's, or ours."""
    return type(module) in (nn.Linear, Linear) and "forward" not in module.__dict__


def _linears(module: nn.Module) -> list[nn.Linear]:
    return [child for child in module.modules() if is_linear(child)]


def _shapes(module: nn.Module) -> list[tuple]:
    return [tuple(parameter.shape) for parameter in module.parameters()]


def experts_in_list(module: nn.Module, parent: nn.Module) -> bool:
    """True of a ModuleList of one shape beside a router [E, D]: of perceptrons from D to D, or of linear
    layers from D or to D."""
    if not isinstance(module, nn.ModuleList) or len(module) < 2:
        return False
    if any(_shapes(each) != _shapes(module[0]) for each in module):
        return False
    first = _linears(module[0])
    if is_linear(module[0]):
        widths = {first[0].in_features, first[0].out_features}
    elif len(first) in _MLP and first[0].in_features in [each.out_features for each in first[1:]]:
        widths = {first[0].in_features}
    else:
        return False
    inside = {id(parameter) for parameter in module.parameters()}
    inside |= {id(table.weight) for table in parent.modules() if isinstance(table, nn.Embedding)}
    near = (parameter for name, parameter in parent.named_parameters()
            if id(parameter) not in inside and name.count(".") <= _NEAR)  # fmt: skip
    return any(parameter.dim() == 2 and len(parameter) == len(module) and parameter.shape[1] in widths
               for parameter in near)  # fmt: skip


def parent_of(path: str) -> str:
    return path.rpartition(".")[0]


def number_of_experts(module: nn.Module) -> int:
    """Of a ModuleList, its length; of three-dimensional parameters, their first extent."""
    if isinstance(module, nn.ModuleList):
        return len(module)
    return next(parameter.shape[0] for parameter in module._parameters.values()
                if parameter is not None and parameter.dim() == 3)  # fmt: skip


def head_of(model: nn.Module) -> nn.Module | None:
    """What gives logits: as the model says, or the last linear layer that shares or has the shape of
    the weight of the largest embedding."""
    said = getattr(model, "get_output_embeddings", None)
    if callable(said) and said() is not None:
        return said()
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    if not tables:
        return None
    words = max(tables, key=lambda table: table.num_embeddings).weight
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    tied = [layer for layer in layers if layer.weight is words]
    alike = tied or [layer for layer in layers if layer.weight.shape == words.shape]
    return alike[-1] if alike else None


def is_router(module: nn.Linear, path: str, experts: dict[str, int]) -> bool:
    """experts: how many there are, by the path of their layer."""
    homes = {parent_of(layer): count for layer, count in experts.items()}
    return any(module.out_features == count and (not home or path.startswith(home + "."))
               for home, count in homes.items())  # fmt: skip
