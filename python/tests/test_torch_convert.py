"""`convert` takes expert layers of every layout, and none whose own forward computes otherwise."""
import copy
import io

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402

E, D, F, TOP = 4, 64, 96, 2


class Own(nn.Module):
    """Experts as somebody writes them: `change` is what this one does otherwise."""

    change = ""

    def __init__(self, names=("gate_up_proj", "down_proj"), transposed=False, biased=False):
        super().__init__()
        torch.manual_seed(0)
        self.names, self.transposed, self.biased = names, transposed, biased
        shapes = [(2 * F, D), (D, F)] if len(names) == 2 else [(F, D), (F, D), (D, F)]
        for name, (n, k) in zip(names, shapes):
            shape = (E, k, n) if transposed else (E, n, k)
            setattr(self, name, nn.Parameter(torch.randn(shape) * 0.2))
            if biased:
                setattr(self, name + "_bias", nn.Parameter(torch.randn(E, n)))
        self.act_fn = nn.SiLU()

    def linear(self, name, e, x):
        w = getattr(self, name)[e]
        y = x @ (w if self.transposed else w.t())
        return y + getattr(self, name + "_bias")[e] if self.biased else y

    def gate(self, both):
        gate, up = both.chunk(2, -1)
        if self.change == "clamped":
            gate, up = gate.clamp(max=7), up.clamp(-7, 7)
        if self.change == "clamped far off":
            gate = gate.clamp(max=5e3)
        if self.change == "interleaved":
            gate, up = both[..., ::2], both[..., 1::2]
        if self.change == "gelu":
            return nn.functional.gelu(gate) * up
        if self.change == "swapped":
            gate, up = up, gate
        if self.change == "one more":
            up = up + 1
        return self.act_fn(gate) * up

    def forward(self, x, index, weights):
        if self.change == "normalised":
            weights = weights / weights.sum(-1, keepdim=True)
        if self.change == "bf16 weights":
            weights = weights.bfloat16().to(x.dtype)
        if self.change == "next expert":
            index = (index + 1) % E
        y = torch.zeros_like(x)
        for e in range(E):
            token, place = torch.where(index == e)
            rows = x[token]
            first = torch.cat([self.linear(name, e, rows) for name in self.names[:-1]], -1)
            out = self.linear(self.names[-1], e, self.gate(first))
            y.index_add_(0, token, out * weights[token, place, None])
        if self.change == ("while trained" if self.training else "while not trained") or (
                self.change == "in its own type" and x.dtype != torch.float64):  # fmt: skip
            y = 2 * y
        if self.change == "scaled":
            y = 2.5 * y
        if self.change == "pair":
            return y, None
        return y + x if self.change == "residual" else y


def operands(dtype=torch.float32):
    torch.manual_seed(1)
    x = torch.randn(32, D).to(dtype)
    index = torch.stack([torch.randperm(E)[:TOP] for _ in range(32)])
    return x, index, torch.rand(32, TOP).to(dtype)


def with_change(change, **options):
    module = Own(**options)
    module.change = change
    return module


THREE = {"gate": "w1", "up": "w3", "down": "w2"}
LAYOUTS = [
    (lambda: Own(), {}),
    (lambda: Own(transposed=True), {}),
    (lambda: Own(biased=True), {}),
    (lambda: Own(transposed=True, biased=True), {}),
    (lambda: Own(("w13", "w2")), {"names": {"gate_up": "w13", "down": "w2"}}),
    (lambda: Own(("w1", "w3", "w2")), {"names": THREE}),
    (lambda: Own(("w1", "w3", "w2"), True, True),
     {"names": THREE | {f"{key}_bias": f"{name}_bias" for key, name in THREE.items()}}),
    (lambda: with_change("clamped"), {"gate": with_change("clamped").gate}),
    (lambda: with_change("interleaved", transposed=True), {"gate": with_change("interleaved").gate}),
]  # fmt: skip


