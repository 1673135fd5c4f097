"""Whether the expert layer that takes a module's place computes what the module computes."""
from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from mxoracle.torch.experts import GroupedReplaced, Layout, expert_layer

# A row of the probe is of one magnitude: below and far above where activations are clamped.
_MAGNITUDES = (2.0**-6, 0.25, 1.0, 8.0, 2.0**8, 2.0**16)
_ROWS = 4  # of each magnitude
_NEAR = 2.0**-13  # of the largest of a row: a forward may work in f32 within, not in bf16
_ROUNDED = 2.0**-3  # the same of a forward in the module's own type
_STEP = 97  # elements from the weights of one expert to those of the next: they overlap


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
    """The module with parameters of our own, which are the same in every type but for rounding."""
    torch.manual_seed(0)
    twin = copy.copy(theirs)
    twin._parameters = {
        name: None if parameter is None else nn.Parameter(_numbers(parameter, kind), requires_grad=False)
        for name, parameter in theirs._parameters.items()
    }
    twin._buffers = {
        name: buffer.to(kind) if buffer is not None and buffer.is_floating_point() else buffer
        for name, buffer in theirs._buffers.items()
    }
    twin._modules = {
        name: None if child is None else copy.deepcopy(child).to(kind)
        for name, child in theirs._modules.items()
    }
    return twin.train(training)


def _product(x: Tensor, w: Tensor, ends: Tensor, bias: Tensor | None) -> Tensor:
    """In the type of x."""
    y = x.new_zeros((x.shape[0], w.shape[1]))
    start = 0
    for expert, end in enumerate(ends.tolist()):
        if end > start:
            y[start:end] = x[start:end] @ w[expert].t() + (0 if bias is None else bias[expert])
        start = end
    return y


def _gradients(y: Tensor, inputs: list[Tensor], dy: Tensor) -> list[Tensor]:
    if not y.requires_grad:
        return []
    found = torch.autograd.grad(y, inputs, dy, allow_unused=True)
    return [torch.zeros_like(x) if dx is None else dx for x, dx in zip(inputs, found)]


def _first_difference(name: str, theirs: Tensor, ours: Tensor, magnitudes: Tensor,
                      near: float = _NEAR) -> str:  # fmt: skip
    reach = torch.maximum(theirs.abs().nan_to_num(), ours.abs().nan_to_num()).amax(-1, keepdim=True)
    same = (theirs - ours).abs() <= near * reach
    same |= (theirs == ours) | (theirs.isnan() & ours.isnan())
    if bool(same.all()):
        return ""
    row, column = torch.nonzero(~same)[0].tolist()
    return (f"{name}[{row}, {column}] is {float(theirs[row, column]):.6g} by its own forward and "
            f"{float(ours[row, column]):.6g} by ours, for x of magnitude {float(magnitudes[row]):g}")


def difference(theirs: nn.Module, layout: Layout) -> str:
    """The first number at which a module's own forward and ours part, while it is trained and not: in
    doubles results and gradients, in its own type results; empty where they agree."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        found = (_difference(theirs, layout, mode) for mode in (theirs.training, not theirs.training))
        return next(filter(None, found), "")


def _difference(theirs: nn.Module, layout: Layout, training: bool) -> str:
    twin = _twin(theirs, torch.float64, training)
    down = getattr(twin, layout.down)
    experts, first = down.shape[0], getattr(twin, layout.first[0])
    device = down.device
    magnitudes = torch.tensor(_MAGNITUDES, dtype=torch.float64).repeat_interleave(_ROWS)
    rows = len(magnitudes)
    x = torch.randn(rows, first.shape[1 if layout.transposed else 2], dtype=torch.float64)
    x = (x * magnitudes[:, None]).to(device).requires_grad_()
    top_k = min(2, experts)
    index = torch.stack([torch.randperm(experts)[:top_k] for _ in range(rows)]).to(device)
    weights = torch.rand(rows, top_k, dtype=torch.float64).to(device).requires_grad_()
    dy = torch.randn(rows, x.shape[1], dtype=torch.float64).to(device)
    try:
        ours = expert_layer(twin, layout, _product, x, index, weights)
    except RuntimeError as error:
        return f"its parameters do not fit: {error}"
    try:
        with GroupedReplaced(_product):  # of doubles torch has none
            y = twin(x.clone(), index.clone(), weights.clone())
    except Exception as error:  # whatever their forward raises
        words = f"{type(error).__name__}: {error}"
        return f"its own forward of x, experts and weights raises {words}"
    if not isinstance(y, Tensor) or y.shape != ours.shape:
        found = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        return f"its own forward gives {found}, ours {tuple(ours.shape)}"
    pairs = [("y", y, ours)]
    mine = _gradients(ours, [x, weights], dy)
    if y.requires_grad:
        pairs += list(zip(("dx", "dweights"), _gradients(y, [x, weights], dy), mine))
    for name, have, want in pairs:
        part = _first_difference(name, have.detach().double(), want.detach(), magnitudes)
        if part:
            return part
    return _difference_rounded(theirs, layout, training, (x, index, weights), ours, magnitudes)


def _difference_rounded(theirs: nn.Module, layout: Layout, training: bool, inputs: tuple, ours: Tensor,
                        magnitudes: Tensor) -> str:  # fmt: skip
    """Of rows as large as activations are, in the module's own type."""
    kind = getattr(theirs, layout.down).dtype
    few = magnitudes <= 8.0
    x, index, weights = (each.detach()[few.to(each.device)] for each in inputs)
    twin = _twin(theirs, kind, training)
    try:
        with torch.no_grad(), GroupedReplaced(_product):
            y = twin(x.to(kind), index.clone(), weights.to(kind))
    except Exception as error:  # whatever their forward raises
        return f"its own forward in {kind} raises {type(error).__name__}: {error}"
    if not isinstance(y, Tensor) or y.shape != x.shape:
        return f"its own forward in {kind} gives something else"
    return _first_difference(f"in {kind} y", y.double(), ours.detach()[few.to(ours.device)],
                             magnitudes[few], _ROUNDED)  # fmt: skip
