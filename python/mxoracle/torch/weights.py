"""Weights that are multiplied in a recipe by whatever module holds them."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import _pytree as pytree

from mxoracle import _checks
from mxoracle._errors import Unsupported
from mxoracle.torch.dense import scaled_product
from mxoracle.torch.experts import GROUPED
from mxoracle.torch.linear import scaled_linear

_aten = torch.ops.aten
_KEPT = {
    _aten.detach.default, _aten.empty_like.default, _aten.new_zeros.default, _aten.slice.Tensor,
    _aten.select.int, _aten.view.default, _aten.as_strided.default, _aten._to_copy.default,
    _aten._pin_memory.default, _aten.split.Tensor, _aten.clone.default, _aten.transpose.int,
    _aten.t.default, _aten.alias.default, _aten.unbind.int, _aten.permute.default,
    _aten.index.Tensor, _aten.index_select.default, _aten.unsqueeze.default, _aten.squeeze.dim,
    _aten.expand.default, _aten.split_with_sizes.default, _aten._unsafe_view.default,
    torch.ops.c10d.scatter_.default,
}  # fmt: skip
# Where these meet such a weight, a product has passed the recipe by.
_REFUSED = {
    _aten.mm.default, _aten.addmm.default, _aten.bmm.default, _aten.baddbmm.default, _aten.mv.default,
    _aten.dot.default, _aten._grouped_mm.default,
}  # fmt: skip
_PRODUCTS = {torch.mm, torch.matmul, Tensor.mm, Tensor.matmul, Tensor.__matmul__}


class ScaledWeight(Tensor):
    """A weight whose products are in a recipe: linear(x, w), x @ w.t() and torch._grouped_mm of rows
    and of experts.  Other products, also of a DTensor of such, are refused; to everything else it is
    the plain tensor."""

    @staticmethod
    def __new__(cls, plain: Tensor, settings: tuple[str, str, str]) -> ScaledWeight:
        if not isinstance(plain, Tensor):
            raise _checks.refusal("ScaledWeight: plain", plain, "a tensor")
        if not isinstance(settings, tuple) or [type(each) for each in settings] != [str] * 3:
            raise _checks.refusal("ScaledWeight: settings", settings, "a tuple of recipe, format and sum")
        return Tensor._make_wrapper_subclass(
            cls, plain.shape, strides=plain.stride(), storage_offset=plain.storage_offset(),
            dtype=plain.dtype, layout=plain.layout, device=plain.device,
            requires_grad=plain.requires_grad,
        )  # fmt: skip

    def __init__(self, plain: Tensor, settings: tuple[str, str, str]) -> None:
        self.plain = plain
        self.settings = settings  # recipe, format, sum

    def __repr__(self) -> str:  # type: ignore[override]
        return f"ScaledWeight({self.plain}, recipe={self.settings[0]})"

    def __tensor_flatten__(self) -> tuple[list[str], tuple]:
        return ["plain"], self.settings

    @staticmethod
    def __tensor_unflatten__(inner: dict, settings: tuple, size: Any, stride: Any) -> ScaledWeight:
        return ScaledWeight(inner["plain"], settings)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if func is functional.linear and isinstance(args[1], cls):
                return _linear(*args, **kwargs)
            if func in _PRODUCTS and isinstance(args[1], cls) and args[1].dim() == 2:
                return _linear(args[0], args[1].t())
            if func is torch.addmm and isinstance(args[2], cls) and not kwargs:
                return _linear(args[1], args[2].t(), args[0])
            if func in GROUPED and isinstance(args[1], cls):
                return _grouped(*args, **kwargs)
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _REFUSED:
            raise Unsupported(f"ScaledWeight: found {func}, which the recipe does not cover; needs "
                              "linear(x, w), x @ w.t() or torch._grouped_mm")  # fmt: skip
        found = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, cls)]
        plain = pytree.tree_map_only(cls, lambda each: each.plain, (args, kwargs or {}))
        out = func(*plain[0], **plain[1])
        if func._schema.is_mutable and args and isinstance(args[0], cls):
            return args[0]
        if func not in _KEPT:
            return out
        return pytree.tree_map_only(Tensor, lambda each: cls(each, found[0].settings), out)

    def fsdp_pre_all_gather(self, mesh: Any, outer_size: Any, outer_stride: Any, module: nn.Module,
                            mp_policy: Any) -> tuple:  # fmt: skip
        kind = getattr(mp_policy, "param_dtype", None)
        return (self.plain if kind is None else self.plain.to(kind),), None

    def fsdp_post_all_gather(self, outputs: tuple[Tensor, ...], metadata: Any, param_dtype: Any,
                             *, out: Tensor | None = None) -> Any:  # fmt: skip
        (gathered,) = outputs
        if out is None:
            return ScaledWeight(gathered, self.settings), outputs
        held = getattr(out, "_local_tensor", out).plain
        if held.untyped_storage().data_ptr() != gathered.untyped_storage().data_ptr():
            held.copy_(gathered)
        return None


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return scaled_product(input, weight, bias, weight.settings)


def _grouped(x: Tensor, w: Tensor, offs: Tensor | None = None, bias: Tensor | None = None,
             out_dtype: torch.dtype | None = None) -> Tensor:  # fmt: skip
    if x.dim() != 2 or w.dim() != 3 or offs is None or out_dtype not in (None, x.dtype):
        raise Unsupported(f"_grouped_mm: found {tuple(x.shape)} by {tuple(w.shape)}, needs rows by "
                          "[E, K, N] with offs, and no other out_dtype")  # fmt: skip
    return scaled_linear(x, w.transpose(-2, -1), offs, bias, *w.settings)


def wrap(model: nn.Module, weights: list[nn.Parameter], settings: tuple[str, str, str]) -> None:
    """Makes parameters of `model` ScaledWeights, in whatever module; those of an earlier call get the
    settings."""
    ours = {}
    for weight in weights:
        plain = weight.data.plain if isinstance(weight.data, ScaledWeight) else weight.data
        ours[id(weight)] = nn.Parameter(ScaledWeight(plain, settings), weight.requires_grad)
    for module in model.modules():
        for name, parameter in module._parameters.items():
            module._parameters[name] = ours.get(id(parameter), parameter)
