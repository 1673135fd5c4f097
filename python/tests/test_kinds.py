"""Every public function with arguments of every wrong kind: a result, or one sentence."""
import functools
import inspect
import math
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

import mxoracle
from mxoracle import inputs, vectors
from mxoracle.vectors import Region, VectorCase

X = np.ones((4, 32), np.float32)
CODES = np.zeros((4, 32), np.uint8)
# Words of C++, of the command line and of builds, which no Python message has.
FOREIGN = ["incompatible function", "nanobind", "std::", "bad_", "--", "cmake", "MXO_", "Traceback"]


class Stranger:
    """An object that has no meaning here."""


WRONG = {
    "none": None,
    "object": Stranger(),
    "class": Stranger,
    "function": len,
    "true": True,
    "whole": 7,
    "negative": -1,
    "huge": 10**30,
    "wide": 2**40,
    "real": 1.5,
    "nan": float("nan"),
    "complex": 1j,
    "text": "zzz",
    "no_text": "",
    "nul": "a\0b",
    "bytes": b"zzz",
    "list": [],
    "numbers": [1, 2, 3],
    "ragged": [[1], [1, 2]],
    "mixed": [1, "a", None],
    "pair": (1, 2),
    "dict": {},
    "numbered": {1: X},
    "set": {1},
    "scalar": np.float32(2),
    "no_axes": np.array(3),
    "objects": np.array([None]),
    "texts": np.array(["a"]),
    "record": np.zeros(2, [("a", "f4")]),
    "dates": np.zeros(2, "M8[s]"),
    "swapped": np.zeros(2, ">i4"),
    "integers": np.arange(4, dtype=np.int32),
    "floats": X,
    "no_elements": np.zeros((0, 32), np.float32),
    "five_axes": np.zeros((1, 1, 1, 1, 1), np.float32),
    "endless": np.broadcast_to(np.float32(1), (2**28, 2**28)),
}


def agreed(call):
    """True where the call returned; what it raises must be one sentence of ours."""
    try:
        call()
    except mxoracle.Error as error:
        said = str(error)
        assert said and "\n" not in said.strip() and len(said) < 700, said
        assert not [word for word in FOREIGN if word in said], said
        return False
    return True


