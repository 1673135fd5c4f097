"""Arrays of any framework as (name, element type, address, extents, strides, device), and outputs
as arrays.

Nothing is imported here that the caller has not imported: a type is known by the names of its
bases, and a framework is looked up among the modules that are loaded.
"""
from __future__ import annotations

import contextlib
import sys

from mxoracle._errors import Error, Unsupported
from mxoracle._library import core

# What numpy, ml_dtypes and torch call our element types.
NAMES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3", "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2": "e5m2",
    "float8_e5m2fnuz": "e5m2fnuz", "float8_e8m0fnu": "e8m0",
    "float6_e2m3fn": "e2m3", "float6_e3m2fn": "e3m2", "float4_e2m1fn": "e2m1",
    "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "uint32": "u32",
    "int32": "i32", "uint64": "u64", "int64": "i64", "bool": "bool",
}  # fmt: skip
_FRAMEWORK_NAMES = {ours: theirs for theirs, ours in NAMES.items()}
# Where a framework has no type for an output: unsigned bits of the same size, which in numpy say
# what they are, `dtype.metadata["mxo"]`.
_BITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
_METADATA = "mxo"
HOST = -1  # where memory of the host lies; a GPU has its number
_LETTERS = {"f64": "d", "f32": "f", "f16": "e", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
            "u16": "H", "bf16": "H", "u32": "I", "u64": "Q"}  # fmt: skip


def _refuse(name: str, found: str, needs: str, fault: str = "dtype") -> Error:
    kind = Unsupported if fault == "unsupported" else Error
    return kind(f"{name}: found {found}, needs {needs}", fault)


def _packed(extents) -> tuple:
    strides, step = [], 1
    for extent in reversed(extents):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


# numpy, whose type numbers are one per type, those of ml_dtypes included.
_numpy_types: dict = {}


def _numpy_type(name: str, dtype) -> str:
    found = NAMES.get(dtype.name)
    if found is None:
        raise _refuse(name, f"numpy {dtype}", "a number type of numpy or ml_dtypes")
    _numpy_types[dtype.num] = found
    return found


def _said(name: str, dtype, ours: str) -> str:
    """What bits of numpy's say that they are."""
    said = dtype.metadata.get(_METADATA, ours)
    if said not in _FRAMEWORK_NAMES or core().size_of(said) != dtype.itemsize:
        raise _refuse(name, f"{dtype.name} that is said to be {said!r}", "a type of its size")
    return said


