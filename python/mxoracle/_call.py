"""One call of any operator of the catalogue."""
from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from mxoracle import _arrays
from mxoracle._errors import Error, Unsupported
from mxoracle._library import core, engine


def text_of(key: str, value: Any) -> str:
    """A parameter as the catalogue spells it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, enum.Enum):
        return str(value.value).lower()
    if isinstance(value, (tuple, list)):
        return "x".join(str(extent) for extent in value)
    spelt = getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    name = _arrays.NAMES.get(str(spelt).removeprefix("torch."))
    if name is None:
        raise Error(f"{key}: found {value!r}, needs text, a number, a truth value or a dtype")
    return name


def parameters(given: Mapping[str, Any]) -> dict[str, str]:
    """Those that are set; `sum__fold` is the catalogue's `sum.fold`."""
    return {
        key.replace("__", "."): text_of(key, value)
        for key, value in given.items()
        if value is not None
    }


class Operands:
    """The operands of one call as the extension takes them, and what keeps them alive."""

    def __init__(self) -> None:
        self.views: list = []
        self.kept: list = []
        self.torch = False
        self.elements = 0
        self.devices: set[int] = set()  # the GPUs that some of them lie on

    def add(self, name: str, value: Any) -> None:
        parts = _arrays.parts_of(value)
        if parts is not None:
            self.add(name + ".codes", parts[0])
            self.add(name + ".scales", parts[1])
            return
        view, keep = _arrays.read(name, value)
        if view[5] != _arrays.HOST:
            self.devices.add(view[5])
        self.views.append(view)
        self.kept.append(keep)
        self.elements += math.prod(view[3])
        self.torch = self.torch or type(keep).__module__.startswith("torch")


def operands(tensors: Mapping[str, Any], ranks: int = 1, of_ranks: bool = False) -> Operands:
    """`tensors` under the names of the catalogue.  Of an operator on ranks, a list is one tensor a
    rank."""
    result = Operands()
    for name, value in tensors.items():
        if value is None:
            continue
        if of_ranks and isinstance(value, list):
            if len(value) != ranks:
                raise Error(f"{name}: found {len(value)} tensors, needs one for each of {ranks} ranks")
            for rank, part in enumerate(value):
                result.add(f"rank{rank}.{name}", part)
        else:
            result.add(name, value)
    return result


def run(
    op: str,
    tensors: Mapping[str, Any],
    *,
    backend: str = "cpu",
    threads: int | None = None,
    ranks: int = 1,
    **params: Any,
) -> dict[str, Any]:
    """Calls operator `op` on `tensors`, operands under their names, and returns its outputs.

    Operands are numpy arrays (ml_dtypes included), torch tensors with any strides, or anything
    that speaks DLPack or the buffer protocol; tensors on a GPU go to its backend, "cuda:0", where
    they lie, and the outputs are there; a pair (codes, scales) under the name "x" stands for
    "x.codes" and "x.scales".  Outputs are torch tensors where an operand is one, else numpy arrays;
    their memory is theirs.  Parameters are those of `mxo list ops OP`, with `__` for a dot
    (`sum__fold="joint"`); None is not passed, a dtype stands for its format.

    Operators on ranks take a list of `ranks` tensors, one a rank, under a name like "x"; with one
    rank the tensor itself.  Their outputs come back the same way.

    Errors: mxoracle.Error, whose `fault` says of what kind.  May be called from several threads at
    once; other Python threads run meanwhile.
    """
    traits = _traits(op)
    rows = traits.of_ranks
    if rows:
        tensors = {
            name: [value] if name in rows and not isinstance(value, list) else value
            for name, value in tensors.items()
            if value is not None
        }
    given = operands(tensors, ranks, bool(rows))
    if given.devices:
        arrays = _run_on_gpu(op, given, backend, threads, parameters(params))
        return _by_rank(arrays, ranks) if rows else arrays
    if threads is None and not traits.sums and given.elements <= _SMALL:
        threads = 1
    outputs = engine(backend, threads).run(op, given.views, parameters(params))
    write = _arrays.writer(given.torch)
    arrays = {name: write(dtype, extents, memory) for name, dtype, extents, memory in outputs}
    return _by_rank(arrays, ranks) if rows else arrays


def _run_on_gpu(
    op: str, given: Operands, backend: str, threads: int | None, params: dict[str, str]
) -> dict[str, Any]:
    """Operands where they lie on a GPU, and outputs beside them.  Torch's current stream is waited
    for before the call, which returns when the backend's own is done: work before and after it is
    in order."""
    for view, tensor in zip(given.views, given.kept):
        if view[5] != _arrays.HOST and backend != f"cuda:{view[5]}":
            raise Unsupported(f"{view[0]}: found a tensor on {tensor.device} and backend {backend}, "
                              f"needs backend=\"cuda:{view[5]}\", or one on the cpu")  # fmt: skip
    device = min(given.devices)
    called = engine(backend, threads)
    results = {
        name: _arrays.zeros_on(device, dtype, extents)
        for name, dtype, extents in _outputs_of(op, given, params)
    }
    homes = [_arrays.read(name, tensor)[0] for name, tensor in results.items()]
    _arrays.finished(device)
    write = _arrays.writer(True)
    for name, dtype, extents, memory in called.run(op, given.views, params, homes):
        results[name] = write(dtype, extents, memory).to(f"cuda:{device}")
    return results


def _outputs_of(op: str, given: Operands, params: dict[str, str]) -> list:
    """(name, element type, extents) of the outputs, where operands tell them.  Ends of groups,
    indices and scales are looked at on the host; of the others only the shapes count."""
    if params.get("sum.split") == "auto":
        return []
    asked = Operands()
    for view, tensor in zip(given.views, given.kept):
        if view[5] == _arrays.HOST:
            asked.views.append(view)
        elif view[1] in ("i32", "i64") or view[0].endswith("scales"):
            asked.add(view[0], tensor.cpu())
        else:
            asked.add(view[0], tensor.new_empty(tensor.shape, device="cpu"))
    return core().outputs_of(op, asked.views, params)


# Elements below which waking a team of threads costs more than it saves; the bits are the same.
_SMALL = 128 * 128


class _Traits(NamedTuple):
    of_ranks: frozenset[str]  # operands that each rank has of its own; most operators have none
    sums: bool  # its work is not that of reading its operands once


_NONE = _Traits(frozenset(), False)
_all_traits: dict[str, _Traits] = {}


def _traits(op: str) -> _Traits:
    if not _all_traits:
        from mxoracle._tables import operators

        for entry in operators():
            names = (spec["name"] for spec in entry["inputs"])
            ranks = (name[8:] for name in names if name.startswith("rank<p>."))
            sums = any(spec["key"] == "sum" for spec in entry["parameters"])
            _all_traits[entry["name"]] = _Traits(frozenset(ranks), sums)
    return _all_traits.get(op, _NONE)


def _by_rank(arrays: dict[str, Any], ranks: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, array in arrays.items():
        head, dot, rest = name.partition(".")
        if dot and head.startswith("rank") and head[4:].isdigit():
            if ranks == 1:
                result[rest] = array
            else:
                result.setdefault(rest, [None] * ranks)[int(head[4:])] = array
        else:
            result[name] = array
    return result
