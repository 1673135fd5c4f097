"""The Python of README.md and docs/ parses, and what it calls is there; what needs nothing of a
reader's own runs."""
import ast
import re
from pathlib import Path

import pytest

import mxoracle

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/python.md", "docs/judge.md"]
BLOCKS = [
    pytest.param(block, id=f"{page}:{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)
    )
]


def parsed(block):
    lines = block.splitlines()
    if lines[0].startswith(" "):  # the inside of a block before it
        block = "if True:\n" + block
    return ast.parse(block)


def dotted(node):
    """"mxoracle.torch.Judge" of the expression."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize("block", BLOCKS)
def test_what_a_block_calls_is_there(block):
    for node in ast.walk(parsed(block)):
        name = dotted(node) if isinstance(node, ast.Attribute) else ""
        if not name.startswith("mxoracle."):
            continue
        if name.startswith("mxoracle.torch"):
            pytest.importorskip("torch")
        found = mxoracle
        for part in name.split(".")[1:]:
            if name.startswith("mxoracle.torch.torchao") and part == "torchao":
                found = pytest.importorskip("mxoracle.torch.torchao")
            else:
                found = getattr(found, part)


def test_the_first_example_runs():
    torch = pytest.importorskip("torch")
    names = {}
    exec(BLOCKS_OF_PYTHON[0], names)
    assert names["codes"].dtype == torch.float8_e4m3fn and names["back"].dtype == torch.bfloat16


BLOCKS_OF_PYTHON = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs" / "python.md").read_text(), re.S | re.M
)
