"""Convolutions and their gradients are judged; a wrong element of any is found."""
import contextlib

import pytest

torch = pytest.importorskip("torch")
import mxoracle.torch as mxt  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

CONVOLUTIONS = {
    "one axis": lambda t: F.conv1d(t(2, 4, 20), t(6, 4, 3), t(6)),
    "stride, padding": lambda t: F.conv2d(t(2, 4, 10, 9), t(6, 4, 3, 2), t(6), stride=2, padding=1),
    "groups, dilation": lambda t: F.conv2d(t(2, 4, 10, 9), t(6, 2, 3, 3), t(6), (2, 1), (1, 0), (1, 2), 2),
    "a channel each": lambda t: F.conv2d(t(2, 4, 10, 9), t(4, 1, 3, 3), None, groups=4, padding="same"),
    "three axes": lambda t: F.conv3d(t(1, 2, 5, 6, 7), t(3, 2, 2, 3, 2), t(3), stride=2, padding=2),
    "no batch": lambda t: F.conv2d(t(4, 5, 6), t(6, 4, 1, 1), t(6)),
    "transposed": lambda t: F.conv_transpose1d(t(2, 4, 10), t(4, 3, 3), t(3), 2, 1, 1),
    "transposed groups": lambda t: F.conv_transpose2d(t(2, 4, 5, 6), t(4, 3, 3, 3), t(6), 3, 2, 1, 2, 2),
}


class OneValue(TorchDispatchMode):
    """A machine that gets one element of every convolution and of its gradients wrong."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__.startswith("convolution"):
            for part in out if isinstance(out, tuple) else (out,):
                if part is not None:
                    flat = part.view(-1)
                    flat[1] += torch.copysign(0.05 * part.abs().max(), flat[1])
        return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_each_convolution_and_gradient_is_judged(name, dtype):
    torch.manual_seed(1)
    for machine, verdicts in ((contextlib.nullcontext(), {"bits", "bound"}), (OneValue(), {"FAIL"})):
        with machine, mxt.Judge(explain_work=0) as judge:
            CONVOLUTIONS[name](lambda *shape: torch.randn(shape, dtype=dtype, requires_grad=True)).sum().backward()
        assert {row.verdict for row in judge.rows} <= verdicts, judge
        assert len(judge.rows) == (3 if name == "a channel each" else 4), judge


ONES = torch.eye(4) + 1
UNJUDGED = {
    "solve": lambda: torch.linalg.solve(ONES, ONES), "inverse": lambda: torch.linalg.inv(ONES),
    "cholesky": lambda: torch.linalg.cholesky(ONES), "least squares": lambda: torch.linalg.lstsq(ONES, ONES),
    "qr": lambda: torch.linalg.qr(ONES), "svd": lambda: torch.linalg.svd(ONES),
    "eigh": lambda: torch.linalg.eigh(ONES), "lu": lambda: torch.linalg.lu_factor(ONES),
    "triangular": lambda: torch.linalg.solve_triangular(ONES, ONES, upper=True),
    "exponential": lambda: torch.linalg.matrix_exp(ONES), "determinant": lambda: torch.linalg.det(ONES),
    "distances": lambda: torch.cdist(ONES, ONES), "pinv": lambda: torch.linalg.pinv(ONES),
    "attention backward": lambda: F.scaled_dot_product_attention(*[torch.randn(1, 1, 8, 16).requires_grad_()] * 3)
    .sum().backward(),
}  # fmt: skip


@pytest.mark.parametrize("name", UNJUDGED)
def test_products_without_a_rule_never_pass(name):
    with mxt.Judge() as judge:
        torch.mm(ONES, ONES)
        UNJUDGED[name]()
    assert judge.missed and not judge.failures and not judge.passed, judge
