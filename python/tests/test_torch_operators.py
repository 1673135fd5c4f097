"""torch.library operators: opcheck, gradients, compiled graphs."""
import pytest

torch = pytest.importorskip("torch")
import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402


def linear(dtype=torch.bfloat16, bias=False):
    torch.manual_seed(0)
    x = torch.randn(96, 64, dtype=dtype, requires_grad=True)
    w = torch.randn(2, 32, 64, dtype=dtype, requires_grad=True)
    ends = torch.tensor([32, 96], dtype=torch.int32)
    b = torch.randn(2, 32, dtype=dtype, requires_grad=True) if bias else None
    return x, w, ends, b


@pytest.mark.parametrize(
    "op, args",
    [
        (mxt.quantize, lambda: (torch.randn(4, 64),)),
        # As bytes: opcheck multiplies, which torch cannot do with codes.
        (mxt.dequantize, lambda: [t.view(torch.uint8) for t in mxoracle.quantize(torch.randn(4, 64))]),
        (mxt.grouped_linear, linear),
        (mxt.grouped_linear, lambda: linear(bias=True)),
        (mxt.moe_layer, lambda: layer()),
    ],
    ids=["quantize", "dequantize", "grouped_linear", "grouped_linear_bias", "moe_layer"],
)
def test_operators_are_what_torch_expects(op, args):
    torch.library.opcheck(op, args())


def layer():
    torch.manual_seed(1)
    make = lambda *shape: torch.randn(*shape, dtype=torch.bfloat16, requires_grad=True)  # noqa: E731
    return make(32, 64), make(4, 64), make(4, 128, 64), make(4, 64, 64), 2


def bits(tensor):
    return tensor.detach().contiguous().view(torch.uint8)


@pytest.mark.parametrize("recipe", ["mxfp8_rceil", "fp8_rowwise", "bf16"])
def test_gradients_are_those_of_the_library(recipe):
    x, w, ends, b = linear(bias=True)
    y = mxt.grouped_linear(x, w, ends, b, recipe)
    dy = torch.randn_like(y)
    y.backward(dy)
    want = mxoracle.run("grouped_linear", {"x": x, "w": w, "group_ends": ends, "bias": b, "dy": dy},
                        recipe=recipe)  # fmt: skip
    for have, name in ((y, "y"), (x.grad, "dx"), (w.grad, "dw"), (b.grad, "dbias")):
        assert torch.equal(bits(have), bits(want[name])), name


def test_layers_have_the_gradients_of_the_library():
    x, router, w1, w2, top_k = layer()
    y = mxt.moe_layer(x, router, w1, w2, top_k)
    y.backward(torch.ones_like(y))
    want = mxoracle.moe_layer(x, router, w1, w2, dy=torch.ones_like(y), top_k=top_k)
    for have, name in ((y, "y"), (x.grad, "dx"), (w1.grad, "dw1"), (w2.grad, "dw2")):
        assert torch.equal(bits(have), bits(want[name])), name


def test_a_compiled_graph_is_eager_bit_for_bit():
    def step(x, w, ends, b):
        return mxt.grouped_linear(x * 2, w, ends, b).float().square().sum()

    eager, compiled = linear(), linear()
    step(*eager).backward()
    torch.compile(step, fullgraph=True, backend="aot_eager")(*compiled).backward()
    for a, b in zip(eager[:2], compiled[:2]):
        assert torch.equal(bits(a.grad), bits(b.grad))


def test_tangents_are_refused():
    x, w, ends, _ = linear()
    grouped = lambda x: mxt.grouped_linear(x, w.detach(), ends)  # noqa: E731
    dense = mxt.convert(torch.nn.Linear(64, 32), linears=True)
    for layer, x in ((grouped, x), (dense, torch.randn(4, 64))):
        with pytest.raises(mxoracle.Unsupported, match="forward-mode differentiation"):
            torch.func.jvp(layer, (x.detach(),), (x.detach(),))
