"""The judge passes a right model, finds planted faults, and counts what it cannot judge."""
import pytest

torch = pytest.importorskip("torch")
import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402
from mxoracle.torch.rules import RULES  # noqa: E402


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
    out[3, 5] += torch.copysign(0.05 * out.abs().max(), out[3, 5])  # away from zero: rounding keeps it
    return out


def half_the_depth(out, a, b):
    return a[:, : a.shape[1] // 2] @ b[: a.shape[1] // 2]


def wrong_rows(out, a, b, *rest):
    return out.roll(1, 0)


def over_its_operand(out, a, b):
    a.zero_()
    return out.zero_()


FAULTS = [one_value, half_the_depth, wrong_rows, over_its_operand, lambda y, a, b: y[:16], lambda y, a, b: y[:, :1],
          lambda y, a, b: torch.cat([y, y]), lambda y, a, b: y.flatten(), lambda y, a, b: y.double()]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault, dtype):
    a = torch.randn(32, 64).to(dtype)
    b = torch.randn(64, 16).to(dtype)
    with Faulty(fault), mxt.Judge(explain_work=2**27) as judge:
        a @ b
    wrong = [row for row in judge.failures if "wrote over" not in row.cause]
    assert len(wrong) == 1 and not judge.passed


def clears_its_weight(out, a, b):
    b.zero_()
    return out


def test_a_right_result_of_a_lost_operand_fails():
    x, w = torch.randn(32, 64), torch.randn(64, 16)
    with Faulty(clears_its_weight), mxt.Judge() as judge:
        x @ w
    assert [row.cause for row in judge.failures] == ["wrote over its operand mat2"], judge
    layer = torch.nn.Linear(64, 16)
    forward = layer.forward
    layer.forward = lambda x: forward(x) + 0 * x.zero_().sum()
    with torch.no_grad(), mxt.Judge() as judge:
        layer(x.clone())
    assert [row.cause.partition(";")[0] for row in judge.failures] == ["wrote over what it was given"], judge
    with torch.no_grad(), mxt.Judge() as judge:
        torch.nn.Linear(64, 16)(x).add_(x.zero_().sum())  # later, by others
        torch.mm(x, w, out=torch.empty(32, 16))
    assert judge.passed, judge


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows, gave", [(0, (1, 16)), (0, (0, 17)), (32, (0, 16)), (0, (0, 16))])
def test_no_elements_of_another_shape_fail(rows, gave, dtype):
    a, b = torch.randn(rows, 64).to(dtype), torch.randn(64, 16).to(dtype)
    with Faulty(lambda y, *rest: y.new_zeros(gave)), mxt.Judge() as judge:
        a @ b
    assert len(judge.failures) == (gave != (rows, 16)) and not judge.missed, judge


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
    torch.manual_seed(3)
    a = torch.randn(64, 16, dtype=torch.bfloat16)
    b = torch.randn(64, 8, dtype=torch.bfloat16)
    ends = torch.tensor([16, 16, 48], dtype=torch.int32)
    groups = ((0, 16), (16, 16), (16, 48))
    right = torch.stack([a[s:e].t().float() @ b[s:e].float() for s, e in groups])
    rule = RULES[torch.ops.aten._grouped_mm.default]
    verdicts = []
    for change in (None, (0, 3, 4), (1, 0, 0), (2, 15, 7)):
        dw = right.to(torch.bfloat16)
        if change:
            dw[change] += dw[change].abs() * 0.02 + 0.05  # never undone by rounding
        judge = mxt.Judge(explain_work=0)
        judge._judge("dw", ("", 0), rule(dw, a.t(), b, ends))
        verdicts.append(judge.rows[0].verdict)
    assert verdicts[0] in ("bits", "bound") and verdicts[1:] == ["FAIL"] * 3


@pytest.mark.parametrize("gate", ["bits", "bits|bound"])
def test_scaled_products_with_a_fault_are_found(gate):
    a = torch.randn(32, 64).to(torch.float8_e4m3fn)
    b = torch.randn(16, 64).to(torch.float8_e4m3fn).t()
    with Faulty(wrong_rows, torch.ops.aten._scaled_mm.default), mxt.Judge(gate) as judge:
        torch._scaled_mm(a, b, torch.ones(()) * 0.3, torch.ones(()), out_dtype=torch.bfloat16)
    assert judge.rows[0].verdict == "FAIL" and not judge.passed


