#!/usr/bin/env python3
"""Files that are none, outputs that would replace the wrong thing, ends in the middle of work.
Usage: cli_files_test.py MXO [unittest arguments].
"""
import os
import resource
import signal
import subprocess
import sys
import time
import unittest

from cli_case import AGREE, BAD_INPUT, DISAGREE, MXO, UNSUPPORTED, Case, ramp
import safetensors as st


def limited(*args, limits, **keywords):
    """mxo under resource limits; whatever it does, it ends."""
    def lower():
        for which, most in limits.items():
            resource.setrlimit(which, (most, most))
    return subprocess.run([MXO, *map(str, args)], capture_output=True, text=True, check=False,
                          timeout=60, preexec_fn=lower, **keywords)


def peak(*args):
    """Exit code, and the most bytes that mxo had in memory; a small parent, whose own would count."""
    parent = ("import os, subprocess, sys\n"
              "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
              "_, status, used = os.wait4(child.pid, 0)\n"
              "print(os.waitstatus_to_exitcode(status), used.ru_maxrss << 10)")
    done = subprocess.run([sys.executable, "-c", parent, MXO, *map(str, args)], check=True,
                          capture_output=True, text=True)
    return map(int, done.stdout.split())


def skip_where_memory_cannot_be_limited(case):
    if limited("list", "formats", limits={resource.RLIMIT_AS: 4 << 30}).returncode != 0:
        case.skipTest("this build reserves terabytes of addresses: it has a sanitizer")


class Inputs(Case):
    def test_pipes_devices_and_folders_are_no_tensors(self):
        pipe = self.here / "pipe.safetensors"
        os.mkfifo(pipe)
        good = self.path("g.safetensors", st.encode({"y": ramp()}))
        for odd, says in [(pipe, "a pipe"), ("/dev/zero", "a device"), (self.here, "directory")]:
            self.refused("compare", good, odd, says=says)
        self.refused("run", "decode", "--input", pipe, "--output", self.here / "o", says="a pipe")
        suite = self.here / "suite"
        self.ok("generate", suite, "--suite", "quantize", "--level", 0)
        pipe.replace(min((suite / "cases").iterdir()))
        self.assertIn("a pipe", self.ok("verify", suite, code=BAD_INPUT))

    def test_an_empty_tensor_of_great_extent_costs_nothing(self):
        skip_where_memory_cannot_be_limited(self)
        wide = self.path("w.safetensors", st.encode({"y": ("F32", [0, 2 ** 30], b"")}))
        done = limited("compare", wide, wide, limits={resource.RLIMIT_AS: 2 ** 30})
        self.assertIn(done.returncode, [0, BAD_INPUT], done.stderr)


class Outputs(Case):
    def setUp(self):
        super().setUp()
        self.x = self.path("x.safetensors", st.encode({"x": ramp(4, 64)}))

    def test_a_closed_stdout_never_becomes_the_output(self):
        out = self.here / "o.safetensors"
        run = f"exec {MXO} run quantize --quiet --input {self.x} --output {out} >&-"
        subprocess.run(["sh", "-c", run], check=False, stderr=subprocess.DEVNULL)
        self.assertEqual(sorted(st.decode(out.read_bytes())), ["codes", "scales"])

    def test_a_limit_of_file_size_leaves_the_old_file(self):
        out = self.path("o.safetensors", b"old")
        wide = self.path("wide.safetensors", st.encode({"x": ramp(32, 64)}))
        before = sorted(p.name for p in self.here.iterdir())
        # 2048 codes do not fit; the 1024 bytes in which LLVM's OpenMP registers itself do.  Left
        # empty, that file would kill a later process of the same number.
        done = limited("run", "quantize", "--input", wide, "--output", out, limits={resource.RLIMIT_FSIZE: 1024})
        self.assertEqual(done.returncode, BAD_INPUT)
        self.assertRegex(done.stderr, r"\Amxo run: [^\n]+File too large\n\Z")
        self.assertEqual(out.read_bytes(), b"old")
        self.assertEqual(before, sorted(p.name for p in self.here.iterdir()))

    def test_signals_leave_nothing_behind(self):
        for stop, wait in [(stop, 0.002 * step) for stop in [signal.SIGINT, signal.SIGTERM]
                           for step in range(12)]:
            process = subprocess.Popen([MXO, "generate", self.here / "suite", "--level", "1"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and not any(self.here.glob("suite.partial-*")):
                time.sleep(0.001)
            time.sleep(wait)  # at another of the steps: a file begun, renamed, the next
            process.send_signal(stop)
            self.assertEqual(process.wait(timeout=30), -stop)
            self.assertEqual([p.name for p in self.here.iterdir()], ["x.safetensors"])


class Limits(Case):
    def test_memory_that_runs_out_is_one_line(self):
        skip_where_memory_cannot_be_limited(self)
        x = self.path("x.safetensors", st.encode({"x": ("F32", [2048, 2048], bytes(4 << 22))}))
        for megabytes in [24, 40, 48, 56, 64, 80, 120]:
            done = limited("run", "quantize", "--threads", 2, "--input", x, "--output",
                           self.here / "o", limits={resource.RLIMIT_AS: megabytes << 20})
            if "libgomp: Out of memory" in done.stderr:
                continue  # as it is loaded, before main
            self.assertIn(done.returncode, [0, BAD_INPUT, UNSUPPORTED, 127], (megabytes, done.stderr))

    def test_compare_holds_every_tensor_once(self):
        skip_where_memory_cannot_be_limited(self)
        x = {"x": ("F32", [2048, 8192], ramp(1, 512)[2] * (1 << 15))}
        operands = self.path("x.safetensors", st.encode(x))
        right, wrong, case = (self.here / name for name in ("right", "wrong", "case"))
        self.ok("run", "quantize", "--input", operands, "--output", right)
        outputs = st.decode(right.read_bytes())
        formats = {"codes.format": "e4m3", "scales.format": "e8m0"}
        case.write_bytes(st.encode({**x, **outputs}, {
            "mxo.op": "quantize", "mxo.outputs": "codes,scales", **formats}))
        codes = bytearray(outputs["codes"][2])
        codes[7] ^= 8
        wrong.write_bytes(st.encode({**outputs, "codes": (*outputs["codes"][:2], codes)}, formats))
        for files, call in [((right, wrong, operands), ("--op", "quantize", "--input", operands)),
                            ((case, wrong), ())]:
            for gate in ["bits", "bound", "sqnr=auto"]:
                code, most = peak("compare", *files[:2], *call, "--gate", gate)
                self.assertIn(code, [AGREE, DISAGREE])
                size = sum(path.stat().st_size for path in files)
                self.assertLess(most, 1.1 * size + (24 << 20), (gate, files))

    def test_a_flipped_bit_of_a_checkpoint_is_seen(self):
        run = self.small("--recipe", "bf16", "--output", self.here / "run", "--quiet")
        self.ok(*run)
        self.flip(self.here / "run" / "checkpoint.safetensors", -5)
        self.refused(*run, "--resume", says="checksum")


if __name__ == "__main__":
    unittest.main()
