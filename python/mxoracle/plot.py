"""Pictures of a comparison and of training runs, by matplotlib (`pip install mxoracle[plot]`).

Every function draws into `axes`, or into a new figure, and returns the axes.
"""
from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

from mxoracle import _checks
from mxoracle._errors import Error
from mxoracle._judge import Comparison


def _axes(axes: Any) -> Any:
    if axes is not None:
        return _known(axes)
    from matplotlib.figure import Figure

    return Figure(figsize=(6, 4), layout="constrained").add_subplot()


def _known(axes: Any) -> Any:
    if not hasattr(axes, "figure"):
        raise _checks.refusal("axes", axes, "axes of matplotlib")
    return axes


def _output(comparison: Comparison, name: str | None) -> dict[str, Any]:
    if not isinstance(comparison, Comparison):
        raise _checks.refusal("plot", comparison, "a Comparison, as mxoracle.compare gives it")
    if name is not None:
        _checks.text("plot: name", name, "the name of an output")
    for output in comparison.outputs:
        if name in (None, output["name"]):
            return output
    known = ", ".join(output["name"] for output in comparison.outputs)
    raise Error(f"plot: found no output '{name}', needs one of {known}")


def heat_map(comparison: Comparison, name: str | None = None, axes: Any = None) -> Any:
    """Differing elements by block of rows and block of columns."""
    output = _output(comparison, name)
    heat = output["heat"]
    axes = _axes(axes)
    rows, columns = max(heat["rows"], 1), max(heat["columns"], 1)
    counts = heat["differing"] or [0] * (rows * columns)
    grid = [counts[row * columns : (row + 1) * columns] for row in range(rows)]
    image = axes.imshow(
        grid, aspect="auto", interpolation="nearest", cmap="magma_r", vmin=0,
        extent=(0, columns * heat["column_step"], rows * heat["row_step"], 0),
    )  # fmt: skip
    axes.figure.colorbar(image, ax=axes, label="differing elements of a block")
    axes.set(xlabel="column", ylabel="row", title=f"{output['name']}: where it differs")
    return axes


def error_histogram(comparison: Comparison, name: str | None = None, axes: Any = None) -> Any:
    """The number of elements by their distance from the expected value, in steps of the format."""
    output = _output(comparison, name)
    axes = _axes(axes)
    counts = output["histogram"]
    labels = ["0", "1", "2"]
    low = 3
    while len(labels) < len(counts):
        labels.append(f"{low} to {2 * low - 2}")
        low = 2 * low - 1
    axes.bar(labels[: len(counts)], counts)
    axes.set_yscale("log" if any(counts) else "linear")
    axes.tick_params(axis="x", rotation=45)
    axes.set(xlabel="steps of the format", ylabel="elements", title=f"{output['name']}: distance")
    return axes


def sqnr_by_group(comparison: Comparison, name: str | None = None, axes: Any = None) -> Any:
    """The signal to noise ratio of each group, in dB; groups without a difference reach the top."""
    output = _output(comparison, name)
    axes = _axes(axes)
    groups = output["groups"] or [dict(output, index=0)]
    values = [group["sqnr"] for group in groups]
    finite = [value for value in values if math.isfinite(value)]
    top = max(finite, default=0.0) + 10
    heights = [value if math.isfinite(value) else (top if value > 0 else 0.0) for value in values]
    colours = ["tab:blue" if math.isfinite(value) else "tab:gray" for value in values]
    axes.bar([str(group["index"]) for group in groups], heights, color=colours)
    axes.set(xlabel="group", ylabel="SQNR, dB", title=f"{output['name']}: by group")
    return axes


def loss_curves(runs: str | Path | Mapping[str, list[float]], axes: Any = None) -> Any:
    """Loss by step: of a dict of lists, or of a folder that `mxo train --output` or `Telemetry` wrote."""
    axes = _axes(axes)
    if not isinstance(runs, (str, Path, Mapping)):
        raise _checks.refusal("loss_curves", runs, "a dict of lists, or a folder")
    curves = runs if isinstance(runs, Mapping) else _read_runs(Path(runs))
    for name, losses in curves.items():
        axes.plot(range(1, len(losses) + 1), losses, label=name, linewidth=1)
    axes.legend()
    axes.set(xlabel="step", ylabel="loss")
    return axes


def telemetry(path: str | Path, value: str = "sqnr", axes: Any = None) -> Any:
    """By step, the least `sqnr` of a layer's experts, or the largest share `saturated` or
    `underflowed`: from a telemetry.csv of mxoracle.torch.Telemetry, one line per operand."""
    if value not in ("sqnr", "saturated", "underflowed"):
        raise Error(f"plot: found value '{value}', needs sqnr, saturated or underflowed")
    with Path(_checks.path("path", path)).open(newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or value not in rows[0]:
        raise Error(f"{path}: found no column {value}, needs what Telemetry wrote", "file")
    lines: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        name = f"{row['layer']} {row['product']}.{row['operand']}"
        lines.setdefault(name, {}).setdefault(int(row["step"]), []).append(float(row[value]))
    worst = min if value == "sqnr" else max
    axes = _axes(axes)
    for name, steps in lines.items():
        axes.plot(list(steps), [worst(values) for values in steps.values()], label=name, linewidth=1)
    axes.legend(fontsize="xx-small")
    axes.set(xlabel="step", ylabel="SQNR, dB" if value == "sqnr" else f"share {value}")
    return axes


def _read_runs(folder: Path) -> dict[str, list[float]]:
    curves = {}
    for path in sorted(folder.rglob("*.csv")):
        with path.open() as file:
            rows = list(csv.DictReader(file))
        if rows and "loss" in rows[0]:
            name = path.stem if path.parent == folder else path.parent.name
            curves[name] = [float(row["loss"]) for row in rows]
    if not curves:
        raise Error(f"{folder}: found no .csv with a column loss, needs what mxo train wrote", "file")
    return curves


def save(axes: Any, path: str | Path) -> None:
    """Writes the figure that `axes` are in, in the format of the path's ending."""
    figure = _known(axes).figure
    path = _checks.path("path", path)
    with matplotlib.rc_context({"svg.hashsalt": "mxoracle"}):
        figure.savefig(path)
