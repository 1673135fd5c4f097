"""mxoracle inside PyTorch: operators with gradients, a judge of running models, a recorder.

`grouped_linear`, `moe_layer`, `quantize` and `dequantize` are `torch.ops.mxoracle` operators with
shapes for tracing and gradients; `Judge` holds the products of a running model against the library.
"""
from mxoracle.torch.conversion import convert
from mxoracle.torch.experts import Experts, GroupedProducts
from mxoracle.torch.judge import Judge, Row, judged
from mxoracle.torch.operators import dequantize, grouped_linear, moe_layer, quantize
from mxoracle.torch.recorder import Recorder

__all__ = [
    "Experts",
    "GroupedProducts",
    "Judge",
    "Recorder",
    "Row",
    "convert",
    "dequantize",
    "grouped_linear",
    "judged",
    "moe_layer",
    "quantize",
]
