"""Attention held against softmax(q k^T scale + mask) v in doubles, within a bound."""
from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mxoracle.torch.reals import U32, U64, UP, Held, against, gamma, shape_checked

# An exponential in f32 is taken to be within so many units of the last place (SLEEF's is 1, CUDA's
# exp2.approx 2), as is the rescaling of each block of keys.
EXP_ULPS = 4
_BLOCK = 16  # the fewest keys between two rescalings


@dataclass(frozen=True)
class Attention:
    """One call: q [B, H, L, D], k [B, H, S, D], v [B, H, S, V]; the mask is added to the scores."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None  # [.., L, S], of numbers, or of booleans: true is kept
    causal: bool
    scale: float
    actual: Tensor  # [B, H, L, V]
    rows: Tensor | None = None  # which of L there are

    op = ""
    output = "out"
    bits = False  # its rounding is not defined: there is no reference for bits

    @property
    def elements(self) -> int:
        return self.actual.numel()

    @property
    def shape(self) -> tuple[int, ...]:
        return *self.q.shape[:-1], self.v.shape[-1]

    @property
    def macs(self) -> int:
        batch, heads, length, depth = self.q.shape
        return batch * heads * length * self.k.shape[-2] * (depth + self.v.shape[-1])

    def sampled(self, macs: int) -> Attention:
        """Of rows of L only, spread evenly, of at most `macs`."""
        length = self.q.shape[-2]
        count = max(1, length * macs // max(self.macs, 1))
        if count >= length:
            return self
        rows = torch.linspace(0, length - 1, count).round().long().unique()
        mask = self.mask
        if mask is not None and mask.shape[-2] == length:
            mask = mask.index_select(-2, rows)
        return replace(self, q=self.q.index_select(-2, rows), mask=mask, rows=rows,
                       actual=self.actual.index_select(-2, rows))  # fmt: skip

    def _masked(self, scores: Tensor) -> Tensor:
        if self.causal:
            rows = torch.arange(self.q.shape[-2]) if self.rows is None else self.rows
            after = torch.arange(scores.shape[-1])[None, :] > rows[:, None]
            scores = scores.masked_fill(after, -math.inf)
        if self.mask is None:
            return scores
        if self.mask.dtype == torch.bool:
            return scores.masked_fill(~self.mask, -math.inf)
        return scores + self.mask.double()

    def held(self) -> Held:
        """Against the real value, within
        sum_j p_j |v_j| ((1 + e)(1 + u)(1 + gamma_S) / ((1 - e)(1 - gamma_S)) - 1) + half a step,
        e the relative error of an exponential in f32 of a score that was itself summed in f32, u
        the rounding of probabilities to the type of v.  Rows whose keys are all masked are not
        compared; those with a score of NaN or infinity have no bound."""
        q, k, v = (part.double() for part in (self.q, self.k, self.v))
        shape_checked(self.actual, (*q.shape[:-1], v.shape[-1]))
        depth, keys = q.shape[-1], k.shape[-2]
        scores = self._masked((q @ k.transpose(-1, -2)) * self.scale)
        sizes = (q.abs() @ k.abs().transpose(-1, -2)) * abs(self.scale)
        top = scores.amax(-1, keepdim=True)
        owed = ~(top < torch.finfo(self.q.dtype).min / 2).squeeze(-1)  # masks may be that finite number
        unknown = ~top.isfinite()
        top = torch.where(unknown, 0.0, top)
        weights = (scores - top).exp()
        seen = weights > 0
        # Of a score: its sum, its scale or those of q and k, the mask, the subtraction of a top.
        error = sizes * (gamma(depth + 4, U32) + gamma(depth, U64)) * UP
        error = error + (scores - top).abs().nan_to_num(posinf=0.0) * 2 * U32 + top.abs() * U32
        error = torch.where(seen, error, 0.0).amax(-1, keepdim=True)
        units = EXP_ULPS * (1 + math.ceil(keys / _BLOCK)) * 2 * U32
        relative = torch.expm1(2 * error) + (2 * error).exp() * units
        whole = gamma(keys + 2, U32)
        digits = {torch.bfloat16: 8, torch.float16: 11}.get(self.v.dtype, 24)
        stretch = (1 + relative) * (1 + 2.0**-digits) * (1 + whole)
        total = weights.sum(-1, keepdim=True).clamp(min=1.0)
        sums = weights @ v / total
        mean = weights @ v.abs() / total
        shrink = (1 - relative) * (1 - whole)
        factor = torch.where(shrink > 0, stretch / shrink - 1, math.inf)
        stray = mean * (factor + gamma(keys + depth + 8, U64)) * UP
        if self.v.dtype == torch.float16:  # small probabilities lose digits in f16
            stray = stray + 2.0**-25 * v.abs().sum(-2, keepdim=True)
        stray = stray + keys * 2.0**-149
        sums, stray, unknown, actual = sums[owed], stray[owed], unknown[owed], self.actual[owed].contiguous()
        beyond, distance, unowed = against(actual, sums, stray)
        beyond, distance, unowed = beyond & ~unknown, torch.where(unknown, 0.0, distance), unowed | unknown
        wrong = (actual.double() != sums.to(actual.dtype).double()) & ~(actual.isnan() & sums.isnan())
        worst = float(distance.max()) if distance.numel() else 0.0
        return Held(actual.numel(), int(wrong.sum()), int(beyond.sum()), worst,
                    int((wrong & unowed & ~beyond).sum()))  # fmt: skip


_FLOATS = (torch.bfloat16, torch.float16, torch.float32)


def _of(actual: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float,
        causal: bool, scale: float | None) -> Attention | None:  # fmt: skip
    """One call without dropout; else there is no rule."""
    out = actual[0]
    floats = all(part.dtype in _FLOATS for part in (q, k, v, out))
    if dropout != 0 or not floats or q.dim() != 4 or (causal and q.shape[-2] != k.shape[-2]):
        return None
    if k.shape[1] != q.shape[1]:  # heads that share keys
        k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], 1) for part in (k, v))
    return Attention(q, k, v, mask, causal, q.shape[-1] ** -0.5 if scale is None else scale, out)


def flash(actual, q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, *,
          attn_mask=None, scale=None):  # fmt: skip
    return _of(actual, q, k, v, attn_mask, dropout_p, is_causal, scale)


def efficient(actual, q, k, v, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False,
              return_debug_mask=False, *, scale=None):  # fmt: skip
    return _of(actual, q, k, v, attn_bias, dropout_p, is_causal, scale)


def overrideable(actual, q, k, v, attn_bias=None, dropout_p=0.0, is_causal=False,
                 return_debug_mask=False, *, scale=None):  # fmt: skip
    return _of(actual, q, k, v, attn_bias, dropout_p, is_causal, scale)
