"""What torch and torchao take for the rows of `mxo bench`, which runs this.

Arguments: cpu or cuda, threads, repeats, a JSON list of questions.  Prints one JSON object: "rows", in the
order of the questions seconds by rival, and "note".  A rival that is not installed, or fails, is not in a row.
"""
import json
import sys
import time

DEVICE, THREADS, REPEATS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
QUESTIONS = json.loads(sys.argv[4])

try:
    import torch
except ImportError:
    print(json.dumps({"rows": [{} for _ in QUESTIONS], "note": "python has no torch"}))
    sys.exit()
try:
    import torchao.prototype.moe_training as moe_training
    from torchao.prototype.mx_formats.mx_tensor import ScaleCalculationMode, to_mx
    from torchao.quantization.quantize_.common import KernelPreference
except ImportError:
    moe_training = None

torch.set_num_threads(THREADS)


def normal(*shape, grad=False):
    return torch.randn(*shape, dtype=torch.bfloat16, device=DEVICE).requires_grad_(grad)


def even_ends(rows, groups):
    return [rows * (g + 1) // groups // 32 * 32 for g in range(groups - 1)] + [rows]


def seconds(work):
    times = []
    for round in range(REPEATS + 1):  # the first warms up
        start = time.perf_counter()
        work()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        if round > 0:
            times.append(time.perf_counter() - start)
    return times


def copy(bytes):
    x = torch.empty(bytes // 2, dtype=torch.uint8, device=DEVICE)
    y = torch.empty_like(x)
    return {"torch": lambda: y.copy_(x)}


def pad(rows, dim, ends, alignment):
    x = normal(rows, dim)
    sizes = [end - start for start, end in zip([0, *ends], ends)]

    def padded():
        parts = x.split(sizes)
        more = [-size % alignment for size in sizes]
        return torch.cat([torch.nn.functional.pad(p, (0, 0, 0, m)) for p, m in zip(parts, more)])

    return {"torch": padded}


def quantize(rows, columns, transposed):
    if moe_training is None:
        return {}
    x = normal(rows, columns)

    def cast():
        source = x.t().contiguous() if transposed else x
        return to_mx(source, torch.float8_e4m3fn, 32, ScaleCalculationMode.RCEIL)

    return {"torchao": cast}


def product(rows, n, k, groups):
    """Forward in bf16, a group after the other on a CPU."""
    x, w = normal(rows, k), normal(groups, n, k)
    return {"torch": lambda: grouped(x, w.transpose(-2, -1), even_ends(rows, groups))}


def grouped(x, w, ends):
    if DEVICE == "cuda":
        offsets = torch.tensor(ends, dtype=torch.int32, device=DEVICE)
        return torch._grouped_mm(x, w, offs=offsets)
    return torch.cat([x[a:b] @ w[g] for g, (a, b) in enumerate(zip([0, *ends], ends))])


def linear(rows, n, k, groups):
    """Forward and backward: bf16, and torchao's MXFP8 (emulated on a CPU)."""
    x, w, dy = normal(rows, k, grad=True), normal(groups, n, k, grad=True), normal(rows, n)
    ends = even_ends(rows, groups)

    def step(call):
        call().backward(dy)
        x.grad = w.grad = None

    def scaled():
        options = {"kernel_preference": KernelPreference.EMULATED} if DEVICE == "cpu" else {}
        offsets = torch.tensor(ends, dtype=torch.int32, device=DEVICE)
        return moe_training._to_mxfp8_then_scaled_grouped_mm(
            x, w.transpose(-2, -1), offs=offsets, **options
        )

    works = {"torch": lambda: step(lambda: grouped(x, w.transpose(-2, -1), ends))}
    if moe_training is not None:
        works["torchao"] = lambda: step(scaled)
    return works


KINDS = {f.__name__: f for f in (copy, pad, quantize, product, linear)}
failed = set()


def row(question):
    kind = question.pop("kind", None)
    times = {}
    for rival, work in (KINDS[kind](**question) if kind else {}).items():
        try:
            times[rival] = seconds(work)
        except Exception as error:  # whatever a library says: our table goes on without it
            failed.add(f"{rival} {kind}: {str(error).splitlines()[0][:80]}")
    return times


rows = [row(question) for question in QUESTIONS]
versions = f"torch {torch.__version__}" + (", torchao" if moe_training else ", no torchao")
print(json.dumps({"rows": rows, "note": "; ".join([versions, *sorted(failed)])}))
