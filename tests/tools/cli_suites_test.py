#!/usr/bin/env python3
"""mxo compare and explain of files.  Usage: cli_suites_test.py MXO [unittest arguments]."""
import json
import math
import os
import pty
import random
import shlex
import struct
import subprocess
import unittest
import xml.etree.ElementTree

from cli_case import AGREE, DISAGREE, MXO, USAGE, Case, mxo, ramp
import safetensors as st


class Compare(Case):
    def pair(self, expected, actual):
        return (self.path("expected.safetensors", st.encode(expected)),
                self.path("actual.safetensors", st.encode(actual)))

    def test_agreement_exits_0_and_difference_1(self):
        same = self.pair({"y": ramp()}, {"y": ramp()})
        self.assertIn("PASS", self.ok("compare", *same))
        dtype, shape, data = ramp()
        other = self.pair({"y": ramp()}, {"y": (dtype, shape, data[:-1] + b"\x41")})
        self.assertRegex(self.ok("compare", *other, code=DISAGREE), r"(?s)FAIL.*1, 63")  # where

    def test_gates_decide(self):
        one = struct.unpack("<f", struct.pack("<I", 0x3F800001))[0]
        files = self.pair({"y": st.f32([4], [1.0] * 4)}, {"y": st.f32([4], [1.0, 1.0, 1.0, one])})
        self.ok("compare", *files, code=DISAGREE)
        self.ok("compare", *files, "--gate", "ulp=1")
        self.ok("compare", *files, "--gate", "sqnr=100")
        self.ok("compare", *files, "--gate", "sqnr=200", code=DISAGREE)
        self.assertIn("gate sqnr=torchao_mxfp8_moe (28 dB)",
                      self.ok("compare", *files, "--gate", "sqnr=torchao_mxfp8_moe"))
        self.refused("compare", *files, "--gate", "sqnr=auto", code=USAGE, says="needs the operator")
        self.refused("compare", *files, "--strict", code=USAGE, says="--gate bound")
        listed = [line.split()[0] for line in self.ok("list", "gates").splitlines()]
        self.assertEqual(listed[:6], ["bits", "ulp=N", "sqnr=DB", "sqnr=auto", "sqnr=PRESET", "bound"])

    def product(self, ends=("I32", [2], struct.pack("<2i", 3, 5)), rows=8):
        """Operands of a product whose last rows belong to no group."""
        draw = random.Random(1)
        return self.path("operands.safetensors", st.encode({
            "x.codes": st.u8([rows, 64], [draw.randrange(0x30, 0x50) for _ in range(rows * 64)]),
            "x.scales": st.u8([rows, 2], [127] * (rows * 2)),
            "w.codes": st.u8([2, 8, 64], [draw.randrange(0x30, 0x50) for _ in range(1024)]),
            "w.scales": st.u8([2, 8, 2], [127] * 32), "group_ends": ends}))

    def test_a_file_of_run_brings_its_groups_and_bound(self):
        operands = self.product()
        expected = self.path("e.safetensors")
        self.ok("run", "grouped_matmul", "--input", operands, "--output", expected, "--set", "out=f32")
        y = st.decode(expected.read_bytes())["y"]
        values = list(struct.unpack("<64f", y[2]))
        values[3] *= 1 + 2 ** -22
        values[40:] = [math.nan] * 24
        actual = self.path("a.safetensors", st.encode({"y": st.f32([8, 8], values)}))
        out = self.ok("compare", expected, actual, code=DISAGREE)
        self.assertIn("worst group 0 (0 to 2)", out)
        self.assertIn("rows 5 to 7 belong to no group and hold NaN: not compared", out)
        self.refused("compare", expected, actual, "--gate", "bound", code=USAGE, says="found no x, w;")
        self.ok("compare", expected, actual, "--gate", "bound", "--op", "grouped_matmul",
                "--input", operands, "--set", "out=f32")
        call = ["--op", "grouped_matmul", "--input", operands, "--set", "out=f32", "--groups"]
        out = self.ok("compare", expected, actual, "--gate", "sqnr=auto", *call)
        self.assertRegex(out, r"SQNR \d+\.\d\d dB, a right kernel has \d+\.\d\d dB or more")
        self.assertRegex(out, r"(?m)^ +group 1 \(3 to 4\): 0 of 16 differ.* SQNR \+inf, right from 1")
        values[3] *= 1 + 2 ** -10
        far = self.path("far.safetensors", st.encode({"y": st.f32([8, 8], values)}))
        self.assertIn("group 0 has", self.ok("compare", expected, far, "--gate", "sqnr=auto", *call, code=DISAGREE))
        whole = {**st.decode(expected.read_bytes()), **st.decode(operands.read_bytes())}
        case = self.path("case.safetensors", st.encode(
            whole, {"mxo.op": "grouped_matmul", "mxo.set.out": "f32", "mxo.outputs": "y"}))
        self.assertIn("--gate bound passes", self.ok("compare", case, actual, code=DISAGREE))

    def test_group_ends_are_never_believed(self):
        good = self.path("e.safetensors")
        self.ok("run", "grouped_matmul", "--input", self.product(), "--output", good)
        y = self.path("y.safetensors", st.encode({"y": st.decode(good.read_bytes())["y"]}))
        for kind, code, values in [("I32", "i", (5, 3)), ("I32", "i", (3, 2 ** 30)),
                                   ("I32", "i", (-1, 5)), ("I64", "q", (3, 2 ** 40)),
                                   ("U8", "B", (3, 5)), ("F32", "f", (3, 5))]:
            bad = self.product((kind, [2], struct.pack(f"<2{code}", *values)))
            self.refused("compare", y, y, "--gate", "bound", "--op", "grouped_matmul", "--input",
                         bad, says="group_ends")
            self.refused("explain", bad, y, "--op", "grouped_matmul", says="group_ends")

    def test_explain_takes_scales_in_tiles(self):
        x = self.path("x.safetensors", st.encode({"x": ramp(200, 320)}))
        out = self.path("o.safetensors")
        tiles = ["--set", "scale_layout=blocked"]
        self.ok("run", "quantize", "--input", x, "--output", out, *tiles)
        codes = st.decode(out.read_bytes())
        dtype, shape, data = codes["codes"]
        codes["codes"] = (dtype, shape, data[:100] + bytes([data[100] ^ 8]) + data[101:])
        out.write_bytes(st.encode(codes))
        found, text, err = mxo("explain", x, out, "--op", "quantize", *tiles)
        self.assertIn(found, [AGREE, DISAGREE], err)
        self.assertIn("1 of", text)

    def test_nan_is_a_class_unless_bits_are_asked_for(self):
        quiet, other = b"\x00\x00\xc0\x7f", b"\xff\xff\xff\x7f"
        files = self.pair({"y": ("F32", [1], quiet)}, {"y": ("F32", [1], other)})
        self.ok("compare", *files)
        self.ok("compare", *files, "--nan-bits", code=DISAGREE)
        zero = self.pair({"y": ("F32", [1], quiet)}, {"y": ("F32", [1], bytes(4))})
        self.ok("compare", *zero, code=DISAGREE)

    def test_reports_are_json_junit_and_html(self):
        files = self.pair({"y": ramp()}, {"y": ramp()})
        files = files[0].rename(self.path("it's one.safetensors")), files[1]
        self.ok("compare", *files, "--json", self.path("r.json"), "--junit", self.path("r.xml"),
                "--html", self.path("r.html"))
        words = shlex.split(json.loads(self.path("r.json").read_text())["command"])
        self.assertEqual(words, ["mxo", "compare", *map(str, files)])
        xml.etree.ElementTree.parse(self.path("r.xml"))
        self.assertIn("<html", self.path("r.html").read_text().lower())
        json.loads(self.ok("compare", *files, "--json", "-"))
        self.assertEqual(self.ok("compare", *files, "--quiet"), "")

    def test_colour_only_on_a_terminal_and_never_with_no_color(self):
        files = self.pair({"y": ramp()}, {"y": ramp()})
        escape = "\x1b["
        self.assertNotIn(escape, self.ok("compare", *files))
        self.assertIn(escape, self.on_terminal("compare", *files))
        self.assertNotIn(escape, self.on_terminal("compare", *files, NO_COLOR="1"))

    def on_terminal(self, *args, **environment):
        ours, theirs = pty.openpty()
        clean = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        done = subprocess.run([MXO, *map(str, args)], stdout=theirs, check=True, env={**clean, **environment})
        os.close(theirs)
        self.assertEqual(done.returncode, AGREE)
        data = b""
        try:
            while chunk := os.read(ours, 4096):
                data += chunk
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        return data.decode()


if __name__ == "__main__":
    unittest.main()
