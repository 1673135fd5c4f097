"""The smallest safetensors writer and reader, with nothing but the standard library."""
import json
import math
import random
import struct

BYTES = {"U8": 1, "BF16": 2, "U16": 2, "F16": 2, "F32": 4, "I32": 4, "F64": 8, "I64": 8}


def container(header: bytes, buffer: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + buffer


def encode(tensors: dict, metadata: dict | None = None) -> bytes:
    """`tensors`: name -> (dtype, shape, bytes)."""
    header, buffer = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in sorted(tensors.items()):
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(buffer), len(buffer) + len(data)]}
        buffer += data
    return container(json.dumps(header).encode(), buffer)


def decode(data: bytes) -> dict:
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    buffer = data[8 + length:]
    return {name: (entry["dtype"], entry["shape"], buffer[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def f32(shape: list, values: list) -> tuple:
    return ("F32", shape, struct.pack(f"<{len(values)}f", *values))


def normal_bf16(draw, shape: list, scale: float = 1.0) -> tuple:
    """Normal deviates of random.Random `draw`, cut to bf16."""
    values = [draw.gauss(0, scale) for _ in range(math.prod(shape))]
    return ("BF16", shape, b"".join(struct.pack("<f", v)[2:] for v in values))


def moe_layer(tokens: list, experts: int, width: int, hidden: int, shared: int = 0) -> dict:
    """Operands of moe_layer and gradients of its outputs; tokens[p] of them on rank p."""
    draw = random.Random(4)
    shapes = {"router": [experts, width], "w1": [experts, 2 * hidden, width], "w2": [experts, width, hidden]}
    if shared:
        shapes |= {"shared.w1": [2 * shared, width], "shared.w2": [width, shared]}
    for p, count in enumerate(tokens):
        shapes |= {f"rank{p}.x": [count, width], f"rank{p}.dy": [count, width]}
    return {name: normal_bf16(draw, shape, .3 if "w" in name else 1) for name, shape in shapes.items()}


def u8(shape: list, values) -> tuple:
    return ("U8", shape, bytes(values))


def npy(descr: str, shape: tuple, data: bytes) -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data
