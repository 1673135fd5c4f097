"""Gradients that are not torch's: nodes of a graph whose backward somebody wrote."""
from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

_MOST_NODES = 100  # of a graph between a result and its operands
_NODES = frozenset(kind for kind in vars(torch._C._functions).values() if isinstance(kind, type))
_OURS = tuple(os.path.dirname(os.path.abspath(home)) + os.sep for home in (torch.__file__, __file__))
# Whose operators are all in the tables of `rules`, or hold no product that has a rule.
TORCHS = ("aten", "prim", "prims", "c10d", "_c10d_functional", "_dtensor", "fsdp", "symm_mem", "profiler",
          "quantized", "mkldnn", "mkl", "onednn", "prepacked", "inductor", "rngprims", "mxoracle")  # fmt: skip


def is_of_torch(file: str) -> bool:
    return os.path.abspath(file).startswith(_OURS)


def home_of(kind: type) -> str:
    """The file that defines it; empty: none does."""
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or ""


def _nodes(ahead: Iterable[Any], known: set[Any]) -> Iterator[Any]:
    """Of a graph, from these on; not those that are known, nor what only they lead to."""
    ahead = list(ahead)
    while ahead:
        node = ahead.pop()
        if node is not None and node not in known:
            known.add(node)
            yield node
            ahead += [before for before, _ in node.next_functions]


def own_gradient(result: Tensor, operands: Sequence[Tensor]) -> str:
    """The name of a gradient between a result and its operands that is not torch's; empty: none is."""
    ends = {side.grad_fn for side in operands if side.grad_fn is not None}
    for node, _ in zip(_nodes([result.grad_fn], ends), range(_MOST_NODES)):
        if type(node) not in _NODES:
            return node.name()
    return ""


def _is_own(kind: type) -> bool:
    """True of a node whose backward is neither torch's nor ours: that of an autograd.Function, of an
    operator of torch.library, or one in C++."""
    function = getattr(kind, "_forward_cls", None)
    if kind in _NODES or function is None:
        return kind not in _NODES
    if not is_of_torch(home_of(function)):
        return True
    for cell in getattr(function.backward, "__closure__", None) or ():  # torch's around one of somebody's
        inner = cell.cell_contents
        if isinstance(inner, torch._ops.OpOverload):
            return inner.namespace not in TORCHS
        if isinstance(inner, type):
            return not is_of_torch(home_of(inner))
    return False


@contextlib.contextmanager
def backward_watched(begins: Callable[[list[str]], None]) -> Iterator[None]:
    """Tells before each backward pass that Python begins, with the names of gradients in it that are
    neither torch's nor ours."""
    theirs = torch.autograd._engine_run_backward

    def watched(roots: Any, *args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            first = [root.node if isinstance(root, GradientEdge) else root.grad_fn for root in roots]
        begins([node.name() for node in _nodes(first, set()) if _is_own(type(node))])
        return theirs(roots, *args, **kwargs)

    torch.autograd._engine_run_backward = watched
    try:
        yield
    finally:
        torch.autograd._engine_run_backward = theirs
