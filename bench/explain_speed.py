"""What mxo explain takes: faults planted in a product and in a quantised tensor, timed one by one.

    python3 bench/explain_speed.py build/release/mxo DIR [NAME...]

Needs numpy and 700 MB in DIR.  Prints wall and processor seconds of the whole process, its largest
resident set beside three times the bytes of the files it was given, and what it said.
"""
import json
import os
import struct
import subprocess
import sys
import time

import numpy as np

M, N, K, GROUPS = 4096, 2048, 7168, 4
MXO, DIR = sys.argv[1], sys.argv[2]
rng = np.random.default_rng(1)


def path(name):
    return os.path.join(DIR, name)


def save(name, tensors):
    header, buffers, at = {}, [], 0
    for key, (dtype, array) in sorted(tensors.items()):
        data = np.ascontiguousarray(array).tobytes()
        header[key] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(data)]}
        buffers.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    with open(path(name), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(buffers))


def load(name, key, dtype):
    with open(path(name), "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + length])[key]
    begin, end = (8 + length + at for at in entry["data_offsets"])
    return np.frombuffer(data[begin:end], dtype).reshape(entry["shape"]).copy()


def run(op, source, target, *settings):
    sets = [word for setting in settings for word in ("--set", setting)]
    subprocess.run([MXO, "--quiet", "run", op, "--input", path(source), "--output", path(target), *sets],
                   check=True, stdout=subprocess.DEVNULL)


def normal(*shape):
    bits = rng.standard_normal(shape, dtype=np.float32).view(np.uint32)
    return ("BF16", (bits >> 16).astype(np.uint16))


def quantised(name):
    return ("U8", load(name, "codes", np.uint8)), ("U8", load(name, "scales", np.uint8))


def plant_product():
    save("w.in", {"x": normal(GROUPS * N, K)})
    run("quantize", "w.in", "w.out")
    x, sx = quantised("q.out")
    w, sw = quantised("w.out")
    ends = np.array([1000, 2048, 3000, M], np.int32)
    call = {"x.codes": x, "x.scales": sx, "w.codes": ("U8", w[1].reshape(GROUPS, N, K)),
            "w.scales": ("U8", sw[1].reshape(GROUPS, N, K // 32)), "group_ends": ("I32", ends)}
    save("p.in", call)
    run("grouped_matmul", "p.in", "p.right")
    y = load("p.right", "y", np.uint16)

    def with_scales(name, scales):
        save("p.wrong", {**call, "x.scales": ("U8", scales)})
        run("grouped_matmul", "p.wrong", name)

    block = sx[1].copy()
    block[:, 5] = block[:, 4]
    with_scales("p_block", block)
    with_scales("p_rolled", np.roll(sx[1], 1, axis=1))
    run("grouped_matmul", "p.in", "p_sum", "sum=h200_wgmma_fast")
    rows = y.copy()
    rows[1000:2048] = np.roll(rows[1000:2048], 1, axis=0)
    save("p_rows", {"y": ("BF16", rows)})
    noise = y.copy()
    hit = rng.random(y.shape) < 0.1
    noise[hit] += rng.integers(1, 200, hit.sum()).astype(np.uint16)
    save("p_random", {"y": ("BF16", noise)})
    row = y.copy()
    row[1500] = rng.integers(0, 30000, N)
    save("p_one_row", {"y": ("BF16", row)})


def plant_quantised():
    save("q.in", {"x": normal(M, K)})
    run("quantize", "q.in", "q.out")
    run("quantize", "q.in", "q_floor", "scale_mode=floor")
    codes, scales = quantised("q.out")
    noise = codes[1].copy()
    hit = rng.random(noise.shape) < 0.1
    noise[hit] = rng.integers(0, 126, hit.sum())
    save("q_random", {"codes": ("U8", noise), "scales": scales})
    save("q_rolled", {"codes": codes, "scales": ("U8", np.roll(scales[1], 1, axis=1))})
    rows = codes[1].copy()
    rows[100:200] = np.roll(rows[100:200], 1, axis=0)
    save("q_rows", {"codes": ("U8", rows), "scales": scales})


def explain(name):
    op, source = ("grouped_matmul", "p.in") if name[0] == "p" else ("quantize", "q.in")
    before = time.monotonic()
    process = subprocess.Popen([MXO, "--quiet", "explain", "--op", op, path(source), path(name)],
                               stdout=subprocess.PIPE, text=True)
    said = process.stdout.read().strip()
    _, _, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - before
    given = 3 * (os.path.getsize(path(source)) + os.path.getsize(path(name))) // 1024
    print(f"{name}: {wall:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of processors, "
          f"{used.ru_maxrss} KB of {given}: {said[:100]}", flush=True)


if __name__ == "__main__":
    os.makedirs(DIR, exist_ok=True)
    if sys.argv[3:] == ["--plant"]:
        plant_quantised()
        plant_product()
        sys.exit()
    if not os.path.exists(path("p_one_row")):
        # A process of its own: the resident set of a child begins as that of its parent.
        subprocess.run([sys.executable, __file__, MXO, DIR, "--plant"], check=True)
    for case in sys.argv[3:] or sorted(f for f in os.listdir(DIR) if f[:2] in ("p_", "q_")):
        explain(case)
