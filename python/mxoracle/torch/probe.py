"""Whether the expert layer that takes a module's place computes what the module computes."""
from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mxoracle.torch.experts import CALL_HOOKS, GroupedReplaced, Layout, expert_layer

# A row of the probe is of one magnitude: below and far above where activations are clamped.
_MAGNITUDES = (2.0**-6, 0.25, 1.0, 8.0, 2.0**8, 2.0**16)
_NEAR = 2.0**-13  # of the largest of a row: a forward may work in f32 within, not in bf16
_ROUNDED = 2.0**-3  # the same of a forward in the module's own type
_STEP = 97  # elements from the weights of one expert to those of the next: they overlap
_GRADIENTS = 1 << 22  # elements of a module whose parameters' gradients are compared
_PRODUCTS = 1 << 32  # of a token's and an expert's elements, in one trial


@dataclass(frozen=True)
class _Trial:
    """Inputs of one run.  What a module's own forward refuses of them is not compared, but for the
    first."""

    words: str
    tokens: int
    choices: int = 2  # experts a token, different ones
    experts: int = 1 << 30  # of which they are
    twice: bool = False  # the second is the first again
    weights: tuple[float, ...] = ()  # in turn; none: between 0 and 1
    mode: Callable[[], AbstractContextManager] = torch.enable_grad


_TRIALS = (
    _Trial("", 4 * len(_MAGNITUDES)),
    _Trial("weights of 0, near 0, below 0 and above 1", 7, weights=(0.0, 2.0**-9, 0.03, -0.75, 1.5, -3.0, 9.0)),
    _Trial("an expert twice in a token", 7, twice=True),
    _Trial("one expert a token", 7, choices=1),
    _Trial("four experts a token", 7, choices=4),
    _Trial("one expert for all tokens", 24, choices=1, experts=1),
    _Trial("no token", 0),
    _Trial("one token", 1),
    _Trial("two tokens", 2),
    _Trial("gradients off", 7, mode=torch.no_grad),
    _Trial("inference mode", 7, mode=torch.inference_mode),
    _Trial("65 tokens", 65, experts=4, mode=torch.no_grad),
    _Trial("520 tokens", 520, experts=4, mode=torch.no_grad),
)


def _numbers(parameter: Tensor, kind: torch.dtype) -> Tensor:
    """Numbers in the shape of a parameter, in the memory of one expert."""
    shape = parameter.shape
    device = "cpu" if parameter.device.type == "meta" else parameter.device
    if len(shape) != 3:
        return torch.randn(shape, dtype=torch.float64, device=device).to(kind)
    one = shape[1] * shape[2]
    memory = torch.randn(one + _STEP * (shape[0] - 1), dtype=torch.float64, device=device)
    memory /= math.sqrt(max(1, min(shape[1:])))
    return memory.to(kind).as_strided(shape, (_STEP, shape[2], 1))


def _twin(theirs: nn.Module, kind: torch.dtype, training: bool) -> nn.Module:
    """The module with parameters of our own, which are the same in every type but for rounding, and
    whatever else a forward may change."""
    torch.manual_seed(0)
    twin = copy.copy(theirs)
    for name, value in list(vars(twin).items()):
        if isinstance(value, (list, dict, set)):
            vars(twin)[name] = copy.copy(value)
        elif isinstance(value, Tensor):
            vars(twin)[name] = value.detach().clone()
    twin._parameters = {
        name: None if parameter is None else nn.Parameter(_numbers(parameter, kind))
        for name, parameter in theirs._parameters.items()
    }
    twin._buffers = {
        name: None if buffer is None else buffer.to(kind if buffer.is_floating_point() else buffer.dtype,
                                                    copy=True)  # fmt: skip
        for name, buffer in theirs._buffers.items()
    }
    twin._modules = {
        name: None if child is None else copy.deepcopy(child).to(kind)
        for name, child in theirs._modules.items()
    }
    for module in twin.modules():  # hooks are of the model's calls, not of these
        for name in CALL_HOOKS:
            setattr(module, name, type(getattr(module, name))())
    return twin.train(training)


