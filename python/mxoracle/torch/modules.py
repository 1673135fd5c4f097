"""Which module of a model runs; in a backward pass, whose gradient it is."""
from __future__ import annotations

import bisect
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks

_KEPT = 1 << 20  # module calls whose gradients can still be distinguished
_UNNUMBERED = 1 << 63  # the number of a node that accumulates a gradient, or a larger one


def _next_number() -> int:
    """The sequence number that this thread's next autograd node gets."""
    return torch._C._autograd._get_sequence_nr()


def in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


class Modules:
    """Names of modules, as paths from the first module that is called: "Model.layers.0.mlp".

    Autograd numbers its nodes as a forward pass makes them, so the numbers between the entry of a
    module and its end are of that module: a node that runs in a backward pass is found by its
    number.  Nodes that were made before `__enter__`, or in another thread, have no name.
    """

    def __init__(self, elsewhere: Callable[[str], None] = lambda name: None) -> None:
        self._tell = elsewhere  # of a module that another thread runs
        self._told: set[str] = set()
        self._home = 0
        self._names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._running: list[str] = []
        self._starts: list[int] = []  # numbers of nodes, ascending
        self._owners: list[str] = []  # of the nodes from that number on
        self._thread = 0
        self._recomputing = 0  # modules that a backward pass is calling again, as checkpoints do
        self._elsewhere = -1  # the backward pass that did so in a thread with numbers of its own
        self._handles: list[Any] = []

    def __enter__(self) -> Modules:
        self._handles = [
            hooks.register_module_forward_pre_hook(self._entered),
            hooks.register_module_forward_hook(self._left, always_call=True),
        ]
        self._home = threading.get_ident()
        self._mark()
        return self

    def __exit__(self, *error: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self._running.clear()
        self._mark()

    def _name(self, module: nn.Module) -> str:
        if module not in self._names:
            root = type(module).__name__
            for path, child in module.named_modules():
                name = self._names.setdefault(child, f"{root}.{path}" if path else root)
                stands_for = getattr(child, "theirs", None)  # that a converted module calls
                if isinstance(stands_for, nn.Module):
                    self._names.setdefault(stands_for, name)
        return self._names[module]

    def is_elsewhere(self) -> bool:
        """True in a thread that a forward pass started: torch shows us nothing of it."""
        return threading.get_ident() != self._home and not in_backward()

    def _entered(self, module: nn.Module, args: Any) -> None:
        if self.is_elsewhere():
            name = self._name(module)
            if name not in self._told:
                self._told.add(name)
                self._tell(name)
            return
        self._running.append(self._name(module))
        self._recomputing += in_backward()
        self._mark()

    def _left(self, module: nn.Module, args: Any, output: Any) -> None:
        if self.is_elsewhere():
            return
        if self._running:
            self._running.pop()
        self._recomputing = max(0, self._recomputing - in_backward())
        self._mark()

    def _mark(self) -> None:
        """Nodes from here on are of the module that runs now."""
        owner = self._running[-1] if self._running else ""
        if in_backward() and threading.get_ident() != self._thread:
            self._elsewhere = torch._C._current_graph_task_id()
            return
        self._elsewhere = -1
        number = _next_number()
        if threading.get_ident() != self._thread or (self._starts and number < self._starts[-1]):
            self._thread = threading.get_ident()
            self._starts.clear()
            self._owners.clear()
        if self._starts and self._starts[-1] == number:
            self._owners[-1] = owner  # no node since
            return
        self._starts.append(number)
        self._owners.append(owner)
        if len(self._starts) > _KEPT:
            del self._starts[: _KEPT // 2], self._owners[: _KEPT // 2]

    def current(self) -> str:
        """The innermost module that runs, with "backward" behind it where it is its gradient."""
        node = torch._C._current_autograd_node() if in_backward() else None
        if node is None or self._recomputing:
            return self._running[-1] if self._running else ""
        number = node._sequence_nr()
        at = bisect.bisect_right(self._starts, number) - 1
        inner = self._elsewhere not in (-1, torch._C._current_graph_task_id())
        known = at >= 0 and number < _UNNUMBERED and not inner
        return f"{self._owners[at] if known else ''} backward".strip()