@pytest.mark.parametrize("make, options", LAYOUTS)
@pytest.mark.parametrize("whole", [False, True])
def test_layouts_are_converted_as_they_are(make, options, whole):
    x, index, weights = operands()
    want = make()(x, index, weights)
    if whole:  # the layer itself
        ours = mxt.convert(make(), "bf16", **options)
    else:
        model = nn.ModuleDict({"experts": make()})
        assert mxt.convert(model, "bf16", **options) is model
        ours = model["experts"]
    assert isinstance(ours, mxt.Experts)
    found = mxoracle.compare(want.detach(), ours(x, index, weights).detach(), gate="sqnr=40")
    assert found, found
    none, zero = index.clone(), weights.clone()
    none[:, 0], zero[:, 0] = -1, 0
    assert torch.equal(ours(x, none, weights), ours(x, index, zero))
    assert ours(x[:0], index[:0], weights[:0]).shape == (0, D)


CHANGES = ["clamped", "clamped far off", "interleaved", "gelu", "swapped", "one more", "normalised",
           "bf16 weights", "next expert", "scaled", "residual",
           "while trained", "while not trained", "in its own type"]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_an_own_forward_is_never_replaced_unseen(change):
    model = nn.ModuleDict({"experts": with_change(change)})
    with pytest.raises(mxoracle.Unsupported, match=r"experts: .* is .* by its own forward and .* by"):
        mxt.convert(model, "bf16")
    assert isinstance(model["experts"], Own)
    mxt.convert(model, "bf16", check=False)
    assert isinstance(model["experts"], mxt.Experts)


class Around(Own):
    """A forward that does otherwise of some inputs, or more than to give y."""

    def __init__(self, around):
        super().__init__()
        self.around = [around]
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x, index, weights):
        return self.around[0](self, super().forward, x, index, weights)


def last_of_each(self, run, x, index, weights):
    dense = torch.zeros(len(x), E, dtype=x.dtype).scatter(1, index, weights)
    return run(x, torch.arange(E).expand(len(x), E), dense)


def within_capacity(self, run, x, index, weights):
    before = torch.nn.functional.one_hot(index.flatten(), E).cumsum(0).view(*index.shape, E)
    place = before.gather(2, index[..., None])[..., 0]
    return run(x, index, weights * (place <= max(4, 0.9 * index.numel())))


def keeps(self, run, x, index, weights):
    self.last = index
    return run(x, index, weights)


def counts(self, run, x, index, weights):
    self.count += len(x)
    return run(x, index, weights)


def in_place(self, run, x, index, weights):
    y = run(x, index, weights)
    x.mul_(2)
    return y


def without(name):
    def forward(self, run, x, index, weights):
        stored = getattr(self, name)
        self._parameters[name] = stored.detach()
        try:
            return run(x, index, weights)
        finally:
            self._parameters[name] = stored

    return forward


def doubled(when):
    def forward(self, run, x, index, weights):
        return run(x, index, weights) * (2 if when(self, x, index, weights) else 1)

    return forward


