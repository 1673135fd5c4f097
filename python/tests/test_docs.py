"""Every block of Python in README.md and docs/ runs, with what a reader brings put in its place."""
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import mxoracle

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/python.md", "docs/pytorch.md", "docs/judge.md", "docs/moe_layer.md"]


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)


def run(page, number, names, source=None):
    block = source or blocks(page)[number]
    exec(compile(block, f"{page}, block {number}", "exec"), names)
    return names


def rceil(x):
    return mxoracle.quantize(x, scale_mode="rceil")


def quantizer_of(module):
    """A kernel of the reader's, and what it quantises, in numpy or torch."""
    if module == "torch":
        torch = pytest.importorskip("torch")
        return {"my_kernel": rceil, "x": torch.randn(4, 64, dtype=torch.bfloat16)}
    numpy = pytest.importorskip("numpy")
    return {"my_kernel": rceil, "x": numpy.ones((4, 64), numpy.float32)}


def test_no_block_is_left_out():
    assert {page: len(blocks(page)) for page in PAGES} == {
        "README.md": 3, "docs/python.md": 6, "docs/pytorch.md": 2, "docs/judge.md": 3,
        "docs/moe_layer.md": 1,
    }  # fmt: skip


@pytest.mark.parametrize("module", ["numpy", "torch"])
@pytest.mark.parametrize("page, number", [("README.md", 0), ("docs/python.md", 3)])
def test_the_examples_for_pytest_pass_a_right_kernel(oracle, page, number, module):
    names = run(page, number, quantizer_of(module))
    names["test_my_quantizer"](oracle)


def test_the_examples_for_pytest_fail_a_wrong_kernel(oracle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what failed is kept here
    names = quantizer_of("numpy")
    names["x"][:, 5] = 449
    names["my_kernel"] = lambda x: mxoracle.quantize(x, scale_mode="floor")
    run("README.md", 0, names)
    with pytest.raises(pytest.fail.Exception, match="FLOOR"):
        names["test_my_quantizer"](oracle)


def test_the_files_of_a_kernel_are_those_mxo_reads(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    monkeypatch.chdir(tmp_path)
    source = blocks("README.md")[1].replace('device="cuda"', 'device="cpu"')
    run("README.md", 1, {"my_quantizer": rceil}, source.replace("(4096, 7168,", "(64, 256,"))
    x, mine = mxoracle.load("x.safetensors"), mxoracle.load("mine.safetensors")
    assert mxoracle.judge("quantize", x, mine, scale_mode="rceil")
    assert torch.is_tensor(x["x"]) or x["x"].shape == (64, 256)


def test_the_first_calls_run():
    torch = pytest.importorskip("torch")
    names = run("docs/python.md", 1, run("docs/python.md", 0, {}))
    assert names["codes"].dtype == torch.float8_e4m3fn and names["back"].dtype == torch.bfloat16
    assert run("docs/python.md", 2, names)["y"].shape == (128, 512)


def test_cases_of_suites_are_parameters(oracle):
    def my_kernel(**given):
        return mxoracle.run("quantize", {"x": given.pop("x")}, **given)

    names = {"pytest": pytest, "mxoracle": mxoracle, "my_kernel": my_kernel}
    names = run("docs/python.md", 4, names)
    (mark,) = names["test_case"].pytestmark
    cases = [case for case in mark.args[1] if set(case.inputs) == {"x"}]
    assert cases
    for case in cases:
        names["test_case"](oracle, case)


def test_random_tensors_reach_a_kernel(tmp_path, monkeypatch):
    hypothesis = pytest.importorskip("hypothesis")
    strategies = pytest.importorskip("mxoracle.strategies")
    monkeypatch.chdir(tmp_path)
    names = {"given": hypothesis.given, "strategies": strategies}
    names["my_kernel"] = lambda x: mxoracle.quantize(x)
    names = run("docs/python.md", 5, names)
    hypothesis.settings(max_examples=10, deadline=None)(names["test_quantizer"])()
    assert not Path("failing.safetensors").exists()


def test_a_model_of_transformers_is_converted():
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.MixtralConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, num_local_experts=4,
    )  # fmt: skip
    names = {"MixtralForCausalLM": transformers.MixtralForCausalLM, "config": config}
    names = run("docs/pytorch.md", 0, names)
    assert "Experts(" in str(names["model"])


def test_a_model_is_trained_and_measured(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Path("bf16").mkdir()

    def trained(page, number):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 16)).bfloat16()
        batch = (torch.randn(32, 64, dtype=torch.bfloat16), torch.randint(16, (32,)))
        names = {"mxoracle": mxoracle, "model": model, "batches": [batch] * 2}
        names["train_step"] = lambda batch: model(batch[0]).float().square().mean()
        return run(page, number, names)

    for page, number in (("README.md", 2), ("docs/pytorch.md", 1)):
        Path("bf16/loss.csv").write_text("loss\n1.0\n1.0\n")
        with pytest.raises(mxoracle.torch.Departed, match="mean loss of 2 steps"):
            trained(page, number)
        Path("run/loss.csv").rename("bf16/loss.csv")
        names = trained(page, number)
        assert len(names["telemetry"].losses) == 2 and Path("run/telemetry.csv").exists()
    assert isinstance(names["model"][0], torch.nn.Linear)


def small_model(torch):
    """A model whose call has a loss, as those of transformers have."""
    layer = torch.nn.Linear(32, 16)

    def model(batch):
        return SimpleNamespace(loss=layer(batch).float().pow(2).mean(), logits=layer(batch))

    return model


def test_the_judge_passes_a_right_model():
    torch = pytest.importorskip("torch")
    names = {"model": small_model(torch), "batch": torch.randn(8, 32)}
    assert len(run("docs/judge.md", 0, names)["judge"].rows) >= 2


def test_the_recorder_writes_a_trace(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    model = small_model(torch)
    names = {"mxoracle": mxoracle, "batches": [torch.randn(8, 32)] * 2}
    names["train_step"] = lambda batch: model(batch).loss.backward()
    run("docs/judge.md", 1, names)
    assert len(Path("trace/trace.jsonl").read_text().splitlines()) >= 4


def test_log_probabilities_are_told_before_backward(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    model = small_model(torch)
    said = torch.zeros(8, 1, dtype=torch.int64)
    source = blocks("docs/judge.md")[2].strip()

    def train_step(batch):
        logits = model(batch).logits
        exec(source, {"recorder": names["recorder"], "logits": logits, "said": said})
        logits.sum().backward()

    names = {"mxoracle": mxoracle, "batches": [torch.randn(8, 32)], "train_step": train_step}
    run("docs/judge.md", 1, names)
    assert "log_probabilities" in Path("trace/trace.jsonl").read_text()


def test_a_layer_across_ranks_trains(tmp_path):
    torch = pytest.importorskip("torch")
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0,
                                         world_size=1)  # fmt: skip
    values = lambda *shape: torch.randn(shape).bfloat16().requires_grad_()  # noqa: E731
    names = {"x": values(8, 64), "w1": values(8, 64, 64), "w2": values(8, 64, 32), "dy": values(8, 64),
             "chosen": torch.arange(16).view(8, 2) % 8,
             "weights": torch.ones(8, 2, requires_grad=True)}  # fmt: skip
    try:
        run("docs/moe_layer.md", 0, names)
    finally:
        torch.distributed.destroy_process_group()
    assert all((names[name].grad != 0).any() for name in ("x", "w1", "w2", "weights"))
