#!/usr/bin/env python3
"""No source decides by the preprocessor what it is, but the two headers whose job that is.

A switch of the build selects a file, never a branch inside one.
Usage: preprocessor_test.py SOURCE_ROOT.  Prints each offence; exits 1 if there is one.
"""
import re
import sys
from pathlib import Path

FOLDERS = ["formats", "ops", "emu", "golden", "tools", "python", "bench", "tests"]
ALLOWED = {
    "formats/host_device.h": "which compiler reads device code",
    "emu/cpu/target_region.h": "how GCC and clang spell a target",
    "tests/support/count.h": "whether a target of x86 can be named",
}
CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif|elifdef|else)\b.*$", re.MULTILINE)


def main(root: Path) -> int:
    offences, seen = [], set()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
                continue
            name = path.relative_to(root).as_posix()
            conditions = CONDITION.findall(path.read_text())
            if conditions and name in ALLOWED:
                seen.add(name)
            elif conditions:
                offences.append(f"{name}: {conditions[0].strip()}")
    offences += [f"{name} has no condition left: drop it from the list" for name in ALLOWED.keys() - seen]
    print("\n".join(offences) or f"conditions in {len(seen)} headers, as allowed")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