def _state(twin: nn.Module) -> dict[str, tuple]:
    """What a forward may change: buffers and attributes of a module and its children."""
    found = {}
    for path, module in twin.named_modules():
        for name, value in [*vars(module).items(), *module._buffers.items()]:
            at = value._version if isinstance(value, Tensor) and not value.is_inference() else None
            found[f"{path}.{name}".lstrip(".")] = (
                value, len(value) if isinstance(value, (list, dict, set)) else at)
    return found


def _changed(before: dict[str, tuple], twin: nn.Module) -> set[str]:
    return {name for name, (value, at) in _state(twin).items()
            if name not in before or before[name][0] is not value or before[name][1] != at}  # fmt: skip


def _product(x: Tensor, w: Tensor, ends: Tensor, bias: Tensor | None) -> Tensor:
    """In the type of x."""
    y = x.new_zeros((x.shape[0], w.shape[1]))
    start = 0
    for expert, end in enumerate(ends.tolist()):
        if end > start:
            y[start:end] = x[start:end] @ w[expert].t() + (0 if bias is None else bias[expert])
        start = end
    return y


def _reached(y: Tensor, inputs: dict[str, Tensor]) -> list[str]:
    """Of `inputs`, those that y has gradients of."""
    nodes, next_nodes = set(), [y.grad_fn]
    while next_nodes:
        node = next_nodes.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            next_nodes += [each for each, _ in node.next_functions]
    leaves = {id(node.variable) for node in nodes if hasattr(node, "variable")}
    return [name for name, each in inputs.items() if id(each) in leaves]


def _first_difference(name: str, theirs: Tensor, ours: Tensor, magnitudes: Tensor | None,
                      near: float = _NEAR) -> str:  # fmt: skip
    reach = torch.maximum(theirs.abs().nan_to_num(), ours.abs().nan_to_num()).amax(-1, keepdim=True)
    same = (theirs - ours).abs() <= near * reach
    same |= (theirs == ours) | (theirs.isnan() & ours.isnan())
    if bool(same.all()):
        return ""
    place = tuple(torch.nonzero(~same)[0].tolist())
    of = "" if magnitudes is None else f", for x of magnitude {float(magnitudes[place[0]]):g}"
    return (f"{name}{list(place)} is {float(theirs[place]):.6g} by its own forward and "
            f"{float(ours[place]):.6g} by ours{of}")


