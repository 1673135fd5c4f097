"""nn.Linear in a recipe: the layer, on plain weights and on shards of DTensors."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from mxoracle import _checks
from mxoracle._errors import Error, Unsupported
from mxoracle.torch import arguments, main_grads
from mxoracle.torch.linear import right
from mxoracle.torch.recipes import canonical, recipe_named


def rows_by_one(x: Tensor, w: Tensor, bias: Tensor | None, settings: tuple[str, str, str]) -> Tensor:
    """y [.., N] of x [.., K] and w [N, K]: one group of all rows."""
    rows = x.reshape(-1, x.shape[-1])
    ends = right(torch.full((1,), rows.shape[0], dtype=torch.int32, device=x.device), rows.shape[0])
    y = main_grads.product(rows, w.unsqueeze(0), ends, bias, settings)
    return y.view(*x.shape[:-1], w.shape[0])


def scaled_product(x: Tensor, w: Tensor, bias: Tensor | None, settings: tuple[str, str, str]) -> Tensor:
    """torch.nn.functional.linear in recipe, format and sum."""
    if torch.is_autocast_enabled(x.device.type):
        kind = torch.get_autocast_dtype(x.device.type)
        x, w, bias = (None if each is None else each.to(kind) for each in (x, w, bias))
    if x.dtype != w.dtype:
        raise Error(f"Linear: found x of {x.dtype} and weight of {w.dtype}, needs one type", "dtype")
    if torch.distributed.is_available():
        from torch.distributed.tensor import DTensor

        if isinstance(w, DTensor):
            return _on_shards(x, w, bias, settings)
    return rows_by_one(x, w, bias, settings)


def _on_shards(x: Tensor, w: Tensor, bias: Tensor | None, settings: tuple[str, str, str]) -> Tensor:
    """Of a weight cut along N (column-wise), along K (row-wise) or not at all, over one dimension
    of a mesh."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    mesh, (how, *more) = w.device_mesh, w.placements
    if more:
        raise Unsupported(f"Linear: found a weight over {mesh.ndim} dimensions of a mesh, needs one")
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, [Replicate()], run_check=False)
    last = x.dim() - 1
    if how.is_shard(0):
        side, gradient, result = Replicate(), Partial(), Shard(last)
    elif how.is_shard(1):
        side, gradient, result = Shard(last), Shard(last), Partial()
    elif how.is_replicate():
        side = x.placements[0]
        side = Replicate() if side.is_partial() or side.is_shard(last) else side
        gradient, result = side, side
    else:
        raise Unsupported(f"Linear: found a weight that is {how}, needs Shard(0), Shard(1) or Replicate")
    weight_gradient = Partial() if how.is_replicate() and side.is_shard() else how
    rows = x.redistribute(mesh, [side]).to_local(grad_placements=[gradient])
    local = None if bias is None or result.is_partial() else bias.to_local(grad_placements=[
        weight_gradient if how.is_replicate() else bias.placements[0]])  # fmt: skip
    y = rows_by_one(rows, w.to_local(grad_placements=[weight_gradient]), local, settings)
    y = DTensor.from_local(y, mesh, [result], run_check=False)
    return y + bias if result.is_partial() and bias is not None else y


class Linear(nn.Linear):
    """y = x w^T + bias in a recipe.  `convert` makes an nn.Linear one where it stands: parameters,
    hooks and references to the module stay valid."""

    recipe: str
    format: str
    sum: str

    def __init__(self, in_features: int, out_features: int, bias: bool = True,
                 device: torch.device | str | None = None, dtype: torch.dtype | None = None, *,
                 recipe: str = "mxfp8_rceil", format: str = "e4m3", sum: str = "exact") -> None:  # fmt: skip
        _checked(in_features, out_features, bias, device, dtype, recipe=recipe, format=format, sum=sum)
        extents = [_checks.whole_from(f"Linear: {name}", extent, 1) for name, extent in
                   (("in_features", in_features), ("out_features", out_features))]  # fmt: skip
        recipe_named(recipe)
        try:
            super().__init__(*extents, bias, device, dtype)
        except RuntimeError as error:  # a device that is not there, or memory
            raise Error(f"Linear: found {extents[1]} x {extents[0]} on {device}: {str(error).splitlines()[0]}"
                        ) from None  # fmt: skip
        self.recipe, self.format, self.sum = canonical(recipe), format, sum

    @classmethod
    def of(cls, theirs: nn.Linear, recipe: str, format: str, sum: str) -> Linear:
        theirs.__class__ = cls
        theirs.recipe, theirs.format, theirs.sum = recipe, format, sum
        return theirs  # type: ignore[return-value]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, recipe={self.recipe}, format={self.format}, sum={self.sum}"

    def forward(self, input: Tensor) -> Tensor:
        return scaled_product(input, self.weight, self.bias, (self.recipe, self.format, self.sum))


_checked = arguments.kinds(Linear)
