"""Suites at a shape: operands made here are those of mxo, and digests stand for outputs."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mxoracle
import mxoracle.vectors

numpy = pytest.importorskip("numpy")
ROOT = Path(__file__).parents[2]
SUITE = ROOT / "tests/data/shapes"  # every kind of operand, every rule of groups
CASES = mxoracle.vectors.cases(SUITE)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_of_operands_made_here_have_the_digests(case, tmp_path):
    pytest.importorskip("ml_dtypes")
    found = mxoracle.run(case.op, case.inputs(), **case.parameters)
    assert mxoracle.digests(case, found, tmp_path / "report.safetensors") == 0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_torch_makes_the_bytes_of_numpy(case):
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    of_torch = case.inputs("cpu")
    for name, array in case.inputs().items():
        assert of_torch[name].view(torch.uint8).numpy().tobytes() == array.tobytes(), name


def test_a_region_that_differs_is_sent(tmp_path):
    case = next(case for case in CASES if case.op == "permute")
    pytest.importorskip("ml_dtypes")
    outputs = mxoracle.run(case.op, case.inputs(), **case.parameters)
    outputs["y"].view(numpy.uint16)[3, 5] ^= 1
    path = tmp_path / "permute.safetensors"
    assert mxoracle.digests(case, outputs, path) == 1
    assert mxoracle.load(path)["y.rows.0"].tobytes() == outputs["y"].tobytes()
    assert mxoracle.digests(case, outputs, path, most_bytes=0) == 1
    assert sorted(mxoracle.load(path)) == ["y.digests"]


@pytest.mark.parametrize(
    "outputs, says",
    [
        ({"y": numpy.zeros((2, 2), numpy.uint16)}, r"needs \[33, 16\]"),
        ({"y": numpy.zeros((33, 16), numpy.float32)}, "found f32, needs bf16 or u16"),
        ({}, "found no y, needs every output of permute"),
        ({"y": numpy.ma.zeros((33, 16), numpy.uint16)}, "found MaskedArray, needs a plain array"),
    ],
)
def test_other_outputs_are_refused_in_a_sentence(tmp_path, outputs, says):
    case = next(case for case in CASES if case.op == "permute")
    with pytest.raises(mxoracle.Error, match=says):
        mxoracle.digests(case, outputs, tmp_path / "x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: (d / "manifest.json").unlink(),
        lambda d: (d / "manifest.json").write_text("{"),
        lambda d: (d / "manifest.json").write_text("[1]"),
        lambda d: (d / "manifest.json").write_text(json.dumps({"schema": "mxo-shapes/1", "cases": [{}]})),
        lambda d: (d / "cases/permute.safetensors").write_bytes(b"1234"),
        lambda d: (d / "cases/permute.safetensors").unlink(),
    ],
)
def test_a_damaged_suite_is_an_error(tmp_path, damage):
    shutil.copytree(SUITE, tmp_path / "suite")
    damage(tmp_path / "suite")
    with pytest.raises(mxoracle.Error):
        mxoracle.vectors.cases(tmp_path / "suite")


def test_the_walker_of_the_examples_passes(tmp_path):
    pytest.importorskip("ml_dtypes")
    walk = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", ROOT / "examples/walk_suite.py"],
        check=False, capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "SUITE": str(SUITE), "OUTPUTS": str(tmp_path / "out")},
    )  # fmt: skip
    assert f"{len(CASES)} passed" in walk.stdout, walk.stdout
    assert len(list((tmp_path / "out").iterdir())) == len(CASES)
