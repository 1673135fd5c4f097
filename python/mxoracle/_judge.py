"""A kernel's outputs against what is owed: verdicts, causes, artifacts."""
from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxoracle import _arrays
from mxoracle._call import Operands, operands, parameters
from mxoracle._errors import Error
from mxoracle._library import core, engine


class Comparison:
    """What a comparison found.  True where every output passes; str() is the report."""

    def __init__(self, judgement: Any, gate: str, torch: bool) -> None:
        self._judgement = judgement
        self._torch = torch
        self.gate = gate
        self.outputs: list[dict[str, Any]] = judgement.outputs()

    @property
    def passed(self) -> bool:
        return self._judgement.passed

    def __bool__(self) -> bool:
        return self.passed

    @property
    def expected(self) -> dict[str, Any]:
        """The outputs that were expected, as arrays."""
        write = _arrays.writer(self._torch)
        return {
            name: write(dtype, extents, memory)
            for name, dtype, extents, memory in self._judgement.expected()
        }

    def drop_expected(self):
        pass

    def __str__(self) -> str:
        return "\n".join(line for output in self.outputs for line in _lines(output, self.gate))


def _ratio(part: int, whole: int) -> str:
    return f"{part} of {whole} elements differ ({100 * part / max(whole, 1):.3g} %)"


def _decibels(value: float) -> str:
    if math.isinf(value):
        return "+inf" if value > 0 else "-inf"
    return f"{value:.2f} dB"


def _slice_line(kind: str, row: dict[str, Any]) -> str:
    return (
        f"  worst {kind} {row['index']} ({row['begin']} to {row['end']}): "
        f"{row['differing']} of {row['elements']} differ, max ulp {row['max_ulp']}, "
        f"SQNR {_decibels(row['sqnr'])}"
    )


def _lines(output: dict[str, Any], gate: str) -> list[str]:
    """The report on one output: one line where it passes."""
    shape = ", ".join(str(extent) for extent in output["shape"])
    head = f"{output['name']} {output['format']} [{shape}]: "
    if output["reason"] and not output["differing"]:
        return [head + output["reason"]]
    if not output["differing"]:
        note = f"; {output['note']}" if output["note"] else ""
        return [head + f"{output['outcome']}, {output['elements']} elements{note}"]
    lines = [
        head + f"{output['outcome']}, {_ratio(output['differing'], output['elements'])}, "
        f"max ulp {output['max_ulp']}, SQNR {_decibels(output['sqnr'])}"
        + (f", {output['violating']} beyond {gate}" if gate != "bits" else "")
    ]
    for key, kind in (("worst_group", "group"), ("worst_rows", "rows"), ("worst_columns", "columns")):
        if output[key] is not None:
            lines.append(_slice_line(kind, output[key]))
    if output["note"]:
        lines.append("  " + output["note"])
    for at, expected, actual in output["first"]:
        position = ", ".join(str(index) for index in at)
        lines.append(f"  [{position}]: expected {expected}, found {actual}")
    return lines


def _on_host(tensors: Mapping[str, Any]) -> Operands:
    """Operands where the judge can read them: copies of what lies on a GPU."""
    given = operands(tensors)
    if not given.devices:
        return given
    copied = Operands()
    for view, value in zip(given.views, given.kept):
        copied.add(view[0], value.cpu() if view[5] != _arrays.HOST else value)
    return copied


def compare(expected: Any, actual: Any, gate: str = "bits") -> Comparison:
    """Holds `actual` against `expected`: two arrays, or two dicts of arrays under the same names.

    `gate` is "bits", "ulp=N" (steps of the format) or "sqnr=DB".  NaN is compared as a class.  The
    result is true where all pass; str() of it says how many differ, where, and by how much.
    """
    if not isinstance(expected, Mapping):
        expected, actual = {"tensor": expected}, {"tensor": actual}
    missing = [name for name in expected if name not in actual]
    if missing:
        raise Error(f"compare: actual: found no {', '.join(missing)}, needs every expected tensor")
    want, have = _on_host(expected), _on_host({name: actual[name] for name in expected})
    return Comparison(core().compare(want.views, have.views, gate), gate, want.torch)


