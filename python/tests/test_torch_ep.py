"""Expert layers across ranks of gloo: the bits of `mxo run moe_layer`, for any number of ranks."""
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

import mxoracle  # noqa: E402
from mxoracle.torch import ep, exchange, expert_products  # noqa: E402

EXPERTS, TOKENS, D, F = 8, 40, 256, 128
PIPELINES = {"bf16": ("bf16", {}), "quantize_after": ("quantize_after", {"recipe": "mxfp8_floor"}),
             "mxfp8": ("mxfp8", {"recipe": "MXFP8_RCEIL"}), "flow": ("flow", {}),
             "mxfp8_fnuz": ("mxfp8", {"format": "e4m3fnuz"}), "flow_fnuz": ("flow", {"format": "e4m3fnuz"}),
             "fp8_blockwise": ("fp8_blockwise", {"recipe": "fp8_blockwise"}),
             "vllm": ("fp8_blockwise", {"recipe": "vllm"}),
             "vllm_fnuz": ("fp8_blockwise", {"recipe": "vllm", "format": "e4m3fnuz"}),
             "vllm_up": ("fp8_blockwise", {"recipe": "vllm_up"})}  # fmt: skip
WIDE = ("flow", "flow_fnuz", "fp8_blockwise", "vllm", "vllm_fnuz", "vllm_up")  # blocks of 128


def operands():
    torch.manual_seed(0)
    shapes = {"x": (TOKENS, D), "router": (EXPERTS, D), "w1": (EXPERTS, 2 * F, D), "w2": (EXPERTS, D, F),
              "dy": (TOKENS, D)}  # fmt: skip
    return {name: torch.randn(shape).bfloat16() for name, shape in shapes.items()}


def layer(pipeline, top_k, ranks):
    """What the library gives, with its stages: of every rank under a list."""
    given = operands()
    for name in ("x", "dy"):
        given[name] = list(given[name].chunk(ranks))
    name, settings = PIPELINES[pipeline]
    return mxoracle.run("moe_layer", given, top_k=top_k, pipeline=name, keep_stages=True, **settings)


def step(rank, ranks, pipeline, top_k, run):
    """This rank's part: y, dx, dweights, dw1, dw2."""
    given, routed = operands(), layer(pipeline, top_k, 1)
    mine = lambda t: t.chunk(ranks)[rank].clone()  # noqa: E731
    leaves = [mine(t).requires_grad_() for t in (given["x"], routed["weights"], given["w1"], given["w2"])]
    plan = ep.plan(mine(routed["experts"]), EXPERTS, alignment=128 if pipeline in WIDE else 32)
    name, settings = PIPELINES[pipeline]
    y = run(*leaves, plan, name, **settings)
    y.backward(mine(given["dy"]))
    return [y.detach(), *(leaf.grad for leaf in leaves)]


