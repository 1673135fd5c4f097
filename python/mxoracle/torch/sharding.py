"""DTensors into `quantize` and `dequantize`: imported once, shards are cast where they lie.

A shard is cast alone where its edges are those of blocks; otherwise the tensor is gathered first.  The
bits are those of the whole tensor.
"""
from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor.experimental import register_sharding

from mxoracle.torch.operators import _block


def _axes(shape: torch.Size, block: tuple[int, int], ranks: int) -> list[int]:
    """Those along which each of `ranks` shards is whole blocks."""
    extents = (1,) * (len(shape) - 2) + block
    return [axis for axis, extent in enumerate(extents) if shape[axis] % (extent * ranks) == 0]


def _alike(axes: list[int], outputs: int, tensors: int, others: int) -> list:
    """All outputs and operands replicated, or sharded along one of the axes."""
    each = [Replicate(), *map(Shard, axes)]
    return [([one] * outputs, [one] * tensors + [None] * others) for one in each]


@register_sharding(torch.ops.mxoracle.quantize.default)
def _quantize(x: Any, format: str = "e4m3", scale_mode: str = "rceil", block: str = "1x32",
              *others: str) -> list:  # fmt: skip
    rows, columns = x.shape[-2:]
    axes = _axes(x.shape, _block(block, rows, columns), x.mesh.size())
    return _alike(axes, 2, 1, 3 + len(others))


@register_sharding(torch.ops.mxoracle.dequantize.default)
def _dequantize(codes: Any, scales: Any, *others: str) -> list:
    block = tuple(-(-extent // of) for extent, of in zip(codes.shape[-2:], scales.shape[-2:]))
    axes = _axes(codes.shape, block, codes.mesh.size())
    return _alike([axis for axis in axes if scales.shape[axis] % codes.mesh.size() == 0], 1, 2, len(others))


# A rule depends on the settings, which are texts; torch remembers rules by integers only.
for _op, _first in ((torch.ops.mxoracle.quantize, 1), (torch.ops.mxoracle.dequantize, 2)):
    DTensor._op_dispatcher.sharding_propagator.op_to_schema_info[_op.default] = RuntimeSchemaInfo(_first)
