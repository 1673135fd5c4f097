"""What is recorded is judged elsewhere, and two runs are told apart."""
import json
import subprocess

import pytest

torch = pytest.importorskip("torch")
import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402
from mxoracle._command import program  # noqa: E402


class Nudge(torch.utils._python_dispatch.TorchDispatchMode):
    """One element of the n-th product is off by 2 percent of the largest."""

    def __init__(self, number):
        super().__init__()
        self.left = number

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.mm.default:
            if self.left == 0:
                out[0, 0] += 0.02 * out.abs().max()
            self.left -= 1
        return out


def record(folder, fault=None, rows=64, every=1):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 96, bias=False), torch.nn.ReLU(), torch.nn.Linear(96, 32, bias=False)
    ).to(torch.bfloat16)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    recorder = mxt.Recorder(folder, rows=rows, every=every)
    with Nudge(-1 if fault is None else fault), recorder:
        for _ in range(2):
            net(torch.randn(48, 64, dtype=torch.bfloat16)).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()
    return folder


def mxo(*arguments):
    return subprocess.run([program(), "judge", *arguments], capture_output=True, text=True)


def test_a_right_run_is_judged_right(tmp_path):
    done = mxo(record(tmp_path / "a"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "step 1, aten::mm of Sequential.2 backward, call 0" in done.stdout
    assert " 0 FAIL" in done.stdout.splitlines()[-1]


class Widens(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out.float() if func is torch.ops.aten.mm.default else out


def test_a_result_of_another_type_is_judged_wrong(tmp_path):
    a = torch.randn(8, 32).to(torch.bfloat16)
    with Widens(), mxt.Recorder(tmp_path / "a"):
        torch.mm(a, a.t())
    done = mxo(tmp_path / "a")
    assert done.returncode == 1 and "the type is F32 rather than BF16" in done.stdout, done.stdout + done.stderr


class Cuts(torch.utils._python_dispatch.TorchDispatchMode):
    """Keeps none of the rows, and clears the second operand."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.mm.default:
            args[1].zero_()
            return out[:0]
        return out


def test_empty_results_and_lost_operands_are_judged_wrong(tmp_path):
    a = torch.randn(8, 32).to(torch.bfloat16)
    with torch.no_grad(), Cuts(), mxt.Recorder(tmp_path / "a"):
        torch.mm(a, torch.ones(32, 4).bfloat16())
    done = mxo(tmp_path / "a")
    assert "found [0, 4], needs [8, 4]" in done.stdout and "over its operand mat2" in done.stdout, done.stdout
    assert done.returncode == 1


A = torch.randn(16, 64).to(torch.bfloat16)


@pytest.mark.parametrize("call, code, said", [
    (lambda: None, 0, "0 FAIL"),
    (lambda: torch.baddbmm(A[None], A[None], torch.ones(1, 64, 64).bfloat16()), 5,
     "aten::baddbmm of no module, call 0"),
    (lambda: torch.nn.functional.scaled_dot_product_attention(*[A.view(1, 1, 16, 64)] * 3), 5, "not recorded"),
    (lambda: Floats(64, 16).bfloat16()(A), 1, "gave torch.float32, needs torch.bfloat16"),
])  # fmt: skip
def test_what_is_not_recorded_does_not_pass(tmp_path, call, code, said):
    with torch.no_grad(), mxt.Recorder(tmp_path / "a"):
        for _ in range(2):
            A @ A.t()
            call()
    done = mxo(tmp_path / "a")
    assert done.returncode == code and done.stdout.count(said) == 1, done.stdout + done.stderr


class Floats(torch.nn.Linear):
    def __init__(self, *extents):
        super().__init__(*extents)
        self.forward = lambda x: (x @ self.weight.t()).float()


def test_a_wrong_value_is_found_where_it_was_made(tmp_path):
    done = mxo(record(tmp_path / "a", fault=1))
    failures = [line for line in done.stdout.splitlines() if "FAIL " in line]
    assert done.returncode == 1 and len(failures) == 1
    assert failures[0].startswith("step 0, aten::mm of Sequential.2, call 0")


def test_equal_runs_agree(tmp_path):
    done = mxo("--diff", record(tmp_path / "a"), record(tmp_path / "b"))
    assert done.returncode == 0 and done.stdout.startswith("all ")


def test_two_runs_part_at_the_first_fault(tmp_path):
    done = mxo("--diff", record(tmp_path / "a"), record(tmp_path / "b", fault=6))
    assert done.returncode == 1
    assert "differ at step 1, aten::mm of Sequential.2, call 0: the same operands" in done.stdout
    assert "b: against the exact sum: FAIL" in done.stdout


def record_answers(folder, fault=None, rows=64, graph=True):
    """One step of a model that gives log-probabilities."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 48, bias=False), torch.nn.ReLU(), torch.nn.Linear(48, 16, bias=False)
    ).to(torch.bfloat16)
    x = torch.randn(24, 64, dtype=torch.bfloat16)
    with Nudge(-1 if fault is None else fault), mxt.Recorder(folder, rows=rows) as recorder:
        with torch.set_grad_enabled(graph):
            said = net(x).float().log_softmax(-1)[:, 3]
            recorder.log_probabilities(said)
        if graph:
            said.sum().neg().backward()
        recorder.step()
    return folder, float(said.detach().double().sum())


@pytest.mark.parametrize("fault, layer", [(0, "Sequential.0"), (1, "Sequential.2")])
def test_the_share_of_the_log_probabilities_is_told(fault, layer, tmp_path):
    a, of_a = record_answers(tmp_path / "a")
    b, of_b = record_answers(tmp_path / "b", fault, graph=False)  # as inference runs
    for first, second, apart in ((a, b, of_b - of_a), (b, a, of_a - of_b)):
        done = mxo("--diff", first, second)
        assert f"differ at step 0, aten::mm of {layer}, call 0" in done.stdout, done.stderr
        lines = done.stdout.splitlines()
        assert lines[-2].endswith(f"{apart:.3g} apart")
        share = float(lines[-1].split(" to first order, ")[1].split(" %")[0])
        assert 90 < share < 110, done.stdout


def test_a_share_by_some_elements_says_so(tmp_path):
    a, _ = record_answers(tmp_path / "a", rows=8)
    b, _ = record_answers(tmp_path / "b", 1, rows=8)
    assert mxo("--diff", a, b).stdout.rstrip().endswith("by 64 of its 384 elements")


def test_a_share_that_nobody_can_know_is_not_told(tmp_path):
    a, _ = record_answers(tmp_path / "a", graph=False)
    b, _ = record_answers(tmp_path / "b", 1, graph=False)
    assert "share is not known" in mxo("--diff", a, b).stdout
    assert "log-prob" not in mxo("--diff", record(tmp_path / "c"), record(tmp_path / "d", 6)).stdout


def test_telling_log_probabilities_adds_no_products(tmp_path):
    folder, _ = record_answers(tmp_path / "a")
    lines = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()][1:]
    places = [(line["operator"], line["module"]) for line in lines if "operator" in line]
    assert len(places) == 5 and sum("backward" in module for _, module in places) == 3, places
    assert mxo(folder).returncode == 0


def test_rows_bound_what_is_kept(tmp_path):
    folder = record(tmp_path / "a", rows=8, every=2)
    lines = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()][1:]
    assert any(not line["rows"] for line in lines) and any(line["rows"] for line in lines)
    for file in folder.glob("*.safetensors"):
        kept = mxoracle.load(file)
        assert kept["output.y"].shape[0] <= 8 and kept["output.y"].shape[1] <= 8
    assert mxo(folder).returncode == 0


