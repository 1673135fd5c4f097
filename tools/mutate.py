#!/usr/bin/env python3
r"""Who judges the judge: breaks the code in one place at a time and sees whether a test fails.

Usage: tools/mutate.py --tests GLOB [--filter FILTER] [--sample N --seed S] [--jobs N] FILE...
   as  tools/mutate.py --tests 'golden/comp*_test' golden/bound_test --sample 40 \
           golden/judge/judge.cc golden/judge/measures.cc

Each mutant flips a comparison, a boundary, a logical operator or a constant, or deletes a
statement, in a copy: the source tree is only read.  The copy is compiled without optimisation, with
the flags of build/release, and linked before the libraries there with the objects of the tests
named (golden_test, ops_test, emu_test and formats_test must be built, with -DCMAKE_UNITY_BUILD=OFF:
each source has an object then).  Of a header the tests named are compiled instead, with the
library's files that --through names, and only what these include of it is judged.  With --sanitize
what is compiled is so with the address and undefined behaviour sanitizers, and a walk one place too
far dies.  A mutant whose tests pass has survived and is printed; --again takes that print and runs
these alone, after new tests.
"""
import argparse
import json
import os
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

# At run time, so that many mutants are one program; never where the compiler computes.
CHOICE = """#include <cstdlib>
inline const int mxo_mutant = std::getenv("MXO_MUTANT") ? std::atoi(std::getenv("MXO_MUTANT")) : 0;
constexpr bool mxo_is(int n) { return !__builtin_is_constant_evaluated() && mxo_mutant == n; }"""

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


DECLARES = re.compile(r"(const|constexpr|static|using|struct|class|enum|case|default|template)\b|"
                      r"(?!return|throw)[\w:<>,\s*&]+ \w+_?( = .*|\{.*\}|\(.*\))?;$")


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


def code_of_kept(line):
    """The line without its comment, its strings kept."""
    return line[:len(code_of(line))].strip()


