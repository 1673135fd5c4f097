#!/usr/bin/env python3
"""Writes ops/library_splits_data.h from what `mxo_capture OUT_DIR splits` recorded.

    tools/capture/splits_table.py OUT_DIR/library_splits.txt > ops/library_splits_data.h
"""
import sys


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


def main(path):
    provenance, lines = read(path)
    words, layers = [], []
    for kind, n, k, steps in lines:
        if "blockwise" in kind:
            steps = by_fours(steps)
        layers.append((kind, n, k, len(words), len(steps)))
        words += [rows * 16 + parts for rows, parts in steps]
    print(f"""// In how many parts cuBLASLt {provenance['cublaslt']} sums K on an {provenance['device']}: written by
// tools/capture/splits_table.py from the answers of its heuristics.
#pragma once

#include <cstdint>

#include "ops/library_splits.h"

namespace mxo {{

/// Words first .. first + count - 1 are the steps of one kind of product and one N x K.
struct LibraryLayer {{
  LibraryProduct kind;
  std::int32_t n, k;
  std::int32_t first, count;
}};

/// rows * 16 + parts: the parts hold from these rows on.
inline constexpr std::uint32_t kLibrarySteps[] = {{""")
    for at in range(0, len(words), 12):
        print("    " + " ".join(f"{word}," for word in words[at:at + 12]))
    print("};\n\ninline constexpr LibraryLayer kLibraryLayers[] = {")
    for kind, n, k, first, count in layers:
        print(f"    {{LibraryProduct::{kind}, {n}, {k}, {first}, {count}}},")
    print("};\n\n}  // namespace mxo")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