def train(rank, ranks, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store{ranks}", rank=rank,
                            world_size=ranks)  # fmt: skip
    found = {(p, k): step(rank, ranks, p, k, ep.experts) for p in PIPELINES for k in (1, 2)}
    for p in PIPELINES if ranks == 2 else ():
        torch._dynamo.reset()  # each pipeline is another graph, and their number is limited
        compiled = torch.compile(ep.experts, fullgraph=True, backend="aot_eager")
        found[p, "compiled"] = step(rank, ranks, p, 2, compiled)
    torch.save(found, f"{folder}/{ranks}_{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """{ranks: {(pipeline, k): of every rank}}."""
    folder, found = str(tmp_path_factory.mktemp("ep")), {}
    for ranks in (1, 2, 4):
        mp.start_processes(train, (ranks, folder), nprocs=ranks, start_method="spawn")
        parts = [torch.load(f"{folder}/{ranks}_{rank}.pt") for rank in range(ranks)]
        found[ranks] = {key: [part[key] for part in parts] for key in parts[0]}
    return found


def whole(parts):
    return [torch.cat(tensors) for tensors in zip(*parts)]


def equal(have, want):
    return len(have) == len(want) and all(map(torch.equal, have, want))


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("top_k", [1, 2])
def test_layers_have_the_bits_of_the_library(trained, pipeline, top_k):
    for ranks in (1, 2, 4):
        want = layer(pipeline, top_k, ranks)
        join = lambda name: torch.cat(list(want[name])) if ranks > 1 else want[name]  # noqa: E731
        y, dx, dweights, dw1, dw2 = whole(trained[ranks][pipeline, top_k])
        # The layer's dx has the router's share, too; this is the experts', before it is rounded.
        assert equal([y, dx, dw1, dw2],
                     [join("y"), join("ddispatched").bfloat16(), want["dw1"], want["dw2"]])  # fmt: skip
        assert torch.equal(y.float(), join("combined").float())
        assert equal(whole(trained[ranks][pipeline, top_k]), whole(trained[1][pipeline, top_k]))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_compiled_layers_have_the_bits_of_eager_ones(trained, pipeline):
    for compiled, eager in zip(trained[2][pipeline, "compiled"], trained[2][pipeline, 2]):
        assert equal(compiled, eager)


def test_gradients_of_weights_are_those_of_their_sums(trained):
    given, routed = operands(), layer("bf16", 2, 1)
    _, _, dweights, _, _ = whole(trained[2]["bf16", 2])
    rows = torch.stack([
        torch.stack([_expert(given, token, expert) for expert in routed["experts"][token]])
        for token in range(TOKENS)
    ])  # fmt: skip
    want = (rows.double() * given["dy"].double()[:, None]).sum(-1)
    assert mxoracle.compare(want.float(), dweights, gate="sqnr=40")


def _expert(given, token, expert):
    h = given["w1"][expert].double() @ given["x"][token].double()
    return given["w2"][expert].double() @ (torch.nn.functional.silu(h[:F]) * h[F:])


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path_factory.mktemp('alone')}/store", rank=0,
                            world_size=1)  # fmt: skip
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("pipeline", ["mxfp8", "fp8_blockwise"])
def test_slots_of_no_expert_send_nothing(alone, pipeline):
    given, routed = operands(), layer(pipeline, 2, 1)
    experts = routed["experts"].clone()
    experts[::3, 1] = -1
    weights = routed["weights"].clone().requires_grad_()
    plan = ep.plan(experts, EXPERTS, alignment=128)
    assert plan.sent == [int((experts >= 0).sum())]
    y = ep.experts(given["x"], weights, given["w1"], given["w2"], plan, pipeline)
    assert torch.equal(y[1::3], routed["combined"][1::3].to(y.dtype))
    y.backward(given["dy"])
    assert (weights.grad[::3, 1] == 0).all() and (weights.grad[:, 0] != 0).any()


@pytest.mark.parametrize("call, words", [
    (lambda plan: ep.plan(plan.experts, 4), "needs less than 4"),
    (lambda plan: ep.experts(*[torch.ones(1)] * 4, plan, "fast"), "needs bf16, quantize_after, mxfp8, fp8_blockwise or flow"),
    (lambda plan: ep.experts(*[torch.ones(1)] * 4, plan, "mxfp8", "fp8_rowwise"), "needs one of mxfp8"),
    (lambda plan: ep.experts(*[torch.ones(1)] * 4, plan, "fp8_blockwise", "vllm_mxfp8"), "needs one of fp8_"),
])  # fmt: skip
def test_what_is_not_there_is_refused(alone, call, words):
    plan = ep.plan(layer("bf16", 1, 1)["experts"], EXPERTS)
    with pytest.raises(mxoracle.Error, match=words):
        call(plan)


def test_operators_are_what_torch_expects(alone):
    given = operands()
    experts = torch.randint(EXPERTS, (TOKENS, 2), dtype=torch.int32)
    experts[:, 1] = (experts[:, 0] + 1) % EXPERTS
    weights, slots = torch.rand(TOKENS, 2), 2 * TOKENS
    rows = torch.randn(slots, D).bfloat16()
    group, ends = dist.group.WORLD.group_name, torch.tensor([slots], dtype=torch.int32)
    check = torch.library.opcheck
    check(exchange.all_to_all, (rows.requires_grad_(), [slots], [slots], group))
    check(exchange.rows_by_expert, (given["x"].requires_grad_(), experts, EXPERTS, slots))
    check(exchange.combine, (rows, experts, weights.requires_grad_(), EXPERTS))
    check(expert_products.swiglu, (rows,))
    check(expert_products.weight_gradient, (rows.detach(), rows.detach(), ends))
