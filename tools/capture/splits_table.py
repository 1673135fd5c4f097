#!/usr/bin/env python3
"""Writes the two tables of one card for ops/library_splits.cc from what `mxo_capture OUT_DIR splits`
recorded on it.

    tools/capture/splits_table.py OUT_DIR/library_splits.txt h100
    clang-format -i ops/h100_split_steps.h ops/h100_split_layers.h
"""
import sys
from pathlib import Path

OPS = Path(__file__).parents[2] / "ops"


def read(path):
    provenance, lines = {}, []
    with open(path, encoding="utf-8") as text:
        for line in text:
            words = line.split()
            if words[0] == "#":
                provenance[words[1]] = " ".join(words[2:])
                continue
            steps = [tuple(int(n) for n in step.split(":")) for step in words[3:]]
            lines.append((words[0], int(words[1]), int(words[2]), steps))
    return provenance, sorted({line[:3]: line for line in lines}.values())


def by_fours(steps):
    """Block-wise products exist for multiples of four rows only: the steps of those."""
    found, at = [], 0
    for rows in range(4, 131073, 4):
        while at + 1 < len(steps) and steps[at + 1][0] <= rows:
            at += 1
        if not found or found[-1][1] != steps[at][1]:
            found.append((rows, steps[at][1]))
    return found


def main(path, machine):
    provenance, lines = read(path)
    words, layers = [], []
    for kind, n, k, steps in lines:
        if "blockwise" in kind:
            steps = by_fours(steps)
        if [parts for _, parts in steps] == [1]:
            continue  # never cut
        layers.append((kind, n, k, len(words), len(steps)))
        words += [rows * 16 + parts for rows, parts in steps]
    shapes = sorted({(n, k) for _, n, k, _ in lines})
    assert len(shapes) * len({kind for kind, *_ in lines}) == len(lines)
    library = f"cuBLASLt {provenance['cublaslt']} on an {provenance['device']}"
    write(f"{machine}_split_steps.h", machine, f"""// For how many rows {library} sums K in how many parts: written by
// tools/capture/splits_table.py.
#pragma once

#include <cstdint>
""", """/// rows * 16 + parts: the parts hold from these rows on.
inline constexpr std::uint32_t kSteps[] = {
""", " ".join(f"{word}," for word in words))
    write(f"{machine}_split_layers.h", machine, f"""// Which products {library} was asked for, and which of them it cuts:
// written by tools/capture/splits_table.py.
#pragma once

#include "ops/library_split_table.h"
""", f"""using enum LibraryProduct;

/// Every N x K that was asked, of every kind.
inline constexpr Shape kAsked[] = {{{" ".join(f"{{{n}, {k}}}," for n, k in shapes)}}};

/// Those that are cut for some number of rows.
inline constexpr Layer kLayers[] = {{
""", " ".join("{%s, %d, %d, %d, %d}," % layer for layer in layers))


def write(name, machine, head, body, table):
    space = f"mxo::library_splits::{machine}"
    (OPS / name).write_text(f"{head}\nnamespace {space} {{\n\n{body}{table}\n}};\n\n}}  // namespace {space}\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
