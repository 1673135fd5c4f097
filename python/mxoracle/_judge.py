"""A kernel's outputs against the expected ones: verdicts, causes, artifacts."""
from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxoracle import _arrays, _checks
from mxoracle._call import call_of
from mxoracle._errors import Error
from mxoracle._library import core, engine
from mxoracle._operands import Call, Operands, plain
from mxoracle._tables import list_sums


class Comparison:
    """The result of a comparison.  True if something was compared and every output passes; str() is
    the report."""

    def __init__(
        self, judgement: Any, gate: str, torch: bool, call: Call | None = None
    ) -> None:
        self._judgement = judgement
        self._torch = torch
        self._call = call
        self.gate = gate
        self.outputs: list[dict[str, Any]] = judgement.outputs()
        #: PASS, FAIL, or INVALID where no element was compared.
        self.outcome: str = judgement.outcome

    @property
    def passed(self) -> bool:
        return self.outcome == "PASS"

    def __bool__(self) -> bool:
        return self.passed

    @property
    def expected(self) -> dict[str, Any]:
        """The outputs that were expected, as arrays, named as the operands are."""
        write = _arrays.writer(self._torch)
        arrays = {name: write(*rest) for name, *rest in self._judgement.expected()}
        return self._call.by_rank(arrays) if self._call else arrays

    def drop_expected(self) -> None:
        """Keeps the verdict alone, without the tensors it is of."""
        self._call = None
        self._judgement.drop_expected()

    def __str__(self) -> str:
        lines = [line for output in self.outputs for line in _lines(output, self.gate)]
        if self.outcome == "INVALID":
            lines.insert(0, "INVALID: nothing was compared")
        if self._judgement.note:
            lines.append(self._judgement.note)
        return "\n".join(lines)


def _ratio(part: int, whole: int) -> str:
    return f"{part} of {whole} elements differ ({100 * part / max(whole, 1):.3g} %)"


def _decibels(value: float) -> str:
    if math.isnan(value):
        return "not known"
    if math.isinf(value):
        return "+inf" if value > 0 else "-inf"
    return f"{value:.2f} dB"


def _right(row: dict[str, Any]) -> str:
    """The figure that no right kernel falls below, where it was derived."""
    right = row["right_sqnr"]
    return "" if math.isnan(right) else f", a right kernel has {_decibels(right)} or more"


def _ulp(row: dict[str, Any]) -> str:
    """The distance in steps of the format; scales and integers have none."""
    return f", max ulp {row['max_ulp']}" if row["max_ulp"] else ""


def _slice_line(kind: str, row: dict[str, Any]) -> str:
    first, last = row["begin"], row["end"] - 1
    span = "none" if last < first else f"{first}" if last == first else f"{first} to {last}"
    return (
        f"  {kind} {row['index']} ({span}): "
        f"{row['differing']} of {row['elements']} differ{_ulp(row)}, "
        f"SQNR {_decibels(row['sqnr'])}{_right(row)}"
    )


def _lines(output: dict[str, Any], gate: str) -> list[str]:
    """The report on one output: one line where it passes."""
    shape = ", ".join(str(extent) for extent in output["shape"])
    head = f"{output['name']} {output['format']} [{shape}]: "
    note = re.sub(r"--gate (\S+)", r'gate="\1"', output["note"])
    if output["not_bounded"]:
        note += ("; " if note else "") + f"not bounded: {output['not_bounded']} elements"
    if output["reason"] and not output["differing"]:
        return [head + output["reason"]]
    if not output["differing"]:
        return [head + f"{output['outcome']}, {output['elements']} elements" + (note and f"; {note}")]
    lines = [
        head + f"{output['outcome']}, {_ratio(output['differing'], output['elements'])}{_ulp(output)}"
        f", SQNR {_decibels(output['sqnr'])}{_right(output)}"
        + (f", {output['violating']} beyond {gate}" if gate != "bits" else "")
    ]
    group = "expert" if len(output["shape"]) > 2 else "group"
    for key, kind in (("worst_group", group), ("best_group", group), ("worst_rows", "rows"),
                      ("worst_columns", "columns")):  # fmt: skip
        if output[key] is not None:
            lines.append(_slice_line(f"{key.partition('_')[0]} {kind}", output[key]))
    if note:
        lines.append("  " + note)
    for at, expected, actual in output["first"]:
        position = ", ".join(str(index) for index in at)
        lines.append(f"  [{position}]: expected {expected}, found {actual}")
    return lines


def compare(expected: Any, actual: Any, gate: str = "bits") -> Comparison:
    """Compares `actual` with `expected`: two arrays, or two dicts of arrays with the same names.

    `gate` is "bits", "ulp=N" (steps of the format) or "sqnr=DB".  All NaNs are equal.  The
    result is true if all pass; str() of it says how many differ, where, and by how much.
    """
    if not isinstance(expected, Mapping) and not isinstance(actual, Mapping):
        expected, actual = {"tensor": expected}, {"tensor": actual}
    needs = "a dict of arrays, as the other is"
    _checks.mapping("compare: expected", expected, needs)
    _checks.mapping("compare: actual", actual, needs)
    if not expected:
        raise Error("compare: expected: found no tensor, needs at least one")
    ranks = {name: len(value) for name, value in expected.items() if isinstance(value, list)}
    missing = [name for name in expected if name not in actual]
    if missing:
        raise Error(f"compare: actual: found no {', '.join(missing)}, needs every expected tensor")
    extra = [name for name in actual if name not in expected]
    if extra:
        raise Error(f"compare: actual: found {', '.join(extra)}, not among the expected tensors, needs "
                    f"{', '.join(expected)} alone")  # fmt: skip
    for name, value in actual.items():
        found = len(value) if isinstance(value, list) else None
        if found != ranks.get(name):
            raise Error(f"compare: actual: {name}: found {_of_ranks(found)}, needs {_of_ranks(ranks.get(name))}")
    want = plain(expected).on_host()
    have = plain({name: actual[name] for name in expected}).on_host()
    judgement = core().compare(want.views, have.views, _checks.gate(gate))
    return Comparison(judgement, gate, want.torch)


