#!/usr/bin/env python3
"""Every public header says in its caption which of its calls may run at once.

Usage: thread_safety_test.py SOURCE_ROOT.  Prints each that does not; exits 1 if there is one.
"""
import re
import sys
from pathlib import Path


def public_headers(root: Path) -> list[str]:
    """As cmake/public_headers.cmake has them."""
    rules = (root / "cmake/public_headers.cmake").read_text()
    return sorted(set(re.findall(r"(?:formats|ops|emu|golden)/[\w/]+\.h", rules)))


def main(root: Path) -> int:
    headers = public_headers(root)
    assert len(headers) > 20, f"only {len(headers)} public headers found"
    silent = [name for name in headers
              if "Thread safety: " not in (root / name).read_text().split("#pragma once")[0]]
    print("\n".join(f"{name}: its caption says nothing of threads" for name in silent)
          or f"{len(headers)} headers say it")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
