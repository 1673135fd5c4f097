"""What Telemetry measures of a model in training, and when it stops one."""
import csv
import math

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402

D, T = 64, 48
ENDS = torch.tensor([20, 20, T], dtype=torch.int32)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, D, D) / 8)

    def forward(self, x):
        return torch._grouped_mm(x, self.w.transpose(-2, -1), offs=ENDS)


def model(recipe="mxfp8_rceil", format="e4m3"):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(D, D), Experts()).bfloat16()
    return mxt.convert(net, recipe, linears=True, format=format)


def train(net, telemetry, steps=3, scale=1.0):
    for _ in range(steps):
        torch.manual_seed(1)
        y = net(torch.randn(T, D, dtype=torch.bfloat16) * scale)
        loss = y.float().square().mean()
        loss.backward()
        telemetry.step(loss)


def test_every_operand_of_every_expert_is_a_row():
    with mxt.Telemetry(every=2) as telemetry:
        train(model(), telemetry)
    found = {(row.step, row.layer, row.product, row.operand, row.expert): row for row in telemetry.rows}
    products = [("y", "x"), ("y", "w"), ("dx", "dy"), ("dx", "w"), ("dw", "dy"), ("dw", "x")]
    products += [(name, name) for name in ("y", "dx", "dw")]
    layers = [("Sequential.0", (0,)), ("Sequential.1", (0, 2))]  # expert 1 has no token
    want = {(step, layer, *product, expert) for step in (1, 3) for layer, experts in layers
            for product in products for expert in experts}  # fmt: skip
    want -= {(step, "Sequential.0", "dx", o, 0) for step in (1, 3) for o in ("dy", "w", "dx")}  # no gradient
    assert set(found) == want and len(telemetry.rows) == len(want)
    assert [found[1, "Sequential.1", "y", "x", e].tokens for e in (0, 2)] == [20, 28]
    assert all(row.sqnr > 25 and not row.departs for row in telemetry.rows)
    assert len(telemetry.losses) == 3


def test_a_checkpoint_is_measured_once():
    net, counts = model(), []
    for call in (net, lambda x: checkpoint(net, x, use_reentrant=False)):
        with mxt.Telemetry() as telemetry:
            train(call, telemetry, 1)
        counts.append(sorted((row.layer, row.product, row.operand, row.expert) for row in telemetry.rows))
    assert counts[0] == counts[1] and counts[0]


@pytest.mark.parametrize("recipe", ["mxfp8_rceil", "fp8_rowwise", "te_blockwise", "fp8_blockwise"])
@pytest.mark.parametrize("operand", ["x", "w", "dy"])
def test_numbers_are_those_of_the_library_s_own_codes(recipe, operand):
    with mxt.Telemetry(every=1) as telemetry:
        torch.manual_seed(3)
        x = (torch.randn(T, D, dtype=torch.bfloat16) * 9).requires_grad_()
        w = torch.randn(1, D, D, dtype=torch.bfloat16)
        dy = torch.randn(T, D, dtype=torch.bfloat16)
        result = mxt.scaled_linear(x, w, torch.tensor([T], dtype=torch.int32), None, recipe)
        result.backward(dy)
        telemetry.step(0.0)
    product = "dx" if operand == "dy" else "y"
    row = next(row for row in telemetry.rows if (row.product, row.operand) == (product, operand))
    exact = {"x": x.detach(), "w": w[0], "dy": dy}[operand]
    table = mxt.recipe_named(recipe)
    codes, scales = mxoracle.quantize(exact, block=table.weight if operand == "w" else table.tokens,
                                      **table.settings)  # fmt: skip
    back = mxoracle.dequantize(codes, scales, out="f32").double()
    noise = (back - exact.double()).square().sum()
    assert row.sqnr == pytest.approx(10 * math.log10(exact.double().square().sum() / noise), abs=1e-3)
    y = next(row for row in telemetry.rows if row.product == row.operand == product)
    right = dy.double() @ w[0].double() if product == "dx" else x.detach().double() @ w[0].double().t()
    noise = (right - (x.grad if product == "dx" else result.detach()).double()).square().sum()
    assert y.sqnr == pytest.approx(10 * math.log10(right.square().sum() / noise), abs=1e-2)
    counts = dict(part.split(":") for part in row.scales.split())
    assert sum(map(int, counts.values())) == scales.numel()


