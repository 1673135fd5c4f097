#!/usr/bin/env python3
"""No two files define different things of one name: compilers do not see it, and linkers take either.

Usage: one_definition_test.py SOURCE_ROOT.  Looks at types of named namespaces, and at inline
functions of one parameter list; prints each that stands in two files; exits 1 if there is one.
"""
import collections
import re
import sys
from pathlib import Path

FOLDERS = ("formats", "ops", "emu", "golden", "tools", "tests", "python", "bench")
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc"}
TYPE = re.compile(r"(?:template <[^;{]*>\s*)?(?:struct|class|union|enum class)\s+"
                  r"(?:alignas\(\w+\)\s+)?([A-Z]\w*)[^;(]*\{")
INLINE = re.compile(r"(?:\[\[\w+\]\]\s+)?(?:MXO_HD )?inline\s+(?!namespace)[^=;{]*?"
                    r"([\w:~]+\([^{;]*\))[^{;]*\{")


def definitions(text: str):
    """(namespace, name) of each definition that begins a line in a namespace with a name."""
    spaces = []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        opened = re.match(r"(?:inline )?namespace ?([\w:]*) ?\{", line)
        if opened:
            spaces.append(opened[1])
        elif line.startswith("}  // namespace"):
            spaces.pop()
        elif spaces and "" not in spaces:
            head = " ".join(lines[i:i + 5])
            for kind in (TYPE, INLINE):
                found = kind.match(head)
                if found:
                    yield "::".join(spaces), re.sub(r"\s+", " ", found[1])


def main(root: Path) -> int:
    # A test's program of its own, and files of which a build takes one.
    apart = re.compile(r"tests/(consumer|house|fuzz)/|_(absent|portable|x86|aarch64)\.cc$")
    where = collections.defaultdict(set)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in SUFFIXES and not apart.search(name):
                for definition in definitions(path.read_text()):
                    where[definition].add(name)
    assert len(where) > 500, f"only {len(where)} definitions found"
    twice = {d: names for d, names in where.items() if len(names) > 1}
    for (space, name), names in sorted(twice.items()):
        print(f"{space}::{name} is defined in {', '.join(sorted(names))}")
    print(f"{len(where)} definitions")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
