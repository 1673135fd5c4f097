"""Arguments of torch operators and of functions on tensors, each taken or refused in one sentence."""
from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Union

import torch
from torch.library import CustomOpDef, custom_op

from mxoracle import _checks
from mxoracle._arrays import NAMES
from mxoracle._errors import Error, Unsupported

_WORDS = {torch.Tensor: "a tensor", str: "text", int: "a whole number", bool: "True or False",
          type(None): "None", list: "a list of whole numbers", torch.dtype: "a torch.dtype",
          torch.Size: "a torch.Size", torch.nn.Module: "a torch.nn.Module"}  # fmt: skip


def _members(hint: Any) -> tuple:
    """The types of which a value may be one."""
    together = typing.get_origin(hint) in (Union, types.UnionType)
    return typing.get_args(hint) if together else (hint,)


def _is(value: Any, hint: Any) -> bool:
    if hint is int:
        whole = None if isinstance(value, torch.SymInt) else _checks.whole(value)
        return isinstance(value, torch.SymInt) or whole is not None and -(2**63) <= whole < 2**63
    if typing.get_origin(hint) is list:
        return isinstance(value, (list, tuple)) and all(_is(each, int) for each in value)
    kind = typing.get_origin(hint) or hint
    return kind is Any or isinstance(value, kind)


def _word(hint: Any) -> str:
    kind = typing.get_origin(hint) or hint
    return _WORDS.get(kind, f"a {kind.__name__}")


def kinds(function: Callable) -> Callable[..., None]:
    """What holds the arguments of a call against the annotations of `function`."""
    signature, name = inspect.signature(function), function.__name__.lstrip("_")
    annotated = function.__init__ if isinstance(function, type) else function

    @functools.cache  # once the names in annotations are all defined
    def hints() -> dict[str, tuple]:
        return {each: _members(hint) for each, hint in typing.get_type_hints(annotated).items()}

    def check(*args: Any, **kwargs: Any) -> None:
        for argument, value in signature.bind(*args, **kwargs).arguments.items():
            members = hints().get(argument, (Any,))
            if not any(_is(value, member) for member in members):
                needs = " or ".join(map(_word, members))
                raise _checks.refusal(f"{name}: {argument}", value, needs)
            if isinstance(value, torch.Tensor) and value.layout != torch.strided:
                raise Error(f"{name}: {argument}: found {value.layout}, needs a dense tensor", "dtype")

    return check


def axes(name: str, tensor: torch.Tensor, count: int) -> None:
    if tensor.dim() != count:
        raise Error(f"{name}: found shape {tuple(tensor.shape)}, needs {count} axes", "shape")


def as_int32(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Whole numbers in the type of the library's maps."""
    if tensor.dtype not in (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8):
        raise Error(f"{name}: found {tensor.dtype}, needs whole numbers", "dtype")
    found = tensor.to(torch.int32)
    if not tensor.is_cuda and not torch.equal(found.to(tensor.dtype), tensor):
        raise Error(f"{name}: found a number beyond 32 bits, needs less", "argument")
    return found


def name_of(kind: torch.dtype) -> str:
    name = str(kind).removeprefix("torch.")
    if name not in NAMES:
        raise Error(f"found a tensor of {kind}, needs one of {', '.join(NAMES)}", "dtype")
    return NAMES[name]


def mode_of(name: str, value: Any) -> str:
    """How a scale is rounded, given as text or as torchao's enumeration."""
    mode = getattr(value, "value", value)
    mode = mode.lower() if isinstance(mode, str) else mode
    if not isinstance(mode, str) or mode not in ("rceil", "floor"):
        raise Unsupported(f"{name}: found {_checks.kind_of(mode)}, needs rceil or floor")
    return mode


def checked(function: Callable) -> Callable:
    check = kinds(function)

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            check(*args, **kwargs)
        return function(*args, **kwargs)

    return inner


class Operator(CustomOpDef):
    """An operator of torch.library that says in our words which argument is of a wrong kind."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            self.check(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def operator(name: str) -> Callable[[Callable], Operator]:
    """`custom_op` of a function without side effects, whose calls are checked."""

    def make(function: Callable) -> Operator:
        made = custom_op(f"mxoracle::{name}", mutates_args=())(function)
        made.__class__, made.check = Operator, kinds(function)
        made.__signature__ = inspect.signature(function)
        return made

    return make
