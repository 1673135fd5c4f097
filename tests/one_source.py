#!/usr/bin/env python3
"""Several tests as one source: what they include is compiled once.

Usage: one_source.py OUTPUT TEST...  Helpers have the same names in many tests, so each becomes
namespace mxo::<file>.  What a compiler says names the test and its line.
"""
import re
import sys
from pathlib import Path

OPENS = re.compile(r"^namespace mxo(::\w+)? \{$", re.MULTILINE)
CLOSES = re.compile(r"^\}(  // namespace mxo(::\w+)?)$", re.MULTILINE)


def apart(path: Path) -> str:
    """The test in a namespace of its own, with as many lines."""
    text, opened = OPENS.subn(rf"\g<0> namespace {path.stem} {{", path.read_text())
    text, closed = CLOSES.subn(r"}}\1", text)
    assert opened == closed == 1, f"{path}: {opened} times namespace mxo, closed {closed} times"
    return f'#line 1 "{path}"\n{text}'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("".join(apart(Path(test)) for test in sys.argv[2:]))
