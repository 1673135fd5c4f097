"""Parameters, errors, ranks, and the functions of the catalogue."""
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mxoracle
from mxoracle import _arrays
from mxoracle._library import engine


def test_unset_parameters_are_not_passed(random):
    x = random.standard_normal((2, 64)).astype(np.float32)
    plain = mxoracle.run("quantize", {"x": x})
    unset = mxoracle.run("quantize", {"x": x}, format=None, scale_mode=None)
    assert all((plain[name].view(np.uint8) == unset[name].view(np.uint8)).all() for name in plain)


def test_dtypes_numbers_and_truth_values_are_parameters(random):
    x = random.standard_normal((2, 64)).astype(np.float32)
    codes, scales = mxoracle.quantize(x, format=ml_dtypes.float8_e5m2)
    assert codes.dtype == ml_dtypes.float8_e5m2
    back = mxoracle.dequantize(codes, scales, format=np.dtype(ml_dtypes.float8_e5m2), out=np.float32)
    assert back.dtype == np.float32


def test_unknown_parameter_is_an_error_of_its_own():
    with pytest.raises(mxoracle.Error, match="colour") as caught:
        mxoracle.run("quantize", {"x": np.zeros((1, 32), np.float32)}, colour="red")
    assert isinstance(caught.value, ValueError) and caught.value.fault == "argument"


def test_faults_say_of_what_kind():
    with pytest.raises(mxoracle.Error) as shape:
        mxoracle.quantize(np.zeros((2, 2, 2, 2, 2), np.float32))
    assert shape.value.fault == "shape"
    with pytest.raises(mxoracle.Error, match="rank 0"):
        mxoracle.encode(np.float32(1).reshape(()))
    with pytest.raises(mxoracle.Error) as dtype:
        mxoracle.quantize(np.zeros((2, 32), np.int64))
    assert dtype.value.fault == "dtype"


def test_missing_backend_is_unsupported_and_not_implemented():
    with pytest.raises(mxoracle.Unsupported) as caught:
        mxoracle.run("encode", {"x": np.zeros(4, np.float32)}, backend="cuda:7")
    assert isinstance(caught.value, NotImplementedError) and isinstance(caught.value, mxoracle.Error)


def test_outputs_are_written_where_they_are_made(random):
    view, x = _arrays.read("x", random.standard_normal((64, 128)).astype(np.float32))
    made = {}

    def make(name, dtype, extents):
        if name == "scales" and not extents[1] % 8:
            raise MemoryError(name)
        made[name] = np.zeros(extents, np.uint8)
        return _arrays.read(name, made[name])[0]

    assert engine("cpu", 1).run("quantize", [view], {}, make=make) == []
    for name, want in mxoracle.run("quantize", {"x": x}).items():
        assert (made[name] == want.view(np.uint8)).all() and want.view(np.uint8).any()
    with pytest.raises(MemoryError, match="scales"):
        engine("cpu", 1).run("quantize", [view], {"block": "1x16"}, make=make)


def test_errors_survive_pickling():
    error = pickle.loads(pickle.dumps(mxoracle.Unsupported("no")))
    assert type(error) is mxoracle.Unsupported and error.fault == "unsupported"


def test_functions_are_what_the_catalogue_says():
    root = Path(__file__).parents[2]
    script = root / "tools" / "generate_operators.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_operator_is_a_documented_function():
    for entry in mxoracle.operators():
        function = getattr(mxoracle, entry["name"])
        assert entry["purpose"][1:] in inspect.cleandoc(function.__doc__).replace("\n", " ")


def test_ranks_take_lists_and_one_rank_a_tensor(random):
    layer = {
        "router": random.standard_normal((4, 64)).astype(ml_dtypes.bfloat16),
        "w1": random.standard_normal((4, 128, 64)).astype(ml_dtypes.bfloat16),
        "w2": random.standard_normal((4, 64, 64)).astype(ml_dtypes.bfloat16),
    }
    x = random.standard_normal((32, 64)).astype(ml_dtypes.bfloat16)
    one = mxoracle.moe_layer(x, **layer, top_k=2)["y"]
    two = mxoracle.moe_layer([x[:20], x[20:]], **layer, top_k=2, ranks=2)["y"]
    assert (np.concatenate(two).view(np.uint16) == one.view(np.uint16)).all()


def test_rank_lists_of_another_length_are_refused(random):
    x = random.standard_normal((4, 64)).astype(ml_dtypes.bfloat16)
    with pytest.raises(mxoracle.Error, match="needs one for each of 2 ranks"):
        mxoracle.moe_layer([x], x, x, x, ranks=2)


def test_backends_and_threads_give_the_same_bytes(random):
    x = random.standard_normal((96, 256)).astype(np.float32)
    wants = mxoracle.run("quantize", {"x": x}, backend="reference")
    for threads in (1, 2, 3):
        have = mxoracle.run("quantize", {"x": x}, threads=threads)
        assert all(have[name].tobytes() == wants[name].tobytes() for name in wants)


@pytest.mark.parametrize("format", ["e4m3", ml_dtypes.float8_e4m3fn])
def test_codes_and_values_are_shown(format):
    text = mxoracle.show(format, -3.5, "0x7E", 448)
    assert "-3.5 in e4m3" in text and "code        0xC6" in text
    assert "code 0x7E of e4m3" in text and "the largest finite magnitude" in text
    assert "448.0 in e4m3" in text


@pytest.mark.parametrize(
    "arguments, words",
    [(("e4m9", 1), "did you mean e4m3"), (("e4m3", "zz"), "found 'zz'"), (("e4m3",), "no value")],
)
def test_what_cannot_be_shown_is_refused(arguments, words):
    with pytest.raises(mxoracle.Error, match=words) as caught:
        mxoracle.show(*arguments)
    assert str(caught.value).startswith("show: ")


def test_gradients_alone_are_those_beside_y(random):
    wide = lambda *shape: random.standard_normal(shape).astype(ml_dtypes.bfloat16)  # noqa: E731
    operands = {"x": wide(64, 64), "w": wide(2, 32, 64), "group_ends": np.array([32, 64], np.int32),
                "dy": wide(64, 32)}  # fmt: skip
    for recipe in ("mxfp8_rceil", "fp8_rowwise", "bf16"):
        all_of_them = mxoracle.run("grouped_linear", operands, recipe=recipe)
        some = mxoracle.run("grouped_linear", operands, recipe=recipe, only="dx,dw")
        assert set(some) == {"dx", "dw"}
        assert all(some[name].tobytes() == all_of_them[name].tobytes() for name in some)
    with pytest.raises(mxoracle.Error, match="only: found 'dz'"):
        mxoracle.run("grouped_linear", operands, only="dz")
