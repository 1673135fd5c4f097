"""Weights that are packed once: the bits of the weights themselves, whoever multiplies and how often."""
import threading

import mxoracle
import numpy as np
import pytest

ENDS = np.array([70, 70, 200], np.int32)
SIDES = {
    "mx": {"quantize": {"scale_mode": "rceil"}, "matmul": {}},
    "rowwise": {"quantize": {"scale_mode": "amax_f32", "block": "1xK"}, "matmul": {"sum__fold": "after"}},
    "blockwise": {"quantize": {"scale_mode": "amax_f32", "block": "1x128"}, "matmul": {}},
    "f32": None,
}


def operands(side: str, seed: int = 1):
    random = np.random.default_rng(seed)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((200, 768), (3, 96, 768)))
    if SIDES[side] is None:
        return x, w
    how = SIDES[side]["quantize"]
    return mxoracle.quantize(x, **how), mxoracle.quantize(w, **how)


def product(side: str, x, w, **kinds):
    how = {} if SIDES[side] is None else SIDES[side]["matmul"]
    return np.array(mxoracle.grouped_matmul(x, w, ENDS, **how, **kinds)).view(np.uint8)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("backend", ["cpu", "cpu:scalar", "reference"])
def test_products_have_the_bits_of_the_weights_themselves(side, backend):
    x, w = operands(side)
    kept = mxoracle.PreparedWeights(w)
    for sum_ in ("exact", "fma_chain"):
        for out in ("bf16", "f32"):
            expected = product(side, x, w, out=out, sum=sum_)
            for _ in range(2):
                found = product(side, x, kept, out=out, sum=sum_, backend=backend)
                assert np.array_equal(found, expected)
    assert (kept.packed_bytes > 0) == (backend != "reference")


def test_later_products_pack_nothing():
    x, w = operands("mx")
    kept = mxoracle.PreparedWeights(w)
    assert kept.packed_bytes == 0
    product("mx", x, kept)
    packed = kept.packed_bytes
    product("mx", mxoracle.quantize(np.ones((200, 768), np.float32)), kept, threads=1)
    assert kept.packed_bytes == packed > 0


def test_weights_changed_afterwards_change_nothing():
    x, (codes, scales) = operands("mx")
    codes, scales = np.array(codes), np.array(scales)
    kept = mxoracle.PreparedWeights((codes, scales))
    before = product("mx", x, kept)
    codes[...] = 0
    scales[...] = 0
    assert np.array_equal(product("mx", x, kept), before)
    other = mxoracle.PreparedWeights((codes, scales))
    assert not product("mx", x, other).any()


def test_weights_of_another_object_are_never_taken():
    x, w = operands("mx")
    for seed in range(2, 12):  # the memory of one freed before
        kept = mxoracle.PreparedWeights(operands("mx", seed)[1])
        expected = product("mx", x, operands("mx", seed)[1])
        assert np.array_equal(product("mx", x, kept), expected)
        del kept


def test_threads_multiply_at_once():
    x, w = operands("mx")
    expected = product("mx", x, w)
    kept = mxoracle.PreparedWeights(w)
    found = []
    threads = [threading.Thread(target=lambda: found.append(product("mx", x, kept))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(np.array_equal(one, expected) for one in found)


def test_what_is_no_weight_is_refused():
    with pytest.raises(mxoracle.Error, match="needs an array"):
        mxoracle.PreparedWeights("w")
    x, w = operands("mx")
    with pytest.raises(mxoracle.Error, match="w"):
        mxoracle.grouped_matmul(x, mxoracle.PreparedWeights(w[0]), ENDS)
    with pytest.raises(mxoracle.Error, match="K"):
        mxoracle.grouped_matmul(mxoracle.quantize(np.ones((200, 64), np.float32)), mxoracle.PreparedWeights(w), ENDS)
