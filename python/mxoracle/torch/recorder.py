"""A running model's products as digests and rows, to be judged elsewhere (`mxo judge`)."""
from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from mxoracle import _judge
from mxoracle._call import parameters
from mxoracle._errors import Error
from mxoracle.torch.judge import Watcher
from mxoracle.torch.products import Product


def _digest(value: Any) -> str:
    """SHA-256 of a tensor's type, shape and bytes; of a pair, of both."""
    total = hashlib.sha256()
    for tensor in value if isinstance(value, tuple) else (value,):
        total.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        total.update(memoryview(tensor.contiguous().view(-1).view(torch.uint8).numpy()))
    return total.hexdigest()


class Recorder(Watcher):
    """Writes what every product inside of it read and gave, forward and backward, to `folder`.

    with mxoracle.torch.Recorder("trace", rows=64, every=100) as recorder:
        for batch in batches:
            train_step(batch)
            recorder.step()

    trace.jsonl has a line a product: step, operator, module, SHA-256 of every operand and of the
    output.  Of one in `every` calls of an operator in a module, `rows` rows and columns of the
    output are kept with the operands they need.  `mxo judge trace` judges those on any machine,
    without torch; `mxo judge --diff a b` says at which product two runs part.
    """

    def __init__(self, folder: str | Path, *, rows: int = 64, every: int = 1) -> None:
        super().__init__(1)
        if rows < 1 or every < 1:
            raise Error("Recorder: found rows or every below 1, needs at least 1")
        self.folder = Path(folder)
        if self.folder.exists() and any(self.folder.iterdir()):
            raise Error(f"Recorder: {folder} is not empty, needs a new folder", "file")
        self._rows, self._keep_every = rows, every
        self._step = 0
        self._number = 0
        self._kept: dict[tuple[str, str], int] = {}
        self._file: Any = None

    def __enter__(self) -> Recorder:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file = (self.folder / "trace.jsonl").open("w")
        self._write({"schema": "mxo-trace/1", "torch": torch.__version__})
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._file.close()

    def step(self) -> None:
        """The next step begins: calls are counted anew."""
        self._step += 1
        self._calls.clear()

    def _write(self, line: dict) -> None:
        self._file.write(json.dumps(line) + "\n")

    def _seen(self, operator: str, place: tuple[str, int], product: Product | None) -> None:
        if not isinstance(product, Product):
            return
        seen = self._kept.get((operator, place[0]), 0)
        self._kept[operator, place[0]] = seen + 1
        keep = seen % self._keep_every == 0 and product.op and product.by_rows
        parts = product.forward() if keep else []
        files = [self._keep(part) for part in parts if part.actual.numel() > 0]
        shown = (parts or [product])[0]
        self._write(
            {
                "step": self._step,
                "operator": operator,
                "module": place[0],
                "call": place[1],
                "op": shown.op,
                "parameters": parameters(shown.parameters),
                "inputs": {name: _digest(value) for name, value in product.inputs.items()},
                "output": shown.output,
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
