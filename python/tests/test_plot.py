"""Pictures hold the numbers of a comparison."""
import numpy as np
import pytest

import mxoracle

pytest.importorskip("matplotlib")
from mxoracle import plot  # noqa: E402


@pytest.fixture
def comparison():
    x = np.arange(64 * 96, dtype=np.float32).reshape(64, 96) + 1
    y = x.copy()
    y[40, 70:73] = np.nextafter(y[40, 70:73], np.float32(0))
    return mxoracle.compare({"y": x}, {"y": y})


def test_heat_map_shows_the_block_that_differs(comparison):
    image = plot.heat_map(comparison).images[0].get_array()
    assert image.shape == (2, 3) and image[1, 2] == 3 and image.sum() == 3


def test_histogram_counts_steps(comparison):
    heights = [bar.get_height() for bar in plot.error_histogram(comparison).patches]
    assert heights[:2] == [64 * 96 - 3, 3]


def test_equal_groups_reach_the_top(comparison):
    same = mxoracle.compare({"y": np.ones((2, 32), np.float32)}, {"y": np.ones((2, 32), np.float32)})
    assert plot.sqnr_by_group(same).patches[0].get_height() == 10
    assert plot.sqnr_by_group(comparison).patches[0].get_height() > 100


def test_unknown_output_is_refused(comparison):
    with pytest.raises(mxoracle.Error, match="needs one of y"):
        plot.heat_map(comparison, "z")


def test_curves_are_drawn_and_saved(tmp_path):
    axes = plot.loss_curves({"bf16": [3.0, 2.0], "mxfp8": [3.0, 2.5]})
    assert [line.get_label() for line in axes.lines] == ["bf16", "mxfp8"]
    plot.save(axes, tmp_path / "loss.svg")
    assert (tmp_path / "loss.svg").read_text().startswith("<?xml")


def test_folders_of_runs_are_read(tmp_path):
    (tmp_path / "bf16").mkdir()
    (tmp_path / "bf16" / "loss.csv").write_text("step,loss\n1,3.5\n2,3.25\n")
    assert plot.loss_curves(tmp_path).lines[0].get_ydata().tolist() == [3.5, 3.25]
    with pytest.raises(mxoracle.Error, match="found no .csv"):
        plot.loss_curves(tmp_path / "nothing")


def test_telemetry_is_drawn_by_operand(tmp_path):
    path = tmp_path / "telemetry.csv"
    rows = [f"{step},net,y,{operand},{expert},{sqnr},0.5" for step in (1, 11) for operand in "xw"
            for expert, sqnr in ((0, 31.5), (1, 29.0), (2, "inf"))]  # fmt: skip
    path.write_text("step,layer,product,operand,expert,sqnr,saturated\n" + "\n".join(rows))
    lines = plot.telemetry(path).get_lines()
    assert [line.get_label() for line in lines] == ["net y.x", "net y.w"]
    assert list(lines[0].get_xdata()) == [1, 11] and list(lines[0].get_ydata()) == [29.0, 29.0]
    assert list(plot.telemetry(path, "saturated").get_lines()[1].get_ydata()) == [0.5, 0.5]
    for value, words in (("loss", "found value 'loss'"), ("underflowed", "no column underflowed")):
        with pytest.raises(mxoracle.Error, match=words):
            plot.telemetry(path, value)
