"""What real software and a real GPU returned (tests/data/README.md), through Python."""
import itertools

import ml_dtypes
import numpy as np
import pytest

import mxoracle

WIDE = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}
DISTRIBUTIONS = ("normal", "edges", "outlier", "rowscale", "special")


def as_type(array, dtype):
    return np.ascontiguousarray(array).view(dtype)


def same(have, want, dtype):
    """Equal bits, a NaN being any NaN."""
    have, want = (as_type(part, dtype) for part in (have, want))
    nan = np.isnan(have.astype(np.float32)) & np.isnan(want.astype(np.float32))
    bits = have.view(np.uint8).reshape(nan.shape + (-1,)) == want.view(np.uint8).reshape(
        nan.shape + (-1,)
    )
    return bool((bits.all(-1) | nan).all())


@pytest.mark.parametrize("mode", ["rceil", "floor", "ceil", "even"])
@pytest.mark.parametrize("format", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_blocks_are_quantised_as_torchao_does(capture, mode, format):
    data = capture("mx_blocks")
    name = np.dtype(format).name
    for distribution, wide in itertools.product(DISTRIBUTIONS, WIDE):
        x = as_type(data[f"{distribution}.{wide}.x"], WIDE[wide])
        key = f"{distribution}.{wide}.{mode}.{name}."
        codes, scales = mxoracle.quantize(x, format=format, scale_mode=mode)
        assert same(scales, data[key + "scale"], ml_dtypes.float8_e8m0fnu), key
        assert same(codes, data[key + "elem"], format), key


@pytest.mark.parametrize("format", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
                                    "float8_e5m2fnuz"])  # fmt: skip
def test_every_code_is_decoded_as_torch_does(capture, format):
    want = capture("torch_casts")[f"torch.decode.{format}"]
    codes = np.arange(256, dtype=np.uint8)
    have = mxoracle.decode(codes, format=getattr(ml_dtypes, format))
    assert same(have, want, np.float32)


@pytest.mark.parametrize("case", ["0.rceil", "0.floor", "1.rceil", "1.floor", "2.rceil", "2.floor"])
def test_expert_layers_are_those_of_the_machine(capture, case):
    part = {key: value for key, value in capture("grouped").items() if key.startswith(case + ".")}
    x, w, dy = (as_type(part[f"{case}.{name}"], ml_dtypes.bfloat16) for name in ("x", "w", "go"))
    pad, high = part[f"{case}.cfg"].tolist()
    recipe = "mxfp8_" + case.split(".")[1] + ("_wgrad_with_hp" if high else "")
    ends = part[f"{case}.offs"]
    have = mxoracle.run(
        "grouped_linear", {"x": x, "w": w, "group_ends": ends, "dy": dy}, recipe=recipe,
        pad=bool(pad), sum="h200_wgmma_fast",
    )  # fmt: skip
    rows = int(ends[-1])
    for output in ("y", "dx", "dw"):
        owed = slice(None) if output == "dw" else slice(rows)
        want = part[f"{case}.{output}"]
        assert same(have[output][owed], want[owed], ml_dtypes.bfloat16), output