def test_scales_multiplied_in_f32_are_within_the_bound():
    torch.manual_seed(5)
    a = torch.randn(32, 64).to(torch.float8_e4m3fn)
    b = torch.randn(16, 64).to(torch.float8_e4m3fn).t()
    x, w = torch.rand(32, 1) + 0.1, torch.rand(1, 16) + 0.1
    y = ((a.float() @ b.float()) * x) * w
    rule = RULES[torch.ops.aten._scaled_mm.default]
    for change, verdict in ((0.0, ("bits", "bound")), (0.02, ("FAIL",))):
        y[3, 4] *= 1 + change
        judge = mxt.Judge(explain_work=0)
        judge._seen("scaled", ("", 0), rule(y, a, b, x, w, out_dtype=torch.float32))
        assert judge.rows[0].verdict in verdict


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_products_of_other_floats_are_judged(dtype):
    torch.manual_seed(6)
    a, b = torch.randn(24, 64).to(dtype), torch.randn(64, 16).to(dtype)
    with mxt.Judge() as judge:
        a @ b
        torch.addmm(b[0], a, b)
        torch.bmm(a[None], b[None])
        torch.mv(a, b[:, 0].contiguous())
        torch.dot(a[0], a[1])
    assert judge.passed and len(judge.rows) == 5, judge
    with Faulty(one_value), mxt.Judge() as judge:
        a @ b
    assert len(judge.failures) == 1 and "1 beyond the bound" in judge.failures[0].cause


def test_one_step_of_f16_is_told_from_the_right_bits():
    a, b = torch.randn(24, 64).half(), torch.randn(64, 16).half()
    right = (a.double() @ b.double()).half()
    wrong = right.clone()
    wrong.view(torch.int16)[2, 3] += 1
    for out, verdict in ((right, "bits"), (wrong, "FAIL")):
        judge = mxt.Judge("bits")
        judge._seen("mm", ("", 0), RULES[torch.ops.aten.mm.default](out, a, b))
        assert judge.rows[0].verdict == verdict


def test_a_result_over_its_operand_is_held_to_what_that_was():
    a, bias = torch.randn(64, 64), torch.randn(1, 64)
    with mxt.Judge() as judge:
        torch.addmm(bias, a[:1].clone(), a, out=bias)
    assert judge.passed, judge
    with mxt.Judge() as judge:
        torch.mm(a, a, out=a)  # torch clears it first
    assert len(judge.failures) == (1 if not a.any() else 0), judge


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_what_has_no_bound_is_unjudged(dtype):
    a = torch.tensor([1e30, -1e30]).repeat(8, 16).to(dtype)
    with Faulty(lambda y, *rest: y.fill_(3)), mxt.Judge() as judge:
        torch.mm(a, a.t().contiguous())
    assert not judge.passed and "64 that differ have no bound" in judge.missed[0].cause, judge


