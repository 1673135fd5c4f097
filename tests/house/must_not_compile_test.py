#!/usr/bin/env python3
"""Storage types have no arithmetic and no implicit conversions; backends have one door.

Usage: must_not_compile_test.py SOURCE_ROOT COMPILER.  Each refused line has an allowed twin,
which must be accepted: then the refusal is for the reason given.
"""
import subprocess
import sys

HEADERS = """
#include "formats/mx_block.h"
#include "ops/backend.h"
#include "ops/quantize.h"
using namespace mxo;
inline void body([[maybe_unused]] E4M3 code, [[maybe_unused]] E8M0 scale,
                 [[maybe_unused]] BF16 wide, [[maybe_unused]] Backend& backend,
                 [[maybe_unused]] const Quantize& op) {
"""

# what is refused: (refused, allowed)
CASES = {
    "a code is no float": ("float x = code; (void)x;", "float x = decode(code); (void)x;"),
    "a float is no code": ("E4M3 x = 1.0f; (void)x;", "E4M3 x = encode<kE4M3>(1.0f); (void)x;"),
    "a code is no integer": ("int x = code; (void)x;", "int x = code.bits; (void)x;"),
    "codes have no sum": ("(void)(code + code);", "(void)(decode(code) + decode(code));"),
    "codes have no product with a scale": ("(void)(code * scale);",
                                           "(void)dequantize_f32(code, scale);"),
    "a scale is no float": ("float x = scale; (void)x;", "float x = decode(scale); (void)x;"),
    "bf16 is no float": ("float x = wide; (void)x;", "float x = decode(wide); (void)x;"),
    "formats do not mix": ("E5M2 x = code; (void)x;", "E4M3 x = code; (void)x;"),
    "formats do not compare": ("(void)(code == E4M3Fnuz{});", "(void)(code == E4M3{});"),
    "codes have no order": ("(void)(code < code);", "(void)(decode(code) < decode(code));"),
    "a backend runs nothing unchecked": ("backend.run(op);", "quantize(backend, op);"),
}


def compiles(root: str, compiler: str, statement: str) -> bool:
    done = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", "-I", root, "-x", "c++", "-"],
        input=f"{HEADERS}{statement}\n}}\n", text=True, capture_output=True, check=False)
    return done.returncode == 0


def main(root: str, compiler: str) -> int:
    every = "".join(f"{{ {allowed} }}" for _, allowed in CASES.values())
    if not compiles(root, compiler, every):
        print("the allowed lines are refused too")
        return 1
    offences = [f"{name}: accepted: {refused}" for name, (refused, _) in CASES.items()
                if compiles(root, compiler, refused)]
    print("\n".join(offences) or f"{len(CASES)} lines refused")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
