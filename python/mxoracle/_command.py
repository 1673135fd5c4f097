"""The command `mxo` of the wheel: the program beside this file."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from mxoracle import _checks
from mxoracle._call import text_of
from mxoracle._errors import Error


def program() -> str:
    """Where the command is."""
    return str(Path(__file__).parent / "bin" / "mxo")


def show(format: Any, *values: Any) -> str:
    """What codes of `format` mean and which codes values get, in words, as `mxo show` prints it.

    A value is a number or its text; text like "0x7E" is a code.  `format` is a name or a dtype.
    Errors: mxoracle.Error for a format or a value that is none, or no value.
    """
    if not values:
        raise Error("show: found no value, needs a number or a code")
    texts = [_shown(value) for value in values]
    command = [program(), "show", "--", text_of("show: format", format), *texts]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Error(done.stderr.strip().removeprefix("mxo "))
    return done.stdout


def _shown(value: Any) -> str:
    value = _checks.plain_number(value)
    if isinstance(value, str):
        return _checks.text("show", value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return repr(float(value))
        except OverflowError:
            pass
    raise _checks.refusal("show", value, "a number or its text")


def main() -> None:
    os.execv(program(), ["mxo", *sys.argv[1:]])