ENDS, CHOSEN = np.array([2, 4], np.int32), np.array([[0], [1]], np.int32)
# Operators that no suite has.
CALLED = {
    "delayed_scale": ({"x": X, "history": X[0, :4], "scale": X[0, :1]}, {}),
    "rows_to_groups": ({"m_indices": ENDS // 4}, {"experts": 2}),
    "groups_to_rows": ({"group_ends": ENDS}, {"rows": 4}),
    "groups_to_masked": ({"x": X, "group_ends": ENDS}, {"max_rows": 2}),
    "masked_to_groups": ({"y": X.reshape(2, 2, 32), "counts": ENDS // 2}, {"rows": 4}),
    "map_experts": ({"experts": CHOSEN, "expert_map": ENDS // 4}, {"experts": 2}),
    "mask_to_experts": ({"mask": CODES}, {"top_k": 1}),
    "experts_to_mask": ({"experts": CHOSEN}, {"experts": 2}),
    "moe_align_block_size": ({"experts": CHOSEN}, {"experts": 2, "block": 4}),
    "blocks_to_experts": ({"sorted_token_ids": ENDS - 2, "expert_ids": ENDS[:1],
                           "num_tokens_post_pad": ENDS[:1]}, {"block": 2, "tokens": 2}),
    "add_bias": ({"y": X, "bias": X[0]}, {}),
    "cast": ({"x": X}, {}),
    "fused_dot": ({"a": X[None].astype(np.float16), "b": X[None].astype(np.float16),
                   "c": np.zeros((1, 4, 4), np.float32)}, {"sum": "h200_mma_sync"}),
}  # fmt: skip


def call_of(op):
    """Operands and parameters of a small call."""
    if op in CALLED:
        return CALLED[op]
    case = smallest(op)
    return case.inputs, {key.replace(".", "__"): value for key, value in case.parameters.items()}


def smallest(op):
    """The smallest case of an operator."""
    cases = [case for case in all_cases() if case.op == op and "empty" not in case.flags]
    return min(cases, key=lambda case: sum(math.prod(value.shape) for value in case.inputs.values()))


@functools.cache
def all_cases():
    return [case for suite in mxoracle.list_suites() if suite != "huge"
            for case in mxoracle.suite_cases(suite, level=1)]  # fmt: skip


@pytest.mark.parametrize("op", mxoracle.list_ops())
def test_operators_take_or_refuse_every_kind(op):
    inputs, settings = call_of(op)
    (entry,) = [entry for entry in mxoracle.operators() if entry["name"] == op]
    keys = [spec["key"].replace(".", "__") for spec in entry["parameters"]]
    assert agreed(lambda: mxoracle.run(op, inputs, **settings))
    for wrong in WRONG.values():
        for name in inputs:
            agreed(lambda: mxoracle.run(op, {**inputs, name: wrong}, threads=1, **settings))
        if wrong is WRONG["endless"]:
            continue
        for key in keys:
            agreed(lambda: mxoracle.run(op, inputs, threads=1, **{**settings, key: wrong}))


ABSURD = ["-1", "-0.5", "-2147483648", "0", "inf", "-inf", "nan", "1e40", "1e400", "1000000000000"]
REALS = {"-1", "-0.5", "-2147483648", "0", "1000000000000"}
# Which of them mean something: ends of a range, and what any real number may be.
MEANT = {
    "margin": {"-1", "0"}, "sum.block": {"0"}, "sum.promote": {"0"}, "sum.floor": {"-1", "0"},
    "capacity": {"0", "1000000000000"}, "top_k": {"0"}, "unused": {"-1", "0"}, "scale": REALS,
    "alpha": REALS, "up_offset": REALS, "limit": {"inf", "1000000000000"},
}  # fmt: skip


@pytest.mark.parametrize("op", mxoracle.list_ops())
def test_absurd_numbers_of_operators_are_refused(op):
    inputs, settings = call_of(op)
    (entry,) = [entry for entry in mxoracle.operators() if entry["name"] == op]
    for spec in entry["parameters"]:
        key = spec["key"].replace(".", "__")
        took = {number for number in ABSURD if "|" not in spec["values"]
                and agreed(lambda: mxoracle.run(op, inputs, threads=1, **{**settings, key: number}))}
        assert took <= MEANT.get(spec["key"], set()), (spec["key"], took)


@pytest.mark.parametrize("op", mxoracle.list_ops())
def test_functions_of_operators_refuse_every_kind(op):
    function = getattr(mxoracle, op)
    needed = [name for name, parameter in inspect.signature(function).parameters.items()
              if parameter.default is inspect.Parameter.empty]  # fmt: skip
    for kind, wrong in WRONG.items():
        if kind not in ("integers", "floats", "no_elements", "endless"):
            agreed(lambda: function(*[wrong] * len(needed)))


OUTPUTS = {"codes": CODES, "scales": np.full((4, 1), 127, np.uint8)}
COMPARISON = mxoracle.compare(X, X)
VECTORS = VectorCase("a", "dequantize", {}, 0, [], {"y": ("f32", list(X.shape))},
                     {"y": [Region((0, len(X)), (0, X.shape[1]), bytes(32))]})  # fmt: skip
CALLS = {
    "run": (mxoracle.run, {"op": "encode", "tensors": {"x": X}, "backend": "cpu", "threads": 1,
                           "ranks": 1, "wait": True, "format": "e4m3"}),
    "judge": (mxoracle.judge, {"op": "quantize", "inputs": {"x": X}, "outputs": OUTPUTS, "gate": "bits",
                               "claimed_sum": "", "backend": "cpu", "threads": 1, "ranks": 1}),
    "explain": (mxoracle.explain, {"op": "quantize", "inputs": {"x": X}, "actual": OUTPUTS,
                                   "backend": "cpu", "threads": 1, "ranks": 1, "work": 1e9}),
    "compare": (mxoracle.compare, {"expected": X, "actual": X, "gate": "bits"}),
    "compare_names": (mxoracle.compare, {"expected": {"x": X}, "actual": {"x": X}, "gate": "bits"}),
    "save": (mxoracle.save, {"path": "a.safetensors", "tensors": {"x": X}, "metadata": {"a": "b"}}),
    "load": (mxoracle.load, {"path": "x.safetensors"}),
    "suite_cases": (mxoracle.suite_cases, {"suite": "formats", "level": 0, "seed": 0}),
    "digests": (mxoracle.digests, {"case": VECTORS, "outputs": {"y": X}, "path": "d.safetensors",
                                   "most_bytes": 64}),
    "inputs.tensor": (inputs.tensor, {"name": "x", "shape": (2, 32), "seed": 0, "distribution": "normal",
                                      "dtype": None}),
    "inputs.stream_of": (inputs.stream_of, {"name": "x"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_functions_take_or_refuse_every_kind(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mxoracle.save("x.safetensors", {"x": X})
    function, right = CALLS[name]
    assert agreed(lambda: function(**right))
    for kind, wrong in WRONG.items():
        for key in right:
            if kind != "endless" or key in ("tensors", "inputs", "actual", "outputs"):
                agreed(lambda: function(**{**right, key: wrong}))
        for key in ("tensors", "inputs", "outputs", "expected", "actual"):
            if isinstance(right.get(key), dict):
                inner = {name: wrong for name in right[key]}
                agreed(lambda: function(**{**right, key: inner}))


@pytest.mark.parametrize("kind", [kind for kind in WRONG if kind != "endless"])
def test_show_takes_or_refuses_every_kind(kind):
    agreed(lambda: mxoracle.show(WRONG[kind], 1))
    agreed(lambda: mxoracle.show("e4m3", WRONG[kind]))


def test_pictures_take_or_refuse_every_kind(tmp_path, monkeypatch):
    plot = pytest.importorskip("mxoracle.plot")
    monkeypatch.chdir(tmp_path)
    for kind, wrong in WRONG.items():
        for draw in (plot.heat_map, plot.error_histogram, plot.sqnr_by_group, plot.loss_curves):
            agreed(lambda: draw(wrong))
            if draw is not plot.loss_curves:
                agreed(lambda: draw(COMPARISON, wrong))
                agreed(lambda: draw(COMPARISON, None, wrong))
        agreed(lambda: plot.save(wrong, "a.svg"))


def test_every_public_function_is_in_a_table():
    public = {name for name in mxoracle.__all__ if inspect.isfunction(getattr(mxoracle, name))}
    without_arguments = {name for name in public if not inspect.signature(getattr(mxoracle, name)).parameters}
    assert public - without_arguments - set(mxoracle.list_ops()) - set(CALLS) == {"show"}


@pytest.mark.parametrize("given", [{"work": -1}, {"seconds": -0.5}, {"work": float("nan")},
                                   {"seconds": "2"}, {"work": None}])  # fmt: skip
def test_a_budget_below_zero_is_refused(given):
    (name,) = given
    with pytest.raises(mxoracle.Error, match=f"^{name}: found .*, needs a number from 0 on$"):
        mxoracle.explain("quantize", {"x": X}, OUTPUTS, **given)


@pytest.mark.parametrize("folder", [None, 3, b"a", [], X])
def test_a_folder_is_the_path_of_one(folder):
    with pytest.raises(mxoracle.Error, match="^vectors: directory: found .*, needs the path of a file$"):
        vectors.cases(folder)


def test_backends_that_cannot_be_are_named():
    for backend in ("cuda:7", "cuda:x", "cpu:none", "gpu", ""):
        assert not agreed(lambda: mxoracle.encode(X, backend=backend))


@pytest.mark.parametrize("threads", [-1, 1025, 100000, 2**31, 2**80, "2", 1.5, True])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_threads_that_cannot_be_are_refused(threads, backend):
    with pytest.raises(mxoracle.Error, match="^threads: found .*needs"):
        mxoracle.encode(X, threads=threads, backend=backend)


def test_many_threads_give_the_same_bytes(random):
    x = random.standard_normal((256, 256)).astype(np.float32)
    program = """
        import sys, numpy as np, mxoracle
        x = np.frombuffer(sys.stdin.buffer.read(), np.float32).reshape(256, 256)
        sys.stdout.buffer.write(mxoracle.quantize(x, threads=np.int64(300))[0].tobytes())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], input=x.tobytes(),
                          capture_output=True)  # fmt: skip
    assert done.stdout == mxoracle.quantize(x)[0].tobytes(), done.stderr


TOKENS = np.ones(4, np.int32)


@pytest.mark.parametrize("call", [
    lambda: mxoracle.encode(np.broadcast_to(np.float32(0), (2**21, 2**21))),
    lambda: mxoracle.decode(np.broadcast_to(np.uint8(0), (2**31, 2**31))),
    lambda: mxoracle.quantize(np.broadcast_to(np.float32(0), (2**20, 2**30))),
    lambda: mxoracle.permute_indices(TOKENS, experts=4, ranks=1, max_len=2**40),
    lambda: mxoracle.permute_indices(TOKENS, experts=4, ranks=1, max_len=2**62),
    lambda: mxoracle.permute_indices(TOKENS, experts=2**62, ranks=1, max_len=8),
    lambda: mxoracle.moe_align_block_size(TOKENS.reshape(2, 2), experts_=2**20, block=2**40),
    lambda: mxoracle.experts_to_mask(TOKENS.reshape(2, 2), experts_=2**62),
    lambda: mxoracle.unswizzle_scales(CODES, rows=2**31 - 1, columns=2**31 - 1),
    lambda: mxoracle.judge("encode", {"x": X}, {"codes": np.broadcast_to(np.uint8(0), (2**31, 2**31))}),
    lambda: mxoracle.compare(*[np.broadcast_to(np.uint8(0), (2**31, 2**31))] * 2),
])  # fmt: skip
def test_more_than_the_machine_has_is_refused(call):
    assert not agreed(call)
