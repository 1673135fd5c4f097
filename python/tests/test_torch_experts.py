"""Expert layers of transformers on the library, and the examples that train one."""
import runpy
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import mxoracle  # noqa: E402
import mxoracle.torch as mxt  # noqa: E402

SMALL = {"vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 2, "num_experts_per_tok": 2}  # fmt: skip


def mixtral():
    config = transformers.MixtralConfig(**SMALL, intermediate_size=96, num_local_experts=4)
    return transformers.MixtralForCausalLM(config)


def qwen3():
    config = transformers.Qwen3MoeConfig(
        **SMALL, head_dim=32, moe_intermediate_size=96, num_experts=4, decoder_sparse_step=1
    )
    return transformers.Qwen3MoeForCausalLM(config)


def deepseek():
    config = transformers.DeepseekV3Config(
        **SMALL, intermediate_size=96, moe_intermediate_size=96, n_routed_experts=4, n_group=2,
        topk_group=1, first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=32,
        qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=32,
    )  # fmt: skip
    return transformers.DeepseekV3ForCausalLM(config)


def gpt_oss():
    """Biases, [E, K, N] weights, a gate that is clamped, interleaved and of its own."""
    config = transformers.GptOssConfig(
        **SMALL, intermediate_size=96, num_local_experts=4, head_dim=32
    )
    return transformers.GptOssForCausalLM(config)


def nemotron():
    """No gate."""
    from transformers.models.nemotron_h import modeling_nemotron_h as home

    config = transformers.NemotronHConfig(
        hidden_size=64, n_routed_experts=4, moe_intermediate_size=96, num_experts_per_tok=2
    )
    return home.NemotronHExperts(config)


def made(make):
    torch.manual_seed(0)
    net = make().bfloat16()
    for parameter in net.parameters():  # experts large enough to be seen in the logits
        if parameter.dim() == 3:
            torch.nn.init.normal_(parameter, std=0.2)
    return net


def step(net):
    text = torch.arange(96).view(2, 48) * 7 % 64
    out = net(input_ids=text, labels=text)
    out.loss.backward()
    name, experts = next(item for item in net.named_parameters() if item[1].dim() == 3)
    assert name.endswith("experts.gate_up_proj")
    return out.logits.detach().float(), experts.grad.float()


@pytest.mark.parametrize("make", [mixtral, qwen3, deepseek, gpt_oss])
def test_converted_in_bf16_is_the_model(make):
    theirs, ours = step(made(make)), step(mxt.convert(made(make), "bf16"))
    for want, have in zip(theirs, ours):
        found = mxoracle.compare(want, have, gate="sqnr=30")
        assert found, found


def test_experts_without_a_gate_are_converted():
    torch.manual_seed(0)
    theirs = nemotron()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    x, weights = torch.randn(24, 64), torch.rand(24, 2)
    chosen = torch.stack([torch.randperm(4)[:2] for _ in range(24)])
    want = theirs(x, chosen, weights).detach()
    found = mxoracle.compare(want, mxt.convert(theirs, "bf16")(x, chosen, weights).detach(),
                             gate="sqnr=40")  # fmt: skip
    assert found, found


def test_a_recipe_moves_the_results():
    theirs, ours = step(made(mixtral)), step(mxt.convert(made(mixtral), "mxfp8_rceil"))
    found = mxoracle.compare(theirs[0], ours[0], gate="sqnr=10")
    assert found and found.outputs[0]["sqnr"] < 40, found


def test_a_checkpoint_of_transformers_is_that_of_the_model(tmp_path):
    made(mixtral).save_pretrained(tmp_path / "first")
    logits = []
    for kept, written in (("first", "second"), ("second", "third")):
        net = transformers.MixtralForCausalLM.from_pretrained(tmp_path / kept, dtype=torch.bfloat16)
        assert type(net.model.layers[0].self_attn.q_proj) is torch.nn.Linear
        mxt.convert(net, linears=True, format="e4m3fnuz").save_pretrained(tmp_path / written)
        assert type(net.lm_head) is torch.nn.Linear
        assert isinstance(net.model.layers[0].self_attn.q_proj, mxt.Linear)
        logits.append(step(net))
    assert all(torch.equal(want, have) for want, have in zip(*logits))


def test_a_model_of_f16_is_near_itself():
    theirs, ours = step(made(mixtral).half()), step(mxt.convert(made(mixtral).half(), "plain", linears=True))
    assert all(mxoracle.compare(want, have, gate="sqnr=40") for want, have in zip(theirs, ours))


def test_a_compiled_expert_layer_is_eager_bit_for_bit():
    experts, x = layer(), torch.randn(24, 64, dtype=torch.bfloat16)
    chosen, weights = torch.arange(48).view(24, 2) % 3, torch.rand(24, 2)
    torch._dynamo.reset()
    compiled = torch.compile(experts, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x, chosen, weights), experts(x, chosen, weights))


