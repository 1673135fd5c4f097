"""Which types and kinds of numbers are taken where: lists, scalars, bits, integers."""
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

import mxoracle

X = np.ones((4, 32), np.float32)
CODES = np.zeros((4, 32), np.uint8)


def runs(code, where):
    """A program of its own, which must end well."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, cwd=where)
    assert done.returncode == 0, done.stderr.decode()


def test_whole_numbers_of_any_library_are_parameters(random):
    for two in (2, np.int64(2), np.uint8(2), np.array(2)):
        mask = mxoracle.experts_to_mask(np.array([[0], [1]], np.int32), experts_=two)
        assert mask.tolist() == [[1, 0], [0, 1]]
    x = random.standard_normal((2, 64)).astype(np.float32)
    want = mxoracle.quantize(x, block="1x32")[0].tobytes()
    assert mxoracle.quantize(x, block=(np.int64(1), 32))[0].tobytes() == want
    operands = {"x": X, "history": X[0, :4], "scale": X[0, :1]}
    kept = mxoracle.run("delayed_scale", operands, margin=np.int64(1))
    want = mxoracle.run("delayed_scale", operands, margin=1)
    assert kept["next_scale"].tobytes() == want["next_scale"].tobytes()


@pytest.mark.parametrize("ends", [
    [2, 4], (2, 4), [np.int64(2), np.int32(4)], np.array([2, 4]), np.array([2, 4], np.int32),
    [np.array(2), 4],
], ids=str)  # fmt: skip
def test_ends_of_groups_may_be_lists(ends):
    w = np.ones((2, 8, 32), np.float32)
    w[1] = 2
    y = mxoracle.grouped_matmul(X, w, ends, out="f32")
    assert y[:, 0].tolist() == [32, 32, 64, 64]


@pytest.mark.parametrize("one", [4, np.int32(4), np.array(4), [4]])
def test_one_end_may_be_a_number(one):
    w = np.ones((1, 8, 32), np.float32)
    assert mxoracle.grouped_matmul(X, w, one, out="f32")[:, 0].tolist() == [32] * 4


def test_indices_may_be_lists_of_lists():
    local = mxoracle.map_experts([[0, 3], [2, 1]], [-1, 0, 1, -1], experts_=2)[0]
    assert local.tolist() == [[-1, -1], [1, 0]]


@pytest.mark.parametrize("ends, words", [
    ([2, 4.0], "found 4.0 in a list, needs whole numbers"),
    ([2, True], "found True in a list"),
    ([2, 2**31], "beyond 32 bits"),
    ([[1], [2, 3]], "lists of different lengths"),
    ("2", "group_ends: found str"),
    (np.array([2.0, 4.0]), "found f64, needs i32"),
], ids=str)  # fmt: skip
def test_what_are_no_ends_is_refused(ends, words):
    with pytest.raises(mxoracle.Error, match=words):
        mxoracle.grouped_matmul(X, np.ones((2, 8, 32), np.float32), ends, out="f32")


def plain(dtype, *shape):
    return np.ones(shape, dtype)


INTEGERS = [np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, bool]
FLOATS = {
    "encode": lambda x: mxoracle.encode(plain(x, 4, 32)),
    "quantize": lambda x: mxoracle.quantize(plain(x, 4, 32)),
    "quantize_given": lambda x: mxoracle.quantize(X, given=plain(x, 4, 1), rule="vllm", block="1xK"),
    "dequantize": lambda x: mxoracle.dequantize(CODES, plain(x, 4, 1), scale="f32"),
    "cast": lambda x: mxoracle.cast(plain(x, 4, 32)),
    "route": lambda x: mxoracle.route(plain(x, 4, 8), top_k=2),
    "swiglu": lambda x: mxoracle.swiglu(plain(x, 4, 64)),
    "swiglu_probs": lambda x: mxoracle.swiglu(plain(np.float32, 4, 64), plain(x, 4)),
    "swiglu_quantize": lambda x: mxoracle.swiglu_quantize(plain(x, 4, 64)),
    "grouped_matmul": lambda x: mxoracle.grouped_matmul(plain(x, 4, 32), plain(x, 1, 8, 32), [4]),
    "grouped_linear": lambda x: mxoracle.grouped_linear(plain(x, 4, 32), plain(x, 1, 32, 32), [4]),
    "dispatch": lambda x: mxoracle.dispatch([[[0], [1], [0], [1]]], plain(x, 4, 32), experts_=2,
                                            precision="bf16"),
    "column_sum": lambda x: mxoracle.column_sum(plain(x, 4, 32), [4]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda kind: np.dtype(kind).name)
@pytest.mark.parametrize("op", FLOATS)
def test_integers_are_not_floats(op, dtype):
    with pytest.raises(mxoracle.Error, match="found .*needs") as caught:
        FLOATS[op](dtype)
    assert caught.value.fault == "dtype", caught.value


def test_bits_that_say_they_are_bf16_are(random):
    x = random.standard_normal((4, 64)).astype(ml_dtypes.bfloat16)
    said = x.view(np.dtype("uint16", metadata={"mxo": "bf16"}))
    assert mxoracle.encode(said[::2]).tobytes() == mxoracle.encode(x[::2]).tobytes()
    with pytest.raises(mxoracle.Error, match="bits of bf16 are to be viewed"):
        mxoracle.encode(x.view(np.uint16))


def test_outputs_are_operands_without_ml_dtypes(tmp_path):
    program = """
        import numpy as np, mxoracle
        x = np.arange(64, dtype=np.float32).reshape(2, 32) - 20
        codes, scales = mxoracle.quantize(x, format="e5m2")
        wide = mxoracle.dequantize(codes, scales, format="e5m2")
        again, _ = mxoracle.quantize(wide[:, :], format="e5m2")
        assert (again == codes).all() and wide.dtype == np.uint16 and again.any()
        mxoracle.save("it.safetensors", {"codes": codes})
        assert mxoracle.load("it.safetensors")["codes"].dtype.metadata["mxo"] == "e5m2"
    """
    runs(program, tmp_path)


def test_outputs_are_operands_without_numpy(tmp_path):
    program = """
        import array, mxoracle
        x = memoryview(array.array("f", range(64))).cast("B").cast("f", [2, 32])
        wide = mxoracle.dequantize(*mxoracle.quantize(x))
        assert bytes(mxoracle.encode(wide)) == bytes(mxoracle.encode(mxoracle.cast(x, out="bf16")))
    """
    runs(program, tmp_path)


E8M0 = ml_dtypes.float8_e8m0fnu


@pytest.mark.parametrize("layout", ["blocked", "tiles_8x4"])
@pytest.mark.parametrize("dtype", [np.uint8, E8M0])
def test_swizzled_scales_are_of_the_type_given(random, dtype, layout):
    scales = random.integers(0, 256, (128, 8)).astype(np.uint8).view(dtype)
    blocked = mxoracle.swizzle_scales(scales, layout=layout)
    back = mxoracle.unswizzle_scales(blocked, layout=layout, rows=128, columns=8)
    assert blocked.dtype == back.dtype == dtype and back.tobytes() == scales.tobytes()


def test_swizzled_floats_are_no_scales():
    with pytest.raises(mxoracle.Error, match="blocked: found e4m3, needs u8 holding e8m0"):
        mxoracle.unswizzle_scales(np.zeros(512, ml_dtypes.float8_e4m3fn), rows=128, columns=4)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, E8M0,
                                   ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz, np.uint8])  # fmt: skip
def test_saved_types_stay(tmp_path, dtype):
    mxoracle.save(tmp_path / "x.safetensors", {"x": np.arange(64).astype(np.uint8).view(dtype)})
    kept = mxoracle.load(tmp_path / "x.safetensors")["x"]
    assert kept.dtype == dtype and kept.view(np.uint8).tolist() == list(range(64))
    safetensors = pytest.importorskip("safetensors")
    with safetensors.safe_open(tmp_path / "x.safetensors", "numpy") as file:
        assert file.get_slice("x").get_dtype() == SPELT[np.dtype(dtype).name]


SPELT = {"float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
         "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e8m0fnu": "F8_E8M0", "uint8": "U8"}  # fmt: skip


@pytest.mark.parametrize("call, words", [
    (lambda: mxoracle.decode(CODES.view(ml_dtypes.float8_e5m2)), "found e5m2, needs u8 holding e4m3"),
    (lambda: mxoracle.dequantize(CODES.view(ml_dtypes.float8_e5m2), CODES[:, :1]), "found e5m2"),
    (lambda: mxoracle.dequantize(CODES, CODES[:, :1].view(np.int8)), "scales: found i8, needs"),
    (lambda: mxoracle.dequantize(CODES.view(np.int8), CODES[:, :1]), "codes: found i8, needs"),
])  # fmt: skip
def test_codes_of_another_type_are_named(call, words):
    with pytest.raises(mxoracle.Error, match=words) as caught:
        call()
    assert caught.value.fault == "dtype"


def test_outputs_of_another_type_are_named(random):
    x = random.standard_normal((4, 64)).astype(np.float32)
    codes, scales = mxoracle.quantize(x)
    right = {"codes": codes.view(np.uint8), "scales": scales.view(np.uint8)}
    assert mxoracle.judge("quantize", {"x": x}, right)
    for name, wrong, said in (("codes", codes.view(ml_dtypes.float8_e5m2), "F8_E5M2 rather than F8_E4M3"),
                              ("scales", scales.view(np.int8), "I8 rather than F8_E8M0")):  # fmt: skip
        found = mxoracle.judge("quantize", {"x": x}, {**right, name: wrong})
        assert not found and said in str(found), found
