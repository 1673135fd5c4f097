"""A running model's products as digests and rows, to be judged elsewhere (`mxo judge`)."""
from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from mxoracle import _checks, _judge
from mxoracle._arrays import NAMES
from mxoracle._call import parameters
from mxoracle._errors import Error
from mxoracle.torch.modules import in_backward
from mxoracle.torch.products import Judged, Product, corner_of
from mxoracle.torch.watcher import Watcher


def _digest(value: Any) -> str:
    """SHA-256 of a tensor's type, shape and bytes; of a pair, of both."""
    total = hashlib.sha256()
    for tensor in value if isinstance(value, tuple) else (value,):
        total.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        total.update(memoryview(tensor.contiguous().view(-1).view(torch.uint8).numpy()))
    return total.hexdigest()


class _Kept(NamedTuple):
    """A forward product of this step whose rows were kept."""

    out: Tensor  # as autograd knows it
    product: Product  # without its operands
    file: str


class Recorder(Watcher):
    """Writes the operands and results of every product inside it, forward and backward, to `folder`.

    with mxoracle.torch.Recorder("trace", rows=64, every=100) as recorder:
        for batch in batches:
            train_step(batch)
            recorder.step()

    trace.jsonl has a line a product: step, operator, module, SHA-256 of every operand and of the
    output; and one for each operator of a module of which a `Judge` would see no product, or that
    failed. Of one in `every` calls of an operator in a module, `rows` rows and columns of the output
    are kept with the operands they need. `mxo judge trace` judges those on any machine, without torch;
    `mxo judge --diff a b` says the first product at which two runs differ, and, if both recorded
    `log_probabilities`, how much of the difference it causes.
    """

    def __init__(self, folder: str | Path, *, rows: int = 64, every: int = 1) -> None:
        super().__init__(1)
        self.folder = Path(_checks.path("Recorder: folder", folder))
        if self.folder.exists() and any(self.folder.iterdir()):
            raise self._in_use()
        self._rows = _checks.whole_from("Recorder: rows", rows, 1)
        self._keep_every = _checks.whole_from("Recorder: every", every, 1)
        self._step = 0
        self._number = 0
        self._kept: dict[tuple[str, str], int] = {}
        self._file: Any = None
        self._out: Any = None
        self._of_step: list[_Kept] = []
        self._told: set[tuple[str, str, str]] = set()

    def _in_use(self) -> Error:
        return Error(f"Recorder: {self.folder} is not empty, needs a new folder", "file")

    def __enter__(self) -> Recorder:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:  # not over the trace of another rank, or of an earlier block
            self._file = (self.folder / "trace.jsonl").open("x")
        except FileExistsError:
            raise self._in_use() from None
        self._write({"schema": "mxo-trace/1", "torch": torch.__version__})
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._file.close()

    def step(self) -> None:
        """Begins the next step: calls are counted from 0 again."""
        self._step += 1
        self._calls.clear()
        self._of_step.clear()

    def log_probabilities(self, values: Tensor) -> None:
        """The log-probabilities of this step: their sum, and where they have a graph (call it
        before `backward`), its derivatives by the outputs of the forward products that are kept.
        Until the next step those outputs stay in memory."""
        gradients = {}
        if values.requires_grad:
            kept = [each for each in self._of_step if each.out.grad_fn is not None]
            with _disable_current_modes():
                slopes = torch.autograd.grad(
                    values.double().sum(), [each.out for each in kept], retain_graph=True,
                    allow_unused=True,
                )  # fmt: skip
                for each, slope in zip(kept, slopes):
                    if slope is not None:
                        gradients[each.file] = self._keep_gradient(each, slope.detach().cpu())
        self._write(
            {
                "step": self._step,
                "log_probabilities": float(values.detach().double().sum()),
                "gradients": gradients,
            }
        )

    def _keep_gradient(self, kept: _Kept, slope: Tensor) -> dict:
        part = corner_of(slope.reshape(kept.product.actual.shape), kept.product, self._rows)
        name = kept.file.replace(".safetensors", ".gradient.safetensors")
        _judge.save(self.folder / name, {"gradient": part.float()})
        return {"file": name, "elements": slope.numel()}

    def _look(self, operator: str, place: tuple[str, int], device: torch.device, out: Any, *rest: Any) -> None:
        self._out = out
        super()._look(operator, place, device, out, *rest)
        self._out = None

    def _of_another_type(self, operator: str, place: tuple[str, int], needs: torch.dtype, gave: torch.dtype,
                         product: Judged | None) -> None:  # fmt: skip
        if isinstance(product, Product):
            out = NAMES[str(needs).removeprefix("torch.")]
            self._seen(operator, place, replace(product, parameters={**product.parameters, "out": out}))
        else:
            super()._of_another_type(operator, place, needs, gave, product)

    def _missed(self, operator: str, place: tuple[str, int], why: str) -> None:
        self._say("unjudged", operator, place, why)

    def _wrong(self, operator: str, place: tuple[str, int], why: str) -> None:
        self._say("FAIL", operator, place, why)

    def _say(self, verdict: str, operator: str, place: tuple[str, int], why: str) -> None:
        """Of calls of which nothing is recorded, the first of an operator in a module."""
        if (operator, place[0], why) not in self._told:
            self._told.add((operator, place[0], why))
            self._write({"step": self._step, "operator": operator, "module": place[0], "call": place[1],
                         "verdict": verdict, "why": why})  # fmt: skip

    def _write(self, line: dict) -> None:
        self._file.write(json.dumps(line) + "\n")

    def _seen(self, operator: str, place: tuple[str, int], product: Judged | None) -> None:
        if not isinstance(product, Product):
            self._missed(operator, place, "no rule for these arguments" if product is None else
                         "attention is not recorded; a Judge judges it")  # fmt: skip
            return
        if product.output in ("y", "dw") and product.actual.shape != product.shape:
            self._wrong(operator, place, f"found {list(product.actual.shape)}, needs {list(product.shape)}")
            return
        seen = self._kept.get((operator, place[0]), 0)
        self._kept[operator, place[0]] = seen + 1
        keep = seen % self._keep_every == 0 and product.op and product.by_rows
        files = [self._keep(product)] if keep and product.actual.numel() > 0 else []
        if files and isinstance(self._out, Tensor) and not in_backward():
            self._of_step.append(_Kept(self._out, replace(product, inputs={}), files[0]))
        self._write(
            {
                "step": self._step,
                "operator": operator,
                "module": place[0],
                "call": place[1],
                "op": product.op,
                "parameters": parameters(product.parameters),
                "inputs": {name: _digest(value) for name, value in product.inputs.items()},
                "output": product.output,
                "digest": _digest(product.actual),
                "rows": files,
            }
        )

    def _keep(self, product: Product) -> str:
        """The name of the file that holds some rows and columns of `product`."""
        name = f"{self._number:06}.safetensors"
        self._number += 1
        part = product.corner(self._rows)
        _judge.save(self.folder / name, {**part.inputs, "output." + part.output: part.actual})
        return name
