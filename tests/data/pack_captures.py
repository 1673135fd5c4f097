"""A capture as a checkout carries it: the bytes of a safetensors file, compressed with xz.

For the scripts that record captures (tools/capture).  Standard library only; the same input gives
the same bytes.
"""
import json
import lzma
import struct

SIZE = {"F32": 4, "I32": 4, "U32": 4, "BF16": 2, "U16": 2, "F16": 2, "U8": 1, "I64": 8,
        "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1}
# Which literal and position bits the coder looks at: by the size of the elements within.
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": lc, "lp": lp, "pb": lp}
      for lc, lp in ((3, 0), (0, 2), (1, 1))]


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
