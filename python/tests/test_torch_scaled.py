"""Scaled products of PyTorch in all recipes.  No CPU runs most of them: their rules are asked about
products made here."""
import pytest

torch = pytest.importorskip("torch")
import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402
from mxoracle.torch import scaled  # noqa: E402
from mxoracle.torch.rules import RULES  # noqa: E402

aten = torch.ops.aten
M, N, K = 144, 160, 384


def to_blocked(scales):
    """Rows of e8m0 scales in tiles of 128 x 4, by the library."""
    tiles = mxoracle.swizzle_scales(scales.view(torch.uint8), layout="blocked")
    return tiles.view(torch.float8_e8m0fnu)


def codes(rows, k=K):
    return torch.randn(rows, k).clamp(-4, 4).to(torch.float8_e4m3fn)


def powers(rows, k=K):
    scales = torch.randint(120, 131, (rows, -(-k // 32)), dtype=torch.uint8)
    return scales.view(torch.float8_e8m0fnu)


def wide(scales, block, k=K):
    return scales.float().repeat_interleave(block, 1)[:, :k]


def k_first(scales):
    """[rows / 128, K / 128] as `_scaled_mm_v2` wants it: K first, padded to four."""
    padded = torch.zeros(4, scales.shape[0])
    padded[: scales.shape[1]] = scales.t()
    return padded


def case(name):
    """Rule, arguments after the output, and the values of both sides."""
    torch.manual_seed(8)
    a, b = codes(M), codes(N)
    v1, v2 = RULES[aten._scaled_mm.default], RULES[aten._scaled_mm_v2.default]
    rand = lambda *shape: torch.rand(*shape) + 0.1  # noqa: E731
    if "1x32" in name:
        x, w = powers(M), powers(N)
        tiled = [to_blocked(x), to_blocked(w)]
        sides = (a.float() * wide(x, 32), b.float() * wide(w, 32))
        if name.startswith("v1"):
            return v1, (a, b.t(), *tiled), sides
        return v2, (a, b.t(), tiled[:1], [3], [1], tiled[1:], [3], [1], None, torch.bfloat16), sides
    if "rows" in name:
        x, w = rand(M, 1), rand(1, N)
        sides = (a.float() * x, b.float() * w.t())
        if name.startswith("v1"):
            return v1, (a, b.t(), x, w), sides
        return v2, (a, b.t(), [x], [1], [], [w], [1], [], None, torch.bfloat16), sides
    kinds = name.split()[1:]
    scales = [rand(rows if kind == "1x128" else -(-rows // 128), 3)
              for kind, rows in zip(kinds, (M, N))]  # fmt: skip
    full = [s if kind == "1x128" else s.repeat_interleave(128, 0)[:rows]
            for s, kind, rows in zip(scales, kinds, (M, N))]  # fmt: skip
    sides = (a.float() * wide(full[0], 128), b.float() * wide(full[1], 128))
    if name.startswith("v1"):
        return v1, (a, b.t(), scales[0], scales[1].t()), sides
    given = [s if kind == "1x128" else k_first(s) for s, kind in zip(scales, kinds)]
    recipes = [4 if kind == "1x128" else 5 for kind in kinds]
    return v2, (a, b.t(), [given[0]], [recipes[0]], [], [given[1]], [recipes[1]], [], None), sides


CASES = ["v1 1x32", "v2 1x32", "v1 rows", "v2 rows"] + [
    f"{version} {kinds}"
    for version in ("v1", "v2")
    for kinds in ("1x128 128x128", "1x128 1x128", "128x128 1x128")
]


def verdict(rule, out, arguments):
    judge = mxt.Judge(explain_work=0)
    judge._seen("scaled", ("", 0), rule(out, *arguments))
    return judge.rows[0]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("out", [torch.bfloat16, torch.float32, torch.float16])
def test_every_recipe_is_judged(name, out):
    rule, arguments, (x, w) = case(name)
    y = (x.double() @ w.double().t()).to(out)
    row = verdict(rule, y, arguments)
    assert row.verdict in ("bits", "bound") and row.elements == M * N, row
    y[3, 5] += 0.02 * y.abs().max()
    assert verdict(rule, y, arguments).verdict == "FAIL"


@pytest.mark.parametrize("name", CASES)
def test_scales_of_the_wrong_rows_are_found(name):
    rule, arguments, (x, w) = case(name)
    swapped = [side.clone() for side in (x, w)]
    swapped[0][:128] = swapped[0][:128].flip(0)
    y = (swapped[0].double() @ swapped[1].double().t()).bfloat16()
    assert verdict(rule, y, arguments).verdict == "FAIL"


@pytest.mark.parametrize("kind", ["rows", "1x32"])
def test_groups_are_judged(kind):
    torch.manual_seed(9)
    ends = torch.tensor([40, 40, 144], dtype=torch.int32)
    a, b = codes(150), torch.stack([codes(N) for _ in range(3)])
    if kind == "rows":
        scales = torch.rand(150) + 0.1, torch.rand(3, N) + 0.1
        x, w = a.float() * scales[0][:, None], b.float() * scales[1][:, :, None]
    else:
        rows, columns = powers(150), [powers(N) for _ in range(3)]
        tiled = [to_blocked(rows[s:e]) for s, e in ((0, 40), (40, 144))]
        scales = (torch.cat([part.reshape(-1).view(torch.uint8) for part in tiled]),
                  torch.stack([to_blocked(part).reshape(-1).view(torch.uint8) for part in columns]))
        scales = tuple(part.view(torch.float8_e8m0fnu) for part in scales)
        x = a.float() * wide(rows, 32)
        w = torch.stack([part.float() * wide(s, 32) for part, s in zip(b, columns)])
    y = torch.full((150, N), torch.nan)
    for group, start, end in ((0, 0, 40), (2, 40, 144)):
        y[start:end] = (x[start:end].double() @ w[group].double().t()).float()
    y = y.bfloat16()
    for name, arguments in (
        ("_scaled_grouped_mm", (a, b.mT, *scales, ends)),
        ("_scaled_grouped_mm_v2", (a, b.mT, [scales[0]], [1], [], [scales[1]], [1], [], ends)),
    ):
        rule = RULES[getattr(aten, name).default]
        assert verdict(rule, y, arguments).verdict in ("bits", "bound")
        wrong = y.clone()
        wrong[100, 7] += 0.02 * y[:144].abs().max()
        assert verdict(rule, wrong, arguments).verdict == "FAIL"


@pytest.mark.parametrize("out", [torch.bfloat16, torch.float32])
def test_groups_that_are_contracted_are_judged_in_blocks(out):
    torch.manual_seed(10)
    ends, spans = torch.tensor([64, 64, 160], dtype=torch.int32), ((0, 64), (64, 64), (64, 160))
    a, b = codes(N, 160), codes(K, 160)  # of [N, R] and [K, R]
    x, w = powers(N, 160), powers(K, 160)
    tiled = []
    for side in (x, w):
        parts = [to_blocked(side[:, s // 32 : e // 32].contiguous()) for s, e in spans if e > s]
        flat = torch.cat([part.reshape(-1).view(torch.uint8) for part in parts])
        tiled.append(flat.view(torch.float8_e8m0fnu))
    sides = a.double() * wide(x, 32, 160), b.double() * wide(w, 32, 160)
    right = torch.stack([sides[0][:, s:e] @ sides[1][:, s:e].t() for s, e in spans])
    rule = RULES[aten._scaled_grouped_mm.default]
    arguments = (a, b.t(), *tiled, ends)
    dw = right.to(out)
    assert verdict(rule, dw, arguments).verdict == "bits"
    for change in ((0, 3, 4), (1, 0, 0), (2, 15, 7)):
        wrong = dw.clone()
        wrong[change] += 0.02 * dw.abs().max()
        assert verdict(rule, wrong, arguments).verdict == "FAIL", change


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no FP4")
@pytest.mark.parametrize("kind", ["v1 1x16", "v2 1x16", "v2 1x16 and all", "v2 1x32"])
def test_fp4_is_judged(kind):
    torch.manual_seed(11)
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    nibbles = [torch.randint(16, (rows, K)) for rows in (M, N)]
    packed = [(part[:, ::2] | part[:, 1::2] << 4).to(torch.uint8).view(torch.float4_e2m1fn_x2)
              for part in nibbles]  # fmt: skip
    block = 32 if "1x32" in kind else 16
    if block == 32:
        scales = [powers(rows) for rows in (M, N)]
    else:
        scales = [(torch.rand(rows, K // 16) + 0.1).to(torch.float8_e4m3fn) for rows in (M, N)]
    sides = [table[part].double() * wide(scale, block) for part, scale in zip(nibbles, scales)]
    tiled = [to_blocked(scale).view(scale.dtype) for scale in scales]
    a, b = packed[0], packed[1].t()
    if kind.startswith("v1"):
        rule, arguments = RULES[aten._scaled_mm.default], (a, b, *tiled)
    else:
        factors = [torch.tensor([0.37]), torch.tensor([1.9])] if "all" in kind else []
        given = [[part, *factors[i : i + 1]] for i, part in enumerate(tiled)]
        recipe = [3 if block == 32 else 2] + [0] * ("all" in kind)
        rule = RULES[aten._scaled_mm_v2.default]
        arguments = (a, b, given[0], recipe, [1], given[1], recipe, [1], None, torch.bfloat16)
        sides = [side * float(f) for side, f in zip(sides, factors or (1, 1))]
    y = (sides[0] @ sides[1].t()).bfloat16()
    row = verdict(rule, y, arguments)
    assert row.verdict in (("bits", "bound") if "all" in kind else ("bits",)), row
    assert row.elements == M * N
    y[3, 5] += 0.02 * y.abs().max()
    assert verdict(rule, y, arguments).verdict == "FAIL"


@pytest.mark.parametrize("rows, k", [(1, 32), (130, 160), (256, 512)])
def test_tiles_of_scales_are_read_back(rows, k):
    scales = torch.randint(256, (rows, k // 32), dtype=torch.uint8)
    assert torch.equal(scaled.from_blocked(to_blocked(scales), rows, k), scales)


def test_what_has_no_rule_is_unjudged():
    rule, arguments, (x, w) = case("v1 rows")
    y = (x.double() @ w.double().t()).bfloat16()
    with_bias = (*arguments, torch.zeros(N, dtype=torch.bfloat16))
    assert verdict(rule, y, with_bias).verdict == "unjudged"
    odd = (arguments[0], arguments[1], torch.ones(7, 7), torch.ones(7, 7))
    assert verdict(rule, y, odd).verdict == "unjudged"
