"""Layers and functions that are products are held by what they gave, whoever computes them."""
import contextlib
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
import mxoracle.torch as mxt  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

bf16 = torch.bfloat16
TORCHS = {"linear": F.linear, "matmul": torch.matmul, "scaled_dot_product_attention": F.scaled_dot_product_attention}
IN_HAND = lambda a, b: torch.from_numpy(a.detach().float().numpy() @ b.detach().float().numpy()).to(a.dtype)  # noqa: E731


class OwnGradient(torch.autograd.Function):
    """Right forward, twice what it should be backward."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return TORCHS["linear"](x, w)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        return 2 * (dy @ w), 2 * (dy.t() @ x)


def changed(call):
    """Wrong by one element in a hundred."""

    def wrong(*args, **kwargs):
        y = call(*args, **kwargs).clone()
        y.view(-1)[::100] *= 1.1
        return y

    return wrong


def zeroes_its_operand(x, w, bias=None):
    return TORCHS["linear"](x.detach().zero_(), w, bias)


def of_f32(x, w, bias=None):
    return TORCHS["linear"](x.float(), w.float(), None if bias is None else bias.float())


LINEARS = {
    "scaled": lambda x, w, b=None: TORCHS["linear"](x, w, b) * 1.02,
    "some elements": changed(F.linear),
    "in numpy": lambda x, w, b=None: IN_HAND(x, w.t()) * 1.02,
    "half of K": lambda x, w, b=None: TORCHS["linear"](x[..., :32], w[:, :32], b),
    "no bias": lambda x, w, b=None: TORCHS["linear"](x, w) + (0 if b is None else 1e-3),
    "another type": of_f32,
    "its operand": zeroes_its_operand,
    "own gradient": lambda x, w, b=None: OwnGradient.apply(x, w) if b is None else OwnGradient.apply(x, w) + b,
}


def layer():
    torch.manual_seed(0)
    return nn.Linear(64, 32).to(bf16), torch.randn(8, 64).to(bf16)


def patched(how, fault, net):
    """Where somebody's kernel is put in the place of torch's."""
    forward = lambda self, x: fault(x, self.weight, self.bias)  # noqa: E731
    return {"function": lambda: mock.patch.object(F, "linear", fault),
            "class": lambda: mock.patch.object(nn.Linear, "forward", forward),
            "instance": lambda: mock.patch.object(net, "forward", lambda x: fault(x, net.weight, net.bias)),
            }[how]()  # fmt: skip


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("how", ["function", "class", "instance"])
@pytest.mark.parametrize("fault", LINEARS)
def test_a_layer_by_another_kernel_never_passes_wrong(fault, how, first):
    net, x = layer()
    around = [patched(how, LINEARS[fault], net), mxt.Judge(explain_work=0)]
    with contextlib.ExitStack() as stack:
        judge = [stack.enter_context(each) for each in (around if first else around[::-1])][first]
        torch.mm(x, x.t())
        net(x)
    assert not judge.passed, judge
    of_layer = [row for row in judge.failures + judge.missed if row.operator == "nn.Linear"]
    assert of_layer and of_layer[0].module == "Linear", judge
    assert F.linear is TORCHS["linear"]


FUNCTIONS = {
    "linear": (F, "linear", lambda a: (a, a)), "attention": (F, "scaled_dot_product_attention", lambda a: (a[None],) * 3),
    "matmul": (torch, "matmul", lambda a: (a, a)), "operator": (torch.Tensor, "__matmul__", lambda a: (a, a)),
    "batches": (torch, "matmul", lambda a: (a[None].expand(3, -1, -1), a[0])),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("right", [True, False])
def test_replaced_functions_are_held_to_their_rule(name, right):
    home, attribute, operands = FUNCTIONS[name]
    theirs = getattr(home, attribute)
    a = torch.randn(64, 64).to(bf16)
    kernel = (lambda *args, **kwargs: theirs(*args, **kwargs)) if right else changed(theirs)
    with mock.patch.object(home, attribute, kernel), mxt.Judge(explain_work=0) as judge:
        getattr(home, attribute)(*operands(a[None] if name == "attention" else a))
    assert judge.passed is right, judge
    assert getattr(home, attribute) == theirs


@pytest.mark.parametrize("decorator", [torch.no_grad(), torch.autocast("cpu", enabled=False), torch.compiler.disable])
def test_a_decorator_of_torchs_hides_no_replaced_function(decorator):
    theirs, a = F.linear, torch.randn(16, 16)
    with mock.patch.object(F, "linear", decorator(lambda x, w: 2 * theirs(x, w))), mxt.Judge() as judge:
        F.linear(a, a)
    assert [row.operator for row in judge.failures] == ["torch.nn.functional.linear"], judge


@pytest.mark.parametrize("home", [F, torch, torch.linalg])
def test_a_function_replaced_for_one_call_is_missed(home):
    name = "linear" if home is F else "matmul"
    theirs, kind, a = getattr(home, name), type(home), torch.randn(16, 16)
    with mxt.Judge() as judge:
        torch.mm(a, a)
        with mock.patch.object(home, name, lambda *args: theirs(*args) * 2):
            getattr(home, name)(a, a)
    assert [row.operator for row in judge.missed] == [f"{home.__name__}.{name}"] and not judge.passed, judge
    assert type(home) is kind and getattr(home, name) is theirs


def test_functions_without_a_rule_are_missed_when_replaced():
    theirs = torch.einsum
    a = torch.randn(16, 16)
    with mock.patch.object(torch, "einsum", lambda *args: 2 * theirs(*args)), mxt.Judge() as judge:
        torch.mm(a, a)
        torch.einsum("ij,jk->ik", a, a)
    assert [row.operator for row in judge.missed] == ["torch.einsum"] and not judge.passed, judge


@pytest.mark.parametrize("key", ["CPU", "AutogradCPU", "CompositeImplicitAutograd"])
def test_a_kernel_registered_for_linear_never_passes(key):
    a = torch.randn(16, 16)
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("linear", lambda x, w, b=None: 2 * torch.mm(x, w.t()), key, allow_override=True)
        with mxt.Judge(explain_work=0) as judge:
            torch.mm(a, a)
            F.linear(a, a)
    finally:
        library._destroy()
    assert not judge.passed and any("linear" in row.operator for row in judge.failures + judge.missed), judge


SHAPES = {
    "rows": lambda: torch.randn(8, 64), "a row": lambda: torch.randn(64), "batches": lambda: torch.randn(2, 4, 64),
    "strided": lambda: torch.randn(4, 2, 64).transpose(0, 1), "no row": lambda: torch.randn(0, 64),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, bf16, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_right_layer_is_judged_once(shape, bias, dtype):
    torch.manual_seed(2)
    net, x = nn.Linear(64, 32, bias=bias).to(dtype), SHAPES[shape]().to(dtype)
    with_bias = lambda x, w, b=None: x @ w.t() + (0 if b is None else b)  # noqa: E731
    for around in (contextlib.nullcontext, torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", bf16),
                   lambda: mock.patch.object(nn.Linear, "forward", lambda self, x: with_bias(x, self.weight, self.bias))):  # fmt: skip
        with around(), mxt.Judge() as judge:
            torch.mm(torch.eye(2), torch.eye(2))
            net(x)
        assert judge.passed and len(judge.rows) == (1 if shape == "no row" else 2), judge


def test_hooks_and_autocast_of_a_layer_are_part_of_the_model():
    net, x = layer()
    net.register_forward_pre_hook(lambda module, args: (args[0].mul_(2),))
    net.float().forward = torch.autocast("cpu", bf16)(net.forward)
    with mxt.Judge() as outer, mxt.Judge() as judge:
        net(x.float())
        torch.mm(x.half(), x.half().t())
    assert judge.passed and len(judge.rows) == 2, judge
    assert outer.passed and outer.unjudged == judge.unjudged, outer


class OutOfSight(nn.Linear):
    def forward(self, x):
        return IN_HAND(x, self.weight.t())


class WithLora(nn.Linear):
    def forward(self, x):
        return super().forward(x) + F.linear(F.linear(x, self.weight[:4]), self.weight[:, :4])


@pytest.mark.parametrize("kind, seen", [(OutOfSight, False), (WithLora, True)])
def test_a_linear_of_its_own_shows_its_products(kind, seen):
    _, x = layer()
    net = kind(64, 32).to(bf16)
    with mxt.Judge(explain_work=0) as judge:
        torch.mm(x, x.t())
        net(x)
    assert judge.passed is seen, judge
    assert [(row.operator, row.module) for row in judge.missed] == ([] if seen else [("nn.Linear", kind.__name__)])


def test_layers_whose_weight_is_made_are_their_products():
    net = nn.utils.parametrizations.spectral_norm(nn.Linear(16, 8))
    with mxt.Judge() as judge:
        net(torch.randn(4, 16))
    assert judge.passed, judge
    with mock.patch.object(nn.Linear, "forward", lambda self, x: 2 * F.linear(x, self.weight)), mxt.Judge() as judge:
        net(torch.randn(4, 16))
    assert not judge.passed and "a weight made for each call" in judge.missed[0].cause, judge
