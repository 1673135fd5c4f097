#!/usr/bin/env python3
"""The translation unit that CI compiles for CUDA includes every header of formats/.

Usage: device_headers_test.py SOURCE_ROOT.  Prints each header that is missing; exits 1 then.
"""
import sys
from pathlib import Path


def main(root: Path) -> int:
    unit = (root / "tests/house/formats_cuda.cu").read_text()
    headers = sorted(path.name for path in (root / "formats").glob("*.h"))
    missing = [name for name in headers if f'#include "formats/{name}"' not in unit]
    print("\n".join(f"formats/{name} is not compiled for CUDA" for name in missing)
          or f"{len(headers)} headers")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
