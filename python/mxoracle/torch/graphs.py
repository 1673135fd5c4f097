"""Code that torch compiled: what of it runs unseen inside of a watcher."""
from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.utils._python_dispatch import _disable_current_modes

RUN_EAGERLY = "compiled code, run eagerly instead"
COMPILED = "a compiled graph, its fused operators not seen"
REPLAYED = "a CUDA graph"

_SOURCES = re.compile(r"Original ATen: \[([^\]]*)\]")
_CALLS = re.compile(r"extern_kernels\.|torch\.ops\.|aten\.\w+\.\w+\(")


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """What a judge itself computes: no mode sees it, and torch.compile, in whose code a hook may run,
    does not give it to the backend that is judged."""
    compiler = set_eval_frame(None)
    try:
        with _disable_current_modes():
            yield
    finally:
        set_eval_frame(compiler)


def hidden_products(source: str | None, products: frozenset[str]) -> list[str] | None:
    """Of `products`, those that generated code computes in kernels of its own rather than by calling
    the operator; None where the code does not say what its kernels stand for.

    Inductor writes the operators of a kernel in front of its call: "Original ATen: [aten.mm]"."""
    parts = _SOURCES.split(source or "")
    if len(parts) == 1:
        return None
    found = set()
    for names, text in zip(parts[1::2], parts[2::2]):
        if not _CALLS.search(text):
            found |= products & {name.strip().removeprefix("aten.") for name in names.split(",")}
    return sorted(found)


def _before(home: Any, name: str, look: Callable[[Any], None]) -> Callable[[], None]:
    """Looks at the first argument of each call of home.name; returns what ends that."""
    theirs = getattr(home, name)

    def looked(*args: Any, **kwargs: Any) -> Any:
        look(args[0])
        return theirs(*args, **kwargs)

    setattr(home, name, looked)
    return lambda: setattr(home, name, theirs)


@contextlib.contextmanager
def compiled_code_watched(
    counted: Callable[[str], None], missed: Callable[[str, str], None], products: frozenset[str]
) -> Iterator[None]:
    """Tells of functions under torch.compile, which torch runs eagerly where operators are watched;
    of graphs that were compiled before, as a backward pass may be; and of CUDA graphs."""

    def graph_called(graph: Any) -> None:
        hidden = hidden_products(getattr(graph, "source_code", None), products)
        if hidden is None or hidden:
            of = ", ".join(hidden or ["products that it does not name"])
            missed("a compiled graph", f"its fused operators are not seen: {of}")
        else:
            counted(COMPILED)

    frames = sys.modules.get("torch._dynamo.eval_frame")
    graphs = sys.modules.get("torch._inductor.output_code")
    undo = []
    if hasattr(frames, "_callback_from_stance"):
        undo.append(_before(frames, "_callback_from_stance",
                            lambda code: counted(RUN_EAGERLY) if callable(code) else None))  # fmt: skip
    if graphs is not None:
        undo.append(_before(graphs.CompiledFxGraph, "__call__", graph_called))
    undo.append(_before(torch.cuda.CUDAGraph, "replay",
                        lambda graph: missed(REPLAYED, "its operators are not seen")))  # fmt: skip
    try:
        yield
    finally:
        for end in undo:
            end()
