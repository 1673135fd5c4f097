"""Inputs by seed, name and index: numpy and torch give the bits of the C++ header."""
import subprocess
from pathlib import Path

import pytest

import mxoracle
from mxoracle import inputs

numpy = pytest.importorskip("numpy")
ROOT = Path(__file__).parents[2]

PROGRAM = """
#include <cstdio>
#include "formats/inputs.h"
int main() {
  using namespace mxo::inputs;
  for (int d = 0; d < 7; ++d)
    for (unsigned long i = 0; i < 6000; ++i)
      std::printf("%08x\\n", mxo::bit_cast<std::uint32_t>(element(
          static_cast<Distribution>(d), 0xFEDCBA9876543210ull, stream_of("w.codes"),
          i + (i < 3000 ? 0 : 4294966000ull), 48)));
}
"""


@pytest.fixture(scope="module")
def of_the_header(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "print.cc").write_text(PROGRAM)
    made = subprocess.run(
        ["c++", "-std=c++20", f"-I{ROOT}", "print.cc", "-o", "print"], cwd=folder, check=False,
        capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("no C++20 compiler here")
    text = subprocess.run([folder / "print"], check=True, capture_output=True, text=True).stdout
    return numpy.array([int(line, 16) for line in text.split()], numpy.uint32).reshape(7, 6000)


def made(device, of):
    xp = inputs._Numpy() if device is None else inputs._Torch(device)
    stream, seed = inputs.stream_of("w.codes"), 0xFEDCBA9876543210
    far = 4294966000 + 3000
    parts = [
        inputs._values(xp, of, seed, stream, begin, begin + 3000, 48) for begin in (0, far)
    ]
    return numpy.concatenate([numpy.asarray(part, numpy.float32) for part in parts])


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("number, of", list(enumerate(inputs.DISTRIBUTIONS)))
def test_every_bit_is_that_of_the_header(of_the_header, device, number, of):
    if device:
        pytest.importorskip("torch")
    assert (made(device, of).view(numpy.uint32) == of_the_header[number]).all()


def test_a_tensor_is_made_in_parts(monkeypatch):
    whole = inputs.tensor("x", (37, 96), seed=5, distribution="special")
    monkeypatch.setattr(inputs, "_CHUNK", 100)
    parts = inputs.tensor("x", (37, 96), seed=5, distribution="special")
    assert (whole.view(numpy.uint32) == parts.view(numpy.uint32)).all()


def test_narrow_types_are_rounded_once():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    wide = inputs.tensor("x", (64, 64), seed=1)
    narrow = inputs.tensor("x", (64, 64), seed=1, dtype="bfloat16")
    assert (narrow == wide.astype(ml_dtypes.bfloat16)).all()


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"distribution": "norml"}, "needs one of normal"),
        ({"seed": -1}, "seed: found -1, needs a whole number from 0 to"),
        ({"shape": (2, -1)}, "at least 0"),
    ],
)
def test_wrong_arguments_are_one_sentence(wrong, says):
    arguments = {"shape": (2, 2), **wrong}
    with pytest.raises(mxoracle.Error, match=says):
        inputs.tensor("x", arguments.pop("shape"), **arguments)
