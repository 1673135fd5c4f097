#!/usr/bin/env python3
"""Records tests/data/stack_gates.safetensors.xz: gates and routers by the stacks' own Python.

Usage: record_stack_gates.py SGLANG TRANSFORMERS4 VLLM_ROUTER [OUTPUT_FOLDER].
SGLANG is sglang 0.5.23 unpacked, TRANSFORMERS4 transformers 4.57.1 unpacked, VLLM_ROUTER vLLM's
fused_moe/router/grouped_topk_router.py of 055e47c; transformers 5.23.0 and torch are installed.
Classes and functions are taken out of these files as they stand and run on a CPU.

Everything is run twice: as it is, and with torch's sigmoid, silu, gelu and softmax computed
through binary64 in the steps that torch documents (keys `exact.`).  What differs between the two
is that torch's own functions are not correctly rounded.
"""
import ast
import contextlib
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from transformers.activations import ACT2FN
from transformers.models.deepseek_v2 import modeling_deepseek_v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.mixtral import modeling_mixtral

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "data"))
from pack_captures import compressed, container  # noqa: E402

NAMES = {torch.bfloat16: "BF16", torch.float32: "F32", torch.int32: "I32"}
EXPERTS, TOP_K, GROUPS, LIMITED, SCALE = 32, 4, 8, 4, 2.5


def taken(path, name, **more):
    """A class or function of a file whose imports are not all here."""
    tree = ast.parse(Path(path).read_text())
    (node,) = [n for n in tree.body if getattr(n, "name", None) == name]
    node.decorator_list = []
    names = {"torch": torch, "F": F, "nn": nn, "BaseFusedOp": nn.Module, "Optional": object(), **more}
    if isinstance(node, ast.FunctionDef):
        for argument in node.args.args:
            argument.annotation = None
        node.returns = None
    exec(compile(ast.Module([node], []), str(path), "exec"), names)
    return names[name]


def sigmoid(x, **_):
    """In f32 if x is bf16, as torch does; correctly rounded."""
    return torch.special.expit(x.double()).float().to(x.dtype)


def silu(x, **_):
    return (x.float() * torch.special.expit(x.double()).float()).to(x.dtype)


def gelu(x, approximate="none"):
    a = x.float()
    if approximate == "none":
        inner = torch.special.erf((a * math.sqrt(0.5)).double()).float()
    else:
        cube = a * a * a
        inner = torch.tanh((math.sqrt(2 / math.pi) * (a + 0.044715 * cube)).double()).float()
    return ((a * 0.5) * (1 + inner)).to(x.dtype)


def softmax(x, dim=-1, dtype=None):
    a = x.float()
    e = torch.exp((a - a.amax(dim, keepdim=True)).double()).float()
    total = torch.zeros_like(e[..., 0])
    for column in e.unbind(-1):
        total = total + column
    return (e / total[..., None]).to(dtype or x.dtype)


@contextlib.contextmanager
def correctly_rounded():
    with contextlib.ExitStack() as stack:
        for owner, name, function in (
            (torch, "sigmoid", sigmoid), (torch.Tensor, "sigmoid", sigmoid),
            (F, "silu", silu), (F, "gelu", gelu), (F, "softmax", softmax),
            (torch, "softmax", softmax), (torch.Tensor, "softmax", softmax),
        ):  # fmt: skip
            stack.enter_context(mock.patch.object(owner, name, function))
        yield


def gate_inputs(dtype):
    """48 rows of 64 gates and 64 ups: normal, wide, tiny, large, zeros and infinities."""
    torch.manual_seed(1)
    x = torch.randn(48, 128) * torch.exp2(torch.linspace(-6, 4, 48))[:, None]
    x[1] *= 2.0**-120
    x[2] = torch.linspace(-90, 90, 128)
    x[3, :8] = torch.tensor([0.0, -0.0, math.inf, -math.inf, 2.0**-126, -(2.0**-133), 3e38, -3e38])
    x[3, 64:72] = 1.5
    return x.to(dtype)


def gates(sglang):
    """Each takes [R, 2F]."""
    file = f"{sglang}/sglang/srt/layers/activation.py"

    def native(name, **attributes):
        forward = taken(file, name).forward_native
        return lambda x: forward(SimpleNamespace(**attributes), x)

    oss = SimpleNamespace(alpha=1.702, limit=7.0)
    both = lambda act: lambda x: act(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]  # noqa: E731
    return {
        "sglang.silu": native("SiluAndMul"),
        "sglang.gelu": native("GeluAndMul", approximate="none"),
        "sglang.gelu_tanh": native("GeluAndMul", approximate="tanh"),
        "sglang.relu2": native("ReLU2"),
        "transformers.silu": both(ACT2FN["silu"]),
        "transformers.relu2": ACT2FN["relu2"],
        "transformers.gpt_oss": lambda x: modeling_gpt_oss.GptOssExperts._apply_gate(oss, x),
    }


