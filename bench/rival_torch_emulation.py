"""Times the MoE layer's six grouped products as PyTorch emulates MXFP8: to_mx by elementwise
operations, dequantised to bf16, one bf16 matmul a group.  Arguments: threads T D F E k."""
import sys
import time

import torch

THREADS, T, D, F, E, TOP_K = (
    (int(a) for a in sys.argv[1:7]) if len(sys.argv) > 6 else (2, 4096, 2048, 1408, 64, 6)
)
torch.set_num_threads(THREADS)
BLOCK = 32
E4M3_MAX = 448.0


def through_mxfp8(x):
    """x rounded to e4m3 codes and RCEIL e8m0 scales of 32 along the last axis, and back, in bf16."""
    blocks = x.float().unflatten(-1, (-1, BLOCK))
    descale = blocks.abs().amax(dim=-1, keepdim=True) / E4M3_MAX
    exponent = torch.ceil(torch.log2(descale)).clamp(-127, 127)
    scale = torch.where(descale > 0, torch.exp2(exponent), torch.full_like(exponent, 2.0**-127))
    codes = (blocks / scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return (codes.to(torch.bfloat16) * scale.to(torch.bfloat16)).flatten(-2)


def grouped(a, b):
    """y[g] = a[g] b[g]^T for g in groups."""
    return [x @ w.T for x, w in zip(a, b)]


def product(a, b):
    """Both operands quantised along the axis that is summed over, which is the last of both."""
    return grouped([through_mxfp8(x) for x in a], [through_mxfp8(w) for w in b])


def forward_and_backward(x, w, dy):
    """y = x w^T, dx = dy w, dw = dy^T x; x [g][m, K], w [g][N, K], dy [g][m, N]."""
    product(x, w)
    product(dy, [weight.T.contiguous() for weight in w])
    product([g.T.contiguous() for g in dy], [rows.T.contiguous() for rows in x])


def tensors(*shape):
    return [torch.randn(*shape, dtype=torch.bfloat16) for _ in range(E)]


rows = T * TOP_K // E // BLOCK * BLOCK
layer = [
    (tensors(rows, D), tensors(2 * F, D), tensors(rows, 2 * F)),
    (tensors(rows, F), tensors(D, F), tensors(rows, D)),
]
times = []
for _ in range(3):
    start = time.perf_counter()
    for x, w, dy in layer:
        forward_and_backward(x, w, dy)
    times.append(time.perf_counter() - start)
median = sorted(times)[1]
flops = 3 * 2 * E * rows * D * 3 * F
print(f"PyTorch emulation, {THREADS} threads: {median:.3f} s, {flops * 1e-9 / median:.1f} GFLOP/s")
