"""The command `mxo` of the wheel: the program beside this file."""
import os
import sys
from pathlib import Path


def program() -> str:
    """Where the command is."""
    return str(Path(__file__).parent / "bin" / "mxo")


def main() -> None:
    os.execv(program(), ["mxo", *sys.argv[1:]])