ARE_SEEN = [
    (doubled(lambda self, x, i, w: len(x) == 1), r"y\[0, 0\] is .* with one token"),
    (doubled(lambda self, x, i, w: len(x) == 2), "with two tokens"),
    (doubled(lambda self, x, i, w: len(x) > 64), "with 65 tokens"),
    (doubled(lambda self, x, i, w: len(x) > 512), "with 520 tokens"),
    (doubled(lambda self, x, i, w: len(x) == 1 and not self.training), "with one token"),
    (doubled(lambda self, x, i, w: len(x) == 1 and x.dtype != torch.float64), "in torch.float32 y.* one token"),
    (lambda self, run, x, i, w: run(x, i, w) if len(x) else x.new_zeros(1, D), r"gives \(1, 64\), ours \(0, 64\)"),
    (last_of_each, "with an expert twice in a token"),
    (within_capacity, "with one expert for all tokens"),
    (lambda self, run, x, i, w: run(x, i[:, :2], w[:, :2]), "with four experts a token"),
    (doubled(lambda self, x, i, w: i.shape[1] == 1), "with one expert a token"),
    (lambda self, run, x, i, w: run(x, i, w.where(w > 0.05, w * 0)), "by ours"),
    (lambda self, run, x, i, w: run(x, i, w.where(w.abs() > 2.0**-8, w * 0)), "with weights of 0"),
    (lambda self, run, x, i, w: run(x, i, w.abs()), "with weights of 0"),
    (lambda self, run, x, i, w: run(x, i, w.clamp(max=1)), "with weights of 0"),
    (doubled(lambda self, x, i, w: bool((w == 0).any())), "with weights of 0"),
    (doubled(lambda self, x, i, w: not torch.is_grad_enabled()), "with gradients off"),
    (doubled(lambda self, x, i, w: torch.is_inference_mode_enabled()), "with inference mode"),
    (torch.no_grad()(doubled(lambda *_: False)), "gives no gradient of down_proj, ours one"),
    (lambda self, run, x, i, w: run(x, i, w.detach()), "gives no gradient of weights, ours one"),
    (lambda self, run, x, i, w: run(x.detach(), i, w), "gives no gradient of x, ours one"),
    (without("gate_up_proj"), "gives no gradient of gate_up_proj, ours one"),
    (lambda self, run, x, i, w: 2 * run(x, i, w) - run(x, i, w).detach(), r"is .* by its own forward"),
    (counts, "changes count of the module, ours does not"),
    (keeps, "changes last of the module, ours does not"),
    (in_place, "changes x in place, ours does not"),
    (lambda self, run, x, i, w: run(x, i, w).double(), "of torch.float64, ours .* of torch.float32"),
]  # fmt: skip


@pytest.mark.parametrize("around, words", ARE_SEEN)
def test_what_a_forward_does_of_some_inputs_is_seen(around, words):
    model = nn.ModuleDict({"experts": Around(around)})
    with pytest.raises(mxoracle.Unsupported, match=f"experts: .*{words}"):
        mxt.convert(model, "bf16")
    assert model["experts"].count == 0 and not hasattr(model["experts"], "last")


def test_what_a_forward_refuses_is_not_compared():
    def refuses(self, run, x, index, weights):
        if len(x) == 0 or index.shape[1] == 4:
            raise ValueError
        return run(x, index, weights)

    assert isinstance(mxt.convert(Around(refuses), "bf16"), mxt.Experts)


def test_inputs_that_do_not_fit_are_refused():
    x, index, weights = operands()
    ours = mxt.convert(Own(), "bf16")
    for inputs, words in [
        ((x[None], index, weights), r"hidden_states: found \[1, 32, 64\], needs \[T, D\]"),
        ((x, index[:16], weights[:16]), r"top_k_index: found \[16, 2\], needs \[32, k\]"),
        ((x, index[:, 0], weights[:, 0]), r"top_k_index: found \[32\], needs \[32, k\]"),
        ((x, index.float(), weights), "top_k_index: found torch.float32, needs whole numbers"),
        ((x, index == 0, weights), "top_k_index: found torch.bool"),
        ((x, index, torch.cat([weights, weights])), r"top_k_weights: found \[64, 2\], needs \[32, 2\]"),
        ((x, index, weights[:, :1]), r"top_k_weights: found \[32, 1\]"),
    ]:  # fmt: skip
        with pytest.raises(mxoracle.Error, match=words):
            ours(*inputs)


