"""mxoracle inside PyTorch: operators with gradients, a judge of running models, a recorder.

`grouped_linear`, `moe_layer`, `quantize` and `dequantize` are `torch.ops.mxoracle` operators with
shapes for tracing and gradients; `Judge` holds the products of a running model against the library.
"""
from mxoracle.torch.conversion import Planned, convert, plan
from mxoracle.torch.dense import Linear
from mxoracle.torch.experts import Experts, GroupedProducts
from mxoracle.torch.judge import Judge, Row, judged
from mxoracle.torch.linear import scaled_linear
from mxoracle.torch.measures import Measured
from mxoracle.torch.operators import dequantize, grouped_linear, moe_layer, quantize
from mxoracle.torch.recipes import recipe_named, recipes
from mxoracle.torch.recorder import Recorder
from mxoracle.torch.telemetry import Departed, Telemetry
from mxoracle.torch.weights import ScaledWeight

__all__ = [
    "Departed",
    "Experts",
    "GroupedProducts",
    "Judge",
    "Linear",
    "Measured",
    "Planned",
    "Recorder",
    "Row",
    "ScaledWeight",
    "Telemetry",
    "convert",
    "dequantize",
    "grouped_linear",
    "judged",
    "moe_layer",
    "plan",
    "quantize",
    "recipe_named",
    "recipes",
    "scaled_linear",
]
