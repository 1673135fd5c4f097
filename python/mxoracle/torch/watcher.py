"""Sees every product of a running model."""
from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.module_tracker import ModuleTracker

from mxoracle.torch import machines
from mxoracle.torch.products import RULES, Judged, Product

# Nothing is computed by these, or nothing but what was there before.
_MOVES = (
    "detach", "alias", "empty", "empty_like", "empty_strided", "new_empty", "clone", "_to_copy",
    "copy_", "zeros", "ones", "zeros_like", "ones_like", "fill_", "zero_",
)  # fmt: skip


class Watcher(TorchDispatchMode):
    """Sees every product that runs inside of it, and the module that calls it."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self._calls: Counter[tuple[str, str]] = Counter()
        self._modules = ModuleTracker()

    def __enter__(self):
        self._compiled = _compiled_code_counted(self)
        self._compiled.__enter__()
        self._modules.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._modules.__exit__(*error)
        self._compiled.__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        names = {kind.__name__ for kind in types}
        kwargs = kwargs or {}
        if "FakeTensor" in names:
            return func(*args, **kwargs)  # shapes only: nothing is computed
        if "DTensor" in names:
            return NotImplemented  # its local products come by on their own
        out = func(*args, **kwargs)
        rule = RULES.get(func)
        if rule is not None:
            self._product(str(func.name()), rule, out, args, kwargs)
        elif not func.is_view and func.overloadpacket.__name__ not in _MOVES:
            self._no_rule(str(func.name()))
        return out

    def _place(self, operator: str) -> tuple[str, int] | None:
        """The module and the number of this call; None if this one is not to be looked at."""
        parents = [name for name in self._modules.parents if name != "Global"]
        module = max(parents, key=len, default="")
        if self._modules.is_bw:
            module += " backward"
        call = self._calls[operator, module]
        self._calls[operator, module] += 1
        return (module.strip(), call) if call % self.every == 0 else None

    def _product(
        self, operator: str, rule: Callable, out: Any, args: tuple, kwargs: dict
    ) -> None:
        place = self._place(operator)
        if place is None:
            return
        device = machines.device_of(tree_leaves((args, kwargs)))
        args, kwargs, out = tree_map_only(
            Tensor, lambda tensor: tensor.detach().cpu(), (args, kwargs, out)
        )
        found = rule(out, *args, **kwargs)
        for product in found if isinstance(found, list) else [found]:
            if isinstance(product, Product):
                product = replace(product, device=device)
            name = f"{operator} {product.output}" if isinstance(found, list) else operator
            self._seen(name, place, product)

    def _no_rule(self, operator: str) -> None:
        """An operator that computes and is no product that we know."""

    def _unseen(self, what: str) -> None:
        """Something ran, or would run outside of the watcher, that does not come by."""

    def _seen(self, operator: str, place: tuple[str, int], product: Judged | None) -> None:
        """One product on the host; None where the rule does not know its arguments."""
        raise NotImplementedError


def _counting(watcher: Watcher, what: str, theirs: Callable, matters: Callable) -> Callable:
    def counted(*args: Any, **kwargs: Any) -> Any:
        if matters(args[0]):
            watcher._unseen(what)
        return theirs(*args, **kwargs)

    return counted


@contextlib.contextmanager
def _compiled_code_counted(watcher: Watcher) -> Iterator[None]:
    """Calls of functions under torch.compile, which torch runs eagerly where operators are watched,
    and of graphs that were compiled before, as a backward pass may be."""
    hooks = []
    frames = sys.modules.get("torch._dynamo.eval_frame")
    if hasattr(frames, "_callback_from_stance"):
        what = "compiled code, run eagerly instead"
        hooks.append((frames, "_callback_from_stance", what, callable))
    graphs = sys.modules.get("torch._inductor.output_code")
    if graphs is not None:
        what = "a compiled graph, its fused operators not seen"
        hooks.append((graphs.CompiledFxGraph, "__call__", what, lambda graph: True))
    before = [(home, name, getattr(home, name)) for home, name, _, _ in hooks]
    for home, name, what, matters in hooks:
        setattr(home, name, _counting(watcher, what, getattr(home, name), matters))
    try:
        yield
    finally:
        for home, name, theirs in before:
            setattr(home, name, theirs)
