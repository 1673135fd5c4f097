#!/usr/bin/env python3
"""Writes tests/fuzz/corpus: a few right inputs of each fuzz target, small, from mxo's own files.

Usage: make_corpus.py MXO
"""
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tools"))
import safetensors as st  # noqa: E402

CORPUS = HERE / "corpus"
# Cases of level 0, the smallest of each operator.
CASES = ["quantize.one_block.f32.e4m3.rceil.torchao.k", "swizzle.blocked.one", "route.edges.softmax",
         "permute.padding_only.bf16", "unpermute.padding_only.bf16", "indices.two_ranks",
         "swiglu.edges.bf16.bf16.probs", "swiglu_backward.edges.bf16.bf16.probs", "decode.e4m3"]


def bf16(shape):
    count = 1
    for extent in shape:
        count *= extent
    words = [0x3F80 + (i * 37) % 128 - 256 * (i % 5) + 0x8000 * (i % 3 == 0) for i in range(count)]
    return "BF16", shape, struct.pack(f"<{count}H", *words)


def ends(*values):
    return "I32", [len(values)], struct.pack(f"<{len(values)}i", *values)


def ones(shape):  # e8m0
    count = 1
    for extent in shape:
        count *= extent
    return "U8", shape, bytes([127]) * count


def codes(shape):
    count = 1
    for extent in shape:
        count *= extent
    return "F8_E4M3", shape, bytes((i * 11) % 112 | 128 * (i % 2) for i in range(count))


CALLS = {
    "grouped_matmul": {"x": bf16([5, 16]), "w": bf16([2, 3, 16]), "group_ends": ends(2, 4)},
    "grouped_matmul_mx": {"x.codes": codes([3, 32]), "x.scales": ones([3, 1]),
                          "w.codes": codes([2, 3, 32]), "w.scales": ones([2, 3, 1]),
                          "group_ends": ends(1, 3)},
    "grouped_matmul_wgrad": {"dy": bf16([6, 3]), "x": bf16([6, 4]), "group_ends": ends(2, 6)},
    "pad_groups": {"x": bf16([5, 4]), "group_ends": ends(2, 5)},
    "column_sum": {"x": bf16([5, 4]), "group_ends": ends(2, 5)},
}


def put(target, name, data):
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    (CORPUS / target / name).write_bytes(data)


def called(mxo, folder, name, operands):
    """A case file: operands and outputs, and what was asked."""
    op = name.removesuffix("_mx")
    (folder / "in.safetensors").write_bytes(st.encode(operands))
    subprocess.run([mxo, "run", op, "--input", folder / "in.safetensors", "--output",
                    folder / "out.safetensors"], check=True, capture_output=True)
    outputs = st.decode((folder / "out.safetensors").read_bytes())
    outputs = {key: value for key, value in outputs.items() if key not in operands}
    put("case", name, st.encode({**operands, **outputs},
                                {"mxo.op": op, "mxo.outputs": ",".join(sorted(outputs))}))


def write_cases(mxo, folder):
    subprocess.run([mxo, "generate", folder / "suite", "--suite", "all", "--level", "0"],
                   check=True, capture_output=True)
    manifest = json.loads((folder / "suite/manifest.json").read_text())
    for name in CASES:
        shutil.copy(folder / f"suite/cases/{name}.safetensors", CORPUS / "case" / name)
    shutil.copy(CORPUS / "case" / CASES[0], CORPUS / "safetensors" / "quantized")
    manifest["cases"] = [c for c in manifest["cases"]
                         if c["id"] in (CASES[0], "poison.column_sum.nan")]
    put("manifest", "two_cases", json.dumps(manifest).encode())


def main():
    mxo = sys.argv[1]
    shutil.rmtree(CORPUS, ignore_errors=True)
    put("safetensors", "native", st.encode({"a": codes([2, 3]), "b": bf16([4]), "c": ends()},
                                           {"a.format": "e4m3"}))
    with tempfile.TemporaryDirectory() as folder:
        for name, operands in CALLS.items():
            called(mxo, Path(folder), name, operands)
        write_cases(mxo, Path(folder))
    put("npy", "f4", st.npy("<f4", (2, 3), bytes(24)))
    put("npy", "fortran", st.npy("<f2", (2, 2), bytes(range(8))).replace(b"False", b"True "))
    y = {"y": st.f32([3, 2], [float(i) for i in range(6)])}
    for kind in range(4):  # the first byte says which operands
        put("fingerprint", str(kind), bytes([kind]) + st.encode(y))
    for kind in range(3):  # 0: bytes are changed, 1: signed again, 2: not
        put("checkpoint", str(kind), bytes([kind, 5, 6, 7, 8, 1, 2]))


if __name__ == "__main__":
    main()
