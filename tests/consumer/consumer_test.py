#!/usr/bin/env python3
"""mxoracle as outside projects see it: installed, or inside another build; under flags of theirs.

Usage: consumer_test.py SUBJECT, with --source, --prefix, --work, --compiler, --generator, --mpi,
--flags (those of the build) and --sweep (a program that prints what our own flags give).  Exits 1
with what was wrong.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# What stands before the compiler in CMake's builds, too: nothing, or a cache.
LAUNCHER = [w for w in os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER", "").split(";") if w]
OURS = re.compile(r"-fno-fast-math|-ffp-contract=off|-Wall|-Werror|-O0")
FOREIGN = ["OpenMP", "OpenSSL", "nlohmann_json", "CLI11", "fmt", "Eigen3", "MPI", "GTest"]
# Flags that a header must refuse, or under which its bits are ours.
FAST = ["-ffast-math", "-Ofast", "-ffinite-math-only", "-funsafe-math-optimizations",
        "-fassociative-math -fno-signed-zeros -fno-trapping-math", "-freciprocal-math",
        "-fno-signed-zeros", "-march=native -ffp-contract=fast"]


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, check=False,
                          **options)
    return done.returncode, done.stdout + done.stderr


def must(*command, **options):
    code, text = run(*command, **options)
    if code != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\nexits with {code}:\n{text}")
    return text


class Outside:
    """Projects in a folder of their own."""

    def __init__(self, args):
        self.a = args

    def build(self, name, project, *options, flags=""):
        folder = Path(self.a.work) / name
        shutil.rmtree(folder, ignore_errors=True)
        text = must("cmake", "-S", Path(self.a.source) / "tests/consumer" / project, "-B", folder,
                    "-G", self.a.generator, f"-DCMAKE_CXX_COMPILER={self.a.compiler}",
                    f"-DCMAKE_PREFIX_PATH={self.a.prefix}",
                    f"-DCMAKE_CXX_FLAGS={self.a.flags} {flags}", *options)
        must("cmake", "--build", folder, "--target", "consumer")
        commands = (folder / "compile_commands.json").read_text()
        commands = [c["command"] for c in json.loads(commands)
                    if " -o mxoracle/" not in c["command"]]
        assert commands, "no compile commands"
        for command in commands:
            found = OURS.findall(command)
            assert not found, f"flags of ours in a command of theirs: {found}: {command}"
        return folder / "consumer", text

    def installed(self, component, source, *allowed, flags="", argument=None, gtest=False):
        """A program of one component, where CMake finds nothing but what is allowed."""
        hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{p}=ON" for p in FOREIGN if p not in allowed]
        program, text = self.build(f"{component.replace(';', '_')}_{Path(source).stem}",
                                   "installed", f"-DCOMPONENTS={component}", f"-DSOURCE={source}",
                                   f"-DGTEST={'ON' if gtest else 'OFF'}", *hidden, flags=flags)
        asked = set(re.findall(r"asked for (\w+)::", text))
        assert asked <= set(allowed), f"{component} asks for {asked}, may ask for {allowed}"
        return must(program, *([argument] if argument else []), cwd=self.a.work)

    # One function a subject.

    def components(self):
        self.installed("formats", "formats.cc")
        self.installed("emu", "communicators.cc", "OpenMP", argument="without")
        self.installed("golden", "golden.cc", "OpenSSL")
        if self.a.mpi == "ON":
            self.installed("emu;mpi", "communicators.cc", "OpenMP", "MPI", argument="with")
        code, text = run("cmake", "-S", Path(self.a.source) / "tests/consumer/installed", "-B",
                         Path(self.a.work) / "unknown", "-G", self.a.generator,
                         f"-DCMAKE_PREFIX_PATH={self.a.prefix}", "-DCOMPONENTS=teapot")
        assert code != 0 and "teapot" in text, "an unknown component was found"

    def embedded(self):
        self.inside("embedded", "-DFETCHED=OFF")
        self.inside("fetched", "-DFETCHED=ON")

    def inside(self, name, way):
        program, _ = self.build(name, "embedded", f"-DMXORACLE={self.a.source}", way)
        must(program)
        parents = Path(self.a.work) / f"parents_{name}"
        code, text = run("cmake", "--install", program.parent, "--prefix", parents)
        there = [p.name for p in parents.rglob("*") if p.is_file()]
        assert code == 0 and there == ["consumer"], f"installed beside the parent: {there} {text}"

    def contraction(self):
        """Every digest under FMA contraction is the one of our own flags."""
        ours = must(self.a.sweep)
        source = Path(self.a.source) / "tests/consumer/sweep.cc"
        theirs = self.installed("emu", source, "OpenMP",
                                flags="-O3 -march=native -ffp-contract=fast")
        differ = [a for a, b in zip(ours.splitlines(), theirs.splitlines()) if a != b]
        assert ours == theirs and len(ours.splitlines()) >= 19, f"other bits: {differ}"

    def fast_math(self):
        """Flags that change arithmetic are refused by name, or change nothing."""
        ours = must(self.a.sweep)
        compilers = [self.a.compiler]
        if (clang := shutil.which("clang++")) and "clang" not in self.a.compiler:
            compilers.append(clang)  # it tells its headers less of its flags than g++ does
        said = [self.under(flags, compiler, ours) for compiler in compilers for flags in FAST]
        assert all("refused" in s for s in said if "-ffast" in s or "-Ofast" in s), said
        print("\n".join(said))

    def under(self, flags, compiler, ours):
        lib = Path(self.a.prefix) / "lib"
        made = Path(self.a.work) / "fast"
        made.parent.mkdir(parents=True, exist_ok=True)
        code, text = run(*LAUNCHER, compiler, "-std=c++20", "-O2", "-Wfatal-errors",
                         *self.a.flags.split(), *flags.split(), f"-I{self.a.prefix}/include", "-c",
                         Path(self.a.source) / "tests/consumer/sweep.cc", "-o", f"{made}.o")
        if code != 0:
            assert "mxoracle: this file is compiled with -ffast-math" in text, text
            return f"{Path(compiler).name} {flags}: refused"
        must(self.a.compiler, *self.a.flags.split(), f"{made}.o",
             *(lib / f"libmxo_{floor}.a" for floor in ["emu", "ops", "formats"]), "-fopenmp",
             "-o", made)
        assert must(made) == ours, f"{compiler} {flags}: accepted, and other bits"
        return f"{Path(compiler).name} {flags}: the same bits"

    def docs(self):
        """The program of docs/cpp.md passes a right kernel and fails a wrong one."""
        source = Path(self.a.source)
        text = (source / "docs/cpp.md").read_text()
        program = re.search(r"```cpp\n(.*?)```", text, re.DOTALL)[1]
        lines = program[program.index("TEST("):].splitlines()
        assert len(lines) <= 8, "no longer a test in 8 lines"
        kernel = (source / "tests/consumer/installed/my_quantizer.h").read_text()
        for verdict, made in [("right", kernel), ("wrong", kernel.replace("448.0f", "240.0f"))]:
            folder = Path(self.a.work) / verdict
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "my_quantizer.h").write_text(made)
            (folder / f"{verdict}.cc").write_text(program)
            try:
                self.installed("emu;golden", folder / f"{verdict}.cc", "OpenMP", "OpenSSL", "GTest",
                               gtest=True)
                passed = True
            except AssertionError as error:
                assert "exits with 1:\n" in str(error), error
                passed = False
            assert passed == (verdict == "right"), f"the {verdict} kernel: passed is {passed}"

    def device(self):
        """A CUDA consumer that may fuse: no f32 product of ours is fused with a sum."""
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not Path(nvcc).exists():
            print("no nvcc")
            sys.exit(77)
        must(nvcc, "-std=c++20", "-arch=sm_90", "--fmad=true", "-Werror", "all-warnings",
             f"-I{self.a.prefix}/include", "-ptx", "-o", Path(self.a.work) / "device.ptx",
             Path(self.a.source) / "tests/consumer/device.cu")
        ptx = (Path(self.a.work) / "device.ptx").read_text()
        assert "mul.f32" in ptx and "fma.rn.f64" in ptx, "not the code that was meant"
        fused = [line.strip() for line in ptx.splitlines() if "fma.rn.f32" in line]
        assert not fused, f"fused: {fused}"

    def reference(self):
        """Doxygen has no warning about the installed headers."""
        doxygen = shutil.which("doxygen")
        if not doxygen:
            print("no doxygen")
            sys.exit(77)
        asked = (Path(self.a.source) / "docs/Doxyfile").read_text()
        text = must(doxygen, "-", cwd=self.a.work,
                    input=f"{asked}\nINPUT = {self.a.prefix}/include/mxoracle\nOUTPUT_DIRECTORY = .")
        pages = [p.name for p in (Path(self.a.work) / "html").glob("class*.html")]
        assert text == "" and "classmxo_1_1Oracle.html" in pages, text or pages

    def headers(self):
        """Each installed header stands alone, without any include folder but the installed one."""
        root = Path(self.a.prefix) / "include"
        names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*.h"))

        def alone(name):
            source = Path(self.a.work) / f"{name.replace('/', '_')}.cc"
            source.write_text(f"#include <{name}>\n")
            return name, *run(*LAUNCHER, self.a.compiler, "-std=c++20", "-fsyntax-only", "-Wall",
                              "-Wextra", "-Wconversion", "-Wshadow", "-Wno-psabi", "-Werror",
                              f"-I{root}", source)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            bad = [f"{name}: {text}" for name, code, text in pool.map(alone, names) if code != 0]
        assert not bad, f"of {len(names)} headers: " + "\n".join(bad)
        macros = must(self.a.compiler, "-std=c++20", "-dM", "-E", f"-I{root}", "-x", "c++", "-",
                      input="".join(f"#include <{n}>\n" for n in names))
        ours = sorted(set(re.findall(r"^#define (MXO\w*)", macros, re.MULTILINE)))
        expected = ["MXO_ARITHMETIC", "MXO_HD", "MXO_OPERATORS", "MXO_THROUGH_LIBRARY"]
        assert ours == expected, f"macros that users see: {ours}"
        read = [n for n in names if "/detail/" not in n]
        assert 20 <= len(read) <= 30 and len(names) < 70, f"{len(names)} installed: {read}"
        inside = [n for n in names if re.search(r"checked|elements|input_stream|detail/(emu|golden/explain/(?!case/call|where))", n)]
        assert not inside, f"insides are installed: {inside}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("subject")
    for name in ["source", "prefix", "work", "compiler", "generator", "mpi", "sweep", "flags"]:
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    Path(args.work).mkdir(parents=True, exist_ok=True)
    try:
        getattr(Outside(args), args.subject)()
    except AssertionError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
