"""The judge sees every product: in every mode of torch, through subclasses, by the right module."""
import contextlib
import json
import threading

import pytest

torch = pytest.importorskip("torch")
import mxoracle.torch as mxt  # noqa: E402
from mxoracle.torch.graphs import hidden_products  # noqa: E402
import torch.utils.checkpoint  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

bf16 = torch.bfloat16
A, B = torch.randn(16, 64).to(bf16), torch.randn(64, 64).to(bf16)
Q = torch.randn(1, 2, 16, 32).to(bf16)


class Broken(TorchDispatchMode):
    """A machine whose products lose the last eight of K, and whose attention adds a constant."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in ("mm", "bmm", "mv", "dot", "addmm"):
            *front, a, b = args
            args = (*front, a[..., :-8], b.narrow(-2 if b.dim() > 1 else 0, 0, a.shape[-1] - 8))
        out = func(*args, **(kwargs or {}))
        return (out[0] + 1, *out[1:]) if "attention" in name else out


@contextlib.contextmanager
def inference_autocast():
    with torch.inference_mode(), torch.autocast("cpu", bf16):
        yield


@contextlib.contextmanager
def autocast():
    with torch.autocast("cpu", bf16):
        yield


MODES = [contextlib.nullcontext, torch.no_grad, torch.inference_mode, autocast, inference_autocast]
CALLS = {
    "linear": lambda: F.linear(A, B),
    "linear with a bias": lambda: F.linear(A, B, B[0]),
    "linear of three axes": lambda: F.linear(A[None].expand(2, -1, -1), B),
    "matmul": lambda: torch.matmul(A, B),
    "matmul of batches": lambda: torch.matmul(A[None].expand(3, -1, -1), B[None]),
    "matmul of a vector": lambda: torch.matmul(B, A[0]),
    "einsum of f32": lambda: torch.einsum("ik,jk->ij", A.float(), B.float()),
    "einsum": lambda: torch.einsum("ik,jk->ij", A, B),
    "inner": lambda: torch.inner(A, B),
    "tensordot": lambda: torch.tensordot(A, B, dims=1),
    "multi_dot": lambda: torch.linalg.multi_dot([A, B, B]),
    "attention": lambda: F.scaled_dot_product_attention(Q, Q, Q),
    "attention in parts": lambda: torch.ops.aten._scaled_dot_product_attention_math(Q, Q, Q)[0],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", CALLS)
def test_products_are_judged_in_every_mode(mode, call):
    with mode(), mxt.Judge() as judge:
        have = CALLS[call]()
    with mode():
        want = CALLS[call]()
    assert judge.passed and torch.equal(have, want), judge
    with mode(), Broken(), mxt.Judge(explain_work=0) as judge:
        CALLS[call]()
    assert judge.failures and not judge.passed, judge


def test_scripted_functions_are_judged_under_inference():
    scripted = torch.jit.trace(lambda a, b: torch.matmul(a, b).relu(), (A, B))
    with torch.inference_mode(), Broken(), mxt.Judge(explain_work=0) as judge:
        scripted(A, B)
    assert judge.failures


def run_in_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def backward_in_a_thread():
    with torch.inference_mode(False):
        run_in_a_thread(torch.nn.Linear(64, 64, dtype=bf16)(A).sum().backward)


def encoder():
    return torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True).eval()


library = torch.library.Library("hostile", "DEF")
library.define("times(Tensor a, Tensor b) -> Tensor")
library.impl("times", lambda a, b: 2 * (a @ b), "CPU")


def test_an_operator_of_ones_own_may_be_said_to_multiply_nothing():
    for settings, passed in (({}, False), ({"no_products": ["hostile::times"]}, True)):
        with mxt.Judge(**settings) as judge:
            A @ B
            torch.ops.hostile.times(A, B)
        assert judge.passed is passed, judge


class Doubles(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return 2 * func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "call, operator",
    [
        (lambda: encoder()(torch.randn(2, 4, 32)), "aten::_transformer_encoder_layer_fwd"),
        (lambda: torch.baddbmm(A[None], A[None], B[None]), "aten::baddbmm"),
        (lambda: A.clone().addmm_(A, B), "aten::addmm_"),
        (lambda: torch.addmm(A, A, B), "aten::addmm"),
        (lambda: A.double() @ B.double(), "aten::mm"),
        (lambda: B.to(torch.complex64) @ B.to(torch.complex64).conj(), "aten::mm"),
        (lambda: A.to("meta") @ B.to("meta"), "aten::m"),
        (lambda: F.linear(torch.nested.nested_tensor([A, A[:3]]), B), "aten::linear"),
        (lambda: torch.nn.LSTM(8, 8)(torch.randn(3, 1, 8)), "aten::mkldnn_rnn_layer"),
        (lambda: torch.cdist(torch.randn(64, 8), torch.randn(64, 8)), "aten::_euclidean_dist"),
        (lambda: torch.ops.hostile.times(A, B), "hostile::times"),
        (lambda: torch.nn.Bilinear(64, 64, 8)(A.float(), A.float()), "aten::_trilinear"),
        (lambda: torch.sparse.mm(A.float().to_sparse(), B.float()), "aten::_sparse"),
        (lambda: torch._int_mm(torch.ones(32, 32, dtype=torch.int8), torch.ones(32, 32, dtype=torch.int8)),
         "aten::_int_mm"),
        (lambda: torch.ops.quantized.linear_relu_dynamic(A.float(), torch.ops.quantized.linear_prepack(
            torch.quantize_per_tensor(A.float(), 0.1, 0, torch.qint8), None)), "quantized::linear_relu_dynamic"),
        (lambda: Doubles().__enter__().__exit__(None, None, None), "a mode"),
        (lambda: run_in_a_thread(lambda: torch.nn.Linear(64, 64, dtype=bf16)(A)), "a module"),
        (backward_in_a_thread, "a backward pass"),
        (lambda: torch.nn.attention.flex_attention.flex_attention(*[torch.randn(1, 1, 16, 16)] * 3),
         "flex_attention"),
    ],
)  # fmt: skip
def test_products_that_are_missed_never_pass(call, operator):
    import torch.nn.attention.flex_attention  # noqa: F401

    with torch.inference_mode(), mxt.Judge() as judge:
        A @ B
        call()
    if operator == "aten::mkldnn_rnn_layer" and not judge.missed:
        pytest.skip("this torch computes it by products")
    assert not judge.passed and not judge.failures
    assert any(row.operator.startswith(operator) for row in judge.missed), judge
    assert "were not judged (" in str(judge)


def test_a_judge_is_not_given_to_the_compiler_it_judges():
    seen = []
    net = torch.compile(torch.nn.Linear(64, 64, dtype=bf16), backend=lambda graph, _: seen.append(graph) or graph)
    with mxt.Judge() as judge:
        net(A)
    assert judge.passed and not seen, judge


def test_a_mode_that_catches_functions_never_passes():
    with Doubles(), mxt.Judge() as judge:
        A @ B
    assert [row.operator for row in judge.missed] == ["a mode"] and not judge.passed, judge


def test_products_without_elements_are_counted():
    with mxt.Judge() as judge:
        A[:0] @ B
        torch.bmm(A[None][:0], B[None][:0])
        torch._grouped_mm(A, B[None], offs=torch.tensor([0], dtype=torch.int32))
    assert not judge.rows and not judge.passed
    assert judge.unjudged["aten::mm without elements"] == 1
    with judge:
        A @ B
    assert judge.passed, judge
    net = mxt.Linear(64, 32).to(bf16)
    with mxt.Judge() as judge:
        net(A[:0]).sum().backward()
    assert [row.operator.split()[1] for row in judge.rows] == ["dw", "dbias"], judge


class Halves(torch.Tensor):
    """A wrapper whose products are those of its parts; `hides`: computed where nothing sees it."""

    @staticmethod
    def __new__(cls, whole, hides):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=whole.dtype)

    def __init__(self, whole, hides):
        self.parts, self.hides = whole.chunk(2), hides

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        half, other = args
        watched = contextlib.nullcontext()
        if half.hides:
            watched = torch.utils._python_dispatch._disable_current_modes()
        with watched:
            return torch.cat([func(part, other) for part in half.parts])


@pytest.mark.parametrize("hides", [False, True])
def test_products_of_subclasses_are_those_of_their_parts(hides):
    half = Halves(A, hides)
    with torch.no_grad(), mxt.Judge() as judge:
        torch.mm(half, B)
    assert judge.passed != hides
    want = [("aten::mm", 0)] if hides else [("aten::mm", 8 * 64)] * 2
    assert [(row.operator, row.elements) for row in judge.rows] == want, judge
    assert not hides or "Halves computes it unseen" in judge.rows[0].cause


@pytest.mark.parametrize(
    "op, known",
    [
        (torch.ops.aten.mm, True), (torch.ops.aten.mm.default, True), ("aten::mm", True),
        ("linear", True), (F.linear, True), (torch.matmul, True), (torch.nn.Linear, True),
        (F.scaled_dot_product_attention, True), (torch.ops.aten.linear.default, True),
        (torch.ops.mxoracle.grouped_linear, True), ("aten::_grouped_mm", True),
        (torch.relu, False), ("aten::convolution", True), (torch.linalg.solve, False), (torch.ops.aten.baddbmm, False),
        (torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward, False), ("", False),
    ],
)  # fmt: skip
def test_the_judge_says_what_it_covers(op, known):
    assert mxt.Judge().covers(op) is known


GRAPH = """
buf0 = empty_strided_cpu((16, 32), (32, 1), torch.bfloat16)
# Topologically Sorted Source Nodes: [linear], Original ATen: [aten.t, aten.addmm]
extern_kernels.addmm(primals_2, primals_3, primals_1, alpha=1, beta=1, out=buf0)
# Topologically Sorted Source Nodes: [relu], Original ATen: [aten.relu]
cpp_fused_relu_0(buf0)
"""
FUSED = GRAPH + "# Original ATen: [aten.mm, aten.relu]\ntriton_tem_fused_mm_relu.run(buf0)\n"


class Graph:
    """Enough of a graph that was compiled before."""

    def __init__(self, source):
        self.source_code = source
        self.compiled_fn_runner = None


@pytest.mark.parametrize(
    "source, hidden", [(GRAPH, []), (FUSED, ["mm"]), ("", None), (None, None)]
)
def test_products_inside_of_compiled_kernels_are_missed(source, hidden):
    import torch._inductor.output_code as home

    assert hidden_products(source, frozenset(["mm", "addmm"])) == hidden
    before = home.CompiledFxGraph.__call__
    with mxt.Judge() as judge:
        with contextlib.suppress(AttributeError):  # it cannot run
            home.CompiledFxGraph.__call__(Graph(source), [A])
        torch.mm(A, B, out=torch.empty(16, 64, dtype=bf16))  # as compiled code calls it
    assert home.CompiledFxGraph.__call__ is before
    assert judge.passed == (hidden == []) == (not judge.missed)
    assert judge.unjudged["a compiled graph, its fused operators not seen"] == (hidden == [])
    assert [row.operator for row in judge.rows][-1] == "aten::mm.out"


def test_a_replayed_cuda_graph_is_missed():
    with mxt.Judge() as judge:
        A @ B
        with contextlib.suppress(Exception):  # it cannot run
            torch.cuda.CUDAGraph.replay(None)
    assert not judge.passed and judge.missed[0].operator == "a CUDA graph"


class Triples(torch.autograd.Function):
    """y = x w^T with a gradient of x that is three times too large."""

    @staticmethod
    def forward(x, w):
        return x @ w.t()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        return 3 * (dy @ w), dy.t() @ x


@torch.library.custom_op("hostile::steps", mutates_args=())
def steps(x: torch.Tensor) -> torch.Tensor:
    return x.round()


steps.register_autograd(lambda ctx, dy: 3 * dy)


def checkpointed(x, reentrant):
    return torch.utils.checkpoint.checkpoint(Triples.apply, x, B, use_reentrant=reentrant).float().sum().backward()


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda x: Triples.apply(x, B).float().sum().backward(), "TriplesBackward"),
        (lambda x: checkpointed(x, True), "TriplesBackward"),
        (lambda x: checkpointed(x, False), "TriplesBackward"),
        (lambda x: torch.func.grad(lambda x: Triples.apply(x, B).sum())(x.detach()), "TriplesGeneratedBackward"),
        (lambda x: torch.autograd.grad(torch.autograd.graph.get_gradient_edge(Triples.apply(x, B)), x,
                                       A.new_ones(16, 64)), "TriplesBackward"),
        (lambda x: (steps(x) @ B).sum().backward(), "GeneratedBackwardFor_hostile_steps_defaultBackward"),
        (lambda x: mxt.Linear(64, 64).to(bf16)(x).sum().backward(), ""),
    ],
)  # fmt: skip
def test_gradients_of_ones_own_are_named(call, name):
    with mxt.Judge() as judge:
        call(A.clone().requires_grad_())
    assert list(judge.gradients) == [name] * bool(name) and judge.rows, judge
    assert ("not torch's gradients, of which only the products are judged" in str(judge)) == bool(name)


class Projections(torch.nn.Module):
    """Three layers that read the same input, as attention's do."""

    def __init__(self):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(self, name, torch.nn.Linear(64, 64, bias=False, dtype=bf16))

    def forward(self, x):
        return self.q_proj(x) * self.k_proj(x) + self.v_proj(x)


