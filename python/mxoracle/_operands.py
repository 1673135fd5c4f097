"""The operands and outputs of one call under the catalogue's names, one of each for every rank."""
from __future__ import annotations

import array
import functools
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from mxoracle import _arrays, _checks
from mxoracle._errors import Error

RANK_NAME = re.compile(r"rank(0|[1-9][0-9]{0,5})\.(.+)", re.S)
# What the library reads as the bits of a float, where a file says no more.
_BITS = {"i32": "f32", "u32": "f32", "u16": "bf16"}


class Signature(NamedTuple):
    """What the catalogue says of an operator."""

    of_ranks: bool
    shared: frozenset[str]  # of an operator on ranks: operands and outputs that are not a rank's own
    types: dict[str, frozenset[str]]  # by operand, without its rank
    parameters: frozenset[str]


_UNKNOWN = Signature(False, frozenset(), {}, frozenset())


@functools.cache
def _signatures() -> dict[str, Signature]:
    from mxoracle._tables import operators

    found = {}
    for entry in operators():
        names = [spec["name"] for spec in entry["inputs"] + entry["outputs"]]
        found[entry["name"]] = Signature(
            entry["ranks"],
            frozenset(name for name in names if not name.startswith("rank<p>.")),
            {
                spec["name"].removeprefix("rank<p>."): frozenset(re.findall(r"\w+", spec["types"])) - {"or"}
                for spec in entry["inputs"]
            },
            frozenset(spec["key"] for spec in entry["parameters"]),
        )
    return found


def signature(op: str) -> Signature:
    return _signatures().get(op, _UNKNOWN)


class Operands:
    """Tensors as the extension takes them, and what keeps them alive."""

    def __init__(self) -> None:
        self.views: list = []
        self.kept: list = []
        self.names: set[str] = set()
        self.torch = False
        self.elements = 0
        self.devices: set[int] = set()  # the GPUs that some of them lie on

    def add(self, name: str, value: Any) -> None:
        parts = _arrays.parts_of(value)
        if parts is not None and len(parts) == 1:
            value = parts[0]
        elif parts is not None:
            self.add(name + ".codes", parts[0])
            self.add(name + ".scales", parts[1])
            return
        if name in self.names:
            raise Error(f"{name}: found it twice, needs it once")
        self.names.add(name)
        view, keep = _arrays.read(name, value)
        if view[5] != _arrays.HOST:
            self.devices.add(view[5])
        self.views.append(view)
        self.kept.append(keep)
        self.elements += math.prod(view[3])
        self.torch = self.torch or type(keep).__module__.startswith("torch")

    def on_host(self) -> Operands:
        """These, of which copies on the host have replaced what lies on a GPU."""
        for i, (view, value) in enumerate(zip(self.views, self.kept)):
            if view[5] != _arrays.HOST:
                self.views[i], self.kept[i] = _arrays.read(view[0], value.cpu())
        self.devices.clear()
        return self


def plain(tensors: Mapping[str, Any]) -> Operands:
    """Tensors that nothing is known of; of a list, one tensor for each rank."""
    result = Operands()
    for name, value in tensors.items():
        if isinstance(value, list):
            for rank, part in enumerate(value):
                result.add(f"rank{rank}.{name}", part)
        else:
            result.add(name, value)
    return result


