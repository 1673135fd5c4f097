"""Arrays that several tests use."""
import numpy
import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def random():
    return numpy.random.default_rng(1)
