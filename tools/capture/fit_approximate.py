#!/usr/bin/env python3
"""Finds the quadratics behind rcp, rsqrt, sqrt and ex2 .approx and writes formats/approximate_tables.h.

Usage: fit_approximate.py CAPTURE > formats/approximate_tables.h
CAPTURE is a folder with rcp.npy (every f32 in [1, 2)), rsqrt.npy and sqrt.npy (in [1, 4)) and ex2.npy
(k * 2^-23, k < 2^23): the bits of results, u32.  Needs numpy.

A segment of results is floor((c0 + c1 x + c2 S(x)) / 2^17), S the square without its low columns
(formats/approximate.h).  c1 and c2 are what least squares give, rounded: a segment has 2^16 or 2^17
results, so that their errors are far below the last bit.  c0 is any number between the two bounds
that the results leave; a segment that leaves none ends the script.
"""
import sys
from pathlib import Path

import numpy as np

SCALE = 17
NAMES = [("rcp", 0x3F000000, 16, 17), ("rsqrt", 0x3F000000, 17, 19), ("sqrt", 0x3F800000, 17, 19),
         ("ex2", 0x3F800000, 17, 19)]


def folded_square(x, bits, dropped):
    total = np.zeros_like(x)
    for i in range(bits):
        one = (x >> i) & 1
        above = (x >> (i + 1)) << (i + 1)
        row = (above << (i + 1)) + (1 << (2 * i))
        total += one * (row >> dropped)
    return total


def coefficients(low, high, bits, dropped, first):
    """{c0, c1, c2} of sums that lie in low .. high."""
    x = np.arange(1 << bits, dtype=np.int64)
    square = folded_square(x, bits, dropped)
    design = np.stack([np.ones(len(x)), x / len(x), square / square.max()], 1)[first:]
    middle = ((low - low[-1]) + (high - low[-1])) / 2
    _, slope, bend = np.linalg.solve(design.T @ design, design.T @ middle[first:])
    for c2 in near(bend / square.max()):
        for c1 in near(slope / len(x)):
            rest = c1 * x + c2 * square
            least, most = (low - rest)[first:].max(), (high - rest)[first:].min()
            if least <= most:
                return int(least), c1, c2
    sys.exit("a segment that no quadratic gives")


def near(number):
    middle = round(number)
    return [middle, middle - 1, middle + 1, middle - 2, middle + 2]


def print_table(name, rows):
    print(f"struct {name.capitalize()}Table {{\n  Quadratic of[{len(rows)}];\n}};")
    print(f"MXO_HD constexpr {name.capitalize()}Table {name}_table() {{\n  return {{{{")
    for c0, c1, c2 in rows:
        print(f"      {{{c0}, {c1}, {c2}}},")
    print("  }};\n}\n")


def main(folder):
    print("""// Coefficients of the quadratics behind .approx of sm_90; written by
// tools/capture/fit_approximate.py from every f32 of an interval on an H200 (driver 580,
// CUDA 13.0).
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>

#include "formats/host_device.h"

namespace mxo::interpolator {

/// One segment: floor((c0 + c1 x + c2 S(x)) / 2^17).
struct Quadratic {
  std::int64_t c0;
  std::int32_t c1;
  std::int32_t c2;
};
""")
    for name, one, bits, dropped in NAMES:
        y = np.load(folder / f"{name}.npy").astype(np.int64) - one + (1 << 23)
        low = y.reshape(-1, 1 << bits) << SCALE
        # rsqrt(1) is 1, outside the binade of its segment.
        print_table(name, [
            coefficients(row, row + (1 << SCALE) - 1, bits, dropped, name == "rsqrt" and s == 0)
            for s, row in enumerate(low)])
    print("}  // namespace mxo::interpolator")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
