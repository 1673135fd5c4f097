"""Operands and outputs: every type, layout and framework, and what is refused."""
import array
import subprocess

import ml_dtypes
import numpy as np
import pytest

import mxoracle
from mxoracle import _arrays
from mxoracle._command import program


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_wide_type_is_encoded(random, dtype):
    x = random.standard_normal((8, 64)).astype(dtype)
    codes = mxoracle.encode(x, format="e4m3")
    assert same(codes, x.astype(np.float32).astype(ml_dtypes.float8_e4m3fn))


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x.T.copy().T,
        lambda x: x.repeat(2, 0)[::2],
        lambda x: x.repeat(3, 1)[:, ::3],
        lambda x: x[::-1].copy()[::-1],
        lambda x: x[:, ::-1].copy()[:, ::-1],
        lambda x: np.concatenate([x, x])[: len(x)],
    ],
    ids=["transposed", "rows", "columns", "upside_down", "mirrored", "part"],
)
def test_strides_do_not_show(random, layout):
    x = random.standard_normal((64, 96)).astype(np.float32)
    strided = layout(x)
    assert (strided == x).all()
    for ours, plain in zip(mxoracle.quantize(strided), mxoracle.quantize(x)):
        assert same(ours, plain)


def test_broadcast_rows_are_read():
    x = np.broadcast_to(np.arange(64, dtype=np.float32), (32, 64))
    assert same(mxoracle.encode(x), mxoracle.encode(x.copy()))


def test_unaligned_memory_is_read():
    raw = np.zeros(4 * 64 + 1, np.uint8)
    x = raw[1:].view(np.float32)
    x[:] = np.arange(64)
    assert same(mxoracle.encode(x), mxoracle.encode(x.copy()))


def test_outputs_are_writable_and_their_own(random):
    x = random.standard_normal((4, 64)).astype(np.float32)
    codes, scales = mxoracle.quantize(x)
    assert codes.flags.writeable and codes.flags.c_contiguous
    before = scales.copy()
    codes.view(np.uint8)[:] = 0
    assert same(scales, before) and not same(mxoracle.quantize(x)[0], codes)


def test_types_of_outputs_are_those_of_ml_dtypes(random):
    codes, scales = mxoracle.quantize(random.standard_normal((2, 32)).astype(np.float32), format="e5m2")
    assert codes.dtype == ml_dtypes.float8_e5m2 and scales.dtype == ml_dtypes.float8_e8m0fnu


def test_empty_tensors_pass_through():
    codes, scales = mxoracle.quantize(np.zeros((0, 64), np.float32))
    assert codes.shape == (0, 64) and scales.shape[0] == 0


def test_codes_may_be_bytes(random):
    codes, scales = mxoracle.quantize(random.standard_normal((4, 64)).astype(np.float32))
    plain = mxoracle.dequantize(codes.view(np.uint8), scales.view(np.uint8))
    assert same(plain, mxoracle.dequantize(codes, scales))


def test_buffers_without_a_framework_are_read():
    x = array.array("f", [1.0, -2.0, 448.0, 1000.0])
    assert mxoracle.encode(x).view(np.uint8).tolist() == [0x38, 0xC0, 0x7E, 0x7E]


def test_dlpack_is_read(random):
    class Foreign:
        def __init__(self, inner):
            self.inner = inner

        def __dlpack__(self, **options):
            return self.inner.__dlpack__()

        def __dlpack_device__(self):
            return self.inner.__dlpack_device__()

    x = random.standard_normal((4, 64)).astype(np.float32)
    assert same(mxoracle.encode(Foreign(x)), mxoracle.encode(x))


@pytest.mark.parametrize(
    "value, words",
    [
        (np.zeros(4, ">f4"), "big-endian"),
        (np.zeros(4, np.complex64), "complex64"),
        (np.array(["a"]), "a number type"),
        (np.ma.masked_array([1.0], [True]), "a masked array"),
        ([1.0, 2.0], "found list"),
        ("1.0", "found str"),
        (1.0, "found float"),
    ],
    ids=["big_endian", "complex", "text", "masked", "list", "str", "float"],
)
def test_what_cannot_be_read_is_refused(value, words):
    with pytest.raises(mxoracle.Error, match=words) as caught:
        mxoracle.encode(value)
    assert str(caught.value).startswith("x: found ") and "needs" in str(caught.value)
    assert caught.value.fault == "dtype"


LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.T.copy().T,
    "strided": lambda x: x.repeat(2, 0)[::2],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes_are_those_of_the_command(random, tmp_path, dtype, layout):
    x = LAYOUTS[layout](random.standard_normal((32, 64)).astype(dtype))
    source, target = tmp_path / "x.safetensors", tmp_path / "y.safetensors"
    mxoracle.save(source, {"x": x})
    command = [program(), "run", "quantize", "--input", str(source), "--output", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outputs = mxoracle.run("quantize", {"x": x})
    for name, want in mxoracle.load(target).items():
        assert outputs[name].tobytes() == want.tobytes(), name


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_are_read_where_they_lie(random, layout):
    x = LAYOUTS[layout](random.standard_normal((32, 64)).astype(np.float32))
    view, kept = _arrays.read("x", x)
    assert view[2] == x.ctypes.data and kept is x and view[3] == x.shape
    assert [step * x.itemsize for step in view[4]] == list(x.strides)
