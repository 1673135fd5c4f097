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
    assert "  worst rows 0 (0 to 3): 128 of 256 differ" in text
    cause = [line for line in lines if line.startswith("cause: ")][0]
    assert cause in (Path(__file__).parents[2] / "README.md").read_text().splitlines()


def test_a_failure_of_another_thread_fails_its_test(pytester):
    at = TEST.index("    oracle.assert")
    inside = TEST[at:].rstrip().replace("\n", "\n    ")
    text = f"{TEST[:at]}    def work():\n    {inside}\n    one = Thread(target=work)\n    one.start()\n    one.join()\n"
    pytester.makepyfile(test_it=f"from threading import Thread\n{text}\ndef test_other(oracle):\n    pass\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1, passed=1, warnings=1)
    assert message_of(result).startswith(HEAD)


@pytest.mark.parametrize("last", ["pass", "pytest.skip('later')"])
def test_an_error_of_another_thread_fails_its_test(pytester, last):
    pytester.makepyfile(f"""
        import pytest
        from concurrent.futures import ThreadPoolExecutor
        def test_empty(oracle):
            with ThreadPoolExecutor() as pool:
                pool.submit(oracle.assert_matches, "quantize", {{}}, {{}})
            {last}
    """)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*outputs: found none*"])


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


CLASH = """
import numpy as np, pytest

@pytest.mark.parametrize("a", ["a b", "a/b", "a:b", "l" * 300])
def test_clash(oracle, a):
    x = np.full((1, 32), 1.5, np.float32)
    oracle.assert_matches("quantize", {"x": x}, {"codes": np.zeros((1, 32), np.uint8)})
"""


def test_each_test_has_a_folder_of_its_own(pytester):
    pytester.makepyfile(test_it=CLASH)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    folders = [path.name for path in (pytester.path / "mxo-artifacts").iterdir()]
    assert len(folders) == 4 and max(map(len, folders)) <= 80
    assert f"{pytester.path}/mxo-artifacts" in result.stdout.str()


def test_workers_meet_in_one_page(pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(test_it=CLASH)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n2", "--mxo-html", "all.html")
    page = (pytester.path / "all.html").read_text()
    for name in ["a b", "a/b", "a:b"]:
        assert f"test_clash[{name}]" in page
    assert page.count("<html") == page.count("</html>") == 1


def test_outputs_are_not_kept_after_a_test(pytester):
    pytester.makepyfile(test_it="""
        import gc
        import numpy as np, pytest, mxoracle

        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

        before = []

        @pytest.mark.parametrize("i", range(16))
        def test_big(oracle, i):
            x = np.random.default_rng(i).standard_normal((2048, 2048)).astype(np.float32)
            codes, scales = mxoracle.quantize(x)
            oracle.assert_matches("quantize", {"x": x}, {"codes": codes, "scales": scales})
            gc.collect()
            before.append(resident())
            assert before[-1] < before[min(3, i)] + 48, before
    """)
    for html in [[], ["--mxo-html", "all.html"]]:
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *html)
        result.assert_outcomes(passed=16)


def test_given_takes_the_oracle(pytester):
    pytest.importorskip("hypothesis")
    pytester.makepyfile("""
        from hypothesis import given, settings
        import mxoracle
        from mxoracle import strategies

        @settings(max_examples=5, database=None, deadline=None)
        @given(x=strategies.tensors())
        def test_quantize(oracle, x):
            codes, scales = mxoracle.quantize(x)
            oracle.assert_matches("quantize", {"x": x}, {"codes": codes, "scales": scales})
    """)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
