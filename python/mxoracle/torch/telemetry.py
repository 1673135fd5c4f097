"""What low precision does to a model in training: per layer, product, operand and expert."""
from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import mxoracle.torch.linear  # noqa: F401  # defines torch.ops.mxoracle
from mxoracle import _checks
from mxoracle._errors import Error
from mxoracle.torch.measures import Measured, measured
from mxoracle.torch.modules import Modules, in_backward

_FORWARD = {torch.ops.mxoracle.grouped_linear.default, torch.ops.mxoracle.scaled_linear.default}
_BACKWARD = {torch.ops.mxoracle.grouped_linear_backward.default,
             torch.ops.mxoracle.scaled_linear_backward.default}  # fmt: skip


class Departed(Error):
    """The loss is too far from that of its twin."""


class _Watch(TorchDispatchMode):
    def __init__(self, telemetry: Telemetry) -> None:
        super().__init__()
        self.telemetry = telemetry

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FORWARD or func in _BACKWARD:
            names = [argument.name for argument in func._schema.arguments]
            given = {argument.name: argument.default_value for argument in func._schema.arguments
                     if argument.has_default_value()}  # fmt: skip
            call = given | dict(zip(names, args)) | kwargs
            out = func(*args, **kwargs)
            self.telemetry._saw(func in _FORWARD, call, out)
            return out
        return func(*args, **kwargs)


