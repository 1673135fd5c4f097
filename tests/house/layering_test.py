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
    "formats": set(), "ops": {"formats"}, "emu": {"formats", "ops"}, "golden": {"formats", "ops"},
    "tools": {"formats", "ops", "emu", "golden"}, "python": {"formats", "ops", "emu", "golden"},
    "bench": {"formats", "ops", "emu", "golden"},
    "tests": {"formats", "ops", "emu", "golden", "tools"},
}
# Modules of a layer, lowest first: a file may include its own module and those before it.  A name with a
# dot is one header; the longest that fits counts.
MODULES = [
    "emu/exact", "emu/sums", "emu/backends.h", "emu/communicators.h", "emu/cpu/ieee_thread.h",
    "emu/reference", "emu/cpu/isa.h", "emu/cpu/target_region.h", "emu/cpu/ieee_thread.h",
    "emu/cpu/streaming.h", "emu/cpu/memory_pool.h", "emu/cpu/layout_kernels.h",
    "emu/cpu/lanes/lanes.h", "emu/cpu/lanes/transpose.h", "emu/cpu/gemm/kernels",
    "emu/cpu/gemm/lanes", "emu/cpu/gemm/pack", "emu/cpu/gemm/tiles", "emu/cpu/gemm/engines",
    "emu/cpu/gemm/plan", "emu/cpu/gemm", "emu/cpu/cpu_backend.h", "emu/cpu/models", "emu/cpu",
    "emu/cuda/cuda_check.cuh", "emu/cuda/device_fault.cuh", "emu/cuda/kept_blocks.cuh",
    "emu/cuda/device_backend.cuh", "emu/cuda/gemm", "emu/cuda", "emu/comm", "emu", "golden/files",
    "golden/judge/verdict.h", "golden/reports/text.h", "golden/judge", "golden/suites",
    "golden/explain", "golden/fingerprint", "golden/reports", "golden",
]
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def room_of(name: str) -> int | None:
    fitting = [i for i, module in enumerate(MODULES)
               if name.startswith(module + "/") or name == module]
    return max(fitting, key=lambda i: len(MODULES[i]), default=None)


def may_see(name: str, included: str) -> bool:
    """Includes of a higher module of the same layer."""
    own, other = room_of(name), room_of(included)
    return own is None or other is None or other <= own


def main(root: Path) -> int:
    offences, graph = [], {}
    for folder, allowed in MAY_INCLUDE.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            name = path.relative_to(root).as_posix()
            graph[name] = INCLUDE.findall(path.read_text())
            for included in graph[name]:
                floor = included.split("/")[0]
                if floor not in allowed | {folder}:
                    offences.append(f"{name} includes {included}: {folder} may not see {floor}")
                elif not may_see(name, included):
                    offences.append(f"{name} includes {included}, which is in a higher module")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        offences.append("include cycle: " + " -> ".join(error.args[1]))
    print("\n".join(offences) or f"{len(graph)} files in order")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
