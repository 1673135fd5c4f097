"""Every recipe in every spelling of a layer: against doubles, the library's own call, and torchao."""
import copy
import io
import runpy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402
from mxoracle.torch import linear as operator  # noqa: E402
from mxoracle.torch import main_grads  # noqa: E402
from mxoracle.torch.recipes import Layer  # noqa: E402

E, D, F, T = 4, 128, 64, 96
ENDS = torch.tensor([17, 17, 60, T], dtype=torch.int32)


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(D, F), nn.Linear(F, D, bias=False)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.up(x)))


class Block(nn.Module):
    """A list of experts beside a router, one token to one expert, and a shared one."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(D, E, bias=False)
        self.experts = nn.ModuleList(Perceptron() for _ in range(E))
        self.shared = Perceptron()

    def forward(self, x):
        scores = self.router(x).float().softmax(-1)
        weight, index = scores.max(-1)
        y = self.shared(x)
        for e, expert in enumerate(self.experts):
            y = y + expert(x) * (weight * (index == e))[:, None].to(x.dtype)
        return y


class Stacked(nn.Module):
    """The same products by torch._grouped_mm of three-dimensional parameters."""

    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(E, F, D) / D**0.5)
        self.w2 = nn.Parameter(torch.randn(E, D, F) / F**0.5)

    def forward(self, x):
        h = torch._grouped_mm(x, self.w1.transpose(-2, -1), offs=ENDS)
        return torch._grouped_mm(torch.nn.functional.silu(h), self.w2.transpose(-2, -1), offs=ENDS)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(160, D), nn.Embedding(D, D)
        self.inner = nn.Linear(D, D)
        self.block = Block()
        self.head = nn.Linear(D, 160, bias=False)

    def forward(self, tokens):
        return self.head(self.block(self.inner(self.embed(tokens))))


def made(make, dtype=torch.float32):
    torch.manual_seed(0)
    return make().to(dtype)


def gradients(layer, x):
    """y, dx and the gradients of the parameters, of a loss that weighs every element."""
    torch.manual_seed(1)
    x = x.detach().clone().requires_grad_()
    y = layer(x)
    y.backward(torch.randn(y.shape, dtype=torch.float64).to(y.dtype))
    named = {name: parameter.grad for name, parameter in layer.named_parameters()}
    return {"y": y.detach(), "dx": x.grad} | {n: g for n, g in named.items() if g is not None}


def decibels(want, have):
    want, noise = want.double(), (have.double() - want.double()).square().sum()
    return float(10 * torch.log10(want.square().sum() / noise)) if noise > 0 else float("inf")


def in_doubles(layer):
    """The layer in doubles; torch._grouped_mm has none, so a loop stands for it."""
    twin = copy.deepcopy(layer).double()
    if isinstance(layer, Stacked):
        spans = list(zip([0, *ENDS.tolist()], ENDS.tolist()))
        twin.forward = lambda x: torch.cat(
            [torch.nn.functional.silu(x[s:e] @ twin.w1[g].t()) @ twin.w2[g].t() for g, (s, e) in enumerate(spans)]
        )
    return twin


# What a recipe keeps of one product, in dB, where its operands are quantised.
LOSSY = {"flashinfer_mxfp8": 10, "mlx_mxfp8": 17}  # their scales let the largest elements saturate


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("recipe", mxt.recipes())
def test_gradients_are_those_of_doubles_within_the_recipe(recipe, dtype):
    layer = made(lambda: nn.Linear(D, F), dtype)
    x = torch.randn(T, D, dtype=dtype)
    want = gradients(in_doubles(layer), x.double())
    have = gradients(mxt.convert(layer, recipe, linears=True), x)
    quantised = LOSSY.get(recipe, 25)
    high = recipe in ("bf16", "plain")
    kept = {"y": 45 if high else quantised, "dx": 45 if high else quantised, "bias": 45,
            "weight": 45 if mxt.recipe_named(recipe).wgrad_high else quantised}  # fmt: skip
    found = {name: decibels(want[name], have[name]) for name in kept}
    assert all(found[name] >= kept[name] for name in kept), found
    assert high or found["y"] < 40  # it was quantised


@pytest.mark.parametrize("make", [Block, Stacked])
@pytest.mark.parametrize("recipe", ["mxfp8_rceil", "fp8_rowwise", "fp8_blockwise", "te_blockwise",
                                    "deepgemm_blockwise", "vllm", "bf16"])  # fmt: skip
def test_every_spelling_is_near_doubles(make, recipe):
    layer = made(make, torch.bfloat16)
    x = torch.randn(T, D, dtype=torch.bfloat16)
    want = gradients(in_doubles(layer), x.double())
    have = gradients(mxt.convert(layer, recipe, linears=True), x)
    assert set(want) == set(have)
    found = {name: decibels(want[name], have[name]) for name in want}
    assert min(found.values()) > (30 if recipe == "bf16" else 14), found
    assert recipe == "bf16" or found["y"] < 40, found


TWINS = [name for name in mxt.recipes() if operator.library_takes(name, "e4m3", "exact", set())]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("recipe", [name for name in TWINS if name != "bf16"])
@pytest.mark.parametrize("sum", ["exact", "h200_wgmma_fast"])
def test_composed_layers_are_the_library_bit_for_bit(recipe, dtype, sum, monkeypatch):
    torch.manual_seed(2)
    leaves = [torch.randn(shape).to(dtype) for shape in ((T, D), (E, F, D), (E, F), (T, F))]

    def step():
        x, w, bias = (leaf.clone().requires_grad_() for leaf in leaves[:3])
        y = mxt.scaled_linear(x, w, ENDS, bias, recipe, "e4m3", sum)
        y.backward(leaves[3])
        return y.detach(), x.grad, w.grad, bias.grad

    whole = step()
    monkeypatch.setattr(operator, "library_takes", lambda *any: False)
    for want, have in zip(whole, step()):
        assert torch.equal(want, have)


def test_gradients_may_have_another_format():
    layer = made(lambda: nn.Linear(D, F), torch.bfloat16)
    x = torch.randn(T, D, dtype=torch.bfloat16)
    alike, other = (gradients(mxt.convert(copy.deepcopy(layer), "te_blockwise", linears=True, format=f), x)
                    for f in ("e4m3", "e4m3/e5m2"))  # fmt: skip
    assert torch.equal(alike["y"], other["y"])
    assert 15 < decibels(alike["dx"], other["dx"]) < 30


def test_a_sum_is_that_of_its_machine():
    layer = made(lambda: nn.Linear(D, F, bias=False), torch.bfloat16)
    x = torch.randn(T, D, dtype=torch.bfloat16) * 50
    have = gradients(mxt.convert(layer, "fp8_rowwise", linears=True, sum="h200_wgmma_fast"), x)
    tensors = {"x": x, "w": layer.weight.detach()[None], "group_ends": [T]}
    want = [mxoracle.run("grouped_linear", tensors, recipe="fp8_rowwise", sum=sum)["y"]
            for sum in ("h200_wgmma_fast", "exact")]  # fmt: skip
    assert torch.equal(have["y"], want[0]) and not torch.equal(have["y"], want[1])


def test_weight_gradients_may_have_another_sum():
    layer = made(lambda: nn.Linear(D, F, bias=False))
    x = torch.randn(T, D) * 50
    sums = ("exact/h200_wgmma_fast", "exact", "h200_wgmma_fast")
    both, exact, fast = (gradients(mxt.convert(copy.deepcopy(layer), "vllm", linears=True, sum=sum), x)
                         for sum in sums)  # fmt: skip
    for name, right, wrong in (("y", exact, fast), ("dx", exact, fast), ("weight", fast, exact)):
        assert torch.equal(both[name], right[name]) and not torch.equal(both[name], wrong[name]), name


STAYS = {"block.router": "a router", "head": "the head"}
INNER = ["inner", "block.shared.up", "block.shared.down"]
EXPERTS = [f"block.experts.{e}.{name}" for e in range(E) for name in ("up", "down")]


@pytest.mark.parametrize(
    "options, changed",
    [
        ({}, EXPERTS),
        ({"linears": True}, INNER + EXPERTS),
        ({"linears": True, "experts": False}, INNER),
        ({"linears": True, "exclude": "*.shared.*"}, ["inner"] + EXPERTS),
        ({"linears": ["inner"], "experts": False}, ["inner"]),
        ({"linears": ["head", "*.router"], "experts": False, "recipe": "bf16"}, ["block.router", "head"]),
        ({"linears": True, "filter": lambda module, path: path.endswith("up")},
         ["block.shared.up"] + [path for path in EXPERTS if path.endswith("up")]),
    ],
)  # fmt: skip
def test_only_what_was_chosen_is_converted(options, changed):
    model = made(Language)
    planned = {row.path: row for row in mxt.plan(model, **options)}
    parameters = {name: id(value) for name, value in model.named_parameters()}
    assert mxt.convert(model, **options) is model
    ours = [path for path, module in model.named_modules() if isinstance(module, mxt.Linear)]
    assert sorted(ours) == sorted(changed)
    assert sorted(path for path, row in planned.items() if row.kind != "stays") == sorted(changed)
    for path, why in STAYS.items():
        assert path in changed or planned[path].why in (why, "not asked for", "excluded")
    assert parameters == {name: id(value) for name, value in model.named_parameters()}


class Separate(nn.Module):
    """Lists of linear layers, and one that is no list of experts: nothing routes to it."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(E, D))
        self.w1 = nn.ModuleList(nn.Linear(D, F) for _ in range(E))
        self.w2 = nn.ModuleList(nn.Linear(F, D) for _ in range(E))
        self.layers = nn.ModuleList(nn.Linear(D, D) for _ in range(E + 1))