@pytest.mark.parametrize(
    "text, words",
    [
        ("{}\n", "line 1"),
        ('{"schema": "mxo-trace/9"}\n', "needs \"mxo-trace/1\""),
        ('{"schema": "mxo-trace/1"}\n{"step": 0}\n', "line 2"),
        ('{"schema": "mxo-trace/1"}\nno json\n', "line 2"),
    ],
)
def test_malformed_traces_are_refused(text, words, tmp_path):
    (tmp_path / "trace.jsonl").write_text(text)
    done = mxo(tmp_path)
    assert done.returncode == 3 and words in done.stderr and done.stderr.count("\n") == 1


def test_files_outside_the_trace_are_refused(tmp_path):
    folder = record(tmp_path / "a")
    path = folder / "trace.jsonl"
    path.write_text(path.read_text().replace("000000.safetensors", "../000000.safetensors"))
    done = mxo(folder)
    assert done.returncode == 3 and "needs names of files beside the trace" in done.stderr


def test_folders_in_use_are_refused(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(mxoracle.Error, match="is not empty"):
        mxt.Recorder(tmp_path)
    ranks = [mxt.Recorder(tmp_path / "new") for _ in range(2)]
    with ranks[0]:
        pass
    for late in ranks:
        with pytest.raises(mxoracle.Error, match="is not empty"), late:
            pass
