"""The tables of the library: operators, formats, backends, sums, suites."""
from __future__ import annotations

from typing import Any

from mxoracle._library import core


def operators() -> list[dict[str, Any]]:
    """Every operator: name, purpose, inputs, outputs, parameters."""
    return core().operators()


def list_ops() -> list[str]:
    """The names of all operators (`mxo list ops`)."""
    return [entry["name"] for entry in operators()]


def list_formats() -> list[str]:
    """The names of all element types."""
    return [name for name, _, _ in core().element_types()]


def list_backends() -> dict[str, str]:
    """The backends that run here, and what each is."""
    return {name: why for name, available, why in core().backends() if available}


def list_sums() -> list[str]:
    """How products can be summed (`mxo list sums`)."""
    return list(dict.fromkeys(name for name, _, _ in core().sums()))


def list_suites() -> dict[str, str]:
    """The golden suites and what each is for."""
    return dict(core().suites())
