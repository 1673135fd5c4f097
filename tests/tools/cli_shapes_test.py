#!/usr/bin/env python3
"""mxo generate --op, --model and --from; what compare makes of outputs whole or by digest.
Usage: cli_shapes_test.py MXO WALKER [unittest arguments].
"""
import hashlib
import subprocess
import sys
import unittest

from cli_case import BAD_INPUT, DISAGREE, NOT_RUN, UNSUPPORTED, USAGE, Case
import safetensors as st

WALKER = sys.argv.pop(1)
QUANTIZE = ["--op", "quantize", "--shape", "rows=256,columns=4096"]


class Shapes(Case):
    def walked(self, *args):
        suite, outputs = self.here / "suite", self.here / "outputs"
        self.ok("generate", suite, *args, "--quiet")
        subprocess.run([WALKER, suite, outputs], check=True, capture_output=True)
        return suite, outputs

    def test_every_case_of_a_layer_passes_a_right_kernel(self):
        suite, outputs = self.walked("--model", "qwen3", "--tokens", 256, "--groups", 1)
        self.assertRegex(self.ok("compare", suite, outputs), "(?m)^[0-9]+ PASS  0 FAIL")
        self.assertRegex(self.ok("verify", suite), "(?m)^[0-9]+ PASS  0 FAIL")
        self.assertLess(sum(p.stat().st_size for p in suite.rglob("*")), 1 << 22)
        (outputs / "qwen3.swiglu.safetensors").unlink()
        self.assertIn("swiglu.safetensors: no such file", self.ok("compare", suite, outputs, code=NOT_RUN))

    @staticmethod
    def report(case, tensors):
        """A file of digests as a GPU machine sends it."""
        return st.encode({name: ("U8", shape, data) for name, shape, data in tensors},
                         {"mxo.schema": "mxo-outputs/1", "mxo.case": case})

    def test_digests_stand_for_outputs(self):
        suite, outputs = self.walked(*QUANTIZE)
        path = outputs / "quantize.safetensors"
        whole = {name: data for name, (_, _, data) in st.decode(path.read_bytes()).items()}
        right = [(name + ".digests", [1, 32], hashlib.sha256(whole[name]).digest()) for name in ("codes", "scales")]
        wrong = bytes(code ^ (i == 4096 * 3 + 7) for i, code in enumerate(whole["codes"]))
        bad = ("codes.digests", [1, 32], hashlib.sha256(wrong).digest())
        rows = lambda data: ("codes.rows.0", [len(data)], bytes(data))
        for tensors, code, says in [
            (right, 0, "1 PASS"),
            ([bad, right[1]], DISAGREE, "does not have the bytes"),
            ([bad, right[1], rows(wrong)], DISAGREE, "[3, 7]"),
            ([right[0], right[1], rows(wrong)], BAD_INPUT, "digest stands beside"),
            ([bad, right[1], rows(whole["codes"])], BAD_INPUT, "digest stands beside"),
            ([right[1]], DISAGREE, "is not in ACTUAL"),
            ([("codes.digests", [2, 16], right[0][2]), right[1]], DISAGREE, "needs u8 [1, 32]"),
            ([*right, ("codes.rows.0", [3], b"abc")], BAD_INPUT, "found 3 bytes"),
            ([*right, ("codes", [256, 4096], wrong)], BAD_INPUT, "codes: stands beside its digests"),
            ([*right, ("codes.rows.1", [3], b"abc")], 0, "not compared: codes.rows.1"),
        ]:
            with self.subTest(says):
                path.write_bytes(self.report("quantize", tensors))
                self.assertIn(says, self.ok("compare", suite, outputs, code=code))
        path.write_bytes(self.report("other", right))
        self.assertIn("found 'other'", self.ok("compare", suite, outputs, code=BAD_INPUT))
        case = suite / "cases" / "quantize.safetensors"
        path.write_bytes(case.read_bytes())
        self.ok("compare", suite, outputs, code=BAD_INPUT)
        for door in (["compare", case, path], ["compare", "--repeat", case, path], ["explain", "--op", "quantize", case, path]):
            self.refused(*door, says="compared by their suite")

    def test_a_cause_is_found_from_digests(self):
        suite, outputs = self.walked("--model", "qwen3", "--tokens", 256, "--groups", 2, "--only", "id=qwen3.product.up")
        (case,), (path,) = (suite / "cases").iterdir(), outputs.iterdir()
        _, shape, digests = st.decode(case.read_bytes())["y.digests"]
        zero = bytes(128 * 3072 * 2)
        bad = [("y.digests", shape, hashlib.sha256(zero).digest() + digests[32:])]
        path.write_bytes(self.report(path.stem, [*bad, ("y.rows.0", [len(zero)], zero)]))
        self.assertIn("explained: all of group 0 of y hold zeros", self.ok("explain", case, path))
        self.assertIn("hold zeros", self.ok("reduce", case, path, "--output", self.here / "small"))
        path.write_bytes(self.report(path.stem, bad))
        self.refused("explain", case, path, says="only the digest of rows 0 to 127")

    def test_a_right_order_is_told_the_bound(self):
        suite, outputs = self.walked("--op", "grouped_matmul", "--shape", "rows=64,columns=256,features=64,groups=2", "--set", "out=f32")
        for byte, count in [(-4, 1), (-2, 0)]:  # four units in the last place; an eighth of the value
            self.flip(outputs / "grouped_matmul.safetensors", byte)
            self.assertEqual(self.ok("compare", suite, outputs, code=DISAGREE).count("--gate bound passes"), count)

    def test_a_changed_suite_is_invalid(self):
        suite, outputs = self.walked(*QUANTIZE)
        manifest = (suite / "manifest.json").read_text()
        for old, new in [('"rows"', '"columns"'), ("rows=256", "rows=255"), ('"seed": 0', '"seed": 1.5'),
                         ('"normal"', '"norml"'), ("4096\n", "4097\n"), ('"kind": "values"', '"kind": "codes"'),
                         ('"quantize",\n   "param', '"dequantize",\n   "param'), ("{", "{" * 99)]:
            with self.subTest(new):
                self.assertIn(old, manifest)
                (suite / "manifest.json").write_text(manifest.replace(old, new, 1))
                self.refused("compare", suite, outputs, says="manifest.json")
                self.refused("verify", suite, says="manifest.json")
        (suite / "manifest.json").write_text(manifest.replace("{}", '{"block": "0x0"}'))
        self.assertIn("block=0x0: needs", self.ok("verify", suite, code=BAD_INPUT))
        (suite / "manifest.json").write_text(manifest)
        self.flip(suite / "cases" / "quantize.safetensors", -1)
        self.assertIn("sha256 differs", self.ok("verify", suite, code=BAD_INPUT))

    def test_a_suite_of_a_users_tensors(self):
        self.path("mine.safetensors", st.encode({"x": st.f32([2, 64], [0.5] * 128)}))
        self.ok("generate", self.here / "suite", "--from", self.here / "mine.safetensors", "--op", "quantize", "--set", "scale_mode=floor")
        self.assertIn("1 PASS", self.ok("verify", self.here / "suite"))

    def test_recipes_go_by_their_names_elsewhere(self):
        text = self.path("text", b"the quick brown fox " * 400)
        linear = ["--op", "grouped_linear", "--shape", "rows=32,columns=32,features=32,groups=1", "--set"]
        for name, here in [("MXFP8_RCEIL", "mxfp8_rceil"), ("mxfp8_emulated_rceil", "mxfp8_rceil"),
                           ("MXFP8_RCEIL_WGRAD_WITH_HP", "mxfp8_rceil_wgrad_with_hp")]:
            with self.subTest(name):
                suites = [self.here / one for one in (name, name + ".here")]
                for suite, recipe in zip(suites, (name, here)):
                    self.ok("generate", suite, *linear, f"recipe={recipe}", "--quiet")
                self.assertEqual(*((suite / "cases/grouped_linear.safetensors").read_bytes() for suite in suites))
                self.ok("verify", suites[0])
                self.ok("train", "--recipe", name + ":mxfp8", "--linears", name, "--steps", 1, "--text", text, "--layers", 1,
                        "--context", 32, "--tokens", 64, "--quiet")

    def test_refuses_in_one_line(self):
        new, full = self.here / "new", self.here
        self.path("file", b"x")
        for code, says, args in [
            (USAGE, "did you mean dsv3?", [new, "--model", "dsv4"]),
            (USAGE, "did you mean mxfp8_rceil?", [new, "--model", "dsv3", "--recipe", "mxfp8_rcel"]),
            (USAGE, "did you mean e4m3fnuz?", [new, "--model", "dsv3", "--format", "e4m3fnu"]),
            (USAGE, "--format: has no effect with --shape", [new, "--op", "quantize", "--shape", "rows=4,columns=32", "--format", "e5m2"]),
            (USAGE, "found no columns", [new, "--op", "quantize", "--shape", "rows=4"]),
            (USAGE, "needs --shape or --from, found neither", [new, "--op", "quantize"]),
            (USAGE, "needs --op", [new, "--shape", "rows=4"]),
            (USAGE, "did you mean normal?", [new, *QUANTIZE, "--distribution", "norml"]),
            (UNSUPPORTED, "at most 8 GB", [new, "--op", "combine_backward", "--shape", "rows=1048576,columns=8192,ranks=2,experts=8,top_k=2"]),
            (USAGE, "needs a multiple of 32", [new, "--model", "dsv3", "--tokens", 200]),
            (BAD_INPUT, "not an empty directory", [full, *QUANTIZE]),
            (BAD_INPUT, "not an empty directory", [full, "--model", "dsv3", "--tokens", 32]),
            (BAD_INPUT, "columns", [new, "--op", "grouped_linear", "--shape", "rows=64,columns=48,features=32,groups=2", "--set", "only=y"]),
        ]:
            with self.subTest(says):
                self.refused("generate", *args, code=code, says=says if says != "columns" else "")


if __name__ == "__main__":
    unittest.main()
