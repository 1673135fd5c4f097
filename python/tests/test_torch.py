"""Torch tensors in and out.  Skipped where torch is not installed (tools/python_check.sh)."""
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import mxoracle
from mxoracle import _arrays, _library
from mxoracle._operands import Operands

torch = pytest.importorskip("torch")


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layout", ["plain", "transposed", "strided", "expanded"])
def test_every_wide_type_and_layout_is_read(dtype, layout):
    x = torch.randn(64, 96).to(dtype)
    if layout == "transposed":
        x = x.T
    if layout == "strided":
        x = x[::2, ::3]
    if layout == "expanded":
        x = x[:1].expand(32, 96)
    codes = mxoracle.encode(x, format="e4m3")
    assert codes.dtype == torch.float8_e4m3fn and codes.shape == x.shape
    want = mxoracle.encode(x.float().contiguous().numpy(), format="e4m3")
    assert bits(codes) == want.tobytes()


@pytest.mark.parametrize(
    "dtype",
    [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz],
)
def test_every_code_is_decoded_as_torch_does(dtype):
    codes = torch.arange(256, dtype=torch.uint8).view(dtype)
    values = mxoracle.decode(codes, format=dtype)
    want = codes.float()
    assert ((values == want) | (values.isnan() & want.isnan())).all()


def test_group_ends_of_either_width_are_read():
    x = torch.randn(8, 32, dtype=torch.bfloat16)
    w = torch.randn(2, 4, 32, dtype=torch.bfloat16)
    product = PRODUCT(x, w, torch.tensor([3, 8], dtype=torch.int32))
    assert bits(product) == bits(PRODUCT(x, w, torch.tensor([3, 8])))


def PRODUCT(x, w, ends):
    return mxoracle.run("grouped_matmul", {"x": x, "w": w, "group_ends": ends})["y"]


def test_negated_and_conjugated_views_are_resolved():
    x = torch.view_as_complex(torch.randn(8, 32, 2)).conj().imag
    assert x.is_neg()
    assert bits(mxoracle.encode(x)) == bits(mxoracle.encode(x.clone()))


def test_tensors_that_want_gradients_are_read():
    x = torch.randn(4, 32, requires_grad=True)
    assert not mxoracle.encode(x).requires_grad


def test_outputs_are_writable_tensors():
    codes, scales = mxoracle.quantize(torch.randn(4, 64))
    assert scales.dtype == torch.float8_e8m0fnu
    codes.view(torch.uint8).fill_(0)
    assert codes.float().abs().sum() == 0


def test_one_torch_operand_makes_torch_outputs():
    codes, scales = mxoracle.quantize(np.ones((2, 32), np.float32))
    assert isinstance(mxoracle.dequantize(torch.from_numpy(codes.view(np.uint8)), scales), torch.Tensor)


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(4, 32)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: torch.empty(4, 32, device="meta"), "on meta"),
        (lambda: torch.eye(4).to_sparse(), "sparse_coo"),
        (fake, "a fake tensor"),
        (lambda: torch.zeros(4, dtype=torch.complex64), "complex64"),
        (lambda: torch.nested.nested_tensor([torch.ones(3), torch.ones(2)]), "nested"),
    ],
    ids=["meta", "sparse", "fake", "complex", "nested"],
)
def test_tensors_without_bytes_are_refused(make, words):
    with pytest.raises(mxoracle.Error, match=words):
        mxoracle.encode(make())


def test_tensors_whose_storage_is_gone_are_refused():
    x = torch.zeros(32)
    x.untyped_storage().resize_(0)
    with pytest.raises(mxoracle.Error, match="without memory"):
        mxoracle.encode(x)


@pytest.mark.parametrize("layout", ["plain", "transposed", "strided"])
def test_operands_are_read_where_they_lie(layout):
    x = torch.randn(64, 96)
    x = {"plain": x, "transposed": x.T, "strided": x[::2, ::3]}[layout]
    view, kept = _arrays.read("x", x)
    assert view[2] == x.data_ptr() and kept is x and tuple(view[4]) == x.stride()


def runs(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("first", ["torch", "mxoracle"])
def test_import_order_does_not_matter(first):
    second = {"torch": "mxoracle", "mxoracle": "torch"}[first]
    assert runs(f"""
        import {first}
        import {second}
        x = torch.randn(256, 256) @ torch.randn(256, 256)
        print(mxoracle.quantize(x)[0].shape[0], (x @ x).shape[0])
    """) == "256 256"  # fmt: skip


def test_flush_denormal_changes_no_bits_and_stays():
    assert runs("""
        import torch, mxoracle
        scales = torch.zeros(256, 8, dtype=torch.uint8)  # 2^-127, a subnormal
        codes = torch.full((256, 256), 0x38, dtype=torch.uint8)
        ask = lambda: mxoracle.dequantize(codes, scales, out="f32", threads=2).view(torch.int32)
        before = ask()
        torch.set_flush_denormal(True)
        after = ask()
        print(torch.equal(before, after), int(before[0, 0]) == 1 << 22,
              float(torch.tensor([1e-39]) * 1) == 0.0)
    """) == "True True True"


def test_forked_child_of_a_torch_process_answers():
    # The child keeps away from torch's own parallel loops, which wait for the parent's threads.
    assert runs("""
        import os, torch, mxoracle
        x = torch.randn(512, 512)
        x @ x
        ask = lambda: mxoracle.quantize(x)[0].view(torch.uint8).numpy().tobytes()
        want = ask()
        child = os.fork()
        if child == 0:
            os._exit(0 if ask() == want else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """) == "0"


def test_threads_are_those_that_torch_has_now():
    before = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            assert _library.engine().threads == count
            assert _library.engine(threads=3).threads == 3
    finally:
        torch.set_num_threads(before)


def test_copies_for_the_host_live_as_long_as_their_operands(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "cpu", torch.Tensor.clone)
    x, operands = torch.ones(4), Operands()
    operands.add("x", x)
    operands.views[0], operands.devices = (*operands.views[0][:5], 0), {0}  # as if on a GPU
    views = operands.on_host().views
    assert not operands.devices and views[0][2] == operands.kept[0].data_ptr() != x.data_ptr()
    assert views[0][5] == -1
