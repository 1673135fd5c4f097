"""Arguments that the catalogue does not know, each taken or refused in one sentence."""
from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import Any

from mxoracle._errors import Error


def kind_of(value: Any) -> str:
    """A value as a refusal names it: a short one itself, of others the type."""
    if value is None or isinstance(value, (str, bytes, bool, int, float)):
        text = repr(value)
        return text if len(text) <= 60 else text[:56] + " ..."
    return type(value).__name__


def refusal(name: str, value: Any, needs: str) -> Error:
    return Error(f"{name}: found {kind_of(value)}, needs {needs}")


def text(name: str, value: Any, needs: str = "text") -> str:
    if not isinstance(value, str) or "\0" in value:
        raise refusal(name, value, needs)
    return value


def texts(name: str, value: Any) -> list[str]:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise refusal(name, value, "a list of text")
    return [text(name, each) for each in value]


def one_of(name: str, value: Any, names: Any) -> str:
    if not isinstance(value, str) or value not in names:
        raise refusal(name, value, "one of " + ", ".join(names))
    return value


def plain_number(value: Any) -> Any:
    """A scalar of numpy or an array without axes as Python's number; all else as it is."""
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return value
    try:
        return value.item()
    except (RuntimeError, ValueError, TypeError):  # a tensor without data
        return value


def whole(value: Any) -> int | None:
    """A whole number of any library, or None: booleans and floats do not count."""
    value = plain_number(value)
    if isinstance(value, bool) or hasattr(value, "shape"):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def whole_from(name: str, value: Any, least: int) -> int:
    found = whole(value)
    if found is None or found < least:
        raise refusal(name, value, f"a whole number from {least} on")
    return found


def whole_between(name: str, value: Any, least: int, most: int) -> int:
    found = whole(value)
    if found is None or not least <= found <= most:
        raise refusal(name, value, f"a whole number from {least} to {most}")
    return found


def not_negative(name: str, value: Any) -> float:
    number = plain_number(value)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not number >= 0:
        raise refusal(name, value, "a number from 0 on")
    return min(number, 1e300)


def mapping(name: str, value: Any, needs: str) -> Mapping[str, Any]:
    """A dict whose keys are text."""
    if not isinstance(value, Mapping):
        raise refusal(name, value, needs)
    for key in value:
        text(name, key, "text as the name of each")
    return value


def path(name: str, value: Any) -> str:
    try:
        return text(name, os.fspath(value), "the path of a file")
    except TypeError:
        raise refusal(name, value, "the path of a file") from None


def gate(value: Any) -> str:
    return text("gate", value, '"bits", "ulp=N", "sqnr=DB", "sqnr=auto" or "bound"')
