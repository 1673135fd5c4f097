"""What low precision does to a model in training: per layer, product, operand and expert."""
from __future__ import annotations

import csv
import functools
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mxoracle._errors import Error
from mxoracle.torch.linear import backend_of
from mxoracle.torch.modules import Modules, in_backward
from mxoracle.torch.recipes import Layer

_FORWARD = {torch.ops.mxoracle.grouped_linear.default, torch.ops.mxoracle.scaled_linear.default}
_BACKWARD = {torch.ops.mxoracle.grouped_linear_backward.default,
             torch.ops.mxoracle.scaled_linear_backward.default}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """One operand of one product of one expert, as its codes and scales have it."""

    step: int
    layer: str
    product: str  # y, dx or dw
    operand: str  # x, w or dy; of a result, its own name
    expert: int
    tokens: int
    sqnr: float  # to the operand before it was quantised, or the product of such; dB, or infinite
    saturated: float = 0.0  # share of elements beyond the format's largest
    underflowed: float = 0.0  # share of elements that became zero
    scales: str = ""  # how many scales there are of each power of two: "-9:12 -8:4"
    bound: float = -math.inf  # the least SQNR where elements are rounded and none saturates or becomes zero

    @property
    def departs(self) -> bool:
        return not self.sqnr >= self.bound  # a NaN departs

    def __str__(self) -> str:
        return (f"{self.operand} of {self.product} of {self.layer}, expert {self.expert}, step {self.step}: "
                f"{self.sqnr:.2f} dB, {self.saturated:.3%} saturated, {self.underflowed:.3%} underflowed")  # fmt: skip


class Departed(Error):
    """A loss that left its twin."""


def _bound(kind: torch.dtype) -> float:
    """Rounding moves an element by half a step of its last bit at most: 24.08 dB for e4m3."""
    return -20 * math.log10(torch.finfo(kind).eps / 2)


