"""The cases of the golden suites, to parametrise tests over."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mxoracle import _arrays, _checks
from mxoracle._library import core


@dataclass(frozen=True)
class Case:
    """One case of a suite: an operator, its parameters, and reproducible inputs."""

    id: str
    op: str
    parameters: dict[str, str]
    flags: tuple[str, ...]  # the edges it covers
    seed: int
    _make: Callable[[int], Any] = field(repr=False, compare=False)

    @property
    def inputs(self) -> dict[str, Any]:
        """The operands, computed again: torch tensors if torch is loaded, else numpy arrays if numpy is, else
        memoryviews."""
        import sys

        write = _arrays.writer("torch" in sys.modules)
        return {name: write(*rest) for name, *rest in self._make(self.seed)}

    def __str__(self) -> str:
        return self.id


def suite_cases(suite: str = "all", level: int = 0, seed: int = 0) -> list[Case]:
    """The cases of a suite (`mxo list suites`) up to `level`, 0 to 2.

    `@pytest.mark.parametrize("case", mxoracle.suite_cases("quantize"), ids=str)` runs a test over
    them by id; their bytes are those of `mxo generate --seed`.
    """
    _checks.text("suite", suite, "the name of a suite")
    level = _checks.whole_between("level", level, 0, 2)
    seed = _checks.whole_between("seed", seed, 0, 2**64 - 1)
    return [
        Case(name, op, dict(parameters), tuple(flags), seed, make)
        for name, op, parameters, flags, make in core().cases(suite, level)
    ]
