#!/usr/bin/env python3
r"""Who judges the judge: breaks the code in one place at a time and sees whether a test fails.

Usage: tools/mutate.py --tests GLOB [--filter FILTER] [--sample N --seed S] [--jobs N] FILE...
   as  tools/mutate.py --tests 'golden/comp*_test' golden/bound_test --sample 40 \
           golden/judge/judge.cc golden/judge/measures.cc

Each mutant flips a comparison, a boundary, a logical operator or a constant, or deletes a
statement, in a copy: the source tree is only read.  The copy is compiled without optimisation, with
the flags of build/release, and linked before the libraries there with the objects of the tests
named (golden_test, ops_test, emu_test and formats_test must be built).  A mutant whose tests pass
has survived and is printed.
"""
import argparse
import json
import random
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ["-lgtest", "-lgtest_main", "-lcrypto", "-llzma", "-lmpfr", "-lgmp", "-lpthread"]

# What is replaced by what; the text before and behind must not make it another token.
SWAPS = [
    (r"(?<![<=>!-])==(?!=)", ["!="]), (r"!=(?!=)", ["=="]),
    (r"(?<=\s)<=(?=\s)", ["<", ">"]), (r"(?<=\s)>=(?=\s)", [">", "<"]),
    (r"(?<=\s)<(?=\s)", ["<=", ">="]), (r"(?<=\s)>(?=\s)", [">=", "<="]),
    (r"(?<=\s)&&(?=\s)", ["||"]), (r"(?<=\s)\|\|(?=\s)", ["&&"]),
    (r"(?<=\s)\+(?=\s)", ["-"]), (r"(?<=\s)-(?=\s)", ["+"]), (r"(?<=[\w)\]]\s)\*(?=\s[\w(])", ["+"]),
    (r"(?<=[\s(])!(?=[\w(])", [""]), (r"\btrue\b", ["false"]), (r"\bfalse\b", ["true"]),
    (r"(?<![\w.])0(?![\w.])", ["1"]), (r"(?<![\w.])1(?![\w.])", ["2", "0"]),
    (r"\+=", ["-="]), (r"\bstd::max\b", ["std::min"]), (r"\bstd::min\b", ["std::max"]),
    (r"\bkInfinity\b", ["0"]),
]
STATEMENT = re.compile(r"^\s+[^/#\s].*;\s*$")
KEPT = re.compile(r"^\s*(return|using|throw|break|continue|const|constexpr|static|auto|template|"
                  r"struct|class|enum|namespace|public|private|default|case|#)|^\s*[\w:<>,\s*&]+ "
                  r"\w+(_)?( = .*|\{.*\})?;|\boverride\b|\bdelete;")


def code_of(line):
    """The line with strings and comments blanked, so that columns stay."""
    blank = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'', lambda m: "_" * len(m.group()), line)
    return blank.split("//")[0]


def mutants_of(path):
    """(line number, old line, new line) of every single change."""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        code = code_of(line)
        if code.lstrip().startswith("#") or "static_assert" in code:
            continue
        for pattern, replacements in SWAPS:
            for match in re.finditer(pattern, code):
                for new in replacements:
                    yield number, line, line[:match.start()] + new + line[match.end():]
        whole = number > 0 and re.search(r"[;{}:]\s*$|^\s*$", code_of(lines[number - 1]))
        if whole and STATEMENT.match(code) and not KEPT.match(code):
            yield number, line, ""


def run(command, timeout):
    """The exit status; 124 where it took too long."""
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=timeout).returncode
    except subprocess.TimeoutExpired:
        return 124


class Judge:
    """Builds and tests one copy of a file at a time, each in a folder of its own."""

    def __init__(self, options):
        self.options = options
        self.build = ROOT / "build/release"
        commands = json.loads((self.build / "compile_commands.json").read_text())
        self.flags = {str(Path(c["file"]).relative_to(ROOT)): shlex.split(c["command"])
                      for c in commands if Path(c["file"]).is_relative_to(ROOT)}
        self.tests = [o for name in options.tests
                      for o in sorted(self.build.glob(f"tests/CMakeFiles/*_test.dir/{name}.cc.o"))]
        if not self.tests:
            sys.exit(f"mutate: no object of {options.tests} in build/release")

    def fate(self, path, text):
        """'killed', 'survived', or 'no code' where it does not compile."""
        with tempfile.TemporaryDirectory() as folder:
            source, made, test = (Path(folder) / name for name in (path.name, "m.o", "test"))
            source.write_text(text)
            flags = [f for f in self.flags[str(path)] if not f.startswith(("-O", "-W", "-o"))]
            flags = [f for f in flags if not f.endswith((".o", ".cc")) and f != "-c"]
            if run([*flags, "-O0", "-w", "-iquote", ROOT / path.parent, "-c", source, "-o", made],
                   600) != 0:
                return "no code"
            libraries = [self.build / f"{name}.a" for name in
                         ("tests/libmxo_test_support", "libmxo_golden", "libmxo_emu", "libmxo_ops",
                          "libmxo_formats")]
            if run(["g++", "-fopenmp", "-fuse-ld=gold", "-o", test, *self.tests, made, *libraries,
                    *LIBRARIES], 600) != 0:
                return "no code"
            passes = run([test, "--gtest_fail_fast", f"--gtest_filter={self.options.filter}"],
                         self.options.timeout) == 0
            return "survived" if passes else "killed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tests", nargs="+", required=True, help="as golden/bound_test; wildcards")
    parser.add_argument("--filter", default="*", help="of GoogleTest")
    parser.add_argument("--timeout", type=float, default=120, help="of a run; too long is a kill")
    parser.add_argument("--sample", type=int, default=0, help="so many of each file; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    judge = Judge(options)
    draw = random.Random(options.seed)
    total = {"killed": 0, "survived": 0}
    for path in options.files:
        text = (ROOT / path).read_text()
        if judge.fate(path, text) != "survived":
            sys.exit(f"mutate: {path} as it is does not build or its tests fail")
        mutants = list(mutants_of(ROOT / path))
        found = len(mutants)
        if 0 < options.sample < found:
            mutants = sorted(draw.sample(mutants, options.sample))
        lines = text.split("\n")
        copies = ["\n".join([*lines[:n], new, *lines[n + 1:]]) for n, _, new in mutants]
        with ThreadPoolExecutor(options.jobs) as pool:
            fates = list(pool.map(lambda copy: judge.fate(path, copy), copies))
        for (number, old, new), fate in zip(mutants, fates):
            if fate == "survived":
                print(f"{path}:{number + 1}: {old.strip()}  ->  {new.strip() or '(deleted)'}")
        counts = {fate: fates.count(fate) for fate in ("killed", "survived", "no code")}
        print(f"{path}: {counts['killed']} killed, {counts['survived']} survived, "
              f"{counts['no code']} no code, of {found} mutants {len(mutants)} tried", flush=True)
        for fate in total:
            total[fate] += counts[fate]
    judged = sum(total.values())
    print(f"{total['killed']} of {judged} killed ({100 * total['killed'] / max(1, judged):.1f} %)")
    return 0 if total["survived"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