def _whole_numbers(name: str, value: Any) -> Any:
    """One whole number, or a list of them or of such lists, as an array; all else as it is."""
    rows = [value] if _checks.whole(value) is not None else value
    if not isinstance(rows, (list, tuple)):
        return value
    extents: list[int] = []
    while rows and isinstance(rows[0], (list, tuple)):
        if any(not isinstance(row, (list, tuple)) or len(row) != len(rows[0]) for row in rows):
            raise Error(f"{name}: found lists of different lengths, needs rows of one length", "shape")
        extents.append(len(rows[0]))
        rows = [entry for row in rows for entry in row]
    numbers = [_checks.whole(entry) for entry in rows]
    if None in numbers:
        wrong = rows[numbers.index(None)]
        raise Error(f"{name}: found {_checks.kind_of(wrong)} in a list, needs whole numbers", "dtype")
    try:
        flat = array.array("i", numbers)
    except OverflowError:
        raise Error(f"{name}: found a number beyond 32 bits, needs i32", "dtype") from None
    if not extents or not flat:
        return flat
    return memoryview(flat).cast("B").cast("i", [len(flat) // math.prod(extents), *extents])


def _check_type(op: str, name: str, found: str, types: frozenset[str]) -> None:
    """Integers are not floats: the bits of a bf16 are taken where nothing else can be meant."""
    if _BITS[found] not in types or found in types or (found == "u16" and types == {"bf16"}):
        return
    needs = " or ".join(kind for kind in ("f32", "bf16", "f16", "u8", "i32") if kind in types)
    hint = "; bits of bf16 are to be viewed as bfloat16" if found == "u16" else ""
    raise Error(f"{op}: {name}: found {found}, needs {needs}{hint}", "dtype")


class Call:
    """An operator, its operands of all ranks, and its parameters as text."""

    def __init__(
        self, op: str, tensors: Mapping[str, Any], ranks: Any, params: dict[str, str]
    ) -> None:
        self.op = op
        tensors = _checks.mapping(f"{op}: operands", tensors, "a dict of arrays by name")
        self._signature = signature(op)
        self.params = params
        self.ranks = 1
        self._by_name = False  # operands named "rank0.x": so are the outputs
        if self._signature.of_ranks:
            self._count_ranks(tensors, ranks)
        elif ranks is not None and _checks.whole(ranks) != 1:
            raise _checks.refusal(f"{op}: ranks", ranks, "1: this operator does not work on ranks")
        self.operands = Operands()
        for name, value in self._named(tensors):
            if value is not None:
                self._add(name, value)

    def _add(self, name: str, value: Any) -> None:
        own = RANK_NAME.fullmatch(name) if self._signature.of_ranks else None
        types = self._signature.types.get(own[2] if own else name, frozenset())
        if types and types <= {"i32", "i64"}:
            value = _whole_numbers(f"{self.op}: {name}", value)
        first = len(self.operands.views)
        self.operands.add(name, value)
        for full, found, *_ in self.operands.views[first:]:
            if found in _BITS:
                part = full.partition(".")[2] if own else full
                _check_type(self.op, full, found, self._signature.types.get(part, frozenset()))

    def _count_ranks(self, tensors: Mapping[str, Any], ranks: Any) -> None:
        named = [RANK_NAME.fullmatch(name) for name in tensors]
        of_names = max((int(name[1]) + 1 for name in named if name), default=0)
        of_lists = max(
            (
                len(value)
                for name, value in tensors.items()
                if isinstance(value, list) and name not in self._signature.shared
            ),
            default=0,
        )
        if ranks is None:
            self._by_name = of_names > 0 and of_lists == 0
            self.ranks = max(of_names, of_lists, 1)
            return
        self.ranks = _checks.whole_between("ranks", ranks, 1, 2**31 - 1)
        if of_names > self.ranks:
            raise Error(f"{self.op}: ranks: found {self.ranks} and an operand of rank{of_names - 1}, "
                        f"needs ranks={of_names}")  # fmt: skip

    def _named(self, tensors: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Each tensor under its full name."""
        if not self._signature.of_ranks:
            return list(tensors.items())
        found: dict[str, Any] = {}
        for name, value in tensors.items():
            if value is None:
                continue
            parts = {name: value}
            if name not in self._signature.shared and not RANK_NAME.fullmatch(name):
                values = value if isinstance(value, list) else [value]
                if len(values) != self.ranks:
                    raise Error(f"{self.op}: {name}: found {_count(values)}, needs one for each of "
                                f"{self.ranks} ranks")  # fmt: skip
                parts = {f"rank{rank}.{name}": part for rank, part in enumerate(values)}
            for full, part in parts.items():
                if full in found:
                    raise Error(f"{self.op}: {full}: found it twice, needs it once")
                found[full] = part
        return list(found.items())

    def outputs(self, tensors: Any) -> Operands:
        """What a kernel gave, named as the operands are."""
        tensors = _checks.mapping(f"{self.op}: outputs", tensors, "a dict of arrays by name")
        if not tensors:
            raise Error(f"{self.op}: outputs: found none, needs at least one to judge")
        for name, value in tensors.items():
            if value is None:
                raise _checks.refusal(f"{self.op}: {name}", value, "an array")
        result = Operands()
        for name, value in self._named(tensors):
            result.add(name, value)
        return result

    def by_rank(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Outputs as operands came: lists of ranks, of one rank its tensor, or by full names."""
        if not self._signature.of_ranks or self._by_name:
            return arrays
        result: dict[str, Any] = {}
        for name, value in arrays.items():
            own = RANK_NAME.fullmatch(name)
            if own is None:
                result[name] = value
            elif self.ranks == 1:
                result[own[2]] = value
            else:
                result.setdefault(own[2], [None] * self.ranks)[int(own[1])] = value
        return result


def _count(values: list) -> str:
    return f"{len(values)} tensor{'' if len(values) == 1 else 's'}"
