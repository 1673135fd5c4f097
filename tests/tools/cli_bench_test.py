#!/usr/bin/env python3
"""mxo bench: every table at a tiny scale, its bytes against a count by hand, and what is refused.
Usage: cli_bench_test.py MXO [unittest arguments].  Times are never tested.
"""
import json
import random
import re
import shlex
import unittest
from pathlib import Path

from cli_case import MXO, UNSUPPORTED, USAGE, Case, ramp
import safetensors as st

TINY = ["--scale", "0.001", "--repeats", "1", "--threads", "1"]
ALONE = ["--rivals", ""]
DOCS = Path(__file__).parents[2] / "docs/tables.md"
# Of a table: further arguments, rows, and columns that it must have.
TABLES = {
    "pad": ([], 16, ["dim", "groups", "us", "memcpy us", "of memcpy", "published CUDA us"]),
    "linear": ([], 12, ["M", "N", "K", "groups", "bf16 us", "mxfp8 us", "padding costs %",
                        "published unpadded speedup"]),
    "kernels": ([], 15, ["pass", "kernel", "of", "us", "GFLOP/s", "torch us", "published us"]),
    "layer": ([], 2, ["model", "bf16 ms", "speedup", "published mxfp8 ms"]),
    "recompute": (["--model", "mixtral"], 18, ["made again", "kept", "peak", "process"]),
    "requantize": ([], 10, ["tensor", "way", "changed %", "dB of x, turned", "dB lost"]),
    "training": ([], 7, ["what", "tokens/s", "loss %", "published tokens/s"]), }  # fmt: skip

