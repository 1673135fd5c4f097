"""Products that an H200 computed (tests/data/README.md), held to bits by the sums of its matrix
unit."""
import pytest

torch = pytest.importorskip("torch")
import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402
from mxoracle.torch import machines  # noqa: E402
from mxoracle.torch.rules import RULES  # noqa: E402

aten = torch.ops.aten
E4M3 = torch.float8_e4m3fn


def tensor(data, name, dtype):
    return torch.from_numpy(data[name]).view(dtype)


def verdict(rule, out, arguments, **options):
    judge = mxt.Judge(explain_work=0, **options)
    judge._seen("product", ("", 0), RULES[rule](out, *arguments))
    return judge.rows[0]


def rowwise(data, n, fast):
    """`_scaled_grouped_mm`: output and arguments."""
    key = f"rowwise.{n}."
    a, b = tensor(data, key + "qx", E4M3), tensor(data, key + "qw", E4M3)
    scales = [tensor(data, key + name, torch.float32) for name in ("sx", "sw")]
    y = tensor(data, f"{key}fast{fast}.y", torch.bfloat16)
    return y, (a, b.mT, *scales, tensor(data, key + "offs", torch.int32))


SUMS = {0: "h200_wgmma_promote4", 1: "h200_wgmma_fast"}


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("fast", [0, 1])
def test_row_wise_groups_have_the_bits_of_the_unit(capture, n, fast):
    y, arguments = rowwise(capture("grouped"), n, fast)
    row = verdict(aten._scaled_grouped_mm.default, y, arguments, sum=SUMS[fast], gate="bits")
    assert row.verdict == "bits" and row.cause == f"as {SUMS[fast]}", row


def test_fast_sums_for_promoted_ones_are_found(capture):
    y, arguments = rowwise(capture("grouped"), 1, 1)
    row = verdict(aten._scaled_grouped_mm.default, y, arguments, sum=SUMS[0], gate="bits")
    assert row.verdict == "FAIL" and not row.cause.startswith("as")


@pytest.mark.parametrize("n", [0, 1])
def test_bf16_groups_have_the_bits_of_the_unit(capture, n):
    data = capture("grouped")
    x, w, y = (tensor(data, f"bf16.{n}.{name}", torch.bfloat16) for name in "xwy")
    ends = tensor(data, f"bf16.{n}.offs", torch.int32)
    rule = aten._grouped_mm.default
    assert verdict(rule, y, (x, w.mT, ends), sum=SUMS[1], gate="bits").verdict == "bits"
    wrong = y.clone()
    wrong.view(torch.int16)[3, 5] += 1
    assert verdict(rule, wrong, (x, w.mT, ends), sum=SUMS[1], gate="bits").verdict == "FAIL"


@pytest.mark.parametrize("fast", [0, 1])
def test_dense_products_have_the_bits_of_the_unit(capture, fast):
    data = capture("grouped")
    a, b = tensor(data, "rowwise.0.qx", E4M3), tensor(data, "rowwise.0.qw", E4M3)[0]
    y = tensor(data, f"dense.0.fast{fast}.y", torch.float32)
    one = torch.ones(())
    row = verdict(aten._scaled_mm.default, y, (a, b.t(), one, one), sum=SUMS[fast], gate="bits")
    assert row.verdict == "bits", row


@pytest.mark.parametrize("scales", ["any", "pow2"])
def test_block_scales_have_the_bits_of_the_library(capture, scales):
    data = capture("fp8_libraries")
    for shape, parts in (("128x256x512", 1), ("256x128x1024", 1), ("64x128x7168", None)):
        key = f"{shape}.{scales}."
        a, b = (tensor(data, f"{key}{side}.codes", E4M3) for side in "xw")
        y = tensor(data, key + "cublaslt.f32", torch.float32)
        b = b[: y.shape[1]]
        sx, sw = (tensor(data, f"{key}{side}.scales", torch.float32) for side in "xw")
        product = RULES[aten._scaled_mm.default](y, a, b.t(), sx, sw.t())
        how = machines.sum_found(product, ("cublaslt_blockwise_sm90",), {})
        assert how is not None and (parts is None or how.get("sum__split", 1) == parts), (key, how)


def test_scales_of_tensors_multiply_each_other_first():
    torch.manual_seed(2)
    a, b = torch.randn(16, 256).to(E4M3), torch.randn(24, 256).to(E4M3)
    sx, sw = torch.tensor([0.3]), torch.tensor([0.7])
    plain = mxoracle.run("grouped_matmul", {
        "x": (a, torch.ones(1)), "w": (b[None], torch.ones(1)),
        "group_ends": torch.tensor([16], dtype=torch.int32)}, out="f32", sum=SUMS[0])["y"]  # fmt: skip
    for y, place in ((plain * sx * sw, ""), (plain * (sx * sw), ", sum.fold=after_joint")):
        row = verdict(aten._scaled_mm.default, y, (a, b.t(), sx, sw), sum=SUMS[0], gate="bits")
        assert row.verdict == "bits" and row.cause == f"as {SUMS[0]}{place}", row


@pytest.mark.parametrize("searched", [machines._SEARCHED, 2 * 24 * 2048])
def test_a_split_of_the_contraction_is_found(searched, monkeypatch):
    torch.manual_seed(0)
    x, w = torch.randn(16, 2048).bfloat16(), torch.randn(24, 2048).bfloat16()
    x[0, 1:] = x[15, 1:] = 0  # the rows that are searched first have these bits in any parts
    monkeypatch.setattr(machines, "_SEARCHED", searched)
    ends = torch.tensor([16], dtype=torch.int32)
    y = mxoracle.run("grouped_matmul", {"x": x, "w": w[None], "group_ends": ends}, out="f32",
                     sum="h200_wgmma_fast", sum__split=3)["y"]  # fmt: skip
    row = verdict(aten.mm.default, y, (x, w.t()), sum="h200_wgmma_fast", gate="bits")
    assert row.verdict == "bits" and row.cause == "as h200_wgmma_fast, K in 3 parts"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_bias_is_added_to_the_finished_sum(dtype):
    torch.manual_seed(1)
    x, w, bias = torch.randn(16, 256).to(dtype), torch.randn(24, 256).to(dtype), torch.randn(24)
    bias = bias.to(dtype)
    ends = torch.tensor([16], dtype=torch.int32)
    y = mxoracle.run("grouped_matmul", {"x": x, "w": w[None], "group_ends": ends}, out="f32",
                     sum="h200_wgmma_fast")["y"]  # fmt: skip
    out = (y + bias.float()).to(dtype)
    row = verdict(aten.addmm.default, out, (bias, x, w.t()), sum="h200_wgmma_fast", gate="bits")
    assert row.verdict == "bits" and row.differing == 0, row
    out.view(torch.int16)[2, 3] += 1
    row = verdict(aten.addmm.default, out, (bias, x, w.t()), sum="h200_wgmma_fast", gate="bits")
    assert row.verdict == "FAIL"


def test_unknown_sums_are_refused():
    with pytest.raises(mxoracle.Error, match="found 'h300'"):
        mxt.Judge(sum="h300")


def test_no_sum_of_a_cpu_is_known():
    assert machines.sums_of(torch.device("cpu")) == ()