def router_of(router, bias=None, **attributes):
    """forward() of a router of transformers whose logits are what it is given."""
    def run(logits):
        own = SimpleNamespace(
            top_k=TOP_K, num_experts=EXPERTS, n_routed_experts=EXPERTS, hidden_dim=EXPERTS,
            weight=torch.eye(EXPERTS, dtype=logits.dtype), routed_scaling_factor=SCALE,
            num_group=GROUPS, n_group=GROUPS, topk_group=LIMITED, norm_topk_prob=True,
            e_score_correction_bias=bias, config=SimpleNamespace(hidden_size=EXPERTS), **attributes,
        )  # fmt: skip
        own.get_topk_indices = lambda scores: router.get_topk_indices(own, scores)
        out = router.forward(own, logits)
        experts, weights = (out[2], out[1]) if len(out) == 3 else out
        return weights, experts

    return run


def routers(sglang, transformers4, vllm, bias):
    topk = f"{sglang}/sglang/srt/layers/moe/topk.py"
    epsilon = next(n.value for n in ast.parse(Path(topk).read_text()).body
                   if isinstance(n, ast.Assign) and n.targets[0].id == "_RENORMALIZE_SUM_EPSILON")
    own = {"_RENORMALIZE_SUM_EPSILON": ast.literal_eval(epsilon)}
    grouped = taken(topk, "grouped_topk_gpu", **own)
    biased = taken(topk, "biased_grouped_topk_impl", **own)
    vllm_topk = taken(vllm, "grouped_topk", envs=SimpleNamespace(
        VLLM_USE_FUSED_MOE_GROUPED_TOPK=False, VLLM_BATCH_INVARIANT=True))  # fmt: skip
    old = taken(f"{transformers4}/transformers/models/deepseek_v3/modeling_deepseek_v3.py",
                "DeepseekV3TopkRouter")  # fmt: skip
    by_vllm = lambda x, score, *more: vllm_topk(x, x, TOP_K, True, GROUPS, LIMITED, score, SCALE, *more)  # noqa: E731,E501
    scaled = {"routed_scaling_factor": SCALE, "apply_routed_scaling_factor_on_output": True}
    return {
        "transformers.deepseek_v3": router_of(modeling_deepseek_v3.DeepseekV3TopkRouter, bias),
        "transformers4.deepseek_v3": router_of(old, bias),
        "transformers.deepseek_v2": router_of(
            modeling_deepseek_v2.DeepseekV2TopkRouter, topk_method="group_limited_greedy"),
        "transformers.mixtral": router_of(modeling_mixtral.MixtralTopKRouter),
        "vllm.two_best": lambda x: by_vllm(x, "sigmoid", bias),
        "vllm.best": lambda x: by_vllm(x, "softmax"),
        "sglang.two_best": lambda x: biased(x, x, bias, TOP_K, True, GROUPS, LIMITED, **scaled),
        "sglang.best": lambda x: grouped(x, x, TOP_K, True, GROUPS, LIMITED, **scaled),
    }  # fmt: skip


def by_expert(weights, experts):
    """Slots in the order of their experts: stacks leave theirs open."""
    experts, order = experts.long().sort(-1)
    return weights.gather(1, order), experts.int()


def main():
    sglang, transformers4, vllm = sys.argv[1:4]
    folder = Path(sys.argv[4]) if len(sys.argv) > 4 else ROOT / "tests" / "data"
    torch.manual_seed(2)
    logits = torch.randn(200, EXPERTS) * 2
    bias = torch.randn(EXPERTS) * 0.1
    tensors = {"logits": logits, "logits.bf16": logits.bfloat16(), "bias": bias}
    for kind, how in (("", contextlib.nullcontext), ("exact.", correctly_rounded)):
        for dtype, suffix in ((torch.bfloat16, "bf16"), (torch.float32, "f32")):
            x = tensors[f"x.{suffix}"] = gate_inputs(dtype)
            for name, gate in gates(sglang).items():
                with how():
                    tensors[f"{kind}gate.{name}.{suffix}"] = gate(x)
        for name, router in routers(sglang, transformers4, vllm, bias).items():
            for suffix in ("", ".bf16") if name == "transformers.mixtral" else ("",):
                with how():
                    weights, experts = by_expert(*router(tensors[f"logits{suffix}"]))
                tensors[f"{kind}router.{name}{suffix}.weights"] = weights
                if not kind:
                    tensors[f"router.{name}{suffix}.experts"] = experts
    packed = {name: (NAMES[t.dtype], list(t.shape),
                     t.detach().contiguous().view(torch.uint8).numpy().tobytes())
              for name, t in tensors.items()}  # fmt: skip
    data = container(packed, {"torch": torch.__version__, "transformers": "5.23.0 and 4.57.1",
                              "sglang": "0.5.23", "vllm": "055e47c", "device": "cpu"})
    (folder / "stack_gates.safetensors.xz").write_bytes(compressed(data))
    for name, tensor in tensors.items():
        if name.startswith("exact."):
            plain = tensors[name.removeprefix("exact.")]
            print(f"{name.removeprefix('exact.')}: torch's own functions give other bits in "
                  f"{int((plain.nan_to_num() != tensor.nan_to_num()).sum())} of {plain.numel()}")


if __name__ == "__main__":
    main()
