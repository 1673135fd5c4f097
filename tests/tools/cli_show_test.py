#!/usr/bin/env python3
"""mxo list and show, help and exit codes, as a user meets them.
Usage: cli_show_test.py MXO [unittest arguments].
"""
import re
import unittest
from pathlib import Path

from cli_case import USAGE, Case


class Main(Case):
    def test_version_and_help_succeed(self):
        self.assertRegex(self.ok("--version"), r"^mxo \d+\.\d+\.\d+\n$")
        for command in ["list", "show", "run", "generate", "verify", "compare"]:
            self.assertIn(command, self.ok("--help"))
            self.assertIn("Usage", self.ok(command, "--help"))


class List(Case):
    def test_every_subject_prints_something(self):
        subjects = [line.split()[2] for line in self.ok("list").splitlines()]
        self.assertLessEqual({"ops", "formats", "rules", "backends", "communicators", "suites",
                              "sums"}, set(subjects))
        for subject in subjects:
            self.assertTrue(self.ok("list", subject).strip(), subject)

    def test_every_operator_is_described(self):
        for line in self.ok("list", "ops").splitlines():
            out = self.ok("list", "ops", line.split()[0])
            self.assertIn("inputs", out)
            self.assertIn("outputs", out)

    def test_quantize_lists_its_parameters(self):
        out = self.ok("list", "ops", "quantize")
        for word in ["[.., R, K]", "rceil|floor|ceil|even", "mxo list rules", "f32, bf16 or f16"]:
            self.assertIn(word, out)

    def test_rules_diverge_where_they_say(self):
        rows = {}
        for line in self.ok("list", "rules", "--diverge").splitlines():
            match = re.match(r"(\w+) +(\w+) +([0-9A-F]{8})(?:\.\.[0-9A-F]{8})? \(.*?\) +(.*)", line)
            if match:
                rows[match[1], match[2], match[3]] = re.findall(r"(\w\w) (\w\w)", match[4])
        # torchao, te, ocp, torchao_cuda: scale and code of amax
        self.assertEqual(rows["rceil", "e4m3", "04600001"],
                         [("00", "7E"), ("00", "7E"), ("01", "76"), ("00", "7E")])
        self.assertEqual(rows["rceil", "e5m2", "07E00001"][0][0], "00")
        self.assertEqual(rows["rceil", "e5m2", "07E00001"][2][0], "01")
        self.assertEqual([s for s, _ in rows["floor", "e4m3", "047FFFFF"]], ["00", "01", "00", "01"])
        self.assertEqual([s for s, _ in rows["rceil", "e4m3", "7F800000"]], ["FF", "FE", "FF", "FF"])
        finite = [key for key in rows if key[0] == "rceil" and key[2] != "7F800000"]
        self.assertEqual(len(finite), 4, "one finite amax per format")

    def test_profiles_page_is_the_one_of_the_docs(self):
        docs = Path(__file__).resolve().parents[2] / "docs" / "profiles.md"
        self.assertEqual(self.ok("list", "rules", "--markdown"), docs.read_text())

    def test_every_rule_has_its_source_in_the_documents(self):
        page = Path(__file__).resolve().parents[2] / "docs" / "numerics.md"
        table = page.read_text().partition("## Definitions and their sources")[2]
        told = {name for line in table.splitlines() if line.startswith("| `")
                for name in re.findall(r"`(\w+)`", line.split("|")[1])}
        rows = self.ok("list", "rules").partition("\n\n")[0].splitlines()[1:]
        self.assertEqual({row.split()[0] for row in rows} - told, set())

    def test_two_rules_part_where_they_say(self):
        out = self.ok("list", "rules", "--diverge", "deepgemm", "vllm")
        self.assertIn("f32 scales, power_of_2=none", out)
        # DeepGEMM's floor of 1e-4 is above every amax up to it; NaN aside there is no other.
        self.assertRegex(out, r"scales differ for 14546 of 32641 amaxes of bf16")
        self.assertRegex(out, r"codes differ for [1-9]\d* of \d+ elements")
        out = self.ok("list", "rules", "--diverge", "torchao", "ocp")
        self.assertIn("scales differ for 1 of 2139095041 amaxes", out)
        self.assertIn("04600001..04600001 (2.63311e-36): 00 and 01", out)
        self.assertEqual(self.ok("list", "rules", "--diverge", "Transformer_Engine", "OCP"),
                         self.ok("list", "rules", "--diverge", "te", "ocp"))
        self.refused("list", "rules", "--diverge", "mxfp8", "te", code=USAGE, says="a format with e8m0 scales")
        self.refused("list", "rules", "--diverge", "jax", "deepgemm", code=USAGE, says="one type of scale")


