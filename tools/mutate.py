#!/usr/bin/env python3
r"""Who judges the judge: breaks the code in one place at a time and sees whether a test fails.

Usage: tools/mutate.py [--make COMMAND] [--run COMMAND] [--sample N --seed S] FILE...
   as  tools/mutate.py --run "build/release/tests/golden_test --gtest_filter='Compar*'" \
           golden/judge/judge.cc golden/judge/measures.cc

Each mutant flips a comparison, a boundary, a logical operator or a constant, or deletes a
statement.  --make builds and --run tests; a mutant that builds and passes has survived and is
printed.  Files are put back as they were, also after Ctrl-C.  Works in the source tree: run it
where nobody else builds.
"""
import argparse
import random
import re
import subprocess
import sys
from pathlib import Path

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


class Judge:
    def __init__(self, options):
        self.options = options

    @staticmethod
    def runs(command, timeout):
        try:
            return subprocess.run(command, shell=True, capture_output=True, check=False,
                                  timeout=timeout).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def builds(self):
        return self.runs(self.options.make, timeout=1800)

    def passes(self):
        return self.runs(self.options.run, timeout=self.options.timeout)


def try_mutant(judge, path, number, new):
    """'killed', 'survived', or 'no code' where it does not compile."""
    original = path.read_text()
    lines = original.split("\n")
    lines[number] = new
    try:
        path.write_text("\n".join(lines))
        if not judge.builds():
            return "no code"
        return "survived" if judge.passes() else "killed"
    finally:
        path.write_text(original)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--make", default="ninja -C build/release golden_test")
    parser.add_argument("--run", default="build/release/tests/golden_test --gtest_fail_fast")
    parser.add_argument("--timeout", type=float, default=120, help="of --run; too long is a kill")
    parser.add_argument("--sample", type=int, default=0, help="so many of each file; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    judge = Judge(parser.parse_args())
    if not (judge.builds() and judge.passes()):
        sys.exit("mutate: the code as it is does not build or does not pass")
    draw = random.Random(judge.options.seed)
    total = {"killed": 0, "survived": 0}
    for path in judge.options.files:
        counts = {"killed": 0, "survived": 0, "no code": 0}
        mutants = list(mutants_of(path))
        if 0 < judge.options.sample < len(mutants):
            mutants = sorted(draw.sample(mutants, judge.options.sample))
        for number, old, new in mutants:
            fate = try_mutant(judge, path, number, new)
            counts[fate] += 1
            if fate == "survived":
                print(f"{path}:{number + 1}: {old.strip()}  ->  {new.strip() or '(deleted)'}",
                      flush=True)
        print(f"{path}: {counts['killed']} killed, {counts['survived']} survived, "
              f"{counts['no code']} no code", flush=True)
        for fate in total:
            total[fate] += counts[fate]
    judge.builds()
    judged = sum(total.values())
    print(f"{total['killed']} of {judged} killed ({100 * total['killed'] / max(1, judged):.1f} %)")
    return 0 if total["survived"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