def _values(codes: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """What codes and scales stand for, and the scale of every element."""
    scales = scales.float()
    for axis in (-2, -1):
        rows, blocks = codes.shape[axis], scales.shape[axis]
        if blocks != rows:
            size = -(-rows // blocks)
            size = size if blocks == 1 else 1 << (size - 1).bit_length()
            scales = scales.repeat_interleave(size, axis).narrow(axis, 0, rows)
    return codes.float() * scales, scales


def _sqnr(exact: Tensor, found: Tensor) -> float:
    noise = (exact.double() - found.double()).square().sum()
    return math.inf if noise == 0 else float(10 * torch.log10(exact.double().square().sum() / noise))


def _numbers(exact: Tensor, codes: Tensor, scales: Tensor) -> tuple[float, float, float, str, float]:
    """SQNR, shares and histogram of one expert's operand."""
    kind = codes.dtype
    values, spread = _values(codes, scales)
    exact = exact.float()
    largest, step = torch.finfo(kind).max, torch.finfo(kind).eps
    edge = largest + step * 2 ** math.floor(math.log2(largest)) / 2
    count = max(1, exact.numel())
    saturated = int((exact.abs() > edge * spread).sum()) / count
    underflowed = int(((exact != 0) & (values == 0)).sum()) / count
    positive = scales.float().flatten()
    powers, counts = positive[positive > 0].log2().floor().int().unique(return_counts=True)
    words = " ".join(f"{power}:{count}" for power, count in zip(powers.tolist(), counts.tolist()))
    return _sqnr(exact, values), saturated, underflowed, words, _bound(kind)


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
    """Measures every layer that `convert` made, every `every` steps, and holds the loss of a run
    against that of its twin in bf16.

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
        if every < 1 or window < 1:
            raise Error(f"Telemetry: found every={every}, window={window}, needs 1 or more")
        self.rows: list[Measured] = []
        self.losses: list[float] = []
        self._folder = None if folder is None else Path(folder)
        self._every, self._writer, self._window = every, writer, window
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
        step, layer = len(self.losses) + 1, self._modules.current().removesuffix(" backward")
        with torch.no_grad():
            for product, operand, exact, scaled, ends, contracted in _operands(forward, call):
                for expert, tokens, *parts in _by_expert(operand, exact, scaled, ends, contracted):
                    self.rows.append(
                        Measured(step, layer, product, operand, expert, tokens, *_numbers(*parts))
                    )
            for product, expert, tokens, sqnr in _results(forward, call, out):
                self.rows.append(Measured(step, layer, product, product, expert, tokens, sqnr))

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
        if self._twin is None or step < self._window:
            return
        if step > len(self._twin):
            raise Error(f"Telemetry: twin: found {len(self._twin)} losses, needs one for step {step}")
        ours, theirs = (sum(losses[step - self._window : step]) / self._window
                        for losses in (self.losses, self._twin))  # fmt: skip
        if not abs(ours - theirs) <= self._within * abs(theirs):  # a NaN is not within
            self._keep()
            raise Departed(
                f"step {step}: mean loss of {self._window} steps {ours:.6g}, bf16 {theirs:.6g}: "
                f"{abs(ours / theirs - 1):.3%} apart, needs {self._within:.3%}; {self.first()}"
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


def _operands(forward: bool, call: dict[str, Any]) -> Iterable[tuple]:
    """(product, operand, exact, (codes, scales), ends, whether tokens are contracted) of a call."""
    layer = Layer(call["recipe"], call["format"], "exact", backend_of(call["x"]))
    row, x, w, ends = layer.row, call["x"], call["w"], call["group_ends"]
    if not row.tokens:
        return
    if forward:
        yield "y", "x", x, layer.scaled(x, row.tokens, layer.format), ends, False
        yield "y", "w", w, layer.scaled(w, row.weight, layer.format, weight=True), ends, False
        return
    dy, wanted = call["dy"], (call.get("only") or "dx,dw").split(",")
    if "dx" in wanted:
        yield "dx", "dy", dy, layer.scaled(dy, row.tokens, layer.gradients), ends, False
        turned = w.transpose(1, 2)
        yield "dx", "w", turned, layer.scaled(turned, row.weight, layer.format, weight=True), ends, False
    if "dw" in wanted and not row.wgrad_high:
        for name, side, format in (("dy", dy, layer.gradients), ("x", x, layer.format)):
            yield "dw", name, side, functools.partial(_along_tokens, layer, format), ends, True


def _results(forward: bool, call: dict[str, Any], out: Any) -> Iterable[tuple[str, int, int, float]]:
    """(product, expert, tokens, SQNR) of results, to f32 products of operands before quantising."""
    if not Layer(call["recipe"], call["format"], "exact", "cpu").row.tokens:
        return
    names = ["y"] if forward else (call.get("only") or "dx,dw").split(",")
    results = dict(zip(names, [out] if forward else out))
    start = 0
    for expert, end in enumerate(call["group_ends"].tolist()):
        rows = slice(start, max(start, end))
        tokens, start = rows.stop - rows.start, rows.stop
        if not tokens:
            continue
        x, w = call["x"][rows].float(), call["w"][expert].float()
        if forward:
            bias = call["bias"]
            y = x @ w.t() + (0 if bias is None else bias[expert] if bias.dim() == 2 else bias)
            yield "y", expert, tokens, _sqnr(y, results["y"][rows])
            continue
        dy = call["dy"][rows].float()
        if "dx" in results:
            yield "dx", expert, tokens, _sqnr(dy @ w, results["dx"][rows])
        if "dw" in results:
            yield "dw", expert, tokens, _sqnr(dy.t() @ x, results["dw"][expert])


def _along_tokens(layer: Layer, format: str, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Of one group, whose last block is filled with zeros."""
    lacking = -len(rows) % layer.row.alignment
    padded = torch.nn.functional.pad(rows, (0, 0, 0, lacking))
    codes, scales = layer.scaled(padded, layer.row.along_tokens, format)
    return codes.narrow(0, 0, len(rows)), scales


def _by_expert(operand: str, exact: Tensor, scaled: Any, ends: Tensor, contracted: bool):
    """(expert, tokens, exact, codes, scales) of every expert that has tokens."""
    start = 0
    for expert, end in enumerate(ends.tolist()):
        rows = slice(start, max(start, end))
        tokens, start = rows.stop - rows.start, rows.stop
        if not tokens:
            continue
        if contracted:  # blocks start with the group
            yield expert, tokens, exact[rows], *scaled(exact[rows])
        elif operand == "w":
            yield expert, tokens, exact[expert], scaled[0][expert], scaled[1][expert]
        else:
            yield expert, tokens, exact[rows], scaled[0][rows], scaled[1][rows]


def _share(within: str | float) -> float:
    try:
        value = float(within.removesuffix("%")) / 100 if isinstance(within, str) else float(within)
    except ValueError:
        value = math.nan
    if not 0 <= value:
        raise Error(f"Telemetry: within: found {within!r}, needs a share or a percentage, such as '0.19%'")
    return value


def _losses(twin: str | Path | Iterable[float] | None) -> Sequence[float] | None:
    if twin is None or not isinstance(twin, (str, Path)):
        return None if twin is None else [float(loss) for loss in twin]
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