def _read_numpy(name: str, array):
    dtype = array.dtype
    if not dtype.isnative:
        raise _refuse(name, f"big-endian {dtype.name}", "the byte order of this machine")
    ours = _numpy_types.get(dtype.num) or _numpy_type(name, dtype)
    if dtype.metadata is not None:
        ours = _said(name, dtype, ours)
    interface = array.__array_interface__
    extents, strides = interface["shape"], interface["strides"]
    if strides is None:
        return (name, ours, interface["data"][0], extents, _packed(extents), HOST), array
    size = dtype.itemsize
    if any(step % size for step in strides) or not array.flags.aligned:
        return _read_numpy(name, array.copy())
    strides = [step // size for step in strides]
    return (name, ours, interface["data"][0], extents, strides, HOST), array


def _read_masked(name: str, array):
    raise _refuse(name, "a masked array", "a plain one: say what the masked elements are")


# torch
_torch_types: dict = {}


def _learn_torch_types() -> None:
    torch = sys.modules["torch"]
    for theirs, ours in NAMES.items():
        if hasattr(torch, theirs):
            _torch_types[getattr(torch, theirs)] = ours


def _read_torch(name: str, tensor):
    if not _torch_types:
        _learn_torch_types()
    device = HOST
    if tensor.device.type != "cpu":
        if tensor.device.type != "cuda":
            raise _refuse(name, f"a tensor on {tensor.device}", "one on the cpu; pass .cpu()",
                          "unsupported")
        device = tensor.device.index
    ours = _torch_types.get(tensor.dtype)
    if ours is None:
        raise _refuse(name, str(tensor.dtype), "one of " + ", ".join(_torch_types.values()))
    if str(tensor.layout) != "torch.strided" or tensor.is_nested:
        layout = "a nested tensor" if tensor.is_nested else str(tensor.layout)
        raise _refuse(name, layout, "a dense tensor with strides")
    if tensor.is_neg() or tensor.is_conj():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    try:
        address = tensor.data_ptr()
    except RuntimeError:
        address = 0
    extents = tuple(tensor.shape)
    if address == 0 and 0 not in extents:
        raise _refuse(name, f"a {type(tensor).__name__} without memory of its own",
                      "a tensor with data", "unsupported")
    return (name, ours, address, extents, tensor.stride(), device), tensor


def _refuse_torch(what: str, needs: str):
    def read(name: str, tensor):
        raise _refuse(name, what, needs, "unsupported")

    return read


_SUBCLASSES = {
    "FakeTensor": _refuse_torch("a fake tensor", "one with data"),
    "FunctionalTensor": _refuse_torch("a functional tensor", "one with data"),
    "DTensor": _refuse_torch("a DTensor", "its shard: x.to_local(), or x.full_tensor()"),
}


# Whatever speaks DLPack or the buffer protocol.
def _read_foreign(name: str, value):
    try:
        ours, address, extents, strides, keep = core().foreign(value)
    except TypeError:
        raise _refuse(name, type(value).__name__,
                      "an array: numpy, torch, DLPack or the buffer protocol") from None
    if isinstance(value, memoryview) and isinstance(value.obj, core().Memory):
        said = value.obj.dtype  # an output of ours, where no framework is loaded
        ours = said if core().size_of(said) == value.itemsize else ours
    return (name, ours, address, extents, strides, HOST), keep


class PreparedPart:
    """Codes or scales in memory of PreparedWeights."""

    def __init__(self, owner, dtype: str, address: int, extents) -> None:
        self.owner = owner
        self.view = (dtype, address, extents, _packed(extents), HOST)


def _read_prepared(name: str, part: PreparedPart):
    return (name, *part.view), part.owner


_readers: dict = {PreparedPart: _read_prepared}


def _reader_of(kind: type):
    for base in kind.__mro__:
        module, name = base.__module__, base.__name__
        if name in _SUBCLASSES and module.startswith("torch"):
            return _SUBCLASSES[name]
        if name == "MaskedArray" and module.startswith("numpy"):
            return _read_masked
        if name == "ndarray" and module == "numpy":
            return _read_numpy
        if name == "Tensor" and module == "torch":
            return _read_torch
    return _read_foreign


def read(name: str, value):
    """(name, element type, address, extents, strides in elements, device) of `value`, and what
    must be kept alive while the address is used."""
    kind = type(value)
    reader = _readers.get(kind)
    if reader is None:
        reader = _readers[kind] = _reader_of(kind)
    return reader(name, value)


def parts_of(value):
    """(codes, scales) of a scaled tensor: a pair of arrays, or torchao's MXTensor; else None.
    PreparedWeights are parts too, one of a plain tensor."""
    if isinstance(value, tuple):
        return value if len(value) == 2 else None
    if hasattr(value, "prepared_parts"):
        return value.prepared_parts
    if type(value).__name__ != "MXTensor":
        return None
    codes = value.qdata if hasattr(value, "qdata") else value._data
    scales = value.scale if hasattr(value, "scale") else value._scale_e8m0
    for swizzled in ("is_swizzled_scales", "_is_swizzled_scales"):
        if getattr(value, swizzled, False):
            raise _refuse("x", "an MXTensor with swizzled scales", "scales in rows", "unsupported")
    return codes, scales


def is_torch(value) -> bool:
    return _reader_of(type(value)) is _read_torch or type(value).__name__ == "MXTensor"


def _torch_kind(dtype: str):
    torch = sys.modules["torch"]
    kind = getattr(torch, _FRAMEWORK_NAMES[dtype], None)
    return getattr(torch, _BITS[core().size_of(dtype)]) if kind is None else kind


def zeros_on(device: int, dtype: str, extents):
    """A torch tensor on a GPU, for an output."""
    torch = sys.modules["torch"]
    bits = getattr(torch, _BITS[core().size_of(dtype)])
    return torch.zeros(extents, dtype=bits, device=f"cuda:{device}").view(_torch_kind(dtype))


@contextlib.contextmanager
def on_gpu(device: int):
    """Torch's current stream on this GPU; which GPU is current is afterwards as before."""
    cuda = sys.modules["torch"].cuda
    with cuda.device(device):
        yield cuda.current_stream(device)


def _write_torch(dtype: str, extents, memory):
    torch = sys.modules["torch"]
    kind = _torch_kind(dtype)
    if 0 in extents:
        return torch.empty(extents, dtype=kind)
    return torch.frombuffer(memory, dtype=kind).view(extents)


_numpy_kinds: dict = {}


def _write_numpy(dtype: str, extents, memory):
    kind = _numpy_kinds.get(dtype)
    numpy = sys.modules["numpy"]
    if kind is None:
        theirs = _FRAMEWORK_NAMES[dtype]
        if dtype == "bool":
            kind = numpy.dtype(bool)
        elif hasattr(numpy, theirs):
            kind = numpy.dtype(theirs)
        elif "ml_dtypes" in sys.modules:
            kind = numpy.dtype(getattr(sys.modules["ml_dtypes"], theirs))
        else:
            bits = numpy.dtype(_BITS[core().size_of(dtype)], metadata={_METADATA: dtype})
            return numpy.ndarray(extents, bits, memory)
        _numpy_kinds[dtype] = kind
    return numpy.ndarray(extents, kind, memory)


def _write_buffer(dtype: str, extents, memory):
    flat = memoryview(memory)
    letter = _LETTERS.get(dtype, "B")
    return flat if 0 in extents else flat.cast(letter, extents)


def writer(any_torch: bool):
    """How outputs are handed over: as torch tensors, numpy arrays or, where neither is loaded,
    memoryviews."""
    if any_torch:
        return _write_torch
    return _write_numpy if "numpy" in sys.modules else _write_buffer
