"""torchao's own tests on a machine without a GPU, with the library in the place of its kernels.

    git clone https://github.com/pytorch/ao && cd ao && git checkout 36027d8
    PYTHONPATH=.:$MXORACLE/tools/torchao_on_cpu python -m pytest test/prototype/mx_formats/test_kernels.py

Python imports this file when it starts, in spawned processes too.  A GPU of compute capability 10 is
there as far as torchao asks, not torch itself; what is to be made on it is made on the CPU, nccl is
gloo, and what is compiled is traced and run without Inductor, whose C++ of torch 2.11 has no e8m0.
"""
import os
import sys

os.environ.setdefault("TRITON_INTERPRET", "1")  # of Triton functions that a test itself has

import torch  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402


def on_cpu(value):
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.split(":")[0] == "cuda" else value


class OnCpu(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.cuda:
            return args[0].clone()
        args = [on_cpu(arg) for arg in args]
        return func(*args, **{key: on_cpu(value) for key, value in (kwargs or {}).items()})


class Properties:
    name, total_memory, multi_processor_count = "CPU", 1 << 34, 1
    major, minor, gcnArchName = 10, 0, ""


def there(home, **answers):
    for name, answer in answers.items():
        setattr(home, name, answer)


there(
    torch.cuda, is_available=lambda: True, device_count=lambda: 2, set_device=lambda device: None,
    get_device_capability=lambda device=None: (10, 0), synchronize=lambda device=None: None,
    get_device_name=lambda device=None: "CPU", current_device=lambda: 0,
    get_device_properties=lambda device=None: Properties, empty_cache=lambda: None,
    manual_seed_all=lambda seed: None, manual_seed=lambda seed: None,
    get_rng_state=lambda device=None: torch.zeros(0, dtype=torch.uint8),
    set_rng_state=lambda state, device=None: None,
)  # fmt: skip
there(torch.accelerator, is_available=lambda: False, device_count=lambda: 0)
theirs_to, theirs_group = torch.nn.Module.to, torch.distributed.init_process_group
theirs_compile = torch.compile
torch.compile = lambda *args, **kwargs: theirs_compile(*args, **{"backend": "aot_eager", **kwargs})
torch.nn.Module.to = lambda self, *args, **kwargs: theirs_to(
    self, *map(on_cpu, args), **{key: on_cpu(value) for key, value in kwargs.items()}
)
torch.nn.Module.cuda = lambda self, device=None: self


def group(backend=None, **kwargs):
    kwargs.pop("device_id", None)
    return theirs_group("gloo" if backend == "nccl" else backend, **kwargs)


torch.distributed.init_process_group = group
OnCpu().__enter__()

import importlib  # noqa: E402

TORCHAO = "torchao.prototype.moe_training"
for part in ("ep", "ep.permute", "mxfp8_grouped_mm", "kernels.mxfp8"):
    importlib.import_module(f"{TORCHAO}.{part}")
import mxoracle.torch.torchao  # noqa: E402

for kind in ("cuda", "cutedsl", "flydsl"):  # what tests ask before they run
    for home in ("kernels.mxfp8", "kernels.mxfp8.quant"):
        setattr(sys.modules[f"{TORCHAO}.{home}"], f"_mxfp8_{kind}_kernels_available", True)

# register_sharding of torch 2.11 keeps a rule by arguments from the first integer on, and the two flags
# of this operator stand before it.
from torch.distributed.tensor import DTensor  # noqa: E402
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo  # noqa: E402

patched = mxoracle.torch.torchao.patch()
patched.__enter__()
DTensor._op_dispatcher.sharding_propagator.op_to_schema_info[
    torch.ops.torchao.mxfp8_quantize.default
] = RuntimeSchemaInfo(1, needs_pytree=True)
