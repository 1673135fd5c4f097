"""Arrays that several tests use."""
import functools
import lzma
from pathlib import Path

import numpy
import pytest

import mxoracle

pytest_plugins = ["pytester"]


@pytest.fixture
def random():
    return numpy.random.default_rng(1)


@pytest.fixture(scope="session")
def capture(tmp_path_factory):
    """The tensors of a file of tests/data, what real software and a real GPU returned."""

    def read(name):
        packed = Path(__file__).parents[2] / "tests" / "data" / f"{name}.safetensors.xz"
        plain = tmp_path_factory.mktemp("data") / f"{name}.safetensors"
        plain.write_bytes(lzma.decompress(packed.read_bytes()))
        return mxoracle.load(plain)

    return functools.cache(read)


@pytest.fixture(autouse=True)
def what_fails_is_kept_elsewhere(request, tmp_path, monkeypatch):
    if "oracle" in request.fixturenames:
        monkeypatch.setattr(request.getfixturevalue("oracle"), "_artifacts", tmp_path)