def difference(theirs: nn.Module, layout: Layout) -> str:
    """The first number at which a module's own forward and ours part, in any trial, while it is trained
    and not: in doubles results and gradients, in its own type results; empty where they agree."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        return next(filter(None, _differences(theirs, layout)), "")


def _differences(theirs: nn.Module, layout: Layout) -> Iterator[str]:
    kind = getattr(theirs, layout.down).dtype
    for training in (theirs.training, not theirs.training):
        twins = [_twin(theirs, each, training) for each in (torch.float64, kind)]
        for trial in _TRIALS:
            found = _difference(twins, layout, trial)
            yield f"{found}, with {trial.words}" if found and trial.words else found


def _inputs(down: Tensor, width: int, trial: _Trial) -> tuple[Tensor, ...]:
    """Magnitudes of rows, x, experts and weights."""
    magnitudes = torch.tensor(_MAGNITUDES, dtype=torch.float64).repeat(trial.tokens)[: trial.tokens]
    x = torch.randn(trial.tokens, width, dtype=torch.float64) * magnitudes[:, None]
    experts = min(trial.experts, down.shape[0])
    choices = min(trial.choices, experts)
    index = torch.rand(trial.tokens, experts).argsort(-1)[:, :choices]
    if trial.twice:
        index[:, -1] = index[:, 0]
    weights = torch.rand(index.shape, dtype=torch.float64)
    if trial.weights:
        turn = torch.arange(index.numel()) % len(trial.weights)
        weights = torch.tensor(trial.weights, dtype=torch.float64)[turn].view(index.shape)
    return tuple(each.to(down.device) for each in (magnitudes, x, index, weights))


def _difference(twins: list[nn.Module], layout: Layout, trial: _Trial) -> str:
    twin = twins[0]
    down, first = getattr(twin, layout.down), getattr(twin, layout.first[0])
    if trial.tokens * down[0].numel() > _PRODUCTS:
        return ""
    inputs = _inputs(down, first.shape[1 if layout.transposed else 2], trial)
    magnitudes, x, index, weights = inputs
    x.requires_grad_()
    weights.requires_grad_()
    before = _state(twin)
    with trial.mode():
        try:
            ours = expert_layer(twin, layout, _product, x, index, weights)
        except RuntimeError as error:
            return f"its parameters do not fit: {error}"
        changed = _changed(before, twin)
        before = _state(twin)
        given = [x.clone(), index.clone(), weights.clone()]
        try:
            with GroupedReplaced(_product):  # of doubles torch has none
                y = twin(*given)
        except Exception as error:  # whatever their forward raises
            words = f"{type(error).__name__}: {error}"
            return "" if trial.words else f"its own forward of x, experts and weights raises {words}"
    if not isinstance(y, Tensor) or y.shape != ours.shape:
        found = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        return f"its own forward gives {found}, ours {tuple(ours.shape)}"
    part = _first_difference("y", y.detach().double(), ours.detach(), magnitudes)
    if part:
        return part
    for name, had, now in zip(("x", "experts", "weights"), (x, index, weights), given):
        if not torch.equal(had, now):
            return f"its own forward changes {name} in place, ours does not"
    for name in sorted(_changed(before, twin) - changed):
        return f"its own forward changes {name} of the module, ours does not"
    return _difference_of_gradients(twin, y, ours, x, weights, magnitudes) or _difference_rounded(
        twins[1], layout, trial, inputs, ours.detach())  # fmt: skip


def _difference_of_gradients(twin: nn.Module, y: Tensor, ours: Tensor, x: Tensor, weights: Tensor,
                             magnitudes: Tensor) -> str:  # fmt: skip
    if not ours.requires_grad or not len(x):
        return "" if not y.requires_grad or not len(x) else "its own forward gives gradients, ours none"
    parameters = {name: each for name, each in twin._parameters.items() if each is not None}
    known = {"x": x, "weights": weights, **parameters}
    have, want = _reached(y, known), _reached(ours, known)
    for name in sorted({*have} ^ {*want}):
        return f"its own forward gives {'a' if name in have else 'no'} gradient of {name}, ours " \
               f"{'one' if name in want else 'none'}"  # fmt: skip
    if sum(each.numel() for each in parameters.values()) > _GRADIENTS:
        want = [name for name in want if name not in parameters]
    dy = torch.randn(y.shape, dtype=torch.float64, device=y.device)
    pairs = [torch.autograd.grad(each, [known[name] for name in want], dy.to(each.dtype),
                                 materialize_grads=True)
             for each in (y, ours)]  # fmt: skip
    for name, theirs, mine in zip(want, *pairs):
        part = _first_difference(f"d{name}" if name not in parameters else f"the gradient of {name}",
                                 theirs.double(), mine, None if name in parameters else magnitudes)  # fmt: skip
        if part:
            return part
    return ""


def _difference_rounded(twin: nn.Module, layout: Layout, trial: _Trial, inputs: tuple[Tensor, ...],
                        ours: Tensor) -> str:  # fmt: skip
    """Of rows as large as activations are, in the module's own type."""
    kind = getattr(twin, layout.down).dtype
    few = inputs[0] <= 8.0
    magnitudes, x, index, weights = (each.detach()[few] for each in inputs)
    try:
        with trial.mode(), GroupedReplaced(_product):
            y = twin(x.to(kind), index.clone(), weights.to(kind))
    except Exception as error:  # whatever their forward raises
        return "" if trial.words else f"its own forward in {kind} raises {type(error).__name__}: {error}"
    if not isinstance(y, Tensor) or y.shape != x.shape or y.dtype != kind:
        found = f"{tuple(y.shape)} of {y.dtype}" if isinstance(y, Tensor) else type(y).__name__
        return f"its own forward in {kind} gives {found}, ours {tuple(x.shape)} of {kind}"
    return _first_difference(f"in {kind} y", y.detach().double(), ours[few], magnitudes, _ROUNDED)
