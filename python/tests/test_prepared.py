"""Weights that are packed once: the bits of the weights themselves, how often they are used."""
import threading

import mxoracle
import numpy as np
import pytest

ENDS = np.array([70, 70, 200], np.int32)
# How both sides are quantised.
SIDES = {
    "mx": {"scale_mode": "rceil"}, "rowwise": {"block": "1xK"}, "blockwise": {"block": "1x128"},
    "f32": None,
}  # fmt: skip


def operands(side: str, seed: int = 1):
    random = np.random.default_rng(seed)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((200, 256), (3, 96, 256)))
    how = SIDES[side]
    return (x, w) if how is None else (mxoracle.quantize(x, **how), mxoracle.quantize(w, **how))


def product(x, w, **kinds):
    return np.array(mxoracle.grouped_matmul(x, w, ENDS, **kinds)).view(np.uint8)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("backend", ["cpu", "cpu:scalar", "reference"])
def test_products_have_the_bits_of_the_weights_themselves(side, backend):
    x, w = operands(side)
    kept = mxoracle.PreparedWeights(w)
    for sum_ in ("exact", "fma_chain"):
        for out in ("bf16", "f32"):
            expected = product(x, w, out=out, sum=sum_)
            for _ in range(2):
                found = product(x, kept, out=out, sum=sum_, backend=backend)
                assert np.array_equal(found, expected)
    assert (kept.packed_bytes > 0) == (backend != "reference" and side != "f32")


def test_later_products_pack_nothing():
    x, w = operands("mx")
    kept = mxoracle.PreparedWeights(w)
    assert kept.packed_bytes == 0
    product(x, kept)
    packed = kept.packed_bytes
    product(mxoracle.quantize(np.ones((200, 256), np.float32)), kept, threads=1)
    assert kept.packed_bytes == packed > 0


def test_weights_changed_afterwards_change_nothing():
    x, (codes, scales) = operands("mx")
    codes, scales = np.array(codes), np.array(scales)
    kept = mxoracle.PreparedWeights((codes, scales))
    before = product(x, kept)
    codes[...] = 0
    assert np.array_equal(product(x, kept), before)
    other = mxoracle.PreparedWeights((codes, scales))
    assert not product(x, other).any()


def test_weights_of_another_object_are_never_taken():
    x, w = operands("mx")
    for seed in range(2, 12):  # the memory of one freed before
        kept = mxoracle.PreparedWeights(operands("mx", seed)[1])
        expected = product(x, operands("mx", seed)[1])
        assert np.array_equal(product(x, kept), expected)
        del kept


def test_threads_multiply_at_once():
    x, w = operands("mx")
    expected = product(x, w)
    kept = mxoracle.PreparedWeights(w)
    found = []
    threads = [threading.Thread(target=lambda: found.append(product(x, kept))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(np.array_equal(one, expected) for one in found)


def test_what_is_no_weight_is_refused():
    x, w = operands("mx")
    with pytest.raises(mxoracle.Error, match="needs an array"):
        mxoracle.PreparedWeights("w")
    with pytest.raises(mxoracle.Error, match="w.scales: found none"):
        mxoracle.grouped_matmul(x, mxoracle.PreparedWeights(w[0]), ENDS)
    x = mxoracle.quantize(np.ones((200, 64), np.float32))
    with pytest.raises(mxoracle.Error, match="w.codes: found"):
        mxoracle.grouped_matmul(x, mxoracle.PreparedWeights(w), ENDS)
