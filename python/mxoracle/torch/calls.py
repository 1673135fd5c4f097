"""Layers and functions of torch that are products, held by what they took and gave: whatever ran."""
from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.utils._pytree import tree_leaves, tree_map_only

from mxoracle.torch import attention
from mxoracle.torch.gradients import is_of_torch, own_gradient
from mxoracle.torch.graphs import unwatched
from mxoracle.torch.operands import overwritten, same
from mxoracle.torch.products import FLOATS, Judged, Product
from mxoracle.torch.rules import COMPOSED, PRODUCTS, addmm, bmm, mm

aten = torch.ops.aten


def linear(actual: Tensor, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Product | None:
    """y = x w^T + bias, as torch.nn.functional.linear has it."""
    if weight.dim() == 1:
        actual, weight = actual[..., None], weight[None]
    x, y = input.reshape(-1, input.shape[-1]), actual.reshape(-1, weight.shape[0])
    return mm(y, x, weight.t()) if bias is None else addmm(y, bias, x, weight.t())


def matmul(actual: Tensor, input: Tensor, other: Tensor) -> Product | None:
    """Every form of torch.matmul, as a product of batches."""
    a = input[None] if input.dim() == 1 else input
    b = other[:, None] if other.dim() == 1 else other
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (side.expand(*batch, *side.shape[-2:]).reshape(-1, *side.shape[-2:]) for side in (a, b))
    return bmm(actual.reshape(len(a), a.shape[1], b.shape[2]), a, b)


def dot_product_attention(actual: Tensor, query: Tensor, key: Tensor, value: Tensor,
                          attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                          is_causal: bool = False, scale: float | None = None,
                          enable_gqa: bool = False) -> Judged | None:  # fmt: skip
    q, k, v, y = (side[None] if side.dim() == 3 else side for side in (query, key, value, actual))
    return attention.flash((y,), q, k, v, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)


# What torch computes by other operators, where somebody gave it a kernel of its own.
WHOLE = {aten.linear.default: linear, aten.matmul.default: matmul,
         aten.scaled_dot_product_attention.default: dot_product_attention}  # fmt: skip
# Functions that are products, and the rule by which one that was replaced is held; None: it has none.
_FUNCTIONS: list[tuple[Any, Sequence[str], Callable | None]] = [
    (F, ("linear",), linear),
    (F, ("scaled_dot_product_attention",), dot_product_attention),
    (torch._C._nn, ("linear",), linear),
    (torch._C._nn, ("scaled_dot_product_attention",), dot_product_attention),
    (torch, ("matmul", "mm", "bmm", "mv", "dot"), matmul),
    (torch.linalg, ("matmul",), matmul),
    (Tensor, ("matmul", "__matmul__", "mm", "bmm", "mv", "dot"), matmul),
    (Tensor, ("__rmatmul__", "addmm", "baddbmm"), None),
    (torch.linalg, ("multi_dot", "vecdot"), None),
    (torch, ("addmm", "baddbmm", "addmv", "addbmm", "einsum", "tensordot", "inner", "chain_matmul", "bilinear",
             "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
             "_grouped_mm", "_scaled_mm", "_scaled_grouped_mm"), None),
    (F, ("bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
         "multi_head_attention_forward", "grouped_mm", "scaled_mm", "scaled_grouped_mm"), None),
]  # fmt: skip


def _replaceable() -> Iterator[tuple[Any, str, Callable | None]]:
    for home, names, rule in _FUNCTIONS:
        yield from ((home, name, rule) for name in names if hasattr(home, name))


def _is_torchs(function: Any) -> bool:
    """True of what torch, or this package, defines, and not of a function under a decorator of torch's."""
    inside = getattr(function, "__wrapped__", None)
    if inside is not None and not _is_torchs(inside):
        return False
    code = getattr(function, "__code__", None)
    if code is not None:
        return is_of_torch(code.co_filename)
    if isinstance(function, types.BuiltinFunctionType):
        return (function.__module__ or "").partition(".")[0] == "torch"
    return getattr(function, "__objclass__", None) is torch._C.TensorBase


def _named(function: Any) -> str:
    home = getattr(function, "__module__", None) or type(function).__module__
    return f"{home}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _replaced_kernels() -> list[str]:
    """Products of torch whose call somebody catches before a judge can see it: a kernel for
    gradients, for autocast, or instead of their parts."""
    found = []
    for name in sorted({*PRODUCTS, *COMPOSED}):
        packet = getattr(aten, name, None)
        for overload in [] if packet is None else packet.overloads():
            full = name if overload == "default" else f"{name}.{overload}"
            if not torch._C._dispatch_has_kernel(f"aten::{full}"):
                continue
            keys = {key for key in ("AutogradCPU", "AutogradCUDA")
                    if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{full}", key)}  # fmt: skip
            keys |= {key for key in ("Autograd", "CompositeImplicitAutograd", "AutocastCPU", "AutocastCUDA")
                     if f"aten/{full}/{key}" in torch.library._impls}  # fmt: skip
            found += [f"aten::{full} for {key}" for key in sorted(keys)]
    return found


def _plain(tensor: Any) -> bool:
    """True of a tensor whose bytes can be read here."""
    return (type(tensor) in (Tensor, nn.Parameter) and not tensor.is_meta and not tensor.is_nested
            and tensor.layout == torch.strided
            and not torch._C._functorch.is_functorch_wrapped_tensor(tensor))  # fmt: skip


def _same_factors(one: Product, other: Product) -> bool:
    """True where both multiply the same; `one` in several batches, perhaps, of one matrix."""
    sides = [product.inputs[name] for product in (one, other) for name in ("x", "w")]
    if not all(isinstance(side, Tensor) for side in sides):
        return False
    w, whole = sides[1], sides[3]
    if len(whole) == 1 and w.shape[1:] == whole.shape[1:]:
        whole = whole.expand_as(w)
    elif not same(one.inputs["group_ends"], other.inputs["group_ends"]):
        return False
    return same(sides[0], sides[2]) and same(w, whole)


def _was_seen(product: Product, operands: Sequence[Tensor], seen: list[Product]) -> bool:
    """True if one of the products that came by in a call is this one; torch adds a bias behind some."""
    bare = linear(product.actual, *operands[:2]) if product.biased else None
    for each in seen:
        if each.output != "y":
            continue
        if _same_factors(each, product) and same(each.actual, product.actual):
            return True
        if bare is not None and _same_factors(each, bare):
            if same((each.actual + operands[2]).reshape(product.actual.shape), product.actual):
                return True
    return False


def _kind_expected(operands: Sequence[Tensor]) -> torch.dtype:
    """The type of a product's result, autocast included."""
    device = operands[0].device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        if all(side.dtype in FLOATS for side in operands):
            return torch.get_autocast_dtype(device)
    return functools.reduce(torch.promote_types, (side.dtype for side in operands))


def _is_linear(module: nn.Module) -> bool:
    """True of an nn.Linear whose class leaves forward to it, whatever forward has become."""
    home = next(kind for kind in type(module).__mro__ if "forward" in vars(kind))
    return home is nn.Linear


def _weights(module: nn.Module) -> list[Tensor] | None:
    """None where a weight is made for each call, which reading may change (a parametrisation)."""
    held = {**vars(module), **module._parameters}
    if held.get("weight") is None or "bias" not in held:
        return None
    return [held[name] for name in ("weight", "bias") if held[name] is not None]


class _Call(NamedTuple):
    operator: str
    place: tuple[str, int]
    by: str  # who computes it, if that is not torch
    copies: dict[int, tuple[Tensor, Tensor]]  # operands and what they held, by identity
    seen: list[Product]


class Calls:
    """Every call of nn.Linear, and of a function in `_FUNCTIONS` that was replaced, is held to its rule.

    place(operator): where this call is, None if it is not one to look at; seen(operator, place,
    product): to be judged; missed(operator, place, why): cannot be; wrong(operator, place, why)."""

    def __init__(self, place: Callable, seen: Callable, missed: Callable, wrong: Callable) -> None:
        self._place, self._seen, self._missed, self._wrong = place, seen, missed, wrong
        self._layers: list[tuple[nn.Module, _Call | None]] = []
        self._open: list[_Call] = []
        self._wrapped: dict[tuple[int, str], Any] = {}
        self._told: set[tuple[int, str]] = set()

    def note(self, product: Any) -> None:
        """A product that came by, and is judged."""
        if self._open and isinstance(product, Product):
            kept = replace(product, actual=product.actual.clone())  # torch adds a bias in place
            for call in self._open:
                call.seen.append(kept)

    @contextlib.contextmanager
    def _changes_seen(self) -> Iterator[None]:
        """Modules of torch tell of each function that is put into them, also of one taken out again."""
        inside, undo = [True], []
        for home in {id(home): home for home, _, _ in _FUNCTIONS if isinstance(home, types.ModuleType)}.values():
            kind = type(home)

            def told(module: Any, name: str, value: Any, kind: Any = kind) -> None:
                kind.__setattr__(module, name, value)
                if inside:
                    self.look()

            home.__class__ = type(kind.__name__, (kind,), {"__setattr__": told})
            undo.append((home, kind, type(home)))
        try:
            yield
        finally:
            inside.clear()
            for home, kind, watched in undo:
                if type(home) is watched:
                    home.__class__ = kind

    @contextlib.contextmanager
    def functions(self) -> Iterator[None]:
        undo = []
        for kernel in _replaced_kernels():
            self._missed(kernel, ("", 0), "its kernel is replaced: what that computes is not seen")
        for home, name, rule in _replaceable():
            theirs = getattr(home, name)
            if not _is_torchs(theirs):
                ours = self._around(f"{home.__name__}.{name}", theirs, rule)
                setattr(home, name, ours)
                self._wrapped[id(home), name] = ours
                undo.append((home, name, theirs, ours))
        try:
            with self._changes_seen():
                yield
        finally:
            self.look()
            for home, name, theirs, ours in undo:
                if getattr(home, name) is ours:
                    setattr(home, name, theirs)
            self._wrapped.clear()
            self._told.clear()

    def look(self) -> None:
        """Tells of functions that were replaced since."""
        for home, name, _ in _replaceable():
            now, key = getattr(home, name), (id(home), name)
            if key not in self._told and now is not self._wrapped.get(key) and not _is_torchs(now):
                self._told.add(key)
                self._missed(f"{home.__name__}.{name}", ("", 0), f"replaced inside of the judge by {_named(now)}")

    def _around(self, name: str, theirs: Callable, rule: Callable | None) -> Callable:
        by = _named(theirs)

        @functools.wraps(theirs, assigned=("__name__", "__doc__"), updated=())
        def watched(*args: Any, **kwargs: Any) -> Any:
            call = self._begun(name, by, (args, kwargs)) if self._wrapped else None
            try:
                result = theirs(*args, **kwargs)
            finally:
                self._ended(call)
            if call is not None:
                self._hold(call, rule, result, args, kwargs)
            return result

        return watched

    @contextlib.contextmanager
    def layers_left(self) -> Iterator[None]:
        with hooks.register_module_forward_hook(self._left, with_kwargs=True, always_call=True):
            yield
        self._layers.clear()
        self._open.clear()

    @contextlib.contextmanager
    def layers_entered(self) -> Iterator[None]:
        with hooks.register_module_forward_pre_hook(self._entered):
            yield

    def _entered(self, module: nn.Module, args: Any) -> None:
        self.look()
        if isinstance(module, nn.Linear) and not torch.compiler.is_compiling():
            by = "" if _is_torchs(module.forward) else _named(module.forward)
            # Hooks of the module, which are still to come, may write into what it takes.
            held = (args, _weights(module)) if _is_linear(module) and not module._forward_pre_hooks else ()
            self._layers.append((module, self._begun("nn.Linear", by, held)))

    def _left(self, module: nn.Module, args: Any, kwargs: Any, result: Any = None) -> None:
        if not self._layers or self._layers[-1][0] is not module:
            return
        _, call = self._layers.pop()
        self._ended(call)
        if call is None or result is None:  # nothing came of it: it threw
            return
        if not _is_linear(module):  # what it should give is its own affair, but products it has
            if not call.seen and not _is_torchs(module.forward):
                self._missed("nn.Linear", call.place, f"computed by {call.by}, which called no product")
            return
        weights = _weights(module)
        if weights is not None:
            self._hold(call, linear, result, (*args, *kwargs.values(), *weights), {})
        elif call.by:
            self._missed("nn.Linear", call.place, f"computed by {call.by}, of a weight made for each call")

    def _begun(self, operator: str, by: str, operands: Any) -> _Call | None:
        place = self._place(operator)
        if place is None:
            return None
        with unwatched(), torch.no_grad():
            copies = {id(each): (each, each.detach().clone()) for each in tree_leaves(operands) if _plain(each)}
        self._open.append(_Call(operator, place, by, copies, []))
        return self._open[-1]

    def _ended(self, call: _Call | None) -> None:
        if call is not None and call in self._open:
            self._open.remove(call)

    def _hold(self, call: _Call, rule: Callable | None, result: Any, args: tuple, kwargs: dict) -> None:
        """Holds what a call gave to what its operands were."""
        by = f"computed by {call.by}" if call.by else ""
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not all(_plain(leaf) for leaf in [result, *given]):
            if by:
                self._missed(call.operator, call.place, f"{by}, of tensors that cannot be read")
            return
        if rule is None:
            self._missed(call.operator, call.place, f"{by}: no rule for it as a whole")
            return
        with unwatched(), torch.no_grad():
            now, then = ({str(key): pair[at] for key, pair in call.copies.items()} for at in (0, 1))
            if overwritten(then, now, kwargs.get("out")):
                self._wrong(call.operator, call.place, f"wrote over what it was given; {by}".rstrip("; "))
            self._compare(call, by, rule, result, given, args, kwargs)
        own = own_gradient(result, given)
        if own:
            self._missed(call.operator, call.place, f"its gradient is {own}: what that computes is not seen")

    def _compare(self, call, by, rule, result, given, args, kwargs) -> None:
        kind = _kind_expected(given[:2])

        def then(tensor: Tensor) -> Tensor:
            held = call.copies.get(id(tensor), (tensor, tensor))[1].detach().cpu()
            return held.to(kind) if held.is_floating_point() else held

        torchs = not (call.by or self._wrapped or self._told)
        if torchs and result.dtype in {each.actual.dtype for each in call.seen}:  # autocast, around forward alone
            kind = result.dtype
        if result.dtype != kind:
            self._wrong(call.operator, call.place, f"gave {result.dtype}, needs {kind}; {by}".rstrip("; "))
            return
        args, kwargs = tree_map_only(Tensor, then, (args, kwargs))
        try:
            product = rule(result.detach().cpu(), *args, **kwargs)
        except TypeError as error:
            self._missed(call.operator, call.place, f"{by}: {error}")
            return
        except RuntimeError as error:  # shapes that do not fit together
            self._wrong(call.operator, call.place, f"{str(error).splitlines()[0]}; {by}".rstrip("; "))
            return
        if isinstance(product, Product):
            if _was_seen(product, args, call.seen):
                return
            product = replace(product, device=result.device)
        if product is not None or by:
            self._seen(call.operator, call.place, product)
