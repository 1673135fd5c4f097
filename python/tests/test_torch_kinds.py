"""Arguments of every function of mxoracle.torch, of every wrong kind: taken, or one sentence."""
import inspect

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

import mxoracle.torch as mxt  # noqa: E402
import mxoracle.torch.torchao  # noqa: E402
from mxoracle.torch import ep  # noqa: E402
from mxoracle.torch.experts import Layout  # noqa: E402
from test_kinds import WRONG, agreed  # noqa: E402

# What can be called is called, and may raise what it likes.
KINDS = {kind: wrong for kind, wrong in WRONG.items() if kind not in ("endless", "class", "function")}
KINDS |= {
    "whole_numbers": torch.ones(4, 32, dtype=torch.int64),
    "booleans": torch.ones(4, 32, dtype=torch.bool),
    "complex_numbers": torch.ones(4, 32, dtype=torch.complex64),
    "doubles": torch.ones(4, 32, dtype=torch.float64),
    "halves": torch.ones(4, 32, dtype=torch.float16),
    "fp8": torch.ones(4, 32).to(torch.float8_e5m2),
    "sparse": torch.ones(4, 32).to_sparse(),
    "tensor_0d": torch.tensor(1.0),
    "tensor_1d": torch.ones(32),
    "tensor_5d": torch.ones(1, 1, 1, 1, 32),
    "no_rows": torch.ones(0, 32),
    "no_columns": torch.ones(4, 0),
    "repeated": torch.ones(1, 1).expand(4, 32),
    "unaligned": torch.ones(5, 33)[1:, 1:],
    "dtype": torch.int8,
    "device": torch.device("cpu"),
}
MODEL = torch.nn.Sequential(torch.nn.Linear(32, 32))
X, W = torch.ones(4, 32).bfloat16(), torch.ones(1, 32, 32).bfloat16()
ENDS, CHOSEN = torch.tensor([4], dtype=torch.int32), torch.zeros(4, 1, dtype=torch.int32)
CODES, SCALES = torch.zeros(4, 32, dtype=torch.uint8), torch.full((4, 1), 127, dtype=torch.uint8)
LAYER = torch.ones(1, 64, 32).bfloat16(), torch.ones(1, 32, 32).bfloat16()
LAYOUT = Layout(("up",), (), "down", None, False, lambda module, first: first)
EXPERTS = torch.nn.Module()
EXPERTS.up, EXPERTS.down = torch.nn.Parameter(W), torch.nn.Parameter(W)
SPLITS = {"input": X, "output_splits": [4], "input_splits": [4]}
PLAN = {"plan": None}  # of the group that `group` makes
CALLS = {
    "Judge": (mxt.Judge, {}),
    "Recorder": (mxt.Recorder, {"folder": "trace"}),
    "Telemetry": (mxt.Telemetry, {}),
    "plan": (mxt.plan, {"model": MODEL, "linears": True}),
    "convert": (mxt.convert, {"model": MODEL, "linears": True}),
    "recipe_named": (mxt.recipe_named, {"name": "bf16"}),
    "judged": (mxt.judged, {"op": "quantize"}),
    "quantize": (mxt.quantize, {"x": X}),
    "dequantize": (mxt.dequantize, {"codes": CODES, "scales": SCALES}),
    "grouped_linear": (mxt.grouped_linear, {"x": X, "w": W, "group_ends": ENDS}),
    "scaled_linear": (mxt.scaled_linear, {"x": X, "w": W, "group_ends": ENDS}),
    "moe_layer": (mxt.moe_layer, {"x": X, "router": X[:1], "w1": LAYER[0], "w2": LAYER[1]}),
    "Linear": (mxt.Linear, {"in_features": 32, "out_features": 32}),
    "ScaledWeight": (mxt.ScaledWeight, {"plain": W, "settings": ("bf16", "e4m3", "exact")}),
    "Experts": (mxt.Experts, {"theirs": EXPERTS, "layout": LAYOUT, "recipe": "bf16", "format": "e4m3",
                              "sum": "exact"}),
    "GroupedProducts": (mxt.GroupedProducts, {"theirs": EXPERTS, "recipe": "bf16", "format": "e4m3",
                                              "sum": "exact"}),
    "ep.a2a_dispatch_mxfp8_fwd_hp_bwd": (ep.a2a_dispatch_mxfp8_fwd_hp_bwd, SPLITS),
    "ep.a2a_combine_hp_fwd_mxfp8_bwd": (ep.a2a_combine_hp_fwd_mxfp8_bwd, SPLITS),
    "ep.permute_mxfp8_fwd_hp_bwd": (ep.permute_mxfp8_fwd_hp_bwd, {
        "mx_tensor": X, "num_tokens_per_expert": ENDS, "ep_degree": 1, "num_local_experts": 1}),
    "ep.unpermute_hp_fwd_mxfp8_bwd": (ep.unpermute_hp_fwd_mxfp8_bwd, {
        "input": X, "permuted_indices": ENDS.new_tensor([0, 1, 2, 3]), "padded_shape": torch.Size((5, 32))}),
    "ep.plan": (ep.plan, {"experts": CHOSEN, "count": 1}),
    "ep.dispatch": (ep.dispatch, {"x": X, **PLAN}),
    "ep.combine": (ep.combine, {"rows": X[[0] * 32], "weights": torch.ones(4, 1), **PLAN}),
    "ep.experts": (ep.experts, {"x": X, "weights": torch.ones(4, 1), "w1": LAYER[0], "w2": LAYER[1],
                                **PLAN}),
    "torchao.to_mxfp8_then_scaled_grouped_mm": (
        mxoracle.torch.torchao.to_mxfp8_then_scaled_grouped_mm,
        {"A": X, "B_t": W.transpose(1, 2), "offs": ENDS}),
}
RECORDS = {"Departed", "Measured", "Planned", "Row"}  # of what was seen; nothing takes them
# Numbers, and of the wrong kinds those that they may be.
NUMBERS = {
    ("Judge", "every"): {"whole", "huge", "wide", "no_axes"},
    ("Judge", "max_macs"): {"whole", "huge", "wide", "no_axes"},
    ("Judge", "threads"): {"none", "whole", "no_axes"},
    ("Judge", "explain_work"): {"whole", "huge", "wide", "real", "scalar", "no_axes", "tensor_0d"},
    ("Judge", "explain_seconds"): {"none", "whole", "huge", "wide", "real", "scalar", "no_axes", "tensor_0d"},
    ("Recorder", "rows"): {"whole", "huge", "wide", "no_axes"},
    ("Recorder", "every"): {"whole", "huge", "wide", "no_axes"},
    ("Telemetry", "every"): {"whole", "huge", "wide", "no_axes"},
    ("Telemetry", "window"): {"whole", "huge", "wide", "no_axes"},
}


@pytest.fixture(scope="module", autouse=True)
def group():
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    for name in ("ep.dispatch", "ep.combine", "ep.experts"):
        CALLS[name][1]["plan"] = ep.plan(CHOSEN, 1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("name", CALLS)
def test_arguments_are_taken_or_refused_in_a_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, right = CALLS[name]
    for argument in inspect.signature(call).parameters:
        took = {kind for kind, wrong in KINDS.items()
                if agreed(lambda: call(**{**right, argument: wrong}))}  # fmt: skip
        if (name, argument) in NUMBERS:
            assert took == NUMBERS[name, argument], (argument, took)


def test_every_public_function_is_called():
    here = {f"ep.{name}" for name, each in vars(ep).items() if getattr(each, "__module__", "") == ep.__name__
            and name[0] != "_" and not isinstance(each, type)}  # fmt: skip
    assert (set(mxt.__all__) | here) - RECORDS - {"recipes"} <= CALLS.keys()
