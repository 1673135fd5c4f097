"""pytest examples/walk_suite.py --suite SUITE: a kernel over a suite of `mxo generate --op` or `--model`.

With `--outputs DIR` what each case gives goes to DIR as digests and failing rows, for `mxo compare SUITE DIR`.
"""
import pytest

import mxoracle
import mxoracle.vectors


def my_kernel(op, parameters, inputs):
    """Outputs under their names; put a kernel here.  Codes and e8m0 scales are uint8."""
    found = mxoracle.run(op, **inputs, **parameters)
    return found if isinstance(found, dict) else {name: getattr(found, name) for name in found._fields}


def pytest_generate_tests(metafunc):
    suite = metafunc.config.getoption("--suite", default=None)
    metafunc.parametrize("case", mxoracle.vectors.cases(suite) if suite else [], ids=str)


def test_my_kernel(case, tmp_path, pytestconfig):
    outputs = pytestconfig.getoption("--outputs", default=None) or tmp_path
    found = my_kernel(case.op, case.parameters, case.inputs())
    differing = mxoracle.digests(case, found, f"{outputs}/{case.id}.safetensors")
    if differing:
        pytest.fail(f"{case.id}: {differing} regions differ: mxo compare SUITE {outputs}")