def layer(recipe="mxfp8_rceil"):
    torch.manual_seed(1)
    block = made(mixtral).model.layers[0].mlp
    return mxt.convert(block, recipe).experts


def test_every_expert_gives_what_it_gives_alone():
    experts = layer()
    x = torch.randn(24, 64, dtype=torch.bfloat16)
    chosen = torch.stack([torch.randperm(3)[:2] for _ in range(24)])  # the last expert has no token
    weights = torch.rand(24, 2)
    want = torch.zeros(24, 2, 64)

    def linear(x, w):
        tensors = {"x": x, "w": w[None], "group_ends": torch.tensor([len(x)], dtype=torch.int32)}
        return mxoracle.run("grouped_linear", tensors, recipe="mxfp8_rceil")["y"]

    for e in range(4):
        token, place = torch.where(chosen == e)
        gate, up = linear(x[token], experts.gate_up_proj[e].detach()).chunk(2, -1)
        y = linear(torch.nn.functional.silu(gate) * up, experts.down_proj[e].detach())
        want[token, place] = y * weights[token, place, None]
    have = experts(x, chosen, weights).detach()
    assert torch.equal(have, want.sum(1).to(torch.bfloat16))


def test_numbers_past_the_experts_add_zero():
    experts = layer()
    x = torch.randn(8, 64, dtype=torch.bfloat16)
    weights = torch.rand(8, 2)
    chosen = torch.tensor([[0, 4]] * 8)
    alone = experts(x, chosen[:, :1], weights[:, :1])
    assert torch.equal(experts(x, chosen, weights), alone) and alone.abs().max() > 0


def test_parameters_and_their_names_stay():
    net = made(mixtral)
    before = dict(net.named_parameters())
    assert mxt.convert(net) is net
    after = dict(net.named_parameters())
    assert list(before) == list(after) and all(before[name] is after[name] for name in before)
    assert mxt.convert(net, "fp8_rowwise").model.layers[1].mlp.experts.recipe == "fp8_rowwise"


@pytest.mark.parametrize(
    "make, recipe, words",
    [
        (mixtral, "mxfp4", "found 'mxfp4', needs one of mxfp8_rceil"),
        (lambda: torch.nn.Linear(4, 4), "bf16", "found no expert layer"),
        (lambda: mixtral().double(), "bf16", "float64"),
    ],
)
def test_what_cannot_be_converted_is_refused(make, recipe, words):
    with pytest.raises(mxoracle.Error, match=words):
        mxt.convert(make(), recipe)


def test_expert_layers_are_judged_in_their_recipe():
    net = mxt.convert(made(mixtral))
    with mxt.Judge() as judge:
        step(net)
    ours = [row for row in judge.rows if row.operator.startswith("mxoracle::")]
    assert not judge.failures and all("attention" in row.operator for row in judge.missed), judge
    assert len(ours) == 12 and {row.verdict for row in ours} == {"bits"}, judge


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield lambda name: runpy.run_path(str(EXAMPLES / name))
    sys.modules.pop("mixtral", None)


def test_loss_curves_fall_side_by_side(example, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    example("loss_curves.py")["main"](12, str(tmp_path / "loss.svg"))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["step", "bf16", "mxfp8_rceil", "e4m3fnuz"]
    for first, last in zip(rows[1][1:], rows[-2][1:]):
        assert float(last) < float(first)
    assert (tmp_path / "loss.svg").stat().st_size > 1000


def test_the_first_departure_is_the_first_expert_layer(example, capsys):
    example("first_departure.py")["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("bf16: 0 of")
    firsts = [line for line in lines if line.startswith("  first:")]
    assert len(firsts) == 2
    for line in firsts:
        assert "mxoracle::scaled_linear of" in line and "layers.0.mlp.experts" in line


def test_hooks_of_experts_stay_and_see_no_probe():
    net = made(mixtral)
    experts = net.model.layers[0].mlp.experts
    calls = []
    handle = experts.register_forward_pre_hook(lambda module, args: calls.append("before"))
    experts.register_forward_hook(lambda module, args, y: calls.append("after") or 2 * y)
    experts.register_full_backward_hook(lambda module, dx, dy: calls.append("back"))
    x = torch.arange(16).view(2, 8)
    y = net(x).logits
    calls.clear()
    mxt.convert(net, "bf16", experts=["*.0.mlp.experts"])
    assert not calls
    z = net(x).logits
    z.sum().backward()
    assert calls == ["before", "after", "back"]
    assert (z - y).abs().max() < 0.1 * y.abs().max()
    handle.remove()
    mxt.convert(net, "bf16")
    net.model.layers[1].mlp.experts.register_full_backward_hook(lambda module, dx, dy: calls.append("one"))
    mxt.convert(net, "mxfp8_rceil")
    net(x).logits.sum().backward()
    assert calls[3:] == ["after", "one", "back"]