def _of_ranks(count: int | None) -> str:
    return "one array" if count is None else f"a list of {count}"


def judge(
    op: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    *,
    gate: str = "bits",
    claimed_sum: str = "",
    backend: str = "cpu",
    threads: int | None = None,
    ranks: int | None = None,
    **params: Any,
) -> Comparison:
    """Runs `op` on `inputs` and compares `outputs`, some or all of its outputs, with the result.

    `gate` may also be "bound": |out - exact| within the certified bound of the operation, for the
    sum `claimed_sum` or, if empty, any order of f32 additions; or "sqnr=auto": no group further off
    than such a kernel may be, which `outputs[i]["right_sqnr"]` says in dB.  Operands and outputs of
    ranks are as `mxoracle.run` takes and gives them.  Where no element is compared (no row belongs to
    a group, or there is none), the result is INVALID, which is not true.
    """
    call = call_of(op, inputs, ranks, params)
    have = call.outputs(outputs).on_host()
    _check_sum(_checks.gate(gate), claimed_sum)
    judgement = core().judge(
        engine(backend, threads), op, call.operands.on_host().views, call.params, have.views, gate,
        claimed_sum,
    )  # fmt: skip
    return Comparison(judgement, gate, have.torch, call)


def _check_sum(gate: str, claimed: Any) -> None:
    if _checks.text("claimed_sum", claimed, "the name of a sum") == "":
        return
    if gate not in ("bound", "sqnr=auto"):
        raise Error(f'claimed_sum: found gate "{gate}", needs gate="bound" or "sqnr=auto"')
    known = list_sums()
    if claimed not in known:
        raise Error(f"claimed_sum: found {claimed!r}, needs one of {', '.join(known)}")


def has_bound(op: str, output: str, inputs: Mapping[str, Any], **params: Any) -> bool:
    """True if this output of the call has a certified bound; under gate "bound" others need equal bits."""
    call = call_of(op, inputs, None, params)
    return core().has_bound(op, output, call.operands.on_host().views, call.params)


@dataclass
class Explanation:
    """Why an output is not the expected one."""

    sentence: str
    verdict: str  # same, explained, partly or unknown
    elements: int
    differing: int
    sqnr_db: float
    pattern: str  # of the differences that no cause explains
    causes: list[dict[str, Any]]  # id, kind, sentence, share, where; best first

    @property
    def explained(self) -> bool:
        """Confirmed causes explain every element that differs."""
        return self.verdict == "explained"

    def __str__(self) -> str:
        return self.sentence


WORK_A_SECOND = 2.0**28  # elements that tried calls read, about, on two cores


def explain(
    op: str,
    inputs: Mapping[str, Any],
    actual: Mapping[str, Any],
    *,
    backend: str = "cpu",
    threads: int | None = None,
    ranks: int | None = None,
    work: float = math.inf,
    seconds: float | None = None,
    **params: Any,
) -> Explanation | None:
    """Measures from `actual` what the kernel did to `inputs`, and returns the confirmed causes.

    None if `work` was not enough: what calls that are tried read, in elements of operands.  `seconds`
    says the same by 2^28 elements a second; no clock counts, so that a busy machine answers alike.
    """
    call = call_of(op, inputs, ranks, params)
    have = call.outputs(actual).on_host()
    work = _checks.not_negative("work", work)
    if seconds is not None:
        work = min(work, min(_checks.not_negative("seconds", seconds), 1e6) * WORK_A_SECOND)
    found = core().explain(
        engine(backend, threads), op, call.operands.on_host().views, call.params, have.views,
        work,
    )  # fmt: skip
    return None if found is None else Explanation(**found)


def save(
    path: str | Path, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes `tensors` as a safetensors file that `mxo` reads; types are kept.  A list holds
    one tensor for each rank: "rank0.x", "rank1.x"."""
    tensors = _checks.mapping("save: tensors", tensors, "a dict of arrays by name")
    _write(_checks.path("save: path", path), plain(tensors), metadata)


def _write(path: str, tensors: Operands, metadata: Any = None) -> None:
    texts = {} if metadata is None else metadata
    _checks.mapping("save: metadata", texts, "a dict of text by name")
    for key, value in texts.items():
        _checks.text(f"save: metadata: {key}", value)
    core().save(path, tensors.on_host().views, dict(texts))


def load(path: str | Path) -> dict[str, Any]:
    """The tensors of a .safetensors or .npy file, as numpy arrays."""
    write = _arrays.writer(False)
    return {name: write(*rest) for name, *rest in core().load(_checks.path("load: path", path))[0]}


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
    call = call_of(op, inputs, None, params)
    _write(str(directory / "inputs.safetensors"), call.operands)
    _write(str(directory / "expected.safetensors"), call.outputs(comparison.expected))
    _write(str(directory / "actual.safetensors"), call.outputs(outputs))
    settings = "".join(
        f" --set {shlex.quote(f'{key}={value}')}" for key, value in call.params.items()
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
