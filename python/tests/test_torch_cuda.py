"""Tensors on a GPU: where they lie, in order with torch's streams, and judged to bits.

    tools/python_gpu.sh

Skipped where torch sees no GPU or the package was built without CUDA.
"""
import copy
import subprocess
import sys
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402
from mxoracle.torch import main_grads  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or "cuda:0" not in mxoracle.list_backends(),
    reason="needs a GPU, and the package built with MXO_CUDA=ON",
)
HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
hopper = pytest.mark.skipif(not HOPPER, reason="needs a GPU of compute capability 9.0")
F8 = torch.float8_e4m3fn


def bits(tensor):
    return tensor.detach().cpu().contiguous().view(torch.uint8)


def randn(*shape, dtype=torch.bfloat16, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


ENDS = torch.tensor([64, 64, 192, 256], dtype=torch.int32)
CALLS = {
    "encode": ("encode", {"x": randn(96, 128, dtype=torch.float32)}, {}),
    "quantize": ("quantize", {"x": randn(96, 256)}, {"scale_mode": "floor"}),
    "quantize rows": ("quantize", {"x": randn(96, 256)}, {"block": "1xK", "scale": "f32"}),
    "swizzle": ("swizzle_scales", {"scales": torch.arange(256, dtype=torch.uint8).view(32, 8)}, {}),
    "product": ("grouped_matmul", {"x": randn(256, 128), "w": randn(4, 96, 128), "group_ends": ENDS},
                {"out": "f32"}),
    "long ends": ("grouped_matmul", {"x": randn(256, 128), "w": randn(4, 96, 128),
                                     "group_ends": ENDS.long()}, {}),
    "gradient": ("grouped_matmul_wgrad", {"dy": randn(256, 96), "x": randn(256, 128),
                                          "group_ends": ENDS}, {}),
    "layer": ("grouped_linear", {"x": randn(256, 128), "w": randn(4, 96, 128), "group_ends": ENDS,
                                 "dy": randn(256, 96, seed=1)}, {}),
    "sums of columns": ("column_sum", {"x": randn(300, 100), "group_ends": ENDS}, {"over": "rows"}),
    "sums of groups": ("column_sum", {"x": randn(300, 100), "group_ends": ENDS}, {"over": "groups"}),
    "moe": ("moe_layer", {"x": randn(64, 128), "router": randn(4, 128), "w1": randn(4, 128, 128),
                          "w2": randn(4, 128, 64)}, {"top_k": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_gpu_gives_the_bytes_of_the_cpu_beside_its_operands(name):
    op, operands, parameters = CALLS[name]
    wants = mxoracle.run(op, operands, **parameters)
    far = {key: value.cuda() for key, value in operands.items()}
    haves = mxoracle.run(op, far, backend="cuda:0", **parameters)
    assert wants.keys() == haves.keys()
    for key, want in wants.items():
        assert haves[key].device == torch.device("cuda:0") and haves[key].dtype == want.dtype
        assert torch.equal(bits(haves[key]), bits(want)), key


@pytest.mark.parametrize("layout", ["transposed", "strided", "part"])
def test_strides_do_not_show(layout):
    x = randn(128, 192, dtype=torch.float32).cuda()
    x = {"transposed": x.T, "strided": x[::2, ::3], "part": x[32:96, 64:128]}[layout]
    have = mxoracle.run("encode", {"x": x}, backend="cuda:0", format="e4m3")["codes"]
    assert torch.equal(bits(have), bits(mxoracle.encode(x.cpu(), format="e4m3")))


def test_operands_of_both_places_meet():
    x, w = randn(256, 128), randn(4, 96, 128)
    far = {"x": x.cuda(), "w": w, "group_ends": ENDS}
    have = mxoracle.run("grouped_matmul", far, backend="cuda:0")["y"]
    want = mxoracle.run("grouped_matmul", {"x": x, "w": w, "group_ends": ENDS})["y"]
    assert have.is_cuda and torch.equal(bits(have), bits(want))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_tensor_on_a_gpu_is_refused_by_a_cpu(backend):
    with pytest.raises(mxoracle.Unsupported, match="found a tensor on cuda:0 and backend") as caught:
        mxoracle.run("encode", {"x": torch.ones(32).cuda()}, backend=backend)
    assert 'needs backend="cuda:0"' in str(caught.value)


def test_calls_are_in_order_with_the_stream_of_the_caller():
    x = torch.zeros(1024, 1024, device="cuda")
    want = mxoracle.encode(torch.full((1024, 1024), 3.0))
    for _ in range(8):
        with torch.cuda.stream(torch.cuda.Stream()):
            x.zero_()
            torch.cuda._sleep(20_000_000)  # what follows is not there yet when we are called
            x.fill_(3.0)
            codes = mxoracle.run("encode", {"x": x}, backend="cuda:0")["codes"]
            x.zero_()
            again = codes.view(torch.uint8).clone()
        torch.cuda.synchronize()
        assert torch.equal(bits(again), bits(want)) and torch.equal(bits(codes), bits(want))


@pytest.mark.parametrize("wrong", [{"group_ends": [64, 32, 192, 256]}, {"group_ends": [64, 64, 192, 257]},
                                   {"group_ends": [64, 32, 192, 256], "dy": [256, 95]}])  # fmt: skip
def test_a_refused_call_leaves_no_fault_behind(wrong):
    operands = {name: value.cuda() for name, value in CALLS["layer"][1].items()}
    bad = {name: torch.tensor(value, dtype=torch.int32) if name == "group_ends" else randn(*value)
           for name, value in wrong.items()}  # fmt: skip
    with pytest.raises(mxoracle.Error, match="dy" if "dy" in wrong else "group_ends"):
        mxoracle.run("grouped_linear", operands | {name: value.cuda() for name, value in bad.items()},
                     backend="cuda:0")  # fmt: skip
    have = mxoracle.run("grouped_linear", operands, backend="cuda:0")
    want = mxoracle.run("grouped_linear", CALLS["layer"][1])
    assert all(torch.equal(bits(have[name]), bits(each)) for name, each in want.items())


def test_outputs_on_a_gpu_take_no_memory_of_the_host():
    def peak():  # kB
        words = Path("/proc/self/status").read_text().split()
        return int(words[words.index("VmHWM:") + 1])

    operands = {"dy": randn(64, 4096), "x": randn(64, 8192), "group_ends": torch.tensor([64], dtype=torch.int32)}
    operands = {name: value.cuda() for name, value in operands.items()}
    for _ in range(2):  # the first loads what is needed
        Path("/proc/self/clear_refs").write_text("5")  # the peak is what is held now
        before = peak()
        dw = mxoracle.run("grouped_matmul_wgrad", operands, backend="cuda:0")["dw"]
    assert peak() - before < 4 << 10 < dw.nbytes >> 10


def test_layers_wait_only_for_ends_that_they_have_not_seen():
    x, w, ends = randn(256, 128).cuda(), randn(4, 96, 128).cuda(), ENDS.cuda()
    want = mxt.scaled_linear(x, w, ends)
    torch.cuda.synchronize()
    torch.cuda._sleep(500_000_000)
    have = mxt.scaled_linear(x, w, ends)
    assert not torch.cuda.current_stream().query() and torch.equal(bits(have), bits(want))
    ends[1] = 300
    with pytest.raises(mxoracle.Error, match="group_ends"):
        mxt.scaled_linear(x, w, ends)
    ends[1] = 64
    assert torch.equal(bits(mxt.scaled_linear(x, w, ends)), bits(want))


def recorded_step():
    """A layer of experts and a linear one, and gradients, recorded as a graph: what to fill, what comes."""
    x, w = (randn(*shape).requires_grad_(True) for shape in ((256, 128), (4, 128, 128)))
    dense = mxt.convert(torch.nn.Sequential(torch.nn.Linear(128, 64)).bfloat16(), "mxfp8_rceil", linears=True)
    ends = ENDS.clone()

    def step(x, w, dense, ends):
        y = dense(mxt.scaled_linear(x, w, ends + 0))  # as if the graph computed them
        return y, *torch.autograd.grad(y.float().square().sum(), (x, w, dense[0].weight))

    given = x.detach().cuda().requires_grad_(True), w.detach().cuda().requires_grad_(True), \
        copy.deepcopy(dense).cuda(), ends.cuda()  # fmt: skip
    with torch.cuda.stream(torch.cuda.Stream()):
        step(*given)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(*given)
    return graph, given, found, lambda x, ends: step(x, w, dense, ends)


def test_a_recorded_step_has_the_bits_of_the_cpu():
    graph, (x, _, _, ends), haves, again = recorded_step()
    for seed, other in enumerate(([64, 64, 192, 256], [0, 100, 130, 250])):
        rows, other = randn(256, 128, seed=seed), torch.tensor(other, dtype=torch.int32)
        with torch.no_grad():
            x.copy_(rows), ends.copy_(other)
        graph.replay()
        mxt.scaled_linear(rows.cuda(), randn(4, 96, 128).cuda(), other.cuda())  # memory of other calls
        wants = again(rows.requires_grad_(True), other)
        owned = other[-1]
        assert torch.equal(bits(haves[0][:owned]), bits(wants[0][:owned]))
        assert all(torch.equal(bits(have), bits(want)) for have, want in zip(haves[2:], wants[2:]))


def test_wrong_ends_of_a_replay_end_the_process():
    words = ("import sys; sys.path.insert(0, sys.argv[1]); import test_torch_cuda as t, torch;"
             "graph, given, _, _ = t.recorded_step(); print('recorded', flush=True);"
             "given[3].fill_(300); graph.replay(); torch.cuda.synchronize(); print('went on')")  # fmt: skip
    call = [sys.executable, "-c", words, str(Path(__file__).parent)]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.stdout.split() == ["recorded"], done.stderr
    assert "device-side assert triggered" in done.stderr


def test_threads_take_turns_on_a_gpu():
    inputs = [randn(256, 512, seed=seed).cuda() for seed in range(4)]
    wants = [mxoracle.quantize(x.cpu())[0] for x in inputs]
    haves = [None] * 4

    def work(i):
        haves[i] = [mxoracle.run("quantize", {"x": inputs[i]}, backend="cuda:0")["codes"]
                    for _ in range(20)]  # fmt: skip

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for want, have in zip(wants, haves):
        assert all(torch.equal(bits(each), bits(want)) for each in have)


def test_kernels_on_a_gpu_are_judged():
    x = randn(64, 128, dtype=torch.float32).cuda()
    codes, scales = mxt.quantize(x)
    assert codes.is_cuda
    assert mxoracle.judge("quantize", {"x": x}, {"codes": codes, "scales": scales})
    assert not mxoracle.judge("quantize", {"x": 2 * x}, {"codes": codes, "scales": scales})


def test_gradients_of_expert_layers_are_those_of_the_cpu():
    def step(device):
        x, w = (randn(*shape).to(device).requires_grad_(True) for shape in ((256, 128), (4, 96, 128)))
        y = mxt.grouped_linear(x, w, ENDS.to(device))
        y.float().square().sum().backward()
        return y, x.grad, w.grad

    for near, far in zip(step("cpu"), step("cuda")):
        assert torch.equal(bits(near), bits(far))


def test_main_grads_on_a_gpu_are_those_of_the_cpu():
    def step(device):
        x, w = randn(256, 128).to(device), torch.nn.Parameter(randn(4, 96, 128).to(device))
        w.main_grad = torch.full_like(w, 0.5, dtype=torch.float32)
        for _ in range(2):
            y = main_grads.product(x, w, ENDS.to(device), None, ("mxfp8_rceil", "e4m3", "exact"))
            y.float().square().sum().backward()
        return w.main_grad

    assert torch.equal(bits(step("cpu")), bits(step("cuda")))


def hold(step, **options):
    """The judge of one step; every product has the bits of a sum that is known."""
    with mxt.Judge(max_macs=1 << 24, **options) as judge:
        step()
    print(f"\n{judge}")
    return judge


def all_bits(judge):
    return judge.passed and {row.verdict for row in judge.rows} == {"bits"}


@hopper
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("k", [64, 512, 4096])
def test_plain_products_have_the_bits_of_the_machine(dtype, k):
    a, b = randn(256, k, dtype=dtype).cuda(), randn(k, 384, dtype=dtype, seed=1).cuda()
    bias = randn(384, dtype=dtype, seed=2).cuda()

    def step():
        a @ b
        torch.addmm(bias, a, b)
        torch.bmm(a.view(4, 64, k), b.expand(4, k, 384))

    assert all_bits(hold(step))


class Faulty(torch.utils._python_dispatch.TorchDispatchMode):
    """A GPU one of whose outputs is off by two in a hundred of the largest."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten.mm.default, torch.ops.aten._grouped_mm.default):
            out[3, 5] += 0.02 * out.abs().max()
        return out


@hopper
def test_a_planted_fault_is_found():
    a, b = randn(256, 512).cuda(), randn(512, 384, seed=1).cuda()
    with Faulty():
        judge = hold(lambda: a @ b)
    assert len(judge.failures) == 1 and judge.failures[0].verdict == "FAIL"


def quantised_rows(x, axis):
    """Codes and scales of rows (-1) or columns (-2), by the library: powers of two, as torchao."""
    x = x if axis == -1 else x.mT
    codes, scales = (
        mxoracle.run("quantize", {"x": x.contiguous()}, backend="cuda:0", block="1xK", scale="f32",
                     power_of_2="down")[name]
        for name in ("codes", "scales")
    )  # fmt: skip
    return codes, scales.squeeze(-1)


class RowWise(torch.autograd.Function):
    """An expert layer in row-wise FP8 by `_scaled_grouped_mm`, forward and both gradients."""

    @staticmethod
    def forward(ctx, x, w, ends, fast):
        ctx.save_for_backward(x, w, ends)
        ctx.fast = fast
        (qx, sx), (qw, sw) = quantised_rows(x, -1), quantised_rows(w, -1)
        return torch._scaled_grouped_mm(qx, qw.mT, sx, sw, ends, out_dtype=torch.bfloat16,
                                        use_fast_accum=fast)  # fmt: skip

    @staticmethod
    def backward(ctx, dy):
        x, w, ends = ctx.saved_tensors
        (qdy, sdy), (qw, sw) = quantised_rows(dy, -1), quantised_rows(w, -2)
        dx = torch._scaled_grouped_mm(qdy, qw.mT, sdy, sw, ends, out_dtype=torch.bfloat16,
                                      use_fast_accum=ctx.fast)  # fmt: skip
        sides = [[], []]
        start = 0
        for end in ends.tolist():
            for side, part in zip(sides, (dy, x)):
                side.append(quantised_rows(part[start:end], -2))
            start = end
        (dys, sdys), (xs, sxs) = (zip(*side) for side in sides)
        codes = [torch.cat([part.view(torch.uint8) for part in parts], 1).view(F8)
                 for parts in (dys, xs)]  # fmt: skip
        dw = torch._scaled_grouped_mm(codes[0], codes[1].t(), torch.cat(sdys), torch.cat(sxs), ends,
                                      out_dtype=torch.bfloat16, use_fast_accum=ctx.fast)  # fmt: skip
        return dx, dw, None, None


class EmulatedMx(torch.autograd.Function):
    """An expert layer in MXFP8 as torchao emulates it: codes dequantised to bf16, then products of
    bf16."""

    @staticmethod
    def near(x, axis):
        x = (x if axis == -1 else x.mT).contiguous()
        codes, scales = mxt.quantize(x)
        values = mxt.dequantize(codes, scales)
        return values if axis == -1 else values.mT

    @staticmethod
    def forward(ctx, x, w, ends):
        ctx.save_for_backward(x, w, ends)
        return torch._grouped_mm(EmulatedMx.near(x, -1), EmulatedMx.near(w, -1).mT, ends)

    @staticmethod
    def backward(ctx, dy):
        x, w, ends = ctx.saved_tensors
        dx = torch._grouped_mm(EmulatedMx.near(dy, -1), EmulatedMx.near(w, -2), ends)
        dw = torch._grouped_mm(EmulatedMx.near(dy, -2).t(), EmulatedMx.near(x, -2), ends)
        return dx, dw, None


def experts(kind, ends):
    """What takes x [T, K] and w [E, N, K]; torchao's own where it is installed."""
    training = pytest.importorskip("torchao.prototype.moe_training") if "torchao" in kind else None
    if kind == "mxfp8":
        return lambda x, w: EmulatedMx.apply(x, w, ends)
    if kind.startswith("row-wise fp8"):
        return lambda x, w: RowWise.apply(x, w, ends, "fast" in kind)
    if kind == "torchao row-wise fp8":
        return lambda x, w: training._to_fp8_rowwise_then_scaled_grouped_mm(
            x, w.mT, ends, pad_token_groups_for_grouped_mm=False
        )
    from torchao.quantization.quantize_.common import KernelPreference

    return lambda x, w: training._to_mxfp8_then_scaled_grouped_mm(
        x, w.mT, ends, kernel_preference=KernelPreference.EMULATED, wgrad_with_hp="hp" in kind
    )


KINDS = ["mxfp8", "row-wise fp8", "row-wise fp8 fast", "torchao mxfp8", "torchao mxfp8 hp",
         "torchao row-wise fp8"]  # fmt: skip


@hopper
@pytest.mark.parametrize("kind", KINDS)
def test_every_product_of_a_moe_step_has_the_bits_of_the_machine(kind):
    tokens, k, hidden, groups, top_k = 512, 256, 512, 8, 2
    x = randn(tokens, k).cuda().requires_grad_(True)
    router = randn(groups, k, seed=1).cuda().requires_grad_(True)
    w1 = (0.1 * randn(groups, 2 * hidden, k, seed=2)).cuda().requires_grad_(True)
    w2 = (0.1 * randn(groups, k, hidden, seed=3)).cuda().requires_grad_(True)
    # Rows of each expert, padded to a multiple of 128 by rows of zeros.
    weights, chosen = (x.detach() @ router.detach().t()).float().softmax(-1).topk(top_k)
    counts = torch.bincount(chosen.flatten(), minlength=groups)
    ends = ((counts + 127) // 128 * 128).cumsum(0).to(torch.int32)
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    order = chosen.flatten().argsort(stable=True)
    first = torch.cat([counts.new_zeros(1), counts.cumsum(0)[:-1]])
    expert = chosen.flatten()[order]
    place = torch.arange(order.numel(), device="cuda") - first[expert] + starts[expert]
    layer = experts(kind, ends)

    def step():
        logits = x @ router.t()
        shares = logits.float().softmax(-1).gather(1, chosen).flatten()[order]
        rows = x.new_zeros(int(ends[-1]), k).index_copy(0, place, x[order // top_k])
        gate, up = layer(rows, w1).chunk(2, -1)
        y = layer((torch.nn.functional.silu(gate) * up).contiguous(), w2)
        out = torch.zeros(tokens, k, device="cuda").index_add(
            0, order // top_k, y[place].float() * shares[:, None]
        )
        out.square().mean().mul(100).backward()

    judge = hold(step)
    assert len(judge.rows) == 9 and all_bits(judge)


@hopper
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("scaling", ["tensor", "rows"])
@pytest.mark.parametrize("k", [64, 512, 4096])
def test_scaled_products_have_the_bits_of_the_machine(scaling, fast, k):
    a, b = randn(256, k, dtype=torch.float32).to(F8), randn(384, k, dtype=torch.float32).to(F8)
    shapes = {"tensor": ((), ()), "rows": ((256, 1), (1, 384))}[scaling]
    scales = [torch.rand(shape, generator=torch.Generator().manual_seed(4)) + 0.1 for shape in shapes]

    def step():
        torch._scaled_mm(a.cuda(), b.cuda().t(), *(scale.cuda() for scale in scales),
                         out_dtype=torch.bfloat16, use_fast_accum=fast)  # fmt: skip

    assert all_bits(hold(step))


@hopper
@pytest.mark.parametrize("kinds", ["1x128 128x128", "1x128 1x128"])
def test_block_scaled_products_have_the_bits_of_the_machine(kinds):
    scaled_mm = pytest.importorskip("torch.nn.functional").scaled_mm
    types = torch.nn.functional.ScalingType
    m, n, k = 256, 384, 512
    a, b = (randn(rows, k, dtype=torch.float32).to(F8).cuda() for rows in (m, n))
    sx = (torch.rand(k // 128, m) + 0.1).cuda().t()  # rows lie together
    if kinds.endswith("128x128"):
        sw, kind = (torch.rand(n // 128, k // 128) + 0.1).cuda().t(), types.BlockWise128x128
    else:
        sw, kind = (torch.rand(k // 128, n) + 0.1).cuda().t(), types.BlockWise1x128
    call = lambda: scaled_mm(a, b.t(), sx, types.BlockWise1x128, sw, kind,  # noqa: E731
                             output_dtype=torch.bfloat16)  # fmt: skip
    try:
        call()
    except (RuntimeError, ValueError) as error:
        pytest.skip(f"this torch: {error}")
    assert all_bits(hold(call))
