"""The pytest plugin: what a failure says, and its options."""
import subprocess
from pathlib import Path

import pytest

from mxoracle._command import program

TEST = """
import numpy as np
import mxoracle

def kernel(x):
    return mxoracle.quantize(x, scale_mode="floor")

def test_my_quantizer(oracle):
    x = (np.arange(4 * 64, dtype=np.float32).reshape(4, 64) + 1) * 1.9
    codes, scales = kernel(x)
    oracle.assert_matches("quantize", {"x": x}, {"codes": codes, "scales": scales},
                          scale_mode="rceil")
"""

HEAD = """\
quantize(scale_mode=rceil) is not what the oracle gives on cpu
  x: float32 [4, 64]
codes e4m3 [4, 64]: FAIL, 128 of 256 elements differ (50 %)"""

DIFFERENCES = """\
  [0, 0]: expected 4F (7.5), found 57 (15)
  [0, 1]: expected 57 (15), found 5F (30)
  [0, 2]: expected 5B (22), found 63 (44)
"""


@pytest.fixture
def failing(pytester):
    pytester.makepyfile(test_it=TEST)
    return pytester


def message_of(result):
    text = result.stdout.str()
    return text[text.index("quantize(") : text.index("= short test summary")].rstrip("= \n")


def test_a_failure_says_what_where_and_why(failing):
    result = failing.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    text = message_of(result)
    lines = text.splitlines()
    assert text.startswith(HEAD)
    assert DIFFERENCES in text
    assert "  worst rows 0 (0 to 4): 128 of 256 differ" in text
    cause = [line for line in lines if line.startswith("cause: ")][0]
    assert cause in (Path(__file__).parents[2] / "README.md").read_text().splitlines()


def test_the_command_repeats_the_verdict(failing):
    text = message_of(failing.runpytest_subprocess("-p", "no:cacheprovider"))
    command = text[text.index("repeat: mxo ") + len("repeat: mxo ") :].split()
    done = subprocess.run([program(), *command], cwd=failing.path, capture_output=True, text=True)
    assert "floor" in done.stdout.lower(), done.stderr


def test_options_are_taken(failing):
    result = failing.runpytest_subprocess(
        "-p", "no:cacheprovider", "--mxo-backend", "reference", "--mxo-threads", "1",
        "--mxo-artifacts", "kept", "--mxo-html", "all.html", "--mxo-no-explain",
    )  # fmt: skip
    text = message_of(result)
    assert "on reference" in text and "cause:" not in text
    assert len(list((failing.path / "kept").rglob("*.safetensors"))) == 3
    assert "test_my_quantizer" in (failing.path / "all.html").read_text()


def test_a_match_passes_in_silence(pytester):
    pytester.makepyfile(test_it=TEST.replace('"floor"', '"rceil"'))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_suite_cases_are_parameters(pytester):
    pytester.makepyfile("""
        import pytest, mxoracle

        @pytest.mark.parametrize("case", mxoracle.suite_cases("quantize")[:5], ids=str)
        def test_case(oracle, case):
            oracle.assert_case(case, mxoracle.run(case.op, case.inputs, **case.parameters))
    """)
    result = pytester.runpytest_subprocess("-v", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=5)
