#!/usr/bin/env python3
"""Finds the quadratics behind lg2 and tanh .approx and writes formats/approximate_lg2_tanh_tables.h.

Usage: fit_lg2_tanh.py CAPTURE > formats/approximate_lg2_tanh_tables.h
CAPTURE is a folder with lg2.npy (every f32 in [1, 2)) and tanh.npy (in [2^-8, 8)): the bits of
results, u32.  Needs numpy.

The sum c0 + c1 x + c2 S(x) is what fit_approximate.py says, but a result is the sum normalised and
cut to 24 bits, so that small results tell more of it.  Sums of lg2 count 2^-40, those of tanh
2^(e-40) for x in [2^e, 2^(e+1)).
"""
import sys
from pathlib import Path

import numpy as np
from fit_approximate import coefficients, print_table

BITS, DROPPED = 17, 19
TANH_FIRST = -8                                    # the binades of tanh, from [2^-8, 2^-7)
TANH_ROWS = [1, 1, 1, 2, 2, 4, 4, 4, 8, 16, 8]     # rows of each


def bounds(results, unit):
    """The sums, in multiples of 2^unit, that have these results."""
    words = results.astype(np.int64)
    shift = (words >> 23) - 150 - unit
    significand = words & 0x7FFFFF | 1 << 23
    low = np.where(shift < 0, significand >> np.maximum(-shift, 0),
                   significand << np.maximum(shift, 0))
    return low, low + (1 << np.maximum(shift, 0)) - 1


def lg2_rows(y):
    for s, segment in enumerate(y.reshape(-1, 1 << BITS)):
        low, high = bounds(segment, -40)
        yield coefficients(low, high, BITS, DROPPED, 1 if s == 0 else 0)  # lg2(1) is 0


def tanh_rows(y):
    for i, rows in enumerate(TANH_ROWS):
        binade = y[i << 23:(i + 1) << 23].reshape(rows, 1 << BITS, -1)
        if (binade != binade[:, :, :1]).any():
            sys.exit("more bits of x count")
        for segment in binade[:, :, 0]:
            low, high = bounds(segment, TANH_FIRST + i - 40)
            yield coefficients(low, high, BITS, DROPPED, 0)


def main(folder):
    print("""// Coefficients of the quadratics behind lg2 and tanh .approx of sm_90; written by
// tools/capture/fit_lg2_tanh.py from every f32 of an interval on an H100 (driver 580, CUDA 13.0).
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstdint>

#include "formats/approximate_tables.h"
#include "formats/host_device.h"

namespace mxo::interpolator {
""")
    print_table("lg2", list(lg2_rows(np.load(folder / "lg2.npy"))))
    print("""/// The first of the 2^row_bits rows of a binade.
struct TanhBinade {
  std::uint8_t first;
  std::uint8_t row_bits;
};
""")
    firsts = np.cumsum([0, *TANH_ROWS[:-1]])
    binades = ", ".join(f"{{{f}, {n.bit_length() - 1}}}" for f, n in zip(firsts, TANH_ROWS))
    rows = list(tanh_rows(np.load(folder / "tanh.npy", mmap_mode="r")))
    print(f"struct TanhTable {{\n  TanhBinade binades[{len(TANH_ROWS)}];  // from [2^{TANH_FIRST}, "
          f"2^{TANH_FIRST + 1})\n  Quadratic of[{len(rows)}];\n}};")
    print("MXO_HD constexpr TanhTable tanh_table() {")
    print(f"  return {{{{{binades}}},\n{{")
    for c0, c1, c2 in rows:
        print(f"{{{c0}, {c1}, {c2}}},")
    print("  }};\n}\n")
    print("}  // namespace mxo::interpolator")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
