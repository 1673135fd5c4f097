"""A DeepSeek-V3-style expert layer as vLLM computes it, against the same steps in PyTorch."""
import pytest

torch = pytest.importorskip("torch")
import mxoracle  # noqa: E402
import vllm_layer  # noqa: E402


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def layer(x, operands, recipe, **other):
    out = mxoracle.run("moe_layer", {**operands, "rank0.x": x}, recipe=recipe,
                       **(vllm_layer.SETTINGS | other))  # fmt: skip
    return {name.removeprefix("rank0."): tensor for name, tensor in out.items()}


def tokens(seed, rows=20):
    torch.manual_seed(seed)
    return torch.randn(rows, 256).bfloat16() * torch.exp2(torch.randn(rows, 1) * 3).bfloat16()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("recipe", ["vllm", "vllm_up"])
def test_every_stage_has_the_bits_of_torch(recipe, seed):
    x, operands = tokens(seed), vllm_layer.weights()
    owed = vllm_layer.layer(x, operands, up=recipe == "vllm_up")
    out = layer(x, operands, recipe)
    assert set(out) == set(owed)
    for stage, tensor in owed.items():
        assert out[stage].dtype == tensor.dtype, stage
        assert torch.equal(bits(out[stage]), bits(tensor)), stage


def test_the_first_stage_that_differs_is_that_of_the_rule():
    x, operands = tokens(3), vllm_layer.weights()
    owed = vllm_layer.layer(x, operands, up=False)
    for change, first in (("bf16_steps", "none"), "act"), (("sum", "exact"), "h"):
        out = layer(x, operands, "vllm", **dict([change]))
        differing = [s for s in owed if not torch.equal(bits(out[s]), bits(owed[s]))]
        assert differing[0] == first