def attention_operands(dtype):
    torch.manual_seed(7)
    return [torch.randn(2, 4, 48, 32).to(dtype) for _ in range(3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("how", ["plain", "causal", "kept", "added", "shared", "rows"])
def test_attention_is_judged_within_its_bound(dtype, how):
    q, k, v = attention_operands(dtype)
    options = {
        "causal": {"is_causal": True},
        "kept": {"attn_mask": torch.rand(48, 48) > 0.4},
        "added": {"attn_mask": torch.randn(48, 48).to(dtype)},
        "shared": {"enable_gqa": True},
    }.get(how, {})
    if how == "shared":
        k, v = k[:, :2], v[:, :2]
    with mxt.Judge(max_macs=(1 << 15) if how == "rows" else 1 << 30) as judge:
        torch.nn.functional.scaled_dot_product_attention(3 * q, k, v, **options)
    row = next(row for row in judge.rows if "attention" in row.operator)
    assert row.verdict == "bound" and judge.passed, judge
    assert (row.elements < q.numel()) == (how == "rows")


def wrong_attention(how):
    def fault(out, q, k, v, *rest):
        y = out[0].clone()
        if how == "one value":
            y[1, 2, 3, 4] += 0.02 * y.abs().max()
        if how == "no scale":
            y = (q @ k.mT).softmax(-1) @ v
        if how == "not causal":
            y = (q @ k.mT / 32**0.5).softmax(-1) @ v
        if how == "one key too many":
            kept = torch.ones(48, 48, dtype=torch.bool).tril(1)
            y = (q @ k.mT / 32**0.5).masked_fill(~kept, -torch.inf).softmax(-1) @ v
        return (y, *out[1:])

    return fault


@pytest.mark.parametrize("how", ["one value", "no scale", "not causal", "one key too many"])
def test_wrong_attention_is_found(how):
    q, k, v = attention_operands(torch.bfloat16)
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    with Faulty(wrong_attention(how), op), mxt.Judge() as judge:
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert [row.operator for row in judge.failures] == [str(op.name())]


@pytest.mark.parametrize("size, mask", [(torch.nan, None), (1e5, None), (1.0, torch.zeros(48, 48, dtype=torch.bool))])
def test_attention_without_a_bound_is_unjudged(size, mask):
    q, k, v = attention_operands(torch.bfloat16)
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    with Faulty(lambda out, *rest: (out[0].zero_(), *out[1:]), op), mxt.Judge() as judge:
        torch.nn.functional.scaled_dot_product_attention(q * size, k * size, v, attn_mask=mask)
    assert [row.operator for row in judge.missed] == [str(op.name())] and not judge.failures, judge


def test_attention_has_no_bits():
    q, k, v = attention_operands(torch.bfloat16)
    with mxt.Judge("bits") as judge:
        torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert judge.rows[0].verdict == "unjudged" and not judge.passed


@pytest.fixture
def two_ranks():
    """The first of two ranks, whose other is not there."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield torch.distributed.init_device_mesh("cpu", (2,))
    torch.distributed.destroy_process_group()


def test_local_shards_are_judged(two_ranks):
    from torch.distributed.tensor import DTensor, Replicate, Shard

    def of_this_rank(shape, placement):  # the other is not there to send anything
        local = torch.randn(shape, dtype=torch.bfloat16)
        return DTensor.from_local(local, two_ranks, [placement], run_check=False)

    a = of_this_rank((16, 64), Shard(0))
    b = of_this_rank((64, 16), Replicate())
    with mxt.Judge() as judge:
        a @ b
    assert judge.passed and [row.elements for row in judge.rows] == [16 * 16], judge
    with Faulty(one_value), mxt.Judge() as judge:
        a @ b
    assert len(judge.failures) == 1


def test_what_compiled_code_hides_is_said():
    @torch.compile(backend="aot_eager")
    def compiled(a):
        return (a @ a).relu()

    with mxt.Judge() as judge:
        compiled(torch.randn(16, 16, dtype=torch.bfloat16))
    assert judge.unjudged["compiled code, run eagerly instead"] > 0
    assert "compiled code, run eagerly instead" in str(judge)


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


def test_judges_that_end_crosswise_never_pass():
    outer, inner = mxt.Judge(), mxt.Judge()
    for judge in (outer, inner):
        judge.__enter__()
    torch.randn(16, 32) @ torch.randn(32, 8)
    for judge in (outer, inner):
        judge.__exit__(None, None, None)
    assert outer.passed and [row.operator for row in inner.missed] == ["a judge"], inner


def test_what_has_no_rule_is_never_passed():
    with mxt.Judge() as judge:
        torch.softmax(torch.randn(4, 8), -1)
    assert not judge.passed and judge.unjudged.total() > 0 and not judge.rows


def test_wrapped_kernels_are_judged():
    @mxt.judged("quantize", scale_mode="rceil")
    def quantizer(x, mode):
        return mxoracle.quantize(x, scale_mode=mode)

    x = torch.randn(64, 64)
    with mxt.Judge() as judge:
        quantizer(x, "rceil")
        quantizer(x, mode="floor")
    assert [row.verdict for row in judge.rows] == ["bits", "FAIL"]
    assert "floor" in judge.rows[1].cause.lower()
    @mxt.judged("quantize")
    def changes_its_operand(x):
        codes, scales = mxoracle.quantize(x.zero_())
        return codes, scales

    @mxt.judged("quantize")
    def gives_three(x):
        return (*mxoracle.quantize(x), x)

    with mxt.Judge() as judge:
        mxt.judged("quantize")(lambda x: mxoracle.quantize(x)[0])(x)
    assert judge.passed and judge.rows[0].cause == "not given, not compared: scales"
    with mxt.Judge() as judge:
        changes_its_operand(x.clone())
        gives_three(x)
        quantizer(x[:0], "rceil")  # of an expert without tokens
    assert judge.unjudged["quantizer without elements"] == 1
    assert [row.verdict for row in judge.rows] == ["FAIL", "FAIL", "unjudged"], judge
    assert judge.rows[0].cause == "wrote over its operand x"
    assert "gave 3 outputs, needs codes, scales" in judge.rows[2].cause
    with pytest.raises(mxoracle.Error, match="found operator 'quantise'"):
        mxt.judged("quantise")
