"""Suites at the user's shapes (`mxo generate --op/--model`): operands made anywhere, outputs as digests.

Nothing here needs the library: a GPU machine makes the operands, runs its kernel, and sends a few KB
that `mxo compare SUITE DIR` judges.
"""
from __future__ import annotations

import hashlib
import json
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mxoracle import _checks
from mxoracle import inputs as _inputs
from mxoracle._arrays import NAMES
from mxoracle._errors import Error

SCHEMA, OUTPUTS_SCHEMA = "mxo-shapes/1", "mxo-outputs/1"
_SIZES = {"f64": 8, "i64": 8, "u64": 8, "f32": 4, "i32": 4, "u32": 4}
_TWO = {"bf16", "f16", "i16", "u16"}


@dataclass(frozen=True)
class Region:
    """Rows and columns of an output seen as [product of leading extents, last extent]."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    sha256: bytes


@dataclass(frozen=True)
class VectorCase:
    """One call of a suite: its operands by rule, its outputs by digest."""

    id: str
    op: str
    parameters: dict[str, str]
    seed: int
    recipes: list[dict[str, Any]] = field(repr=False)
    shapes: dict[str, tuple[str, list[int]]]  # of outputs: format and shape
    regions: dict[str, list[Region]] = field(repr=False)

    def inputs(self, device: Any = None) -> dict[str, Any]:
        """The operands: numpy arrays, or torch tensors made on `device`.  Codes and e8m0 scales are uint8."""
        return {
            recipe["name"]: _inputs.operand(recipe, seed=self.seed, device=device)
            for recipe in self.recipes
        }

    def __str__(self) -> str:
        return self.id


def _safetensors(path: Path) -> dict[str, tuple[str, list[int], bytes]]:
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    if length > len(data) - 8:
        raise Error(f"{path}: its header is longer than the file")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return {
        name: (entry["dtype"], entry["shape"], data[8 + length + entry["data_offsets"][0] :][
            : entry["data_offsets"][1] - entry["data_offsets"][0]
        ])
        for name, entry in header.items()
    }  # fmt: skip


def _regions(stored: dict[str, Any], name: str) -> list[Region]:
    _, shape, fields = stored[name + ".regions"]
    digests = stored[name + ".digests"][2]
    found = []
    for i in range(shape[0]):
        _, r0, r1, c0, c1 = struct.unpack_from("<5q", fields, 40 * i)
        found.append(Region((r0, r1), (c0, c1), digests[32 * i : 32 * i + 32]))
    return found


def cases(directory: Any) -> list[VectorCase]:
    """The cases of a suite that `mxo generate DIR --op` or `--model` wrote."""
    directory = Path(_checks.path("vectors: directory", directory))
    try:
        manifest = json.loads((directory / "manifest.json").read_text())
        if manifest.get("schema") != SCHEMA:
            raise Error(f"{directory}: found schema {manifest.get('schema')!r}, needs {SCHEMA!r}")
        found = []
        for item in manifest["cases"]:
            path = directory / "cases" / f"{item['id']}.safetensors"
            if hashlib.sha256(path.read_bytes()).hexdigest() != item["sha256"]:
                raise Error(f"{path}: sha256 differs from the manifest's")
            stored = _safetensors(path)
            outputs = item["outputs"]
            found.append(
                VectorCase(
                    item["id"], item["op"], dict(item["parameters"]), int(item["seed"]),
                    item["inputs"], {o["name"]: (o["format"], list(o["shape"])) for o in outputs},
                    {o["name"]: _regions(stored, o["name"]) for o in outputs},
                )
            )  # fmt: skip
    except OSError as error:
        raise Error(f"{error.filename}: {error.strerror}, needs a suite of mxo generate") from None
    except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
        raise Error(f"{directory}: not a suite of mxo generate --op or --model: {error}") from None
    return found


def _matrix(name: str, output: Any, kind: str, shape: list[int], size: int) -> Any:
    """The output's bytes as uint8 [rows, columns * size]; of its own type, or unsigned bits."""
    if not hasattr(output, "shape") or not hasattr(output, "dtype"):
        raise _checks.refusal(f"digests: {name}", output, "an array of numpy or a tensor of torch")
    if list(output.shape) != shape:
        raise Error(f"digests: {name}: found shape {list(output.shape)}, needs {shape}")
    found = NAMES.get(str(output.dtype).removeprefix("torch."), str(output.dtype))
    if found not in (kind, f"u{8 * size}"):
        raise Error(f"digests: {name}: found {found}, needs {kind} or u{8 * size}")
    columns = shape[-1] if len(shape) > 1 else 1
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(output, torch.Tensor):
        flat = output.detach().resolve_neg().contiguous().view(torch.uint8)
    else:
        import numpy

        if isinstance(output, numpy.ma.MaskedArray):
            raise _checks.refusal(f"digests: {name}", output, "a plain array")
        flat = numpy.ascontiguousarray(output).view(numpy.uint8)
    return flat.reshape(-1, columns * size)


def _bytes(part: Any) -> bytes:
    if hasattr(part, "cpu"):
        part = part.contiguous().cpu().numpy()
    return part.tobytes()


def digests(case: VectorCase, outputs: dict[str, Any], path: Any, most_bytes: int = 1 << 24) -> int:
    """Writes what `mxo compare` needs of `outputs` to `path` (`DIR/<case id>.safetensors`).

    The SHA-256 of every region, and the bytes of regions that differ, up to `most_bytes`; numpy
    arrays, or torch tensors on any device.  Returns how many regions differ.
    """
    if not isinstance(case, VectorCase):
        raise _checks.refusal("digests: case", case, "one of mxoracle.vectors.cases()")
    outputs = _checks.mapping("digests: outputs", outputs, "a dict of arrays by name")
    path = _checks.path("digests: path", path)
    most_bytes = _checks.whole_between("digests: most_bytes", most_bytes, 0, 1 << 40)
    unknown = sorted(set(outputs) - set(case.shapes))
    if unknown:
        raise Error(f"digests: {unknown[0]}: not an output of {case.op}, needs one of {', '.join(case.shapes)}")
    missing = [name for name in case.shapes if name not in outputs]
    if missing:
        raise Error(f"digests: found no {', '.join(missing)}, needs every output of {case.op}")
    tensors: dict[str, tuple[list[int], bytes]] = {}
    differing = 0
    for name, regions in case.regions.items():
        kind, shape = case.shapes[name]
        size = _SIZES.get(kind, 2 if kind in _TWO else 1)
        matrix = _matrix(name, outputs[name], kind, shape, size)
        found = []
        for i, region in enumerate(regions):
            (r0, r1), (c0, c1) = region.rows, region.columns
            data = _bytes(matrix[r0:r1, c0 * size : c1 * size])
            found.append(hashlib.sha256(data).digest())
            if found[-1] == region.sha256:
                continue
            differing += 1
            if len(data) <= most_bytes:
                most_bytes -= len(data)
                tensors[f"{name}.rows.{i}"] = ([len(data)], data)
        tensors[name + ".digests"] = ([len(regions), 32], b"".join(found))
    header: dict[str, Any] = {"__metadata__": {"mxo.schema": OUTPUTS_SCHEMA, "mxo.case": case.id}}
    at = 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "U8", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = Path(path + ".partial")
    try:
        partial.write_bytes(b"".join([struct.pack("<Q", len(text)), text, *(d for _, d in tensors.values())]))
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise Error(f"digests: {path or repr(path)}: not written: {error.strerror}") from None
    return differing
