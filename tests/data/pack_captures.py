#!/usr/bin/env python3
"""Packs the captures of a GPU machine into what a checkout carries: tests/data/*.safetensors.xz.

Usage: pack_captures.py CAPTURE_FOLDER [OUTPUT_FOLDER].  Standard library only; the same input
gives the same bytes.  What is cut, and why, is in README.md beside this file.
"""
import hashlib
import json
import lzma
import struct
import sys
from pathlib import Path

SIZE = {"F32": 4, "I32": 4, "U32": 4, "BF16": 2, "U16": 2, "F16": 2, "U8": 1, "I64": 8,
        "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}
WHOLE = ["h200_conversions", "torch_casts", "ml_dtypes_casts", "mx_single_element_exhaustive",
         "mx_blocks", "layouts", "h200_matrix_unit"]
# Which literal and position bits the coder looks at: by the size of the elements within.
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": lc, "lp": lp, "pb": lp}
      for lc, lp in ((3, 0), (0, 2), (1, 1))]
GEMM_SIDE = 8      # of up to 20 sampled rows and columns a product
GROUP_ROWS = 32    # of each group of the two large grouped products
GROUP_COLUMNS = 64
LIBRARY_ROWS = 16  # of a block-wise product; of each group 8
LIBRARY_COLUMNS = {512: 256, 1024: 64, 7168: 32}  # by K
LIBRARY_GROUP_COLUMNS = {512: 144, 1024: 144, 2048: 32}

GATE_ROWS = {"f32": 64, "bf16": 256, "f16": 64}  # of 256; of bf16 every value
ROWS_OF_SUMS = 4   # of 16, of a softmax or a norm
QUANTISER_ELEMENTS = 14336  # of x, by the Triton quantiser


def read(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    body = data[8 + length:]
    return {name: (row["dtype"], row["shape"], body[slice(*row["data_offsets"])])
            for name, row in header.items()}, metadata


def container(tensors, metadata):
    """The bytes of a safetensors file: larger elements first, then by name."""
    order = sorted(tensors, key=lambda name: (-SIZE[tensors[name][0]], name))
    header, offset = ({"__metadata__": metadata} if metadata else {}), 0
    for name in order:
        dtype, shape, body = tensors[name]
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [offset, offset + len(body)]}
        offset += len(body)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(tensors[name][2] for name in order)


def compressed(data):
    return min((lzma.compress(data, lzma.FORMAT_XZ, lzma.CHECK_CRC64, filters=[f]) for f in XZ),
               key=len)


def rows_of(tensor, rows):
    """The given indices of the leading axis."""
    dtype, shape, body = tensor
    step = len(body) // shape[0]
    return dtype, [len(rows), *shape[1:]], b"".join(body[r * step:(r + 1) * step] for r in rows)


def columns_of(tensor, axis, count):
    """The first `count` indices of `axis`."""
    dtype, shape, body = tensor
    inner = SIZE[dtype]
    for extent in shape[axis + 1:]:
        inner *= extent
    step, kept = shape[axis] * inner, count * inner
    cut = b"".join(body[i:i + kept] for i in range(0, len(body), step))
    return dtype, [*shape[:axis], count, *shape[axis + 1:]], cut


def pack_gemm_samples(tensors):
    out = {}
    for name, tensor in tensors.items():
        tensor = rows_of(tensor, range(min(GEMM_SIDE, tensor[1][0])))
        if name.endswith(".y"):
            tensor = columns_of(tensor, 1, min(GEMM_SIDE, tensor[1][1]))
        out[name] = tensor
    return out


def pack_grouped(tensors):
    """The large products keep the first rows of each group and the first columns of N."""
    out = dict(tensors)
    for family in ("rowwise.1", "bf16.1"):
        groups = tensors[family + ".offs"][1][0]
        ends = struct.unpack(f"<{groups}i", tensors[family + ".offs"][2])
        rows = [r for start, end in zip((0, *ends), ends)
                for r in range(start, min(end, start + GROUP_ROWS))]
        kept = [sum(r < end for r in rows) for end in ends]
        out[family + ".offs"] = ("I32", [groups], struct.pack(f"<{groups}i", *kept))
        for name in tensors:
            dense = family == "rowwise.1" and name.startswith("dense.1.")
            if not name.startswith(family + ".") and not dense:
                continue
            leaf = name.rsplit(".", 1)[1]
            if leaf in ("x", "qx", "sx", "y"):
                out[name] = rows_of(out[name], rows)
            if leaf in ("w", "qw", "sw", "y"):
                out[name] = columns_of(out[name], 1, GROUP_COLUMNS)
    return out