def test_lists_of_linear_layers_are_experts():
    kinds = {row.path.split(".")[0]: row.kind for row in mxt.plan(Separate())}
    assert kinds == {"w1": "linear", "w2": "linear", "layers": "stays"}


def test_what_a_recipe_has_no_blocks_for_stays():
    model = nn.Sequential(nn.Linear(40, 64), nn.Linear(64, 64))
    assert [str(row) for row in mxt.plan(model, linears=True)] == [
        "0: stays, 64 x 40, not multiples of 32", "1: linear"]  # fmt: skip


class Own(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


def test_a_forward_of_its_own_stays():
    patched = nn.Linear(D, D)
    patched.forward = lambda x: x
    model = nn.ModuleList([Own(D, D), patched, nn.MultiheadAttention(D, 4)])
    rows = mxt.plan(model, linears=True)
    assert {row.kind for row in rows} == {"stays"} and len(rows) == 3, rows
    with pytest.raises(mxoracle.Error, match="no layer to convert"):
        mxt.convert(model, linears=True)


CALLS = []


def counted(module, args, output):
    CALLS.append(1)


def test_hooks_sharing_and_checkpoints_stay():
    model = made(lambda: nn.ModuleDict({"one": nn.Linear(D, D), "two": nn.Linear(D, D)}))
    model["again"] = model["one"]
    model["one"].register_forward_hook(counted)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    mxt.convert(model, linears=True)
    assert model["again"] is model["one"] and list(model.state_dict()) == list(state)
    model.load_state_dict(state)
    x = torch.randn(4, 8, D)
    y = model["one"](x)
    assert y.shape == (4, 8, D) and CALLS == [1]
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert torch.equal(other["one"](x), y)


@pytest.mark.parametrize(
    "recipe, options, words",
    [
        ("mxfp9", {}, "found 'mxfp9', needs one of mxfp8_rceil"),
        ("mxfp8_rceil", {"sum": "h200"}, "sum=h200: "),
        ("mxfp8_rceil", {"format": "e3m4"}, "format=e3m4, sum=exact: "),
        ("mxfp8_rceil", {"linears": 3}, "found 3, needs True, False, patterns"),
        ("mxfp8_rceil", {"exclude": ["place", "*.shard.*"]}, "exclude: found '\\*.shard.\\*', which matches no layer; "
                                                             "there are block.shared.up, "),
        ("mxfp8_rceil", {"exclude": "block"}, "exclude: found 'block'"),  # it holds layers, and is none
        ("mxfp8_rceil", {"linears": ["inner", "embed"]}, "linears: found 'embed'"),
        ("mxfp8_rceil", {"experts": "inner"}, "experts: found 'inner', .* are block.experts"),
    ],
)
def test_refusals_replace_nothing(recipe, options, words):
    model = made(Language)
    with pytest.raises(mxoracle.Error, match=words):
        mxt.convert(model, recipe, **{"linears": True, **options})
    assert not any(isinstance(module, mxt.Linear) for module in model.modules())


def test_autocast_and_mixed_types_are_torch_s():
    layer = mxt.convert(made(lambda: nn.Linear(D, F)), linears=True)
    x = torch.randn(T, D)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    twin = copy.deepcopy(layer).bfloat16()
    assert y.dtype == torch.bfloat16 and torch.equal(y, twin(x.bfloat16()))
    y.sum().backward()
    assert layer.weight.grad.dtype == torch.float32
    with pytest.raises(mxoracle.Error, match="needs one type"):
        layer(x.bfloat16())


class Looped(Stacked):
    """By a loop over experts, one product of which is spelt x @ w.t()."""

    def forward(self, x):
        parts, start = [], 0
        for e, end in enumerate(ENDS.tolist()):
            h = nn.functional.silu(nn.functional.linear(x[start:end], self.w1[e]))
            parts.append(h @ self.w2[e].t())
            start = end
        return torch.cat(parts)


PLACES = {"an nn.Linear's": (lambda w: w[0], lambda p: p[None]), "[E, N, K]": (lambda w: w, lambda p: p),
          "[E, K, N]": (lambda w: w.transpose(1, 2).contiguous(), lambda p: p.transpose(1, 2))}  # fmt: skip


@pytest.mark.parametrize("recipe", ["mxfp8_rceil", "te_blockwise"])
@pytest.mark.parametrize("place", PLACES)
def test_main_grads_are_added_to_in_place(recipe, place):
    stored, seen = PLACES[place]
    w = nn.Parameter(stored(torch.randn(E, F, D).bfloat16()))
    w.main_grad = start = torch.rand(w.shape)
    want, ends = seen(start.clone()), ENDS if w.dim() == 3 else torch.tensor([T], dtype=torch.int32)
    for _ in range(2):
        x, dy = torch.randn(T, D).bfloat16().requires_grad_(), torch.randn(T, F).bfloat16()
        main_grads.product(x, seen(w), ends, None, (recipe, "e4m3", "exact")).backward(dy)
        layer = Layer(recipe, "e4m3", "exact", "cpu")
        want = want + layer.weight_gradient(dy, x.detach(), ends, want)
        assert torch.equal(x.grad, layer.input_gradient(dy, seen(w.detach()), ends, dy))
    assert w.grad is None and w.main_grad is start and torch.equal(seen(start), want)


@pytest.mark.parametrize("make", [Perceptron, Stacked])
def test_layers_know_their_main_grads(make):
    model = mxt.convert(make().bfloat16(), "mxfp8_rceil", linears=True)
    weights = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    for weight in weights:
        weight.main_grad = torch.zeros(weight.shape)
    model(torch.randn(T, D).bfloat16()).float().square().mean().backward()
    assert all(weight.grad is None and weight.main_grad.any() for weight in weights)
    weights[0].main_grad = torch.zeros(1)
    with pytest.raises(mxoracle.Error, match="needs f32 of its shape"):
        model(torch.randn(T, D).bfloat16())


@pytest.mark.parametrize("recipe", ["mxfp8_rceil", "deepgemm_blockwise"])
def test_weights_of_their_own_type_multiply_in_the_recipe(recipe):
    x = torch.randn(T, D, dtype=torch.bfloat16)
    want = gradients(mxt.convert(made(Stacked, torch.bfloat16), recipe), x)
    for make in (Stacked, Looped):
        layer = made(make, torch.bfloat16)
        if make is Looped:
            mxt.weights.wrap(layer, list(layer.parameters()), (recipe, "e4m3", "exact"))
        else:
            mxt.convert(layer, recipe, tensors=True)
        have = gradients(layer, x)
        assert all(torch.equal(want[name], have[name]) for name in want), make


@pytest.mark.parametrize("product", [
    lambda x, w: torch.bmm(x[None].expand(E, T, D), w.transpose(1, 2)),
    lambda x, w: torch.einsum("tk,enk->etn", x, w),
    lambda x, w: torch.bmm(x[:2, None], w[torch.tensor([0, 1])].permute(0, 2, 1)),
    lambda x, w: torch.nn.functional.linear(w[0], x),
])  # fmt: skip
def test_products_that_pass_a_weight_by_are_refused(product):
    layer = made(Stacked)
    mxt.convert(layer, tensors=True)
    with pytest.raises(mxoracle.Error, match="ScaledWeight: found aten.* the recipe does not cover"):
        product(torch.randn(T, D), layer.w1)


def test_no_rows_give_no_rows():
    for recipe in ("mxfp8_rceil", "te_blockwise"):
        layer = mxt.convert(made(lambda: nn.Linear(D, F)), recipe, linears=True)
        found = gradients(layer, torch.zeros(0, 3, D))
        assert found["y"].shape == (0, 3, F) and not found["weight"].any() and not found["bias"].any()


def test_tied_weights_stay_tied():
    model = nn.ModuleDict({"one": nn.Linear(D, D), "two": nn.Linear(D, D)})
    model["two"].weight = model["one"].weight
    mxt.convert(model, linears="one", experts=False, tensors=True)
    assert model["two"].weight is model["one"].weight and isinstance(model["one"].weight, mxt.ScaledWeight)
    torch.optim.AdamW(model.parameters()).step()
    y = model["one"](torch.randn(4, D))
    y.sum().backward()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    before = model["one"].weight.plain.clone()
    optimizer.step()
    assert not torch.equal(before, model["one"].weight.plain)


def test_the_example_trains_recipes_side_by_side(tmp_path, capsys):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples/train_torch.py"))
    words = ["--steps", "3", "--recipes", "bf16,mxfp8_rceil,deepgemm_blockwise", "--linears", "--layers", "1"]
    example["main"]([*words, "--output", str(tmp_path / "losses.csv")])
    rows = [line.split(",") for line in (tmp_path / "losses.csv").read_text().splitlines()]
    assert rows[0] == ["step", "bf16", "mxfp8_rceil", "deepgemm_blockwise"] and len(rows) == 4
    losses = [[float(cell) for cell in row[1:]] for row in rows[1:]]
    assert all(0 < max(row) - min(row) < 0.01 for row in losses)  # near one another, and not the same
    assert "parameters, loss" in capsys.readouterr().out


def test_right_ends_are_known_by_tensor_rows_and_version():
    ends = torch.tensor([2, 2, 5], dtype=torch.int32)
    assert operator._are_right(ends, 5) and operator._right[ends] == (5, ends._version, False)
    assert not operator._are_right(ends, 4) and not operator._are_right(-ends, 5)
    ends[0] = 3
    assert not operator._are_right(ends, 5)
    ends[0] = 0
    assert operator._are_right(ends, 6) and ends.clone() not in operator._right
    with torch.inference_mode():
        known = len(operator._right)
        assert operator._are_right(torch.tensor([1, 5]), 5) and len(operator._right) == known
