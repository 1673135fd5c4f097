"""Arguments of what watches and converts a model, of every wrong kind: taken, or one sentence."""
import inspect

import pytest

torch = pytest.importorskip("torch")
import mxoracle.torch as mxt  # noqa: E402
from test_kinds import WRONG, agreed  # noqa: E402

# What can be called is called, and may raise what it likes.
KINDS = {kind: wrong for kind, wrong in WRONG.items() if kind not in ("endless", "class", "function")}
MODEL = torch.nn.Sequential(torch.nn.Linear(32, 32))
CALLS = {
    "Judge": (mxt.Judge, {}),
    "Recorder": (mxt.Recorder, {"folder": "trace"}),
    "Telemetry": (mxt.Telemetry, {}),
    "plan": (mxt.plan, {"model": MODEL, "linears": True}),
    "convert": (mxt.convert, {"model": MODEL, "linears": True}),
    "recipe_named": (mxt.recipe_named, {"name": "bf16"}),
}
# Numbers, and of the wrong kinds those that they may be.
NUMBERS = {
    ("Judge", "every"): {"whole", "huge", "wide", "no_axes"},
    ("Judge", "max_macs"): {"whole", "huge", "wide", "no_axes"},
    ("Judge", "threads"): {"none", "whole", "no_axes"},
    ("Judge", "explain_work"): {"whole", "huge", "wide", "real", "scalar", "no_axes"},
    ("Judge", "explain_seconds"): {"none", "whole", "huge", "wide", "real", "scalar", "no_axes"},
    ("Recorder", "rows"): {"whole", "huge", "wide", "no_axes"},
    ("Recorder", "every"): {"whole", "huge", "wide", "no_axes"},
    ("Telemetry", "every"): {"whole", "huge", "wide", "no_axes"},
    ("Telemetry", "window"): {"whole", "huge", "wide", "no_axes"},
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_are_taken_or_refused_in_a_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, right = CALLS[name]
    for argument in inspect.signature(call).parameters:
        took = {kind for kind, wrong in KINDS.items()
                if agreed(lambda: call(**{**right, argument: wrong}))}  # fmt: skip
        if (name, argument) in NUMBERS:
            assert took == NUMBERS[name, argument], (argument, took)
