#!/usr/bin/env python3
"""A new operator touches few files: there is one list of operators, and no other is kept by hand.

Usage: operators_test.py SOURCE_ROOT.  Prints each offence; exits 1 if there is one.
"""
import re
import sys
from pathlib import Path

FOLDERS = ["formats", "ops", "emu", "golden", "tools", "python", "bench", "tests"]
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc", ".py"}
LIST = "ops/operators.h"
# Where one operator may be declared or defined: the pattern of the path, how many files of it.
PLACES = {
    r"ops/\w+\.h": 1,                      # its struct, which is its contract
    r"emu/reference/\w+\.cc": 1,           # its definition
    r"emu/cpu/cpu_backend\.h": 1,          # where cpu is faster: that it is, and how
    r"emu/cpu/(?!cpu_backend).*\.cc": 1,
    r"emu/cuda/device_backend\.cuh": 1,    # where a GPU has it
    r"emu/cuda/.*\.cu": 1,
}
# A file that names more than half of them is a list.  Two say what their machine makes faster; one
# is written by a program from the catalogue, and a test of its own holds it to that; one has the
# fields of each for the tests, which do not compile where it lacks an operator.
MAY_NAME_MANY = {LIST, "emu/cpu/cpu_backend.h", "emu/cuda/device_backend.cuh",
                 "python/mxoracle/_operators.py", "tests/ops/fields.h"}


def main(root: Path) -> int:
    operators = re.findall(r'\bX\((\w+), "(\w+)"\)', (root / LIST).read_text())
    text = {path.relative_to(root).as_posix(): path.read_text()
            for folder in FOLDERS for path in sorted((root / folder).rglob("*"))
            if path.suffix in SUFFIXES}
    offences = []
    for struct, name in operators:
        left = dict(PLACES)
        ran = re.compile(rf"\brun\(const {struct}&")
        defined = re.compile(rf"\bstruct {struct} \{{")  # elsewhere a struct of that name is another
        for path, content in text.items():
            if path.startswith("tests/"):
                continue
            if not ran.search(content) and not (path.startswith(("ops/", "emu/"))
                                                and defined.search(content)):
                continue
            place = next((p for p in left if re.fullmatch(p, path)), None)
            if place is None or left[place] == 0:
                offences.append(f"{name} is declared or defined once more in {path}")
            else:
                left[place] -= 1
        for needed in list(PLACES)[:2]:
            if left[needed] > 0:
                offences.append(f"{name} is nowhere in {needed}")
    for path, content in text.items():
        words = set(re.findall(r"\w+", content))
        for kind in zip(*operators):
            named = len(words.intersection(kind))
            if 2 * named > len(operators) and path not in MAY_NAME_MANY:
                offences.append(f"{path} names {named} operators: a list beside {LIST}")
    print("\n".join(offences) or f"{len(operators)} operators, one list")
    return 1 if offences or not operators else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
