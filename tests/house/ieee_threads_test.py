#!/usr/bin/env python3
"""Every parallel region of emu has its threads compute as IEEE says (emu/cpu/ieee_thread.h).

Usage: ieee_threads_test.py SOURCE_ROOT.  Prints each region that does not; exits 1 then.
"""
import re
import sys
from pathlib import Path

REGION = re.compile(r"#pragma omp parallel(?:[^\n]*\\\n)*[^\n]*")


def main(root: Path) -> int:
    regions = [(path.relative_to(root).as_posix(), region)
               for folder in ["ops", "emu", "golden"]
               for path in sorted((root / folder).rglob("*")) if path.suffix in {".cc", ".h", ".inc"}
               for region in REGION.findall(path.read_text())]
    bad = [f"{name}: {region}" for name, region in regions
           if "firstprivate(ieee_thread)" not in region]
    print("\n".join(bad) or f"{len(regions)} regions")
    return 1 if bad or not regions else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
