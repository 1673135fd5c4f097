"""torchao's four configurations (bf16; linears; grouped; both) from one line, beside torchao's own
emulated modules: on operands whose every sum is exact, so that no order of additions shows."""
import copy
import runpy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao.prototype.moe_training")
import torchao.prototype.moe_training as training  # noqa: E402
from torch import nn  # noqa: E402
from torchao.float8 import Float8LinearConfig  # noqa: E402
from torchao.float8.float8_linear import Float8Linear  # noqa: E402
from torchao.prototype.moe_training.mxfp8_linear import MXFP8Linear  # noqa: E402
from torchao.prototype.mx_formats.config import ScaleCalculationMode  # noqa: E402
from torchao.quantization.quantize_.common import KernelPreference  # noqa: E402

import mxoracle.torch as mxt  # noqa: E402

T, D, E = 64, 32, 2
ENDS = torch.tensor([32, T], dtype=torch.int32)
# Five bits, one more than e4m3 has, and within 2^4: codes round and saturate, sums do not.
VALUES = torch.tensor([s * (16 + k) * 2.0**j for s in (-1, 1) for k in range(16) for j in range(-6, -2)],
                      dtype=torch.bfloat16)  # fmt: skip


def few(*shape):
    return VALUES[torch.randint(len(VALUES), shape)]


class Layer(nn.Module):
    """A linear layer, and experts by a grouped product; each gets operands of its own."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(D, D)
        self.experts = Experts()

    def forward(self, x):
        return torch.cat([self.linear(x), self.experts(x)])


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(few(E, D, D))

    def forward(self, x):
        return torch._grouped_mm(x, self.w.transpose(-2, -1), offs=ENDS)


def model():
    torch.manual_seed(0)
    layer = Layer().bfloat16()
    for parameter in layer.parameters():
        parameter.data.copy_(few(*parameter.shape))
    return layer


class Theirs(Experts):
    def __init__(self, ours, **how):
        nn.Module.__init__(self)
        self.w, self.how = ours.w, how

    def forward(self, x):
        return training._to_mxfp8_then_scaled_grouped_mm(
            x, self.w.transpose(-2, -1), ENDS, kernel_preference=KernelPreference.EMULATED, **self.how
        )


def theirs(layer, recipe, linears, experts):
    layer = copy.deepcopy(layer)
    how = {"scale_calculation_mode": ScaleCalculationMode["FLOOR" if "floor" in recipe else "RCEIL"],
           "wgrad_with_hp": recipe.endswith("hp")}  # fmt: skip
    if linears and recipe == "fp8_rowwise":
        config = Float8LinearConfig.from_recipe_name("rowwise")
        object.__setattr__(config, "emulate", True)
        layer.linear = Float8Linear.from_float(layer.linear, config=config)
    elif linears:
        plain = layer.linear
        layer.linear = MXFP8Linear(D, D, kernel_preference=KernelPreference.EMULATED, **how)
        layer.linear.weight, layer.linear.bias = plain.weight, plain.bias
    if experts:
        layer.experts = Theirs(layer.experts, **how)
    return layer


def step(layer):
    torch.manual_seed(1)
    x = few(T, D).requires_grad_()
    y = layer(x)
    y.backward(few(2 * T, D))
    return [y.detach(), x.grad, *(parameter.grad for parameter in layer.parameters())]


CASES = [(recipe, linears, experts)
         for recipe in ("mxfp8_rceil", "mxfp8_floor", "mxfp8_rceil_wgrad_with_hp")
         for linears in (False, True) for experts in (False, True)]  # fmt: skip
CASES += [("fp8_rowwise", True, False)]  # its grouped product and block-wise ones need a GPU


@pytest.mark.parametrize("recipe, linears, experts", CASES)
def test_configurations_are_torchao_bit_for_bit(recipe, linears, experts):
    layer = model()
    want = step(theirs(layer, recipe, linears, experts))
    if linears or experts:
        layer = mxt.convert(layer, recipe, linears=linears, experts=experts)
    for name, right, have in zip(("y", "dx", "weight", "bias", "w"), want, step(layer)):
        assert right.abs().max() > 0 and torch.equal(right, have), name


def test_training_ends_in_the_weights_of_torchao(capsys):
    twins = runpy.run_path(str(Path(__file__).parents[2] / "bench/torch_twins.py"))
    assert twins["main"](["--steps", "4", "--replay", "1,4"]) == 0
    words = capsys.readouterr().out
    assert "0 of 600704 weights differ" in words and " 0 moved" not in words
    assert "0 numbers of 16 calls repeated" in words