def judge(
    op: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    *,
    gate: str = "bits",
    claimed_sum: str = "",
    backend: str = "cpu",
    threads: int | None = None,
    **params: Any,
) -> Comparison:
    """Runs `op` on `inputs` and holds `outputs`, some or all of its outputs, against the result.

    `gate` may also be "bound": |out - exact| within the certified bound of the operation, for the
    sum `claimed_sum` or, if empty, any order of f32 additions.
    """
    if not outputs:
        raise Error(f"{op}: outputs: found none, needs at least one to judge")
    given, have = _on_host(inputs), _on_host(outputs)
    judgement = core().judge(
        engine(backend, threads), op, given.views, parameters(params), have.views, gate, claimed_sum
    )
    return Comparison(judgement, gate, have.torch)


def has_bound(op: str, output: str, inputs: Mapping[str, Any], **params: Any) -> bool:
    """True if this output of the call has a certified bound; gate "bound" holds others to bits."""
    return core().has_bound(op, output, _on_host(inputs).views, parameters(params))


@dataclass
class Explanation:
    """Why an output is not the expected one."""

    sentence: str
    verdict: str  # same, explained, partly or unknown
    elements: int
    differing: int
    sqnr_db: float
    pattern: str  # of the differences that no cause explains
    causes: list[dict[str, Any]]  # id, sentence, share, where; best first

    @property
    def explained(self) -> bool:
        """Confirmed causes explain every element that differs."""
        return self.verdict == "explained"

    def __str__(self) -> str:
        return self.sentence


def explain(
    op: str,
    inputs: Mapping[str, Any],
    actual: Mapping[str, Any],
    *,
    backend: str = "cpu",
    threads: int | None = None,
    work: float = math.inf,
    **params: Any,
) -> Explanation | None:
    """Measures from `actual` what was done to `inputs`, and says which causes were confirmed.

    None if `seconds` were not enough.
    """
    given, have = _on_host(inputs), _on_host(actual)
    found = core().explain(
        engine(backend, threads), op, given.views, parameters(params), have.views,
        1e6,
    )  # fmt: skip
    return None if found is None else Explanation(**found)


def save(path: str | Path, tensors: Mapping[str, Any], metadata: Mapping[str, str] = {}) -> None:
    """Writes `tensors` as a safetensors file that `mxo` reads."""
    core().save(str(path), _on_host(tensors).views, dict(metadata))


def load(path: str | Path) -> dict[str, Any]:
    """The tensors of a .safetensors or .npy file, as numpy arrays."""
    write = _arrays.writer(False)
    return {name: write(*rest) for name, *rest in core().load(str(path))[0]}


def write_artifacts(
    directory: Path,
    op: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    comparison: Comparison,
    params: Mapping[str, Any],
) -> str:
    """Inputs, expected and actual outputs as files; returns the command that repeats the verdict."""
    directory.mkdir(parents=True, exist_ok=True)
    save(directory / "inputs.safetensors", inputs)
    save(directory / "expected.safetensors", comparison.expected)
    save(directory / "actual.safetensors", outputs)
    settings = "".join(
        f" --set {shlex.quote(f'{key}={value}')}" for key, value in parameters(params).items()
    )
    paths = [shlex.quote(str(directory / f"{name}.safetensors")) for name in ("inputs", "actual")]
    return f"mxo explain --op {op}{settings} {paths[0]} {paths[1]}"


def html_page(comparisons: Mapping[str, Comparison], title: str) -> str:
    """One self-contained page: verdicts, heat maps, histograms."""
    gates = sorted({comparison.gate for comparison in comparisons.values()})
    return core().html(
        [comparison._judgement for comparison in comparisons.values()],
        list(comparisons),
        title,
        ", ".join(gates),
    )
