"""One call of any operator of the catalogue."""
from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from mxoracle import _arrays, _checks
from mxoracle._errors import Unsupported
from mxoracle._library import engine
from mxoracle._operands import Call, Operands, signature


def text_of(key: str, value: Any) -> str:
    """A parameter as the catalogue spells it."""
    if isinstance(value, enum.Enum):
        return str(value.value).lower()
    value = _checks.plain_number(value)
    if isinstance(value, str):
        return _checks.text(key, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return "x".join(str(extent) for extent in value)
    number = _checks.whole(value)
    if number is not None:
        return str(number)
    spelt = getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    name = _arrays.NAMES.get(str(spelt).removeprefix("torch."))
    if name is None:
        raise _checks.refusal(key, value, "text, a number, a boolean or a dtype")
    return name


def parameters(given: Mapping[str, Any]) -> dict[str, str]:
    """Those that are set; `sum__fold` is the catalogue's `sum.fold`."""
    return {
        key.replace("__", "."): text_of(key, value)
        for key, value in given.items()
        if value is not None
    }


def call_of(op: str, tensors: Mapping[str, Any], ranks: Any, params: Mapping[str, Any]) -> Call:
    _checks.text("op", op, "the name of an operator")
    params = {"ranks": ranks, **params}
    ranks = None if "ranks" in signature(op).parameters else params.pop("ranks")
    return Call(op, tensors, ranks, parameters(params))


def run(
    op: str,
    tensors: Mapping[str, Any],
    *,
    backend: str = "cpu",
    threads: int | None = None,
    ranks: int | None = None,
    wait: bool = True,
    **params: Any,
) -> dict[str, Any]:
    """Calls operator `op` on `tensors`, operands under their names, and returns its outputs.

    Operands are numpy arrays (ml_dtypes included), torch tensors with any strides, or anything
    that speaks DLPack or the buffer protocol; tensors on a GPU go to its backend, "cuda:0", where
    they lie, and the outputs are there; a pair (codes, scales) under the name "x" stands for
    "x.codes" and "x.scales".  Whole numbers (ends of groups, indices) may be lists.  Outputs are
    torch tensors where an operand is one, else numpy arrays, or memoryviews in a process without
    numpy; their memory is theirs.  Parameters are those of `mxo list ops OP`, with `__` for a dot
    (`sum__fold="joint"`); None is not passed, a dtype stands for its format.

    Operators on ranks take a list of tensors, one a rank, under a name like "x"; with one rank the
    tensor itself.  Their outputs come back the same way.  `ranks` need not be said; operands may
    also be named "rank0.x", "rank1.x", and then outputs are.

    Outputs on a GPU are there when the call returns.  With wait=False they come in the order of torch's
    current stream: for ends of groups and indices that are known to be right, because what only the
    GPU can read it refuses afterwards.

    Errors: mxoracle.Error, whose `fault` says of what kind.  May be called from several threads at
    once; other Python threads run meanwhile.
    """
    if not isinstance(wait, bool):
        raise _checks.refusal("wait", wait, "True or False")
    call = call_of(op, tensors, ranks, params)
    given = call.operands
    if given.devices:
        return call.by_rank(_run_on_gpu(op, given, backend, threads, call.params, wait))
    if threads is None and given.elements <= _SMALL and not _sums(op):
        threads = 1
    outputs = engine(backend, threads).run(op, given.views, call.params)
    write = _arrays.writer(given.torch)
    return call.by_rank({name: write(*rest) for name, *rest in outputs})


def run_into(
    op: str, tensors: Mapping[str, Any], results: Mapping[str, Any], *, backend: str = "cpu",
    wait: bool = True, **params: Any
) -> None:  # fmt: skip
    """`run` of an operator whose every output is written to a tensor that is given, where it lies."""
    call = call_of(op, tensors, None, params)
    given = call.operands
    homes = call.outputs(results).views
    if not given.devices:
        engine(backend).run(op, given.views, call.params, homes)
        return
    with _arrays.on_gpu(min(given.devices)) as stream:
        _engine_on(stream, op, given, backend).run(op, given.views, call.params, homes, wait=wait)


def _run_on_gpu(
    op: str, given: Operands, backend: str, threads: int | None, params: dict[str, str], wait: bool
) -> dict[str, Any]:
    """Operands where they lie on a GPU, and outputs beside them."""
    device = min(given.devices)
    results = {}

    def make(name, dtype, extents):
        results[name] = _arrays.zeros_on(device, dtype, extents)
        return _arrays.read(name, results[name])[0]

    write = _arrays.writer(True)
    with _arrays.on_gpu(device) as stream:
        called = _engine_on(stream, op, given, backend, threads)
        for name, dtype, extents, memory in called.run(op, given.views, params, make=make, wait=wait):
            results[name] = write(dtype, extents, memory).to(f"cuda:{device}")
    return results


def _engine_on(stream: Any, op: str, given: Operands, backend: str, threads: int | None = None) -> Any:
    """The backend on torch's current stream, so that work before and after a call is in order with
    it."""
    for view, tensor in zip(given.views, given.kept):
        if view[5] != _arrays.HOST and backend != f"cuda:{view[5]}":
            raise Unsupported(f"{view[0]}: found a tensor on {tensor.device} and backend {backend}, "
                              f"needs backend=\"cuda:{view[5]}\", or one on the cpu")  # fmt: skip
    if signature(op).of_ranks:
        stream.synchronize()  # ranks have streams of their own
    return engine(backend, threads, stream.cuda_stream)


# Elements below which waking a team of threads costs more than it saves; the bits are the same.
_SMALL = 128 * 128


def _sums(op: str) -> bool:
    """True if its work is not that of reading its operands once."""
    return "sum" in signature(op).parameters