def pack_libraries(tensors):
    """Block-wise products: the first rows, of each group where there are groups, and the first
    columns of N; scales of 128 columns stay with those that are left.  Only what products read."""
    out = {}
    for stem in (name[:-len(".x.codes")] for name in tensors if name.endswith(".x.codes")):
        grouped = stem.startswith("grouped.")
        k = tensors[stem + ".x.codes"][1][1]
        columns = (LIBRARY_GROUP_COLUMNS if grouped else LIBRARY_COLUMNS)[k]
        rows = list(range(LIBRARY_ROWS))
        if grouped:
            dtype, shape, body = tensors[stem + ".group_ends"]
            ends = struct.unpack(f"<{shape[0]}i", body)
            rows = [r for start, end in zip((0, *ends), ends)
                    for r in range(start, min(end, start + LIBRARY_ROWS // 2))]
            kept = [sum(r < end for r in rows) for end in ends]
            out[stem + ".group_ends"] = (dtype, shape, struct.pack(f"<{shape[0]}i", *kept))
        axis = 1 if grouped else 0
        for leaf in ("w.codes", "w.scales"):
            count = columns if leaf == "w.codes" else -(-columns // 128)
            out[f"{stem}.{leaf}"] = columns_of(tensors[f"{stem}.{leaf}"], axis, count)
        for name, tensor in tensors.items():
            leaf = name[len(stem) + 1:]
            if not name.startswith(stem + ".") or leaf[0] not in "xcdt" or leaf.startswith("tq."):
                continue
            if leaf in ("x.codes", "x.scales"):
                out[name] = rows_of(tensor, rows)
            elif leaf != "x":
                out[name] = columns_of(rows_of(tensor, rows), 1, columns)
    return out


def pack_quantiser(tensors):
    """The Triton quantiser of the same captures: the first rows of x, its codes and its scales."""
    out = {}
    for stem in (name[:-len(".tq.codes")] for name in tensors if name.endswith(".tq.codes")):
        rows = range(QUANTISER_ELEMENTS // tensors[stem + ".x"][1][1])
        for leaf in ("x", "tq.codes", "tq.scales"):
            out[f"{stem}.{leaf}"] = rows_of(tensors[f"{stem}.{leaf}"], list(rows))
    return out


def pack_triton_kernels(tensors):
    """The first rows; weights of a norm whole."""
    out = {}
    for name, tensor in tensors.items():
        kernel, dtype = name.split(".")[:2]
        rows = GATE_ROWS[dtype] if kernel == "silu_mul" else ROWS_OF_SUMS
        out[name] = tensor if name.endswith(".w") else rows_of(tensor, range(rows))
    return out


def pack_training(tensors):
    """Weights at the ends whole; in between, the SHA-256 of their bytes."""
    out, metadata = {}, {}
    for name, tensor in tensors.items():
        if name.split(".")[1] in ("w1", "w2") and name.endswith((".1", ".10")):
            metadata[name + ".sha256"] = hashlib.sha256(tensor[2]).hexdigest()
        else:
            out[name] = tensor
    return out, metadata


def demo_files(tensors, folder):
    """Plain files in the operand names and types of `quantize`, for the command line."""
    folder.mkdir(exist_ok=True)
    formats = {"float8_e4m3fn": ("e4m3", "F8_E4M3"), "float8_e5m2": ("e5m2", "F8_E5M2")}
    for distribution, dtype in (("normal", "bf16"), ("edges", "bf16"), ("special", "f32")):
        stem = f"{distribution}.{dtype}"
        container_type = {"bf16": "BF16", "f32": "F32"}[dtype]
        x = tensors[f"{stem}.x"]
        (folder / f"mx_blocks.{stem}.x.safetensors").write_bytes(
            container({"x": (container_type, x[1], x[2])}, {}))
        for mode in ("rceil", "floor"):
            for long_name, (short, code_type) in formats.items():
                key = f"{stem}.{mode}.{long_name}"
                codes, scales = tensors[key + ".elem"], tensors[key + ".scale"]
                (folder / f"mx_blocks.{stem}.{mode}.{short}.safetensors").write_bytes(container(
                    {"codes": (code_type, codes[1], codes[2]),
                     "scales": ("F8_E8M0", scales[1], scales[2])}, {}))


def main(source, target):
    for name in WHOLE + ["grouped", "gemm_samples", "training", "fp8_libraries",
                         "triton_kernels"]:
        tensors, metadata = read(source / f"{name}.safetensors")
        if name == "grouped":
            tensors = pack_grouped(tensors)
        elif name == "gemm_samples":
            tensors = pack_gemm_samples(tensors)
        elif name == "fp8_libraries":
            quantiser = compressed(container(pack_quantiser(tensors), {}))
            (target / "triton_quantiser.safetensors.xz").write_bytes(quantiser)
            tensors = pack_libraries(tensors)
        elif name == "triton_kernels":
            tensors = pack_triton_kernels(tensors)
        elif name == "training":
            tensors, metadata = pack_training(tensors)
        elif name == "mx_blocks":
            demo_files(tensors, target / "demo")
        data = compressed(container(tensors, metadata))
        (target / f"{name}.safetensors.xz").write_bytes(data)
        print(f"{len(data):9d}  {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parent))
