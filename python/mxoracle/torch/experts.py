"""Expert layers on the library, in the place of a model's own."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mxoracle import _checks
from mxoracle._errors import Error, Unsupported
from mxoracle.torch import arguments, main_grads, shards
from mxoracle.torch.linear import right
from mxoracle.torch.recipes import recipe_named

# product(x [S, K], w [E, N, K], ends [E], bias [E, N] or None) gives [S, N]
ProductOf = Callable[[Tensor, Tensor, Tensor, "Tensor | None"], Tensor]


@dataclass(frozen=True)
class Layout:
    """Where a module keeps its experts, by names of its parameters, and what is between their two
    products."""

    first: tuple[str, ...]  # gate_up; gate and up; or up alone
    first_bias: tuple[str, ...]  # as many, or none
    down: str
    down_bias: str | None
    transposed: bool  # weights are [E, K, N]
    activation: Callable[[nn.Module, Tensor], Tensor]  # of the module and the first product

    def names(self) -> list[str]:
        """Of all parameters."""
        return [*self.first, self.down, *self.first_bias, *([self.down_bias] if self.down_bias else [])]


def expert_layer(theirs: nn.Module, layout: Layout, product: ProductOf, hidden_states: Tensor,
                 top_k_index: Tensor, top_k_weights: Tensor,
                 part: Callable[[str], Tensor] | None = None) -> Tensor:  # fmt: skip
    """y[t] = sum over j of weights[t, j] down[e] activation(first[e] x[t]), e = experts[t, j].
    part: a parameter by its name, where that is not the module's own."""

    def own(name: str) -> Tensor:
        return getattr(theirs, name) if part is None else part(name)

    def weight(name: str) -> Tensor:
        stored = own(name)
        return stored.transpose(-2, -1) if layout.transposed else stored

    tokens, top_k = top_k_index.shape
    down = weight(layout.down)
    chosen = top_k_index.reshape(-1)
    experts, order = torch.sort(chosen.where(chosen >= 0, down.shape[0]), stable=True)
    numbers = torch.arange(down.shape[0], device=experts.device, dtype=experts.dtype)
    ends = right(torch.searchsorted(experts, numbers, right=True).to(torch.int32), len(order))
    x = hidden_states[order // top_k]
    biases = [own(name) for name in layout.first_bias] or [None] * len(layout.first)
    parts = [product(x, weight(name), ends, bias) for name, bias in zip(layout.first, biases)]
    inner = layout.activation(theirs, torch.cat(parts, -1) if len(parts) > 1 else parts[0])
    bias = own(layout.down_bias) if layout.down_bias else None
    y = product(inner, down, ends, bias)
    y = y * top_k_weights.reshape(-1)[order].unsqueeze(-1)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.numel(), device=order.device)
    y = y[back].view(tokens, top_k, y.shape[-1]).sum(dim=1)
    return y.to(hidden_states.dtype)


# Where a module keeps its hooks: of its calls, and of its state.
CALL_HOOKS = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
              "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_backward_hooks",
              "_backward_pre_hooks")  # fmt: skip
_STATE_HOOKS = ("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
                "_load_state_dict_post_hooks")  # fmt: skip


def take_hooks(ours: nn.Module, other: nn.Module) -> None:
    """The hooks of calls of another module, which ours takes the place of."""
    for name in CALL_HOOKS:
        setattr(ours, name, getattr(other, name))
    ours._is_full_backward_hook = other._is_full_backward_hook


class _Converted(nn.Module):
    """Stands for `theirs`, whose parameters, buffers and children are its own."""

    def __init__(self, theirs: nn.Module, recipe: str, format: str, sum: str) -> None:
        _checked(theirs, recipe, format, sum)
        recipe_named(recipe)
        super().__init__()
        self._parameters = theirs._parameters
        self._buffers = theirs._buffers
        self._modules = theirs._modules
        self._non_persistent_buffers_set = theirs._non_persistent_buffers_set
        for name in _STATE_HOOKS:
            setattr(self, name, getattr(theirs, name))
        self._theirs = (theirs,)  # not a child
        self.recipe = recipe
        self.format = format
        self.sum = sum
        self.training = theirs.training

    @property
    def theirs(self) -> nn.Module:
        """The module that this one stands for."""
        return self._theirs[0]

    def train(self, mode: bool = True) -> nn.Module:
        self.theirs.training = mode
        return super().train(mode)

    def _linear(self, x: Tensor, w: Tensor, ends: Tensor, bias: Tensor | None) -> Tensor:
        def linear(x, w, ends, bias):
            return main_grads.product(x, w, ends, bias, (self.recipe, self.format, self.sum))

        if shards.is_cut(x, w):
            return shards.product(linear, x, w, ends, bias)
        return linear(x, w, ends, bias)

    def _words(self) -> str:
        return f"recipe={self.recipe}, format={self.format}, sum={self.sum}"


_checked = arguments.kinds(_Converted)


