"""Strategies find planted faults, and shrink them."""
import subprocess

import numpy as np
import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

import mxoracle
from mxoracle import strategies
from mxoracle._command import program

FIND = settings(max_examples=300, deadline=None, database=None, phases=[Phase.generate, Phase.shrink])


def judged(faulty, path):
    """The smallest tensor on which `faulty` is not quantize."""
    found = []

    @seed(1)
    @FIND
    @given(strategies.tensors())
    def hold(x):
        codes, scales = faulty(x)
        found.append(x)
        strategies.kept(path, "quantize", {"x": x}, {"codes": codes, "scales": scales})

    with pytest.raises(AssertionError, match="quantize is not what the oracle gives"):
        hold()
    return mxoracle.load(path)["x"]


def drops_negative_nan(x):
    bits = x.view(np.uint32).copy()
    bits[(bits & 0x7FFFFFFF) > 0x7F800000] = 0
    return mxoracle.quantize(bits.view(np.float32))


def flushes_subnormals(x):
    return mxoracle.quantize(np.where(np.abs(x) < 2.0**-126, np.float32(0), x))


def rounds_scales_down(x):
    return mxoracle.quantize(x, scale_mode="floor")


@pytest.mark.parametrize("faulty", [drops_negative_nan, flushes_subnormals, rounds_scales_down])
def test_a_planted_fault_is_found_and_shrunk(faulty, tmp_path):
    x = judged(faulty, tmp_path / "case.safetensors")
    assert x.shape == (1, 32)  # one block


def test_what_is_kept_is_explained(tmp_path):
    x = (np.arange(256, dtype=np.float32).reshape(4, 64) + 1) * 1.9
    codes, scales = mxoracle.quantize(x, scale_mode="floor")
    with pytest.raises(AssertionError, match="repeat: mxo explain") as failure:
        strategies.kept(tmp_path / "case.safetensors", "quantize", {"x": x},
                        {"codes": codes, "scales": scales}, scale_mode="rceil", threads=1)  # fmt: skip
    command = str(failure.value).split("repeat: mxo ")[1].split()
    done = subprocess.run([program(), *command], capture_output=True, text=True)
    assert "FLOOR rather than RCEIL" in done.stdout, done.stderr


def test_a_right_kernel_passes(tmp_path):
    @seed(2)
    @settings(max_examples=100, deadline=None, database=None)
    @given(strategies.tensors(poison=True))
    def hold(x):
        codes, scales = mxoracle.quantize(x, backend="reference")
        strategies.kept(tmp_path / "c.safetensors", "quantize", {"x": x}, {"codes": codes, "scales": scales})

    hold()
    assert not (tmp_path / "c.safetensors").exists()


def test_group_ends_are_valid_and_reach_the_edges():
    seen = set()

    @seed(3)
    @settings(max_examples=200, deadline=None, database=None)
    @given(st.data())
    def hold(data):
        ends = data.draw(strategies.group_ends(96, multiple=32)).tolist()
        assert ends == sorted(ends) and ends[-1] <= 96 and all(end % 32 == 0 for end in ends)
        sizes = np.diff([0, *ends])
        seen.update(["empty"] if 0 in sizes else [])
        seen.update(["all"] if ends[-1] == 96 else ["rest"])

    hold()
    assert seen == {"empty", "all", "rest"}


def test_whole_edge_blocks_come_up():
    seen = set()

    @seed(4)
    @settings(max_examples=100, deadline=None, database=None)
    @given(strategies.tensors(rows=1, columns=32))
    def hold(x):
        seen.add("zero" if not x.any() else "same" if (x == x[0, 0]).all() else "mixed")
        if np.isnan(x).any():
            seen.add("nan")

    hold()
    assert seen == {"zero", "same", "mixed", "nan"}
