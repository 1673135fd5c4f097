"""Verdicts, causes, and the files that keep them."""
import json
import subprocess

import ml_dtypes
import numpy as np
import pytest

import mxoracle
from mxoracle._command import program


def test_equal_arrays_pass(random):
    x = random.standard_normal((4, 32)).astype(np.float32)
    assert mxoracle.compare(x, x.copy())


def test_one_changed_value_is_found_and_named(random):
    x = random.standard_normal((8, 64)).astype(np.float32)
    y = x.copy()
    y[3, 17] = np.nextafter(y[3, 17], np.float32(9))
    found = mxoracle.compare({"x": x}, {"x": y})
    assert not found and found.outputs[0]["differing"] == 1
    assert found.outputs[0]["first"][0][0] == (3, 17) and "[3, 17]: expected" in str(found)
    assert mxoracle.compare(x, y, gate="ulp=1") and not mxoracle.compare(x, y, gate="sqnr=400")


def test_missing_tensor_is_an_error():
    with pytest.raises(mxoracle.Error, match="found no b"):
        mxoracle.compare({"a": np.zeros(2), "b": np.zeros(2)}, {"a": np.zeros(2)})
    with pytest.raises(mxoracle.Error, match="a: found a list of 1, needs a list of 2"):
        mxoracle.compare({"a": [np.zeros(2), np.zeros(2)]}, {"a": [np.zeros(2)]})
    with pytest.raises(mxoracle.Error, match="a: found one array, needs a list of 1"):
        mxoracle.compare({"a": [np.zeros(2)]}, {"a": np.zeros(2)})


def test_a_tensor_with_two_names_is_an_error():
    twice = {"a": [np.zeros(2)], "rank0.a": np.zeros(2)}
    with pytest.raises(mxoracle.Error, match="rank0.a: found it twice"):
        mxoracle.compare(twice, {**twice, "rank0.a": np.ones(2)})


def test_another_shape_fails_with_a_reason():
    found = mxoracle.compare(np.zeros(4, np.float32), np.zeros(5, np.float32))
    assert not found and found.outputs[0]["reason"]


def test_judge_passes_what_the_library_gives(random):
    x = random.standard_normal((32, 64)).astype(np.float32)
    codes, scales = mxoracle.quantize(x)
    assert mxoracle.judge("quantize", {"x": x}, {"codes": codes, "scales": scales})
    half = mxoracle.judge("quantize", {"x": x}, {"codes": codes})
    assert half and str(half).endswith("not given, not compared: scales")


def test_judge_needs_known_outputs(random):
    x = random.standard_normal((32, 64)).astype(np.float32)
    with pytest.raises(mxoracle.Error, match="found no such output, needs one of codes, scales"):
        mxoracle.judge("quantize", {"x": x}, {"y": x})
    with pytest.raises(mxoracle.Error, match="found none"):
        mxoracle.judge("quantize", {"x": x}, {})


def test_explain_names_a_wrong_scale_mode(random):
    x = random.standard_normal((32, 64)).astype(np.float32)
    codes, scales = mxoracle.quantize(x, scale_mode="floor")
    found = mxoracle.explain("quantize", {"x": x}, {"codes": codes, "scales": scales})
    assert found.explained and "floor" in str(found).lower()


def test_explain_leaves_when_time_is_over(random):
    x = random.standard_normal((256, 1024)).astype(np.float32)
    codes = np.zeros((256, 1024), np.uint8)
    for budget in ({"work": 0}, {"seconds": 0.0}):
        assert mxoracle.explain("quantize", {"x": x}, {"codes": codes}, **budget) is None


def test_saved_files_are_those_of_the_command(random, tmp_path):
    x = random.standard_normal((32, 64)).astype(np.float32)
    codes, scales = mxoracle.quantize(x, format="e5m2")
    mxoracle.save(tmp_path / "x.safetensors", {"x": x})
    mxoracle.save(tmp_path / "mine.safetensors", {"codes": codes, "scales": scales})
    command = [program(), "run", "quantize", "--input", tmp_path / "x.safetensors", "--output",
               tmp_path / "ours.safetensors", "--set", "format=e5m2"]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    same = [program(), "compare", tmp_path / "ours.safetensors", tmp_path / "mine.safetensors"]
    assert subprocess.run([*same, "--json", "-"], capture_output=True).returncode == 0
    back = mxoracle.load(tmp_path / "ours.safetensors")
    assert back["codes"].dtype == ml_dtypes.float8_e5m2
    assert back["codes"].tobytes() == codes.tobytes()


def test_suite_cases_are_those_of_the_command(tmp_path):
    subprocess.run([program(), "--quiet", "generate", tmp_path / "s", "--suite", "quantize",
                    "--level", "0", "--seed", "7"], check=True)  # fmt: skip
    cases = mxoracle.suite_cases("quantize", level=0, seed=7)
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    assert [case.id for case in cases] == [item["id"] for item in manifest["cases"]]
    for case in cases[:20]:
        stored = mxoracle.load(tmp_path / "s" / "cases" / f"{case.id}.safetensors")
        mxoracle.save(tmp_path / "inputs.safetensors", case.inputs)  # of torch where it is loaded
        for name, value in mxoracle.load(tmp_path / "inputs.safetensors").items():
            kept = [array for key, array in stored.items() if key in (name, "input." + name)]
            assert kept and kept[0].tobytes() == value.tobytes()
