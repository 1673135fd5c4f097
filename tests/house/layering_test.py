#!/usr/bin/env python3
"""No file may include one from a higher floor, and no chain of includes may close.

Usage: layering_test.py SOURCE_ROOT.  Prints each offence; exits 1 if there is one.
"""
import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

# Each folder, and the folders it may include.  Reading order is floor order.
MAY_INCLUDE = {
    "formats": set(),
    "ops": {"formats"},
    "emu": {"formats", "ops"},
    "golden": {"formats", "ops"},
    "tools": {"formats", "ops", "emu", "golden"},
    "python": {"formats", "ops", "emu", "golden"},
    "bench": {"formats", "ops", "emu", "golden"},
    "tests": {"formats", "ops", "emu", "golden", "tools"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def main(root: Path) -> int:
    offences, graph = [], {}
    for folder, allowed in MAY_INCLUDE.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
                continue
            name = path.relative_to(root).as_posix()
            graph[name] = INCLUDE.findall(path.read_text())
            for included in graph[name]:
                floor = included.split("/")[0]
                if floor not in allowed | {folder}:
                    offences.append(f"{name} includes {included}: {folder} may not see {floor}")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        offences.append("include cycle: " + " -> ".join(error.args[1]))
    print("\n".join(offences) or f"{len(graph)} files in order")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
