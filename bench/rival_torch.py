"""Times torch's grouped products on one device at M K N E: CUDA events, warmed, median of seven."""
import sys

import torch

M, K, N, E = (int(a) for a in sys.argv[1:5]) if len(sys.argv) > 4 else (131072, 7168, 2048, 8)


def median_ms(work):
    times = []
    for i in range(8):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        if i > 0:
            times.append(start.elapsed_time(stop))
    return sorted(times)[len(times) // 2]


def row(name, work):
    try:
        ms = median_ms(work)
    except (RuntimeError, NotImplementedError) as error:
        print(f"{name:44s} not available: {str(error).splitlines()[0][:80]}")
        return
    print(f"{name:44s} {ms:9.3f} ms {2e-9 * M * K * N / ms:8.1f} TFLOP/s")


x = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
w = torch.randn(E, N, K, device="cuda", dtype=torch.bfloat16)
ends = torch.arange(1, E + 1, device="cuda", dtype=torch.int32) * (M // E)
x8 = (x * 100).to(torch.float8_e4m3fn)
w8 = (w * 100).to(torch.float8_e4m3fn)
sx = torch.ones(M, device="cuda")
sw = torch.ones(E, N, device="cuda")
for fast in (True, False):
    row(
        f"torch._scaled_grouped_mm row-wise, {'fast' if fast else 'promoted'}",
        lambda: torch._scaled_grouped_mm(
            x8,
            w8.transpose(-2, -1),
            sx,
            sw,
            offs=ends,
            out_dtype=torch.bfloat16,
            use_fast_accum=fast,
        ),
    )
row("torch._grouped_mm bf16", lambda: torch._grouped_mm(x, w.transpose(-2, -1), offs=ends))
