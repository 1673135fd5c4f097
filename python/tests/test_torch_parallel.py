"""Converted models where torch changes how they run: compiled, checkpointed, on two ranks."""
import copy
import os

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import mxoracle.torch as mxt  # noqa: E402

T, D, E = 64, 64, 4
ENDS = torch.tensor([16, 16, 40, T], dtype=torch.int32)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(E, D, D) / 8)
        self.w2 = nn.Parameter(torch.randn(E, D, D) / 8)

    def forward(self, x):
        h = torch.relu(torch._grouped_mm(x, self.w1.transpose(-2, -1), offs=ENDS.to(x.device)))
        return torch._grouped_mm(h, self.w2.transpose(-2, -1), offs=ENDS.to(x.device))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        self.experts = Experts()

    def forward(self, x):
        return self.experts(x + self.down(torch.relu(self.up(x))))


def made(recipe="mxfp8_rceil", **options):
    torch.manual_seed(0)
    return mxt.convert(Model().bfloat16(), recipe, linears=True, **options)


def rows(seed=1):
    torch.manual_seed(seed)
    return torch.randn(T, D, dtype=torch.bfloat16)


def step(model, x, call=None):
    x = x.clone().requires_grad_()
    y = (model if call is None else call)(x)
    y.float().square().mean().backward()
    named = {name.removeprefix("_orig_mod."): p.grad for name, p in model.named_parameters()}
    return {"y": y.detach(), "dx": x.grad} | named


def same(want, have):
    assert want.keys() == have.keys()
    return [name for name in want if not torch.equal(want[name], have[name])] == []


@pytest.mark.parametrize("recipe, options", [
    ("mxfp8_rceil", {}), ("te_blockwise", {}), ("fp8_rowwise", {"sum": "h200_wgmma_fast"})])  # fmt: skip
def test_a_compiled_model_is_eager_bit_for_bit(recipe, options):
    model, x = made(recipe, **options), rows()
    want = step(copy.deepcopy(model), x)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")  # grouped products stay outside of graphs
    assert same(want, step(model, x, compiled))


def test_a_compiled_linear_layer_breaks_no_graph():
    model, x = made(), rows()
    want = model.up(x)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(model.up, backend="aot_eager", fullgraph=True)(x), want)


def test_weights_of_their_own_type_compile_as_well():
    model, x = made(tensors=True), rows()
    assert not any(isinstance(module, (mxt.Linear, mxt.GroupedProducts)) for module in model.modules())
    want = step(made(), x)
    assert same(want, step(copy.deepcopy(model), x))
    torch._dynamo.reset()
    assert same(want, step(model, x, torch.compile(model, backend="aot_eager", fullgraph=True)))


def test_a_checkpointed_model_is_the_same_bit_for_bit():
    model, x = made(), rows()
    want = step(copy.deepcopy(model), x)
    assert same(want, step(model, x, lambda x: checkpoint(model, x, use_reentrant=False)))


def in_two_ranks(work, tmp_path):
    """Runs work(rank) in two processes of gloo; what either raises fails the test."""
    multiprocessing.spawn(_rank, args=(work, str(tmp_path / "store")), nprocs=2)


def _rank(rank, work, store):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    work(rank)
    dist.barrier()  # a rank that is done first would cut the other's last sums
    os._exit(0)  # torch 2.11 now and then aborts where it destroys a group that DTensors used


def sharded_tensors(rank):
    sharded(rank, tensors=True)


