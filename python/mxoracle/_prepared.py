"""Weights that many products read, packed once."""
from __future__ import annotations

from typing import Any

from mxoracle import _arrays
from mxoracle._library import core
from mxoracle._operands import Operands


class PreparedWeights:
    """A copy of weights for many products: an operand for `w` of grouped_matmul, or for any other
    that a product reads as its second factor.

    The first product on a backend "cpu" keeps what it packs of them, later ones pack nothing.  The
    bits are those of `w`, as it was when this was made.

    Operands:
        w: as the operator takes it: [.., N, K], bf16, f16 or f32; or a pair (codes, scales)
    Errors: Error(dtype), Error(shape) for what is no such array; Unsupported for a GPU's memory.
    Thread safety: any threads at once.
    """

    def __init__(self, w: Any) -> None:
        given = Operands()
        given.add("w", w)
        self._kept = core().PreparedWeights(given.views)
        self.prepared_parts = tuple(
            _arrays.PreparedPart(self._kept, *part) for part in self._kept.parts()
        )

    @property
    def packed_bytes(self) -> int:
        """Of what products have packed so far."""
        return self._kept.packed_bytes
