"""Expert layers whose weights are DTensors: experts on ranks of their own, or whole weights again."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

if torch.distributed.is_available():
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard


def is_cut(*tensors: Tensor | None) -> bool:
    return torch.distributed.is_available() and any(isinstance(each, DTensor) for each in tensors)


def whole(tensor: Tensor | None) -> Tensor | None:
    """A DTensor as every rank's own, its gradient the same on all of them; others as they are."""
    if not is_cut(tensor):
        return tensor
    return tensor.full_tensor(grad_placements=[Replicate()] * tensor.device_mesh.ndim)


def product(of: Callable[..., Tensor], x: Tensor, w: Tensor, ends: Tensor, bias: Tensor | None) -> Tensor:
    """`of` whole operands, the same on every rank; a DTensor where x is one."""
    y = of(whole(x), whole(w), whole(ends), whole(bias))
    if not is_cut(x):
        return y
    return DTensor.from_local(y, x.device_mesh, [Replicate()] * x.device_mesh.ndim, run_check=False)


def _summed(tensor: Tensor, mesh: Any) -> Tensor:
    """The same number on every rank, each of which has a part of its gradient."""
    if not isinstance(tensor, DTensor):
        tensor = DTensor.from_local(tensor, mesh, [Replicate()], run_check=False)
    return tensor.redistribute(mesh, [Replicate()]).to_local(grad_placements=[Partial()])


def experts(part: Callable[[str], Tensor], names: list[str], of: Callable[..., Tensor], x: Tensor,
            chosen: Tensor, weights: Tensor) -> Tensor:  # fmt: skip
    """`of(part, x, chosen, weights)`, a layer of experts whose parameters `names` are DTensors.  Cut by
    experts, evenly and over one dimension of a mesh, each rank has the share of its own and the sum goes
    to all; otherwise every rank has all experts for as long as the layer takes."""
    parts = [part(name) for name in names]
    mesh, count = parts[0].device_mesh, parts[0].shape[0]
    by_experts = mesh.ndim == 1 and count % mesh.size() == 0 and all(
        is_cut(each) and each.placements == (Shard(0),) for each in parts)  # fmt: skip
    came_cut = isinstance(x, DTensor)
    if by_experts:
        local = count // mesh.size()
        mine = whole(chosen) - mesh.get_local_rank() * local
        mine = torch.where((mine >= 0) & (mine < local), mine, local)  # which is no expert
        y = of(lambda name: part(name).to_local(), _summed(x, mesh), mine, _summed(weights, mesh))
        y = DTensor.from_local(y, mesh, [Partial()], run_check=False).redistribute(mesh, [Replicate()])
        return y if came_cut else y.to_local()
    y = of(lambda name: whole(part(name)), whole(x), whole(chosen), whole(weights))
    placed = [Replicate()] * mesh.ndim
    return DTensor.from_local(y, mesh, placed, run_check=False) if came_cut else y
