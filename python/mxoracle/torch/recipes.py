"""How the three products of a linear layer are scaled: the recipes of `grouped_linear`, and those of
other stacks' scale rules, as compositions of the library's operators."""
from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from mxoracle._call import run
from mxoracle import _checks
from mxoracle._errors import Error
from mxoracle._library import core
from mxoracle._tables import operators


@dataclass(frozen=True)
class Recipe:
    """One row.  Blocks are rows x columns that share a scale, the contracted axis last."""

    tokens: str = ""  # of x and dy; empty: operands as they are
    weight: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)  # of `quantize`, beside format and block
    weight_settings: Mapping[str, str] | None = None  # where a weight has others
    wgrad_high: bool = False  # the weight gradient of dy and x as they are
    alignment: int = 16  # of groups where tokens are contracted
    steps: int = 1  # K and N are multiples of

    @property
    def along_tokens(self) -> str:
        rows, columns = self.tokens.split("x")
        return f"{columns.replace('K', 'R')}x{rows}"


def _mx(rule: str, mode: str = "", **more: Any) -> Recipe:
    settings = {"rule": rule, "scale": "e8m0"} | ({"scale_mode": mode} if mode else {})
    return Recipe("1x32", "1x32", settings, alignment=32, steps=32, **more)


def _rows(rule: str, power: str = "", **more: Any) -> Recipe:
    return Recipe("1xK", "1xK", _f32(rule, power), **more)


def _f32(rule: str, power: str) -> dict[str, str]:
    return {"rule": rule, "scale": "f32"} | ({"power_of_2": power} if power else {})


def _blocks(rule: str, power: str = "", **more: Any) -> Recipe:
    return Recipe("1x128", "128x128", _f32(rule, power), alignment=128, **more)


def _vllm(power: str) -> Recipe:
    return _blocks("vllm", power, weight_settings=_f32("deepgemm", power), wgrad_high=True)


# Rules of other stacks.  Where a stack infers only, or its rule has no columns, the weight gradient
# is of the operands as they are.
_MX_MODES = {"": ("rceil", "floor", "ceil", "even"), "te_": ("rceil",), "ocp_": ("rceil", "floor"),
             "torchao_cuda_": ("rceil", "floor")}  # fmt: skip
_MX_ROWS = ("aiter", "aiter_triton", "vllm", "flashinfer", "mlx")
_ROWS = ("vllm", "vllm_cuda", "sglang_cuda", "fbgemm", "fbgemm_triton", "aiter")


def _table() -> dict[str, Recipe]:
    rows = {
        f"{stack}mxfp8_{mode}": _mx(stack.rstrip("_") or "torchao", mode)
        for stack, modes in _MX_MODES.items()
        for mode in modes
    }
    rows |= {
        "microxcaling_mxfp8": _mx("microxcaling"),
        "fp8_rowwise": _rows("torchao", "down"),
        "fp8_blockwise": _blocks("torchao", "none"),
        "te_blockwise": _blocks("te", "down"),
        "te_blockwise_f32": _blocks("te", "none"),
        "flow_blockwise": _blocks("flow", "down"),
        "deepgemm_blockwise": _blocks("deepgemm", "none"),
        "deepgemm_blockwise_up": _blocks("deepgemm", "up"),
        "deepgemm_cuda_blockwise": _blocks("deepgemm_cuda", "none"),
        "deepgemm_cuda_blockwise_up": _blocks("deepgemm_cuda", "up"),
    }
    rows |= {f"{name}_wgrad_with_hp": replace(row, wgrad_high=True) for name, row in rows.items()}
    high = {"wgrad_high": True}
    rows |= {f"{rule}_mxfp8": _mx(rule, **high) for rule in _MX_ROWS}
    rows |= {f"{rule}_blockwise": _blocks(rule, **high) for rule in ("fbgemm", "fbgemm_triton")}
    rows |= {f"{rule}_rowwise": _rows(rule, **high) for rule in _ROWS}
    rows |= {"vllm": _vllm("none"), "vllm_up": _vllm("up"), "plain": Recipe(**high)}
    return rows


RECIPES = _table()


@functools.cache
def _of_library() -> list[str]:
    entry = next(entry for entry in operators() if entry["name"] == "grouped_linear")
    spec = next(spec for spec in entry["parameters"] if spec["key"] == "recipe")
    return spec["values"].split("|")


def recipes() -> list[str]:
    """Every recipe: those of `mxo list ops grouped_linear` and those of other stacks' rules."""
    return list(dict.fromkeys([*_of_library(), *RECIPES]))


def library_takes(recipe: str, formats: str, sum: str, kinds: set[torch.dtype]) -> bool:
    """True if one call of the library's grouped_linear is the layer."""
    return recipe in _of_library() and "/" not in formats + sum and torch.float16 not in kinds


def aligned(ends: Tensor, rows: int, alignment: int) -> bool:
    """True if padding would change nothing, as the shapes tell: one group, a multiple of rows."""
    return ends.numel() == 1 and rows % alignment == 0


@torch.compiler.assume_constant_result  # what compiled calls ask of the library
def canonical(name: str) -> str:
    """A recipe's own name, where other libraries call it otherwise (`MXFP8_RCEIL`)."""
    if not isinstance(name, str):
        raise _checks.refusal("convert: recipe", name, "a name of mxoracle.torch.recipes()")
    if name in RECIPES:
        return name
    try:
        return core().recipe_named(name)
    except Error:
        return name