def code_in(text):
    return int(re.search(r"^  code +(0x\w+)$", text, re.MULTILINE)[1], 16)


class Show(Case):
    def test_values_get_their_codes(self):
        for name, value, code in [
                ("e4m3", "448", 0x7E), ("e4m3", "464", 0x7E), ("e4m3", "-0.0", 0x80),
                ("e4m3", "0x1.8p+1", 0x44), ("e4m3", "3.3", 0x45), ("e4m3", "-1e9", 0xFE),
                ("e4m3", "nan", 0x7F), ("e4m3fnuz", "-0.0", 0), ("e4m3fnuz", "248", 0x7F),
                ("e5m2", "inf", 0x7B), ("e5m2fnuz", "0x1p-17", 1), ("e8m0", "1.25", 127),
                ("e8m0", "1.5", 128), ("bf16", "1.00390625", 0x3F80), ("bf16", "inf", 0x7F80),
                ("f16", "65520", 0x7C00), ("f32", "0.1", 0x3DCCCCCD), ("f32", "1e-46", 0)]:
            self.assertEqual(code_in(self.ok("show", name, value)), code, (name, value))
        self.assertEqual(code_in(self.ok("show", "e5m2", "--", "-inf")), 0xFB)

    def test_functions_of_the_chip(self):
        out = self.ok("show", "ex2.approx", "--", "0.3", "-1")
        self.assertIn("result      0x3F9D9624", out)
        self.assertIn("operand     0xBF800000 = -1", out)
        self.assertIn("result      0x3F000000 = 0.5", out)
        self.assertIn("error       +0.0000 ulp", out)
        self.assertIn("0x7F800000", self.ok("show", "rcp.approx.ftz.f32", "0x1"))
        self.assertIn("result      0xBFDE54E2", self.ok("show", "lg2.approx", "0.3"))
        self.assertIn("result      0xFF800000", self.ok("show", "lg2.approx.ftz", "0x1"))
        self.assertIn("result      0x3E9526AF", self.ok("show", "tanh.approx", "0.3"))
        out = self.ok("show", "div.full", "0.000102", "448", "1", "0")
        self.assertIn("result      0x347477D0", out)  # 0.000102 by fl(1 / 448), as Triton's scales
        self.assertIn("nearest f32 0x347477CF", out)
        self.assertIn("result      0x7F800000 = inf", out)
        out = self.ok("show", "div.full.ftz", "0x1", "1", "0x00800001", "2")
        self.assertEqual(out.count("result      0x00000000"), 2)  # subnormal in, subnormal out

    def test_rounding_is_explained(self):
        out = self.ok("show", "e4m3", "3.3")
        self.assertIn("between     0x45 = 3.25 and 0x46 = 3.5", out)
        self.assertIn("0.2 steps above the lower magnitude: nearer to the lower", out)
        self.assertIn("a tie, to the even code", self.ok("show", "e4m3", "464"))
        self.assertIn("saturating 0x7E = 448, non-saturating 0x7F = nan", self.ok("show", "e4m3", "465"))
        self.assertIn("nearest 0x7F, up 0x80, toward zero 0x7F", self.ok("show", "e8m0", "1.25"))

    def test_neighbours_are_the_next_values(self):
        out = self.ok("show", "e4m3fnuz", "0x00")
        self.assertIn("next above  0x01 = 0.0009765625", out)
        self.assertIn("next below  0x81 = -0.0009765625", out)
        self.assertIn("next above  0x00 = 0\n", self.ok("show", "e4m3fnuz", "0x81"))
        self.assertIn("next above  none", self.ok("show", "e4m3", "0x7E"))


if __name__ == "__main__":
    unittest.main()