def sharded(rank, **options):
    """FSDP2: gradients are the means of what each rank's rows give alone, and a step keeps up."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    alone = [step(made(), rows(seed)) for seed in (1, 2)]
    model = made(**options)
    mesh = init_device_mesh("cpu", (2,))
    for part in (model.up, model.down, model.experts, model):
        fully_shard(part, mesh=mesh)
    for _ in range(2):  # the second all-gather writes into the same memory
        found = step(model, rows(1 + rank))
        assert torch.equal(found["y"], alone[rank]["y"])
        for name, parameter in model.named_parameters():
            want = (alone[0][name].float() + alone[1][name].float()) / 2
            assert apart(parameter.grad.full_tensor(), want) < 2**-7, name
        model.zero_grad()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    step(model, rows(1 + rank))
    optimizer.step()
    twin = made()
    twin.load_state_dict({n: plain(v.full_tensor()) for n, v in model.state_dict().items()})
    assert torch.equal(model(rows(rank)), twin(rows(rank)))


def plain(weight):
    return weight.plain if isinstance(weight, mxt.ScaledWeight) else weight


def tensor_parallel(rank):
    """Column-wise into row-wise, as DTensors; the sum over ranks is in bf16, as torch has it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    x = rows().requires_grad_()
    whole = mxt.convert(nn.Sequential(*_pair()), "mxfp8_rceil", linears=True)
    cut = copy.deepcopy(whole)
    mesh = init_device_mesh("cpu", (2,))
    parallelize_module(cut, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    y, want = cut(x), whole(x)
    assert apart(y, want) < 2**-7
    inner = torch.relu(whole[0](x))[:, rank * D : (rank + 1) * D]
    assert torch.equal(torch.relu(cut[0](x)), inner)  # K is whole there: every bit
    dx, dx_want = (torch.autograd.grad(z.float().square().mean(), x, retain_graph=True)[0] for z in (y, want))
    assert apart(dx, dx_want) < 0.05
    y.float().square().mean().backward()
    want.float().square().mean().backward()
    for (name, ours), theirs in zip(cut.named_parameters(), whole.parameters()):
        assert apart(ours.grad.full_tensor(), theirs.grad) < 0.05, name


def replicated(rank):
    """A weight that every rank has whole, of rows that are cut: its gradient is a sum over ranks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor

    mesh = init_device_mesh("cpu", (2,))
    whole = mxt.convert(_pair()[0], "mxfp8_rceil", linears=True)
    cut = distribute_module(copy.deepcopy(whole), mesh)
    assert cut.weight.placements == (Replicate(),)
    x = rows()
    y = cut(distribute_tensor(x, mesh, [Shard(0)]))
    assert torch.equal(y.full_tensor(), whole(x))
    dy = torch.randn(T, 2 * D, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(3))
    y.backward(distribute_tensor(dy, mesh, [Shard(0)]))
    whole(x).backward(dy)
    for ours, theirs in zip(cut.parameters(), whole.parameters()):
        assert apart(ours.grad.full_tensor(), theirs.grad) < 0.05


class Named(nn.Module):
    """Experts as transformers keeps them; their own forward is not called."""

    def __init__(self):
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(E, 2 * D, D) / 8)
        self.down_proj = nn.Parameter(torch.randn(E, D, D) / 8)
        self.down_proj_bias = nn.Parameter(torch.randn(E, D))
        self.act_fn = nn.SiLU()


def layer_step(layer, x):
    chosen = torch.stack([torch.arange(T) % E, (torch.arange(T) // 3 + 1) % E + (torch.arange(T) % 5 == 0)], 1)
    leaves = [x.requires_grad_(), torch.linspace(0.1, 0.9, 2 * T).view(T, 2).bfloat16().requires_grad_()]
    y = layer(leaves[0], chosen, leaves[1]) if isinstance(layer, mxt.Experts) else layer(leaves[0])
    y.backward(like(rows(5), y))
    grads = [leaf.grad for leaf in (*leaves, *layer.parameters())]
    return [plain_of(t).detach() for t in (y, *grads) if t is not None]


def like(t, y):
    from torch.distributed.tensor import DTensor, distribute_tensor

    return distribute_tensor(t, y.device_mesh, y.placements) if isinstance(y, DTensor) else t


def plain_of(t):
    return t.full_tensor() if hasattr(t, "full_tensor") else t


def experts_cut(rank):
    """By experts each rank has its own and the results are added; cut otherwise the layer is whole."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor

    mesh = init_device_mesh("cpu", (2,))
    for layer in (mxt.convert(Named().bfloat16(), check=False), made().experts):
        for parameter in layer.parameters():
            dist.broadcast(parameter.data, 0)
        want = layer_step(layer, rows())
        for how in (Shard(0), Shard(1), Replicate()):
            def cut(name, module, mesh):
                for key, value in list(module._parameters.items()):
                    module.register_parameter(key, nn.Parameter(distribute_tensor(value, mesh, [how])))

            placed = distribute_module(copy.deepcopy(layer), mesh, cut)
            assert all(parameter.placements == (how,) for parameter in placed.parameters())
            local = layer_step(copy.deepcopy(placed), rows())
            global_ = layer_step(placed, distribute_tensor(rows(), mesh, [Shard(0)]))
            for found in (local, global_):
                added = 2 if how == Shard(0) and isinstance(layer, mxt.Experts) else 0  # y and dx
                assert all(apart(a, b) < 2**-7 for a, b in zip(found[:added], want))
                assert [torch.equal(a, b) for a, b in zip(found[added:], want[added:])] == [True] * (
                    len(want) - added), (how, added)
        sharded_layer = fully_shard(copy.deepcopy(layer), mesh=mesh)
        assert all(map(torch.equal, layer_step(sharded_layer, rows()), want))


def apart(have, want):
    return float((have.float() - want.float()).norm() / want.float().norm())


def _pair():
    torch.manual_seed(0)
    return nn.Linear(D, 2 * D).bfloat16(), nn.ReLU(), nn.Linear(2 * D, D).bfloat16()


@pytest.mark.skipif(not dist.is_available(), reason="this torch has no distributed")
@pytest.mark.parametrize("work", [sharded, sharded_tensors, tensor_parallel, replicated, experts_cut])
def test_two_ranks_give_what_one_gives(work, tmp_path):
    in_two_ranks(work, tmp_path)
