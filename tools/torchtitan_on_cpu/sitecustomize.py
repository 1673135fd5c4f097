"""torchtitan on a machine without a GPU: its device is the CPU, and what it asks of one has an answer."""
import types

import torch
import torch._utils

Properties = types.SimpleNamespace(name="CPU", total_memory=1 << 34)
answers = {
    "set_device": lambda device: None,
    "get_device_name": lambda device=None: "CPU",
    "current_device": lambda: 0,
    "get_device_properties": lambda device=None: Properties,
    "reset_peak_memory_stats": lambda device=None: None,
    "empty_cache": lambda: None,
    "memory_stats": lambda device=None: {},
}
for name, answer in answers.items():
    setattr(torch.cpu, name, answer)
torch._utils._get_available_device_type = lambda: "cpu"
theirs_histc = torch.histc  # which has no integers on a CPU
torch.histc = lambda x, *args, **kwargs: theirs_histc(x.float(), *args, **kwargs).to(x.dtype)
from torch.distributed.fsdp import FSDPModule  # noqa: E402

theirs_factor = FSDPModule.set_gradient_divide_factor


def divide(self, factor):
    """gloo has no sum of products: the division is a step of its own."""
    theirs_factor(self, factor)
    self.set_force_sum_reduction_for_comms(True)


FSDPModule.set_gradient_divide_factor = divide