def recipe_named(name: str) -> Recipe:
    """The row of a recipe; of bf16, which only the library's grouped_linear has, that of `plain`."""
    name = canonical(name)
    if name not in RECIPES and name not in _of_library():
        known = ", ".join(recipes()[:9])
        raise Error(f"convert: recipe: found '{name}', needs one of {known}, or another of "
                    "mxoracle.torch.recipes()")  # fmt: skip
    return RECIPES.get(name, RECIPES["plain"])


def _type_of(x: Tensor) -> str:
    """The type of a product of tensors like x: f16 is rounded from f32."""
    return "bf16" if x.dtype == torch.bfloat16 else "f32"


class Layer:
    """y = x w^T by groups in a recipe, and its gradients, composed of quantize and grouped products.

    formats: of codes, "e4m3", or "e4m3/e5m2" where gradients have another.  sum: a name of `mxo
    list sums`; two, with a slash, where weight gradients have another.  Of operands f16 the result is the f32 one, rounded.
    """

    def __init__(self, recipe: str, formats: str, sum: str, backend: str) -> None:
        self.row = recipe_named(recipe)
        self.format, _, other = formats.partition("/")
        self.gradients = other or self.format
        self.sum, _, other = sum.partition("/")
        self.weight_gradient_sum = other or self.sum
        self.backend = backend

    def _run(self, op: str, tensors: Mapping[str, Any], **parameters: Any) -> Any:
        return run(op, tensors, backend=self.backend, **parameters)

    def scaled(self, x: Tensor, block: str, format: str, weight: bool = False,
               ends: Tensor | None = None) -> Any:  # fmt: skip
        """Codes and scales of x, or x where the recipe has none."""
        row = self.row
        if not block:
            return x
        settings = row.weight_settings if weight and row.weight_settings else row.settings
        tensors = {"x": x} | ({} if ends is None else {"group_ends": ends})
        found = self._run("quantize", tensors, format=format, block=block, **settings)
        return found["codes"], found["scales"]

    def _product(self, x: Any, w: Any, ends: Tensor, format_x: str, like: Tensor) -> Tensor:
        blocks = {"block_x": self.row.tokens, "block_w": self.row.weight} if self.row.tokens else {}
        found = self._run("grouped_matmul", {"x": x, "w": w, "group_ends": ends}, sum=self.sum,
                          format_x=format_x, format_w=self.format, out=_type_of(like), **blocks)  # fmt: skip
        return found["y"].to(like.dtype)

    def forward(self, x: Tensor, w: Tensor, ends: Tensor, bias: Tensor | None) -> Tensor:
        row = self.row
        y = self._product(self.scaled(x, row.tokens, self.format),
                          self.scaled(w, row.weight, self.format, weight=True), ends, self.format, x)  # fmt: skip
        if bias is None:
            return y
        wide = y if y.dtype != torch.float16 else y.float()
        tensors = {"y": wide, "bias": bias.to(wide.dtype), "group_ends": ends}
        return self._run("add_bias", tensors, out=_type_of(y))["out"].to(y.dtype)

    def input_gradient(self, dy: Tensor, w: Tensor, ends: Tensor, like: Tensor) -> Tensor:
        row = self.row
        return self._product(self.scaled(dy, row.tokens, self.gradients),
                             self.scaled(w.transpose(1, 2), row.weight, self.format, weight=True),
                             ends, self.gradients, like)  # fmt: skip

    def weight_gradient(self, dy: Tensor, x: Tensor, ends: Tensor, like: Tensor) -> Tensor:
        row = self.row
        sides = {"dy": dy, "x": x}
        blocks: dict[str, str] = {}
        if row.wgrad_high and row.tokens:  # "high" is bf16 for operands of f32
            sides = {name: side.bfloat16() if side.dtype == torch.float32 else side
                     for name, side in sides.items()}  # fmt: skip
        if not row.wgrad_high and not aligned(ends, len(x), row.alignment):
            padded = {name: self._run("pad_groups", {"x": side, "group_ends": ends},
                                      alignment=row.alignment) for name, side in sides.items()}  # fmt: skip
            sides = {name: found["y"] for name, found in padded.items()}
            ends = padded["x"]["padded_ends"]
        if not row.wgrad_high:
            block = row.along_tokens
            apart = None if row.steps == 32 else ends  # blocks of 32 end where padded groups do
            kinds = {"dy": self.gradients, "x": self.format}
            sides = {name: self.scaled(side, block, kinds[name], ends=apart)
                     for name, side in sides.items()}  # fmt: skip
            blocks = {"block_dy": block, "block_x": block,
                      "format_dy": self.gradients, "format_x": self.format}  # fmt: skip
        found = self._run("grouped_matmul_wgrad", {**sides, "group_ends": ends},
                          sum=self.weight_gradient_sum, out=_type_of(like), **blocks)  # fmt: skip
        return found["dw"].to(like.dtype)

    def bias_gradient(self, dy: Tensor, ends: Tensor, like: Tensor) -> Tensor:
        wide = dy if dy.dtype != torch.float16 else dy.float()
        over = "groups" if like.dim() == 2 else "rows"
        found = self._run("column_sum", {"x": wide, "group_ends": ends}, over=over, out=_type_of(like))
        return found["sum"].to(like.dtype)
