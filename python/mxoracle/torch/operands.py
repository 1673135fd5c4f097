"""Operands of a call: what they were, and which of them it wrote over."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves


def copied(tensor: Tensor) -> Tensor:
    """On the host, whatever becomes of it; an axis that repeats one element does so still."""
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        return tensor.cpu()
    if tensor.layout != torch.strided:
        return tensor.clone()
    once = tuple(slice(0, 1) if step == 0 else slice(None) for step in tensor.stride())
    return tensor[once].clone().expand(tensor.shape)


def same(a: Tensor, b: Tensor) -> bool:
    """True where both have the same bytes."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    whole = (side.resolve_conj().resolve_neg().contiguous() for side in (a, b))
    return torch.equal(*(side.view(-1).view(torch.uint8) for side in whole))


def memory(value: Any) -> int:
    """Where the bytes of a tensor or an array lie."""
    if isinstance(value, Tensor):
        return value.untyped_storage().data_ptr()
    return value.__array_interface__["data"][0]


def _written(then: Any, now: Any) -> bool:
    if not isinstance(now, Tensor):
        return then.tobytes() != now.tobytes()
    return not same(then.cpu(), now.detach().cpu())


def overwritten(then: dict[str, Any], now: dict[str, Any], results: Any) -> list[str]:
    """Names of operands that no longer hold what they held, but for those in whose memory a result
    is meant to lie."""
    into = {memory(leaf) for leaf in tree_leaves(results) if _readable(leaf)}
    return [name for name, held in then.items()
            if any(_written(old, new) for old, new in zip(tree_leaves(held), tree_leaves(now[name]))
                   if _readable(new) and memory(new) not in into)]  # fmt: skip


def _readable(value: Any) -> bool:
    if isinstance(value, Tensor):
        kinds = (Tensor, torch.nn.Parameter)  # others have bytes elsewhere
        return type(value) in kinds and value.layout == torch.strided and not value.is_meta
    return hasattr(value, "__array_interface__")


def named(func: Any, args: tuple, kwargs: dict) -> dict[str, Any]:
    """The arguments of an operator by their names."""
    return {spec.name: value for spec, value in zip(func._schema.arguments, args)} | kwargs


def written_by(func: Any, arguments: dict[str, Any]) -> list[Any]:
    """Those that an operator says it writes."""
    return [arguments.get(spec.name) for spec in func._schema.arguments
            if spec.alias_info is not None and spec.alias_info.is_write]  # fmt: skip
