"""Real sums in doubles and their bounds, against fractions."""
import math
from fractions import Fraction

import pytest

torch = pytest.importorskip("torch")
from mxoracle.torch import reals  # noqa: E402

TYPES = [torch.bfloat16, torch.float16, torch.float32]
STEP = {torch.bfloat16: -133, torch.float16: -24, torch.float32: -149}
DIGITS = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24}


def rounded(exact, dtype):
    """Nearest, ties to even, by fractions."""
    if exact == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(exact)))
    while Fraction(2) ** exponent > abs(exact):
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= abs(exact):
        exponent += 1
    step = Fraction(2) ** max(exponent - DIGITS[dtype] + 1, STEP[dtype])
    whole = round(exact / step)  # Python rounds ties to even
    value = whole * step
    size = math.inf if abs(value) > torch.finfo(dtype).max else float(abs(value))
    return math.copysign(size, exact)


def operands(kind):
    torch.manual_seed(2)
    if kind == "ties":  # small whole numbers and halves: sums that lie between two numbers
        return torch.randint(-40, 41, (12, 6)) / 2.0, torch.randint(-40, 41, (10, 6)) / 2.0
    if kind == "cancelling":
        x = torch.randn(12, 6) * torch.tensor([1e4, 1e4, 1, 1, 1e-3, 1e-3])
        w = torch.randn(10, 6)
        x[:, 1], w[:, 1] = x[:, 0], -w[:, 0]
        return x, w
    size = {"tiny": 2.0**-14, "huge": 2.0**8}.get(kind, 1.0)
    return torch.randn(12, 6) * size, torch.randn(10, 6) * size


@pytest.mark.parametrize("out", TYPES)
@pytest.mark.parametrize("kind", ["plain", "ties", "cancelling", "tiny", "huge"])
def test_rounding_once_is_told_from_any_other(out, kind):
    given = torch.float32 if kind == "cancelling" else torch.float16
    x, w = (side.to(given) for side in operands(kind))
    fractions = [[[Fraction(value) for value in row] for row in side.tolist()] for side in (x, w)]
    rows = [[sum(a * b for a, b in zip(r, c)) for c in fractions[1]] for r in fractions[0]]
    values = [[rounded(exact, out) for exact in row] for row in rows]
    right = torch.tensor(values, dtype=torch.float64).to(out)
    product = reals.RealProduct(x.double(), w.double()[None], torch.tensor([12]))
    assert reals.hold(right, product) == reals.Held(120, 0, 0, pytest.approx(0.5, abs=0.51))
    for direction in (math.inf, -math.inf):
        bits = right.view(torch.int32 if out == torch.float32 else torch.int16)
        near = (bits + (1 if direction > 0 else -1)).view(out)
        changed = torch.where(right == 0, 1.0, near)
        assert reals.hold(changed, product).differing == 120


def test_classes_of_rows_that_are_not_finite_hold():
    x = torch.tensor([[math.inf, 1.0], [math.nan, 1.0], [1.0, 1.0]])
    product = reals.RealProduct(x.double(), torch.ones(1, 1, 2).double(), torch.tensor([3]))
    right = torch.tensor([[math.inf], [math.nan], [2.0]])
    assert reals.hold(right, product).differing == 0 and reals.hold(right, product).beyond == 0
    wrong = torch.tensor([[-math.inf], [0.0], [math.nan]])
    assert reals.hold(wrong, product).differing == 3 and reals.hold(wrong, product).beyond == 3


def test_any_order_of_additions_is_within_the_bound():
    torch.manual_seed(4)
    x, w = torch.randn(8, 512), torch.randn(6, 512)
    product = reals.RealProduct(x.double(), w.double()[None], torch.tensor([8]))
    for _ in range(10):
        order = torch.randperm(512)
        total = torch.zeros(8, 6)
        for k in order.tolist():
            total += x[:, k, None] * w[None, :, k]
        held = reals.hold(total, product)
        assert held.beyond == 0 and held.differing > 0
    assert reals.hold(total + 0.01, product).beyond > 0


def test_rows_of_no_group_are_not_owed():
    x = torch.ones(4, 2)
    product = reals.RealProduct(x.double(), torch.ones(2, 3, 2).double(), torch.tensor([1, 3]))
    right = torch.full((4, 3), 2.0)
    right[3] = math.nan
    assert reals.hold(right, product) == reals.Held(9, 0, 0, 0.0)


def admitted(exact, stray, value, dtype):
    """Whether a number within `stray` of `exact` has `value` as a nearest one, by fractions."""
    largest = Fraction(torch.finfo(dtype).max)
    least = Fraction(2) ** STEP[dtype]
    step = Fraction(2) ** (math.floor(math.log2(largest)) - DIGITS[dtype] + 1)
    if math.isinf(value):
        return math.copysign(1, value) * exact + stray >= largest + step / 2
    at = Fraction(value)
    size = abs(at)
    exponent = math.floor(math.log2(size)) if size else STEP[dtype]
    above = max(Fraction(2) ** (exponent - DIGITS[dtype] + 1), least)
    power = size == Fraction(2) ** exponent
    below = max(above / 2, least) if power else above
    distance = (exact - at) * (1 if at >= 0 else -1)
    return -below / 2 - stray <= distance <= above / 2 + stray


@pytest.mark.parametrize("out", TYPES)
def test_bounds_end_half_a_step_beyond_the_stray(out):
    torch.manual_seed(6)
    info = torch.finfo(out)
    edges = [0.0, info.tiny, info.tiny * 2, info.smallest_normal * 0.75, 1.0, 2.0, info.max, math.inf]
    values = torch.tensor([*edges, *torch.randn(40).tolist()]).to(out)
    values = torch.cat([values, -values])
    for stray in (0.0, 2.0**-12, 2.0**-30):
        for steps in (-1.5, -1, -0.5, -0.4, 0, 0.26, 0.5, 0.6, 1, 2):
            half = torch.where(values.isinf(), info.max, values).double()
            totals = half + steps * 2.0 ** (torch.frexp(half)[1] - DIGITS[out]).double()
            given = torch.full_like(totals, stray)
            beyond, _, _ = reals.against(values, totals, given)
            owed = totals.abs() + given <= torch.finfo(torch.float32).max
            for total, value, refused, has in zip(
                totals.tolist(), values.tolist(), beyond.tolist(), owed.tolist()
            ):
                if not has:
                    continue
                exact = Fraction(total)
                wide = Fraction(stray) * (1 + Fraction(2) ** -30)
                assert not (refused and admitted(exact, Fraction(stray), value, out))
                assert refused or admitted(exact, wide, value, out)