def _fit(x: Tensor, index: Tensor, weights: Tensor) -> None:
    if x.dim() != 2:
        raise Error(f"Experts: hidden_states: found {list(x.shape)}, needs [T, D]", "shape")
    if index.dtype.is_floating_point or index.dtype in (torch.bool, torch.complex64, torch.complex128):
        raise Error(f"Experts: top_k_index: found {index.dtype}, needs whole numbers", "dtype")
    if index.dim() != 2 or index.shape[0] != x.shape[0]:
        raise Error(f"Experts: top_k_index: found {list(index.shape)}, needs [{x.shape[0]}, k]", "shape")
    if weights.shape != index.shape:
        raise Error(f"Experts: top_k_weights: found {list(weights.shape)}, needs {list(index.shape)}", "shape")


class Experts(_Converted):
    """Experts whose products are `grouped_linear` in a recipe (`expert_layer`).

    hidden_states [T, D]; top_k_index [T, k], of which a number below 0 or from the number of experts
    on is no expert here and adds zero; top_k_weights [T, k]; bf16, f16 or f32.  The parameters are those
    of the module that it stands for, under their names.
    """

    def __init__(self, theirs: nn.Module, layout: Layout, recipe: str, format: str, sum: str) -> None:
        if not isinstance(layout, Layout):
            raise _checks.refusal("Experts: layout", layout, "a Layout; mxoracle.torch.convert makes one")
        super().__init__(theirs, recipe, format, sum)
        take_hooks(self, theirs)  # whose forward is not called again
        self.layout = layout
        self.num_experts = getattr(theirs, layout.down).shape[0]

    def extra_repr(self) -> str:
        return f"{self.num_experts} experts, {self._words()}"

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        _fit(hidden_states, top_k_index, top_k_weights)

        def layer(part, x, chosen, weights):
            return expert_layer(self.theirs, self.layout, self._linear, x, chosen, weights, part)

        def own(name):
            return getattr(self.theirs, name)

        if shards.is_cut(own(self.layout.down)):
            return shards.experts(own, self.layout.names(), layer, hidden_states, top_k_index, top_k_weights)
        return layer(own, hidden_states, top_k_index, top_k_weights)


GROUPED = tuple(
    getattr(home, name)
    for home in (torch, torch.nn.functional, torch.ops.aten)
    for name in ("_grouped_mm", "grouped_mm")
    if hasattr(home, name)
)


class GroupedReplaced(TorchFunctionMode):
    """Inside of it `product` stands for torch._grouped_mm of rows and of experts [E, K, N]."""

    def __init__(self, product: ProductOf) -> None:
        super().__init__()
        self.product = product
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in GROUPED and getattr(func, "overloadpacket", None) not in GROUPED:
            return func(*args, **kwargs)
        self.calls += 1
        return self._of(*args, **kwargs)

    def _of(self, x: Tensor, w: Tensor, offs: Tensor | None = None, bias: Tensor | None = None,
            out_dtype: torch.dtype | None = None) -> Tensor:  # fmt: skip
        if x.dim() != 2 or w.dim() != 3 or offs is None or out_dtype not in (None, x.dtype):
            raise Unsupported(f"_grouped_mm: found {tuple(x.shape)} by {tuple(w.shape)}, needs rows "
                              "by [E, K, N] with offs, and no other out_dtype")  # fmt: skip
        return self.product(x, w.transpose(-2, -1), offs, bias)


class GroupedProducts(_Converted):
    """A module whose forward is its own but for `torch._grouped_mm` of rows and of experts
    [E, K, N], which is `grouped_linear` in a recipe."""

    def extra_repr(self) -> str:
        return f"{type(self.theirs).__name__}, {self._words()}"

    def __getattr__(self, name: str) -> Any:
        """What callers ask of the module that it stands for, such as `num_experts`."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_theirs" not in self.__dict__:  # not made yet
                raise
            return getattr(self.theirs, name)

    @torch.compiler.disable(reason="torch.compile passes by a mode that is entered in what it traces")
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with GroupedReplaced(self._linear) as replaced:
            out = self.theirs(*args, **kwargs)
        if not replaced.calls:
            raise Error(f"{type(self.theirs).__name__}: its forward called no torch._grouped_mm, "
                        "needs one to be converted")  # fmt: skip
        return out


def grouped_names(theirs: nn.Module, names: Mapping[str, str] | None) -> dict[str, str]:
    """By what name each part of the experts is a parameter of `theirs`: those of transformers, or
    `names`; empty if it has not both products."""
    usual = {key: f"{key}_proj" for key in ("gate_up", "gate", "up", "down")}
    usual |= {f"{key}_bias": f"{name}_bias" for key, name in usual.items()}
    unknown = set(names or {}) - set(usual)
    if unknown:
        raise Error(f"convert: names: found '{min(unknown)}', needs some of {', '.join(usual)}")
    wanted = names or usual
    found = {key: name for key, name in wanted.items() if name in theirs._parameters}
    found = {key: name for key, name in found.items() if theirs._parameters[name] is not None}
    whole = "down" in found and ("gate_up" in found or "up" in found)
    if not whole or (names and len(found) < len(names)):
        return {}
    if "gate_up" in found:
        found = {key: name for key, name in found.items() if key in _TOGETHER}
    weights = [name for key, name in found.items() if not key.endswith("bias")]
    return found if all(theirs._parameters[name].dim() == 3 for name in weights) else {}


_TOGETHER = ("gate_up", "gate_up_bias", "down", "down_bias")
