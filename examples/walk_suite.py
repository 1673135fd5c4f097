"""A kernel over a suite of `mxo generate SUITE --op` or `--model`, as tests.

SUITE=suite OUTPUTS=outputs pytest examples/walk_suite.py: what each case gives goes to `outputs` as digests and
failing rows, a few KB, for `mxo compare suite outputs` on another machine.
"""
import os
from pathlib import Path

import pytest

import mxoracle
import mxoracle.vectors


def my_kernel(op, parameters, inputs):
    """Outputs under their names; put a kernel here.  Codes and e8m0 scales are uint8."""
    return mxoracle.run(op, inputs, **parameters)


@pytest.fixture
def outputs(tmp_path):
    folder = os.environ.get("OUTPUTS", tmp_path)
    os.makedirs(folder, exist_ok=True)
    return folder


@pytest.mark.parametrize("case", mxoracle.vectors.cases(os.environ["SUITE"]), ids=str)
def test_my_kernel(case, outputs):
    path = Path(outputs, f"{case.id}.safetensors")
    path.unlink(missing_ok=True)  # of an earlier run, if the kernel fails
    found = my_kernel(case.op, case.parameters, case.inputs())
    differing = mxoracle.digests(case, found, path)
    assert differing == 0, f"{differing} regions differ: mxo compare {os.environ['SUITE']} {outputs}"
