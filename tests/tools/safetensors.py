"""The smallest safetensors writer and reader, with nothing but the standard library."""
import json
import math
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


def u8(shape: list, values) -> tuple:
    return ("U8", shape, bytes(values))


def npy(descr: str, shape: tuple, data: bytes) -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data