# The layer of --model mixtral at this scale.
T, D, F, E, K = 256, 128, 128, 8, 2
SENT = {"bf16": 2 * D, "mx": D + D // 32, "128": D + D // 128 * 4}  # bytes of a row
# Rows in dispatch and in its mirror, combine's gradient; what the experts keep of u and of act.
WAYS = {
    "bf16": ("bf16", "bf16", 2 * F), "quantise before the products": ("bf16", "bf16", 2 * F),
    "quantise before the all-to-all": ("mx", "bf16", 2 * F), "fused dispatch": ("mx", "bf16", 2 * F),
    "flow": ("128", "bf16", F + F // 128 * 4), "TransformerEngine block-wise": ("bf16", "bf16", 2 * F),
}


def routing(rows, ranks):
    """Logits, experts and weights; the plan's maps by selection, by row and by expert."""
    return T * E * 4 + 2 * T * K * 4 + 3 * T * K * 4 + rows * 4 + E * 4 + ranks * E * 4


class Bench(Case):
    def table(self, name, *args):
        said = json.loads(self.ok("bench", name, *TINY, *ALONE, "--json", *args))
        self.assertEqual(said["table"], name)
        return said["rows"]

    def test_every_table_has_its_rows_in_json_and_text(self):
        for name, (args, count, columns) in TABLES.items():
            with self.subTest(name):
                rows = self.table(name, *args)
                self.assertEqual(len(rows), count)
                for row in rows:
                    self.assertEqual([c for c in columns if c not in row], [])
        text = self.ok("bench", "kernels", *TINY, *ALONE).splitlines()
        self.assertRegex(text[0], "published: .*B200")
        self.assertEqual(len(text[2:17]), 15)
        self.assertIn("2103", text[16])
        self.assertIn("times 0.001", text[-1])

    def test_published_figures_stand_beside_their_own_shapes_only(self):
        self.assertEqual({r["published us"] for r in self.table("kernels", "--model", "qwen3")}, {None})
        rows = self.table("linear", "--model", "llama4")
        self.assertEqual([r["published speedup"] for r in rows], [1.6, 1.56, 1.59, 1.59, None, None])

    def test_bytes_of_pipelines_are_those_counted_by_hand(self):
        rows = self.table("pipelines", "--model", "mixtral", "--ranks", "1,2,4")
        self.assertEqual(len(rows), len(WAYS) * 3 * 2)
        away = {}  # rows that leave their rank, by ranks: bf16 sends them four times, in 2 D bytes
        for row in rows:
            p, how = row["ranks"], row["pipeline"]
            if how == "bf16":
                away.setdefault(p, row["on the wire"] // (4 * D))
            to, _, _ = WAYS[how]
            with self.subTest(row["pass"], pipeline=how, ranks=p):
                self.assertEqual(row["on the wire"], away[p] * (SENT[to] + SENT["bf16"]))
                if row["pass"] == "backward":
                    all_tokens = (p - 1) * T * (4 * E + 2 * D)
                    self.assertIn(row["gathered"] - all_tokens, range(0, 1000))
                self.assertEqual(row["kept"], self.kept(how, row["expert rows"], p))
        self.assertEqual(away[1], 0)
        for p in [2, 4]:  # even routing sends (P - 1) / P of the rows elsewhere
            self.assertAlmostEqual(away[p] / (T * K), (p - 1) / p, delta=0.1)

    def kept(self, how, rows, ranks, h=4 * F, act=None):
        to, _, activation = WAYS[how]
        a_row = SENT[to] + h + (activation if act is None else act)
        return rows * a_row + T * K * 2 * D + routing(rows, ranks)

    def test_recomputing_drops_what_it_makes_again(self):
        for row in self.table("recompute", "--model", "mixtral"):
            drops = {"nothing": {}, "activation": {"act": 0}, "experts": {"h": 0, "act": 0}}
            with self.subTest(row["made again"], pipeline=row["pipeline"]):
                self.assertEqual(row["kept"], self.kept(row["pipeline"], row["expert rows"], 1,
                                                        **drops[row["made again"]]))
                parts = [row[c] for c in ["rows", "h", "act", "returned", "routing"]]
                self.assertEqual(sum(parts), row["kept"])

    def test_a_second_cast_of_ones_own_tensor_is_measured(self):
        draw = random.Random(3)
        powers = [2.0 ** draw.randrange(8) for _ in range(128 * 256)]
        source = self.path("x.safetensors", st.encode({
            "powers": st.f32([128, 256], powers), "any": st.normal_bf16(draw, [128, 256], 1),
            "codes": st.f32([8], [0.0] * 8)}))  # fmt: skip
        rows = {(r["tensor"], r["way"]): r for r in self.table("requantize", "--input", source)}
        self.assertEqual({name for name, _ in rows}, {"any", "powers"})
        for way in ["cast again, powers of two", "move exponents, round"]:
            self.assertEqual(rows["powers", way]["changed %"], 0.0, way)
            self.assertLess(rows["any", way]["dB lost"], 0.1)
        self.assertGreater(rows["any", "cast again, scales of any value"]["dB lost"], 1)
        codes = self.path("codes.npy", b"not one")
        self.refused("bench", "requantize", "--input", codes, says="codes.npy")

    def test_wrong_requests_are_one_line(self):
        for args, says in [
            (["kernel"], "did you mean kernels?"),
            (["pad", "--model", "dsv4"], "did you mean dsv3?"),
            (["pad", "--ranks", "2"], "--ranks: found table pad, needs one of pipelines, recompute"),
            (["training", "--model", "dsv3"], "--model: found table training, needs one of pad, "),
            (["pad", "--input", "x.npy"], "--input: found table pad, needs one of requantize"),
            (["pad", "--scale", "2"], "--scale"),
            (["pad", "--tokens", "200"], "--tokens: found 200, needs a multiple of 128"),
            (["pad", "--repeats", "0"], "--repeats"),
            ([], "TABLE"), ]:
            self.refused("bench", *args, code=USAGE, says=says)

    def test_too_little_memory_names_the_scale_that_fits(self):
        says = self.refused("bench", "layer", "--tokens", 2**31, code=UNSUPPORTED, says="GB of memory")
        self.assertRegex(says, r"--scale 0\.\d+ fits")

    def test_ranks_that_the_experts_do_not_divide_are_said(self):
        said = json.loads(self.ok("bench", "pipelines", *TINY, *ALONE, "--json", "--model", "mixtral", "--ranks", "3"))
        self.assertEqual((said["rows"], len(said["notes"])), ([], 9))
        self.assertIn("bf16, ranks 3: refused", said["notes"][0])

    def test_cuda_without_a_device_is_not_here(self):
        if re.search(r"^cuda\S* +available", self.ok("list", "backends"), re.M):
            self.skipTest("there is a device")
        self.refused("bench", "pad", *TINY, "--backend", "cuda", code=UNSUPPORTED, says="cuda")

    def test_a_python_without_torch_or_none_is_a_note(self):
        for python in ["/nowhere/python", "/bin/true"]:
            said = json.loads(self.ok("bench", "pad", *TINY, "--json", "--rivals", python))
            self.assertTrue(any(n.startswith("rivals: not measured") for n in said["notes"]), said)
            self.assertEqual({r["torch us"] for r in said["rows"]}, {None})

    def test_blocks_of_the_page_run(self):
        draw = random.Random(5)
        shapes = {"router": [4, 32], "w1": [4, 64, 32], "w2": [4, 32, 32], "rank0.x": [6, 32], "rank1.x": [6, 32]}
        tensors = {name: st.normal_bf16(draw, shape, 1) for name, shape in shapes.items()}
        self.path("layer.safetensors", st.encode(tensors))
        blocks = re.findall(r"^```sh\n(.*?)^```", DOCS.read_text(), re.S | re.M)
        lines = [shlex.split(line) for line in "".join(blocks).splitlines()]
        self.assertEqual(len(lines), 10)
        for command in lines:
            self.assertEqual(command[0], "mxo")
            if command[1] == "bench":
                self.ok(*command[1:], *TINY, *ALONE)
                continue
            said = self.ok(*[self.here / word if word.endswith(".safetensors") else word
                             for word in command[1:]])
            sent = re.findall(r"^rank\d +sends (\d+) bytes of rows", said, re.M)
            self.assertEqual([int(n) % (32 + 1 + 2 * 32) for n in sent], [0, 0])
            self.assertGreater(sum(map(int, sent)), 0)

    def test_a_report_needs_an_operator_on_ranks(self):
        x = self.path("x.safetensors", st.encode({"x": ramp()}))
        self.refused("run", "quantize", "--input", x, "--output", self.here / "y", "--report",
                     code=USAGE, says="--report: found quantize, needs an operator on ranks")


if __name__ == "__main__":
    unittest.main()
