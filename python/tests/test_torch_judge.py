"""The judge passes a right model, finds planted faults, and counts what it cannot judge."""
import pytest

torch = pytest.importorskip("torch")
import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402


def model():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 32, bias=False)]
    return torch.nn.Sequential(*layers).to(torch.bfloat16)


def test_a_right_model_passes_forward_and_backward():
    net = model()
    with mxt.Judge() as judge:
        net(torch.randn(48, 64, dtype=torch.bfloat16)).float().sum().backward()
    assert judge.passed, judge
    assert {row.verdict for row in judge.rows} <= {"bits", "bound"}
    modules = {row.module for row in judge.rows}
    assert any("0" in name for name in modules) and any("backward" in name for name in modules)
    assert judge.unjudged["aten::relu"] == 1 and "relu" in str(judge)


class Faulty(torch.utils._python_dispatch.TorchDispatchMode):
    """A machine whose products have a fault."""

    def __init__(self, fault, op=torch.ops.aten.mm.default):
        super().__init__()
        self.fault, self.op = fault, op

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func is self.op:
            out = self.fault(out, *args)
        return out


def one_value(out, a, b):
    out[3, 5] *= 1.02
    out[3, 5] += 0.02 * out.abs().max()
    return out


def half_the_depth(out, a, b):
    return a[:, : a.shape[1] // 2] @ b[: a.shape[1] // 2]


def wrong_rows(out, a, b, *rest):
    return out.roll(1, 0)


@pytest.mark.parametrize("fault", [one_value, half_the_depth, wrong_rows])
def test_a_planted_fault_is_found(fault):
    a = torch.randn(32, 64, dtype=torch.bfloat16)
    b = torch.randn(64, 16, dtype=torch.bfloat16)
    with Faulty(fault), mxt.Judge(explain_seconds=0.5) as judge:
        a @ b
    assert len(judge.failures) == 1 and not judge.passed


@pytest.mark.parametrize("batch", [1, 3])
def test_batches_are_groups(batch):
    a = torch.randn(batch, 16, 64, dtype=torch.bfloat16)
    b = torch.randn(batch, 64, 8, dtype=torch.bfloat16)
    with mxt.Judge() as judge:
        torch.bmm(a, b)
    assert judge.passed and judge.rows[0].elements == batch * 16 * 8


def test_grouped_products_are_judged_both_ways():
    if not hasattr(torch.ops.aten, "_grouped_mm"):
        pytest.skip("this torch has no grouped product")
    x = torch.randn(64, 32, dtype=torch.bfloat16, requires_grad=True)
    w = torch.randn(2, 32, 16, dtype=torch.bfloat16, requires_grad=True)
    ends = torch.tensor([16, 64], dtype=torch.int32)
    grouped = getattr(torch.nn.functional, "grouped_mm", torch._grouped_mm)
    with mxt.Judge() as judge:
        grouped(x, w, offs=ends).float().sum().backward()
    assert judge.passed and len(judge.rows) == 3, judge


def test_weight_gradients_are_held_to_the_bound_of_each_group():
    from mxoracle.torch.products import RULES

    torch.manual_seed(3)
    a = torch.randn(64, 16, dtype=torch.bfloat16)
    b = torch.randn(64, 8, dtype=torch.bfloat16)
    ends = torch.tensor([16, 16, 48], dtype=torch.int32)
    right = torch.stack([a[s:e].t().float() @ b[s:e].float() for s, e in ((0, 16), (16, 16), (16, 48))])
    rule = RULES[torch.ops.aten._grouped_mm.default]
    verdicts = []
    for change in (None, (0, 3, 4), (1, 0, 0), (2, 15, 7)):
        dw = right.to(torch.bfloat16)
        if change:
            dw[change] = dw[change] * 1.02 + 0.05
        judge = mxt.Judge(explain_seconds=0)
        judge._judge("dw", ("", 0), rule(dw, a.t(), b, ends))
        verdicts.append(judge.rows[0].verdict)
    assert verdicts[0] in ("bits", "bound") and verdicts[1:] == ["FAIL"] * 3


def test_a_product_without_a_bound_is_not_called_wrong_nor_right():
    a = torch.randn(32, 64).to(torch.float8_e4m3fn)
    b = torch.randn(16, 64).to(torch.float8_e4m3fn).t()
    with Faulty(wrong_rows, torch.ops.aten._scaled_mm.default), mxt.Judge() as judge:
        torch._scaled_mm(a, b, torch.ones(()) * 0.3, torch.ones(()), out_dtype=torch.bfloat16)
    assert judge.rows[0].verdict == "unjudged" and not judge.passed
    with Faulty(wrong_rows, torch.ops.aten._scaled_mm.default), mxt.Judge("bits") as judge:
        torch._scaled_mm(a, b, torch.ones(()) * 0.3, torch.ones(()), out_dtype=torch.bfloat16)
    assert judge.rows[0].verdict == "FAIL"


def test_scaled_products_are_judged():
    a = torch.randn(32, 64).to(torch.float8_e4m3fn)
    b = torch.randn(16, 64).to(torch.float8_e4m3fn).t()
    one = torch.ones(())
    with mxt.Judge() as judge:
        torch._scaled_mm(a, b, one * 0.5, one * 2, out_dtype=torch.bfloat16)
    assert judge.passed, judge


def test_large_products_are_judged_on_some_rows():
    a = torch.randn(256, 64, dtype=torch.bfloat16)
    b = torch.randn(64, 32, dtype=torch.bfloat16)
    with mxt.Judge(max_macs=16 * 64 * 32) as judge:
        a @ b
    assert judge.passed and judge.rows[0].elements == 16 * 32


def test_one_of_many_calls_is_judged():
    a = torch.randn(16, 32, dtype=torch.bfloat16)
    with mxt.Judge(every=4) as judge:
        for _ in range(8):
            a @ a.t()
    assert [row.call for row in judge.rows] == [0, 4]


def test_what_has_no_rule_is_never_passed():
    with mxt.Judge() as judge:
        torch.softmax(torch.randn(4, 8), -1)
    assert not judge.passed and judge.unjudged.total() > 0 and not judge.rows


def test_wrapped_kernels_are_judged():
    @mxt.judged("quantize", scale_mode="rceil")
    def quantizer(x, mode):
        return mxoracle.quantize(x, scale_mode=mode)

    x = torch.randn(16, 64)
    with mxt.Judge() as judge:
        quantizer(x, "rceil")
        quantizer(x, mode="floor")
    assert [row.verdict for row in judge.rows] == ["bits", "FAIL"]
    assert "floor" in judge.rows[1].cause.lower()
    with pytest.raises(mxoracle.Error, match="found operator 'quantise'"):
        mxt.judged("quantise")