def test_saturation_and_underflow_are_counted():
    x = torch.full((32, D), 1.0)
    x[:, 0], x[:, 1] = 1.99, 2.0**-20  # FLOOR lets 1.99 saturate; 2^-20 is below e4m3 beside it
    x[:, 2], x[:, 3] = 455 / 256, 463 / 256  # beyond 448, but nothing is nearer
    with mxt.Telemetry(every=1) as telemetry:
        mxt.scaled_linear(x, torch.ones(1, D, D), torch.tensor([32], dtype=torch.int32), None, "mxfp8_floor")
        telemetry.step(0.0)
    row = telemetry.rows[0]
    assert (row.saturated, row.underflowed) == (1 / D, 1 / D) and row.scales == f"-8:{32 * D // 32}"


def test_files_are_kept_and_a_writer_told(tmp_path):
    class Writer:
        def __init__(self):
            self.names = set()

        def add_scalar(self, name, value, step):
            self.names.add(name)

    writer = Writer()
    with mxt.Telemetry(folder=tmp_path / "run", every=2, writer=writer) as telemetry:
        train(model(), telemetry)
    with open(tmp_path / "run/telemetry.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(telemetry.rows) and rows[0]["layer"] == "Sequential.0"
    assert "loss" in writer.names and "sqnr/Sequential.1/y.x/2" in writer.names
    with open(tmp_path / "run/loss.csv") as file:
        assert [float(row["loss"]) for row in csv.DictReader(file)] == telemetry.losses


def test_a_loss_near_its_twin_passes(tmp_path):
    with mxt.Telemetry(folder=tmp_path) as twin:
        train(model("bf16"), twin)
    with mxt.Telemetry(twin=tmp_path / "loss.csv", within="1%", window=2) as telemetry:
        train(model(), telemetry)
    assert not twin.rows and twin.losses != telemetry.losses


@pytest.mark.parametrize(
    "recipe, words",
    [
        ("mxfp8_rceil", "no operand is beyond its bound, which rounding explains; least: "),
        ("mlx_mxfp8", r"first beyond its bound of 24.08 dB: x of y of Sequential.0, expert 0, step 1: "
                      r"2.* dB, .*% saturated"),
    ],
)  # fmt: skip
def test_a_loss_that_departs_names_the_first_operand(recipe, words):
    with mxt.Telemetry(every=1) as twin:
        train(model("bf16"), twin)
    with pytest.raises(mxt.Departed, match=f"step 2: mean loss of 2 steps .* bf16 .* needs 0.000%; {words}"):
        with mxt.Telemetry(twin=twin.losses, within=0, window=2, every=1) as telemetry:
            train(model(recipe), telemetry)


def test_the_first_nan_is_named():
    net = model()
    net[1].w.data[2, 3, 4] = math.nan
    with pytest.raises(mxt.Departed, match="first beyond .*: w of y of Sequential.1, expert 2, step 1: nan dB"):
        with mxt.Telemetry(twin=[1.0], window=1, within=1) as telemetry:
            train(net, telemetry)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"within": "near"}, "within: found 'near'"),
        ({"within": -1.0}, "within: found -1.0"),
        ({"every": 0}, "every: found 0"),
        ({"twin": "absent.csv"}, "absent.csv: "),
    ],
)
def test_what_telemetry_cannot_hold_is_refused(options, words):
    with pytest.raises(mxoracle.Error, match=words):
        mxt.Telemetry(**options)


def test_a_twin_that_ends_early_or_a_nan_does_not_pass():
    with pytest.raises(mxoracle.Error, match="found 1 losses, needs one for step 2"):
        with mxt.Telemetry(twin=[1.0], window=1, within=1) as telemetry:
            telemetry.step(1.0)
            telemetry.step(1.0)
    with pytest.raises(mxt.Departed, match="inf% apart"):
        with mxt.Telemetry(twin=[0.0], window=1, within=1) as telemetry:
            telemetry.step(1.0)
    with pytest.raises(mxoracle.Error, match="found no step"), mxt.Telemetry(twin=[1.0]):
        pass
    with pytest.raises(mxt.Departed, match="mean loss of 1 steps 3,"):  # it ends before its window
        with mxt.Telemetry(twin=[1.0, 1.0], window=2, within=1) as telemetry:
            telemetry.step(3.0)
    for window in (1, 2):
        with pytest.raises(mxt.Departed), mxt.Telemetry(twin=[1.0], window=window, within=1) as telemetry:
            telemetry.step(math.nan)
