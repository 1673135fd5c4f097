#!/usr/bin/env python3
"""mxo reduce and mxo audit: commands of the user's on cases and faults.
Usage: cli_reduce_test.py MXO [unittest arguments].
"""
import json
import struct
import sys
import unittest

from cli_case import DISAGREE, MXO, USAGE, Case, mxo
import safetensors as st

# A kernel that is right but for one bit of rows that begin with a negative number, in tall tensors.
KERNEL = '''
import pathlib, subprocess, sys
sys.path.insert(0, {tests!r})
import safetensors as st
mxo, source, target = sys.argv[1:]
given = st.decode(pathlib.Path(source).read_bytes())
operands = pathlib.Path(target + ".in.safetensors")
operands.write_bytes(st.encode({{"x": given["x"]}}))
subprocess.run([mxo, "run", "swiglu", "--input", operands, "--output", target, "--quiet"], check=True)
dtype, shape, x = given["x"]
kind, extents, y = st.decode(pathlib.Path(target).read_bytes())["y"]
y = bytearray(y)
for row in range(shape[0]):
    if x[row * shape[1] * 4 + 3] & 0x80 and shape[0] > 3:
        y[row * extents[1] * 4] ^= 1
pathlib.Path(target).write_bytes(st.encode({{"y": (kind, extents, bytes(y))}}))
'''


class Reduce(Case):
    def test_a_kernel_is_run_on_slices_until_none_is_smaller(self):
        kernel = self.here / "kernel.py"
        kernel.write_text(KERNEL.format(tests=sys.path[0]))
        command = f"{sys.executable} {kernel} {MXO} {{in}} {{out}}"
        self.ok("generate", self.here / "suite", "--suite", "activation", "--level", 0)
        case = self.here / "suite/cases/swiglu.plain.f32.none.safetensors"
        out = self.ok("reduce", case, "--output", self.here / "small", "--command", command)
        self.assertIn("R 33 to 4", out)
        self.assertIn("F 64 to 1", out)
        self.ok("compare", self.here / "small", self.here / "small/actual", code=DISAGREE)

    def reduced(self, file, actual):
        """What explain says of the whole, what reduce says, what explain says of the slice."""
        small = self.here / "small"
        whole = mxo("explain", file, actual, "--json")[1]
        said = self.ok("reduce", file, actual, "--output", small)
        slice_ = mxo("explain", *(small / way / file.name for way in ("cases", "actual")), "--json")[1]
        return json.loads(whole), said, json.loads(slice_)

    def test_a_slice_has_the_cause_of_the_whole(self):
        suite = self.here / "suite"
        self.ok("generate", suite, "--suite", "quantize", "--level", 0, "--quiet")
        cases = [c for c in json.loads((suite / "manifest.json").read_text())["cases"]
                 if c["op"] == "quantize" and "edges" in c["id"]]
        file = suite / "cases" / f"{cases[0]['id']}.safetensors"
        tensors = st.decode(file.read_bytes())
        kind, shape, scales = tensors["scales"]
        higher = bytes(min(scale + 1, 254) if scale < 255 else scale for scale in scales)
        actual = self.path("a.safetensors", st.encode({"codes": tensors["codes"], "scales": (kind, shape, higher)}))
        whole, said, slice_ = self.reduced(file, actual)
        self.assertIn("as the whole, ", said)
        self.assertEqual(slice_["causes"][0]["id"], whole["causes"][0]["id"])
        self.assertLess(slice_["elements"], whole["elements"])

    def test_a_slice_of_what_has_no_cause_has_none(self):
        # Scales below 2^-126 that are flushed would be more blocks than those that came as 0.
        powers = [-112 - block % 24 for block in range(256)]
        x = [(-1) ** (i * i * (block + 3) // 7) * 2.0 ** power * (1 + i / 64)
             for block, power in enumerate(powers) for i in range(32)]
        given = self.path("x.safetensors", st.encode({"x": ("F32", [32, 256], struct.pack(f"<{len(x)}f", *x))}))
        suite = self.here / "suite"
        self.ok("generate", suite, "--op", "quantize", "--from", given, "--quiet")
        file = next((suite / "cases").iterdir())
        tensors = st.decode(file.read_bytes())
        scales, codes = bytearray(tensors["scales"][2]), bytearray(tensors["codes"][2])
        for block, power in enumerate(powers):
            if power <= -130:
                scales[block] = 0
                codes[32 * block:32 * block + 32] = bytes(
                    0x7E if v > 0 else 0xFE for v in x[32 * block:32 * block + 32])
        actual = self.path("a.safetensors", st.encode({"codes": (*tensors["codes"][:2], bytes(codes)),
             "scales": (*tensors["scales"][:2], bytes(scales))}))
        whole, _, slice_ = self.reduced(file, actual)
        self.assertEqual(whole["causes"], [])
        self.assertEqual(slice_["causes"], [])


class Audit(Case):
    def test_a_gate_of_ours_and_one_of_the_users(self):
        strict = json.loads(self.ok("audit", "--gate", "bits", "--row", 35, "--json"))
        self.assertEqual((strict["schema"], strict["faults"], strict["missed"]), ("mxo-audit/1", 2, 0))
        out = self.ok("audit", "--gate", "sqnr=0.01", "--row", 35, code=DISAGREE)
        self.assertIn("2 of 2 faults get through", out)
        own = f"{MXO} compare {{expected}} {{actual}} --quiet"
        self.assertIn("0 of 2", self.ok("audit", "--command", own, "--row", 35))
        self.assertIn("2 of 2", self.ok("audit", "--command", "true {expected} {actual}", "--row", 35, code=DISAGREE))
        for wrong in ("false {expected} {actual}", "grep -q wgrad {expected} && " + own):
            self.refused("audit", "--command", wrong, code=USAGE, says="right outputs")


if __name__ == "__main__":
    unittest.main()