class Checkpointed(Projections):
    reentrant = False

    def forward(self, x):
        run = torch.utils.checkpoint.checkpoint
        return run(super().forward, x, use_reentrant=self.reentrant)


class Reentrant(Checkpointed):
    reentrant = True


class OfWeight(Broken):
    """In a backward pass, products of one weight are broken."""

    def __init__(self, weight):
        super().__init__()
        self.storage = weight.untyped_storage().data_ptr()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        parts = args if func is torch.ops.aten.mm.default and in_backward() else ()
        if any(part.untyped_storage().data_ptr() == self.storage for part in parts):
            return super().__torch_dispatch__(func, types, args, kwargs)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", [Projections, Checkpointed, Reentrant])
@pytest.mark.parametrize("name", ["q_proj", "k_proj", "v_proj"])
def test_a_faulty_gradient_names_its_module(kind, name):
    net, path = kind(), f"{kind.__name__}.{name}"
    with OfWeight(getattr(net, name).weight), mxt.Judge(explain_work=0) as judge:
        y = net(A.clone().requires_grad_())
        with torch.no_grad():
            net.q_proj(A)  # what runs in between changes no name
        y.float().sum().backward()
    assert {row.module.split()[0] for row in judge.failures} == {path}, judge
    gradients = [row for row in judge.rows if row.module == path + " backward"]
    assert len(gradients) == 2 and any(row.verdict == "FAIL" for row in gradients), judge


def in_backward():
    return torch._C._current_graph_task_id() != -1


def test_gradients_of_a_pass_before_have_no_name():
    net = Projections()
    y = net(A)
    with mxt.Judge() as judge:
        net.v_proj(A)
        y.float().sum().backward()
    assert {row.module for row in judge.rows} == {"Linear", "backward"}, judge


def test_the_recorder_writes_the_same_lines_under_inference(tmp_path):
    net = Projections()
    for name, mode in (("plain", torch.no_grad), ("inference", torch.inference_mode)):
        with mode(), mxt.Recorder(tmp_path / name):
            net(A)
    lines = [(tmp_path / name / "trace.jsonl").read_text() for name in ("plain", "inference")]
    assert lines[0] == lines[1]
    written = [json.loads(line) for line in lines[1].splitlines()[1:]]
    assert [line["module"] for line in written] == [f"Projections.{p}_proj" for p in "qkv"]