def closing(text, begin):
    """Where the parenthesis that opens at BEGIN closes; -1 if it does not."""
    depth = 0
    for at in range(begin, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at
    return -1


def parts_of(text):
    """A statement as (before, expression, behind), of which a mutant may change the expression."""
    blank = code_of(text)
    head = re.match(r"\s*(?:\} else )?(?:if|while) \(", blank)
    if head:
        end = closing(blank, head.end() - 1)
        if end > 0 and ";" not in blank[head.end():end] and blank[end + 1:].strip() == "{":
            return text[:head.end()], text[head.end():end], text[end:]
    head = re.match(r"\s*for \([^;]*; ", blank)
    if head:
        end = blank.find(";", head.end())
        if end > 0:
            return text[:head.end()], text[head.end():end], text[end:]
    head = re.match(r"\s*(?:const )?[\w:<>]+ \w+ = (?=[^={].*;\s*$)", blank)
    if head and not re.match(r"\s*(static|constexpr|using|auto&)", blank):
        end = blank.rindex(";")
        return text[:head.end()], text[head.end():end], text[end:]
    return None


def switched(text, variants):
    """TEXT, one statement, as the variant whose number is set, and the numbers that it knows: those
    of expressions, or of statements that declare nothing."""
    blank = code_of(text).strip()
    parts = parts_of(text)
    if parts:
        before, expression, behind = parts
        choice, known = f"({expression})", []
        for number, variant in variants:
            if variant.startswith(before) and variant.endswith(behind):
                inner = variant[len(before):len(variant) - len(behind)]
                choice = f"(mxo_is({number}) ? ({inner}) : {choice})"
                known.append(number)
        return before + choice + behind, known
    if not blank.endswith(";") or blank.startswith(("}", "else")) or DECLARES.match(blank):
        return text, []
    chain = " else ".join(f"if (mxo_is({number})) {{ {variant} }}" for number, variant in variants)
    return f"{chain} else {{ {text} }}", [number for number, _ in variants]


def statements_of(lines):
    """(first line, end) of every statement: up to a line that ends with ;, { or } and has as many
    closing parentheses as opening ones."""
    begin = depth = 0
    for at, line in enumerate(lines):
        code = code_of(line).rstrip()
        if begin == at and (not code or code.lstrip().startswith("#")):
            begin = at + 1
            continue
        depth += sum(c in "([" for c in code) - sum(c in ")]" for c in code)
        if depth <= 0 and (code.endswith((";", "{", "}", ":", ">"))):
            yield begin, at + 1
            begin, depth = at + 1, 0


SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-D_GLIBCXX_ASSERTIONS"]


def run(command, seconds=600, **more):
    """The exit status and what was said; not 0 where it took more seconds of a core, or 8 GB."""
    limits = ["prlimit", f"--cpu={seconds}", "--as=8000000000"]
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive", **more}
    if "ASAN_OPTIONS" in more:  # shadow memory is terabytes of addresses
        limits.pop()
    try:
        done = subprocess.run([*limits, *command], capture_output=True, check=False, text=True,
                              errors="replace", env=environment, timeout=60 * seconds)
    except subprocess.TimeoutExpired:
        return 124, ""
    return done.returncode, done.stderr


class Judge:
    """Builds and tests one copy of a file at a time, each in a folder of its own."""

    def __init__(self, options):
        self.options = options
        self.build = ROOT / "build/release"
        commands = json.loads((self.build / "compile_commands.json").read_text())
        self.flags = {str(Path(c["file"]).relative_to(ROOT)): self.plain(shlex.split(c["command"]))
                      for c in commands if Path(c["file"]).is_relative_to(ROOT)}
        self.sanitized = SANITIZED if options.sanitize else []
        self.tests = [o for name in options.tests
                      for o in sorted(self.build.glob(f"tests/CMakeFiles/*_test.dir/{name}.cc.o"))]
        if not self.tests:
            sys.exit(f"mutate: no object of {options.tests} in build/release")

    @staticmethod
    def plain(command):
        """A compiler's command line without its files, warnings and optimisation."""
        kept = [f for f in command if not f.startswith(("-O", "-W", "-o")) and f != "-c"]
        return [*(f for f in kept if not f.endswith((".o", ".cc"))), "-O0", "-w"]

    def prepare(self, path, folder):
        """Compiles what PATH includes once: most of a copy's time."""
        self.headers = Path(folder) / "headers.h"
        self.path = path
        if path.suffix == ".h":
            return
        lines = (ROOT / path).read_text().splitlines()
        self.headers.write_text("\n".join(x for x in lines if x.startswith("#include")) + "\n")
        run([*self.flags[str(path)], *self.sanitized, "-x", "c++-header", self.headers, "-o",
             f"{self.headers}.gch"])

    def objects(self, text, folder):
        """The commands that compile what the mutant changes, and their objects."""
        if self.path.suffix == ".cc":
            source, made = folder / self.path.name, folder / "m.o"
            source.write_text(text)
            return [([*self.flags[str(self.path)], *self.sanitized, "-iquote",
                      ROOT / self.path.parent, "-include", self.headers, "-c", source, "-o",
                      made], made)], self.tests
        # A header goes before the tree's own, and into the tests and the files named alone.
        source = folder / self.path
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        tests = ["tests/" + str(o).split("_test.dir/")[1].removesuffix(".o") for o in self.tests]
        commands = []
        for name in [*tests, *self.options.through]:
            made = folder / (name.replace("/", "_") + ".o")
            flags = self.flags[name]
            commands.append(([flags[0], f"-I{folder}", *flags[1:], *self.sanitized, "-c",
                              ROOT / name, "-o", made], made))
        return commands, []

    def link(self, text, folder):
        """The tests with TEXT for the file, or nothing where it does not compile."""
        commands, tests = self.objects(text, folder)
        with ThreadPoolExecutor(self.options.jobs) as pool:
            for status, said in pool.map(lambda c: run(c[0]), commands):
                if status != 0:
                    return None, said
        libraries = [self.build / f"{name}.a" for name in
                     ("tests/libmxo_test_support", "libmxo_golden", "libmxo_judge", "libmxo_emu",
                      "libmxo_ops", "libmxo_formats")]
        status, said = run(["g++", "-fopenmp", "-fuse-ld=gold", *self.sanitized, "-o",
                            folder / "test", *(o for _, o in commands), *tests, *libraries,
                            *LIBRARIES])
        return (folder / "test" if status == 0 else None), said

    def passes(self, test, mutant=0):
        """Whether the tests pass with one mutant set."""
        limit = {"ASAN_OPTIONS": "detect_leaks=0:hard_rss_limit_mb=8000"} if self.sanitized else {}
        return run([test, "--gtest_fail_fast", f"--gtest_filter={self.options.filter}"],
                   self.options.timeout, MXO_MUTANT=str(mutant), **limit)[0] == 0

    def fate(self, text):
        """'killed', 'survived', or 'no code' where it does not compile."""
        with tempfile.TemporaryDirectory() as folder:
            test, _ = self.link(text, Path(folder))
            if test is None:
                return "no code"
            return "survived" if self.passes(test) else "killed"

    def all_in_one(self, mutants, lines, folder):
        """One program of all mutants that a number can choose at run time, and these."""
        chosen = {}
        for begin, end in statements_of(lines):
            whole = " ".join(code_of_kept(x) for x in lines[begin:end])
            variants = []
            for at, (number, _, new) in enumerate(mutants):
                if begin <= number < end:
                    changed = [*lines[begin:number], new, *lines[number + 1:end]]
                    variants.append((at + 1, " ".join(code_of_kept(x) for x in changed)))
            text, known = switched(whole, variants) if variants else (whole, [])
            if known:
                chosen[begin] = (end, text, {at - 1 for at in known})
        for _ in range(12):
            text = [CHOICE, f'#line 1 "{self.path}"']
            at = 0
            while at < len(lines):
                if at in chosen:
                    end, statement, _ = chosen[at]
                    text += [f'#line {at + 1} "switched"', statement,
                             f'#line {end + 1} "{self.path}"']
                    at = end
                else:
                    text.append(lines[at])
                    at += 1
            test, said = self.link("\n".join(text), folder)
            if test is not None:
                return test, set().union(*(which for _, _, which in chosen.values()))
            # What is wrong where a statement ends has no column.
            errors = {int(n) - 1 for n in re.findall(r"\bswitched:(\d+)(?::\d+)?: error", said)
                      or re.findall(r":(\d+):\d+: error", said)}
            faulty = {max((b for b in chosen if b <= e), default=-1) for e in errors} - {-1}
            if not faulty:
                break
            for line in faulty:
                del chosen[line]
        return None, set()

    def judge(self, mutants, lines):
        """The fates of all; a survivor is printed when it is found."""
        with tempfile.TemporaryDirectory() as folder:
            test, together = self.all_in_one(mutants, lines, Path(folder))
            if test is not None and not self.passes(test):
                test, together = None, set()

            # A number chosen at run time changes nothing that the compiler has computed.
            computes = any("constexpr" in line or "constinit" in line for line in lines)

            def one(item):
                at, (number, old, new) = item
                fate = "alone"
                if at in together:
                    fate = "survived" if self.passes(test, at + 1) else "killed"
                    if fate == "survived" and computes:
                        fate = "alone"
                if fate == "alone":
                    fate = self.fate("\n".join([*lines[:number], new, *lines[number + 1:]]))
                if fate == "survived":
                    print(f"{self.path}:{number + 1}: {shown(old, new)}", flush=True)
                return fate
            with ThreadPoolExecutor(self.options.jobs) as pool:
                return list(pool.map(one, enumerate(mutants)))


def shown(old, new):
    """A mutant in words."""
    return f"{old.strip()}  ->  {new.strip() or '(deleted)'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tests", nargs="+", required=True, help="as golden/bound_test; wildcards")
    parser.add_argument("--filter", default="*", help="of GoogleTest")
    parser.add_argument("--timeout", type=int, default=20,
                        help="seconds of a core for a run; too long is a kill")
    parser.add_argument("--through", nargs="+", default=[], metavar="FILE",
                        help="of the library, by which the tests reach a header")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--sample", type=int, default=0, help="so many of each file; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", type=Path, help="only the survivors that this report names")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    judge = Judge(options)
    draw = random.Random(options.seed)
    total = {"killed": 0, "survived": 0}
    survivors = options.again.read_text() if options.again else None
    for path in options.files:
        text = (ROOT / path).read_text()
        with tempfile.TemporaryDirectory() as folder:
            judge.prepare(path, folder)
            if judge.fate(text) != "survived":
                sys.exit(f"mutate: {path} as it is does not build or its tests fail")
            mutants = list(mutants_of(ROOT / path))
            found = len(mutants)
            if survivors is not None:
                mutants = [m for m in mutants if f": {shown(*m[1:])}\n" in survivors]
            elif 0 < options.sample < found:
                mutants = sorted(draw.sample(mutants, options.sample))
            fates = judge.judge(mutants, text.split("\n"))
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