class Telemetry:
    """Measures every layer that `convert` made, every `every` steps, and compares the loss of a run
    with that of its twin in bf16.

    with mxoracle.torch.Telemetry(folder="run", every=10, twin=losses, within="0.19%") as telemetry:
        for batch in batches:
            loss = train(batch)          # forward and backward
            telemetry.step(loss)

    folder: where telemetry.csv and loss.csv are kept up to date; None keeps rows only.
    writer: torch.utils.tensorboard.SummaryWriter, or whatever has its add_scalar.
    twin: losses step by step, or a file with a column loss; within: how far the mean of the last
        `window` losses may be from the twin's, a share or "0.19%".

    Errors: Departed, with the first operand that lost more than rounding explains; without one, it
    says so and names the one with the least SQNR.
    """

    def __init__(self, *, folder: str | Path | None = None, every: int = 10, writer: Any = None,
                 twin: str | Path | Iterable[float] | None = None, within: str | float = "0.19%",
                 window: int = 50) -> None:  # fmt: skip
        if writer is not None and not hasattr(writer, "add_scalar"):
            raise _checks.refusal("Telemetry: writer", writer, "an object with add_scalar, as TensorBoard's")
        self.rows: list[Measured] = []
        self.losses: list[float] = []
        self._folder = None if folder is None else Path(_checks.path("Telemetry: folder", folder))
        self._every = _checks.whole_from("Telemetry: every", every, 1)
        self._window = _checks.whole_from("Telemetry: window", window, 1)
        self._writer = writer
        self._twin = _losses(twin)
        self._within = _share(within)
        self._modules = Modules()
        self._mode: _Watch | None = None

    def __enter__(self) -> Telemetry:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        self._watch()
        return self

    def __exit__(self, *error: Any) -> None:
        self._rest()
        self._keep()
        if error[0] is None and len(self.losses) < self._window:
            self._compared(len(self.losses))

    def _watch(self) -> None:
        if len(self.losses) % self._every == 0:
            self._modules.__enter__()
            self._mode = _Watch(self)
            self._mode.__enter__()

    def _rest(self) -> None:
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._modules.__exit__(None, None, None)
            self._mode = None

    def step(self, loss: Tensor | float) -> None:
        """After each step of training: a loss with its forward and backward pass done."""
        measured = self._mode is not None
        self._rest()
        self.losses.append(float(loss.detach() if isinstance(loss, Tensor) else loss))
        if measured:
            self._told()
            self._keep()
        self._checked()
        self._watch()

    def _saw(self, forward: bool, call: dict[str, Any], out: Any) -> None:
        if forward and in_backward():
            return  # a checkpoint that is computed again
        layer = self._modules.current().removesuffix(" backward")
        with torch.no_grad():
            self.rows += measured(len(self.losses) + 1, layer, forward, call, out)

    def _told(self) -> None:
        if self._writer is None:
            return
        step = len(self.losses)
        self._writer.add_scalar("loss", self.losses[-1], step)
        for row in self.rows:
            if row.step == step:
                name = f"{row.layer}/{row.product}.{row.operand}/{row.expert}"
                for value in ("sqnr", "saturated", "underflowed", "tokens"):
                    self._writer.add_scalar(f"{value}/{name}", getattr(row, value), step)

    def _keep(self) -> None:
        if self._folder is not None:
            names = [field.name for field in fields(Measured)]
            rows = ([getattr(row, name) for name in names] for row in self.rows)
            _write(self._folder / "telemetry.csv", names, rows)
            _write(self._folder / "loss.csv", ["step", "loss"], enumerate(self.losses, 1))

    def _checked(self) -> None:
        step = len(self.losses)
        if self._twin is not None and self.losses[-1] != self.losses[-1]:
            self._keep()
            raise Departed(f"step {step}: the loss is NaN; {self.first()}")
        if step >= self._window:
            self._compared(self._window)

    def _compared(self, window: int) -> None:
        """The mean of the last `window` losses, with the twin's."""
        step = len(self.losses)
        if self._twin is None:
            return
        if step == 0:
            raise Error("Telemetry: found no step, needs one to compare with the twin")
        if step > len(self._twin):
            raise Error(f"Telemetry: twin: found {len(self._twin)} losses, needs one for step {step}")
        ours, theirs = (sum(losses[step - window : step]) / window
                        for losses in (self.losses, self._twin))  # fmt: skip
        if not abs(ours - theirs) <= self._within * abs(theirs):  # a NaN is not within
            self._keep()
            apart = abs(ours / theirs - 1) if theirs else math.inf
            raise Departed(
                f"step {step}: mean loss of {window} steps {ours:.6g}, bf16 {theirs:.6g}: "
                f"{apart:.3%} apart, needs {self._within:.3%}; {self.first()}"
            )

    def first(self) -> str:
        """The first operand that lost more than rounding explains, in words."""
        beyond = next((row for row in self.rows if row.departs), None)
        if beyond is not None:
            return f"first beyond its bound of {beyond.bound:.2f} dB: {beyond}"
        if not self.rows:
            return "nothing was measured"
        least = min((row for row in self.rows if row.operand != row.product), key=lambda row: row.sqnr)
        return f"no operand is beyond its bound, which rounding explains; least: {least}"


def _share(within: str | float) -> float:
    try:
        value = float(within.removesuffix("%")) / 100 if isinstance(within, str) else float(within)
    except (TypeError, ValueError):
        value = math.nan
    if isinstance(within, bool) or not 0 <= value:
        raise _checks.refusal("Telemetry: within", within, "a share or a percentage, such as '0.19%'")
    return value


def _losses(twin: str | Path | Iterable[float] | None) -> Sequence[float] | None:
    if twin is None:
        return None
    if not isinstance(twin, (str, Path)):
        try:
            return [float(loss) for loss in twin]
        except (TypeError, ValueError):
            raise _checks.refusal("Telemetry: twin", twin, "losses, or a CSV that has them") from None
    try:
        with open(twin, newline="") as file:
            return [float(row["loss"]) for row in csv.DictReader(file)]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise Error(f"{twin}: found {error}, needs a CSV with numbers in a column loss", "file") from None


def _write(path: Path, names: Sequence[str], rows: Iterable[Sequence]) -> None:
    """Under a temporary name, then renamed."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with open(unfinished, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(names)
        out.writerows(rows)
    unfinished.replace(path)