@pytest.mark.parametrize(
    "model, options, words",
    [
        (lambda: with_change("pair"), {}, "gives tuple, ours"),
        (lambda: Own(("w13", "w2")), {}, "found no expert layer"),
        (lambda: Own(), {"names": {"middle": "w3"}}, "names: found 'middle'"),
        (lambda: Own(), {"transposed": True}, r"needs \[E, K, N\]"),
        (lambda: Own().double(), {}, "float64, needs bf16, f16 or f32"),
        (lambda: without_activation(), {}, "neither act_fn nor _apply_gate, needs gate="),
        (lambda: None, {}, "model: found None, needs a torch.nn.Module"),
        (lambda: Own, {}, "model: found type, needs a torch.nn.Module"),
        (lambda: Own(), {"recipe": 1}, r"recipe: found 1, needs a name of mxoracle.torch.recipes\(\)"),
        (lambda: nn.Linear(D, F).double(), {"linears": True}, "found no layer to convert"),
    ],
)
def test_what_is_not_known_is_refused(model, options, words):
    with pytest.raises(mxoracle.Error, match=words):
        mxt.convert(model(), **{"recipe": "bf16", **options})


def test_linear_layers_of_other_types_stay():
    (layer,) = mxt.plan(nn.Linear(D, F).double(), linears=True)
    assert (layer.kind, layer.why) == ("stays", "weights of torch.float64, not of bfloat16, float16 or float32")


def without_activation():
    module = Own()
    del module.act_fn
    return module


def test_a_converted_model_is_kept_and_copied():
    model = nn.ModuleDict({"experts": Own()})
    names = list(model.state_dict())
    mxt.convert(model, "mxfp8_rceil")
    assert list(model.state_dict()) == names
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    want = model["experts"](*operands())
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert torch.equal(other["experts"](*operands()), want)
        other.bfloat16()
        y = other["experts"](*operands(torch.bfloat16))
        y.float().sum().backward()
        assert other["experts"].gate_up_proj.grad.dtype == torch.bfloat16
    assert model["experts"].gate_up_proj.dtype == torch.float32
    again = mxt.convert(model, "fp8_rowwise")["experts"]
    assert again.recipe == "fp8_rowwise" and again.theirs is model["experts"].theirs


class Grouped(nn.Module):
    """Experts around torch._grouped_mm, as torchtitan has them: [E, N, K] weights, own activation."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.w1 = nn.Parameter(torch.randn(E, F, D) * 0.2)
        self.w2 = nn.Parameter(torch.randn(E, D, F) * 0.2)
        self.loops = False
        self.num_experts = E

    def forward(self, x, counts):
        if self.loops:
            return x
        return run_grouped(self.w1, self.w2, x, counts)


def run_grouped(w1, w2, x, counts):
    offs = torch.cumsum(counts, 0, dtype=torch.int32)
    h = torch._grouped_mm(x.bfloat16(), w1.bfloat16().transpose(-2, -1), offs=offs)
    return torch._grouped_mm(h.clamp(-7, 7), w2.bfloat16().transpose(-2, -1), offs=offs).type_as(x)


@pytest.mark.parametrize("inside", [False, True])
def test_only_grouped_products_of_a_module_are_replaced(inside):
    x, counts = torch.randn(24, D), torch.tensor([8, 0, 10, 6])
    ends = torch.cumsum(counts, 0, dtype=torch.int32)
    model = nn.ModuleDict({"experts": Grouped()}) if inside else Grouped()
    model = mxt.convert(model, "mxfp8_rceil")
    ours = model["experts"] if inside else model
    w1, w2 = ours.w1.detach().bfloat16(), ours.w2.detach().bfloat16()
    settings = (ends, None, "mxfp8_rceil", "e4m3", "bf16", True)
    h = mxt.grouped_linear(x.bfloat16(), w1, *settings).clamp(-7, 7)
    want = mxt.grouped_linear(h, w2, *settings).float()
    have = ours(x, counts)
    assert torch.equal(have, want)
    have.sum().backward()
    assert ours.w1.grad.abs().sum() > 0 and list(ours.state_dict()) == ["w1", "w2"]
    assert ours.num_experts == E and not hasattr(ours, "experts")  # torchtitan asks for the former
    ours.theirs.loops = True
    with pytest.raises(mxoracle.Error, match="its forward called no torch._grouped_mm"):
        ours(x, counts)
