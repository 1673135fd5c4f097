#!/usr/bin/env python3
"""Cases whose meaning was changed at random: no crash, no hang, no pass of what is wrong.

Usage: cli_mutations_test.py MXO [unittest arguments].  MXO_MUTATIONS: how many (200), MXO_SEED: of
which (1); both are printed where one fails.
"""
import json
import os
import random
import struct
import subprocess
import unittest

from cli_case import MXO, Case
import safetensors as st

COUNT = int(os.environ.get("MXO_MUTATIONS", "200"))
SEED = int(os.environ.get("MXO_SEED", "1"))
INTEGERS = {"I32": "i", "I64": "q"}


def read(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return st.decode(data), json.loads(data[8:8 + length]).get("__metadata__", {})


def flip(draw, data):
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:]


class Mutation:
    """One change of a file of tensors; `of_values` where only elements change."""

    def __init__(self, draw, tensors, metadata, among):
        self.tensors, self.metadata = dict(tensors), dict(metadata)
        self.name = draw.choice(sorted(among))
        dtype, shape, data = self.tensors[self.name]
        kinds = [self.shape, self.dtype, self.drop, self.rename, self.words, self.ends]
        self.of_values = len(data) > 0 and draw.random() < 0.4
        if self.of_values:
            self.tensors[self.name] = (dtype, shape, flip(draw, data))
        else:
            draw.choice(kinds)(draw, dtype, shape, data)

    def shape(self, draw, dtype, shape, data):
        count = len(data) // st.BYTES[dtype]
        flat = draw.choice([[count], [1, count], [count, 1], [1, 1, count], shape[::-1],
                            [1] * draw.randrange(1, 70) + [count], [0, 2 ** 40]])
        size = st.BYTES[dtype]
        for extent in flat:
            size *= extent
        self.tensors[self.name] = (dtype, flat, data[:size].ljust(min(size, 1 << 20), b"\0"))

    def dtype(self, draw, dtype, shape, data):
        same = [d for d, size in st.BYTES.items() if size == st.BYTES[dtype]]
        self.tensors[self.name] = (draw.choice(same), shape, data)

    def drop(self, *_):
        del self.tensors[self.name]

    def rename(self, draw, *_):
        new = draw.choice(["codes", "scales", "x.codes", "y", "group_ends", "rank00.x", "a\tb", ""])
        self.tensors[new] = self.tensors.pop(self.name)

    def words(self, draw, *_):
        key = draw.choice([*self.metadata, "mxo.op", "mxo.outputs", f"{self.name}.format"])
        self.metadata[key] = draw.choice(["", "quantize", "grouped_matmul", "e4m3", "nonsense",
                                          "-1", "nan", "99999999999999999999", "\x1b[2J", "moe_layer"])

    def ends(self, draw, *_):
        kind = draw.choice(list(INTEGERS))
        values = [draw.choice([-1, 0, 1, 5, 2 ** 30, 2 ** 31 - 1]) for _ in range(draw.randrange(4))]
        self.tensors["group_ends"] = (kind, [len(values)],
                                      struct.pack(f"<{len(values)}{INTEGERS[kind]}", *values))


class Mutations(Case):
    def run_mxo(self, *args):
        done = subprocess.run([MXO, *map(str, args)], capture_output=True, check=False, timeout=120)
        self.assertIn(done.returncode, range(6), (args, done.stderr[-500:]))
        return done.returncode

    def cases(self):
        suite = self.here / "suite"
        self.ok("generate", suite, "--suite", "all", "--level", 0)
        manifest = json.loads((suite / "manifest.json").read_text())
        return [(item, suite / "cases" / f"{item['id']}.safetensors")
                for item in manifest["cases"]]

    def test_nothing_crashes_hangs_or_passes(self):
        draw = random.Random(SEED)
        cases = self.cases()
        actual, expected = self.here / "actual.safetensors", self.here / "expected.safetensors"
        for number in range(COUNT):
            item, path = draw.choice(cases)
            tensors, metadata = read(path)
            outputs = [o["name"] for o in item["operands"] if o["role"] == "expected"]
            exact = all(o.get("expect", "bit_exact") == "bit_exact" for o in item["operands"])
            in_actual = draw.random() < 0.5
            change = Mutation(draw, tensors, metadata, outputs if in_actual else tensors)
            changed = st.encode(change.tensors, change.metadata)
            (actual if in_actual else expected).write_bytes(changed)
            (expected if in_actual else actual).write_bytes(path.read_bytes())
            gate = draw.choice(["bits", "bits", "bound", "ulp=1", "sqnr=40"])
            context = f"MXO_SEED={SEED}, mutation {number}, case {item['id']}, {change.name}, {gate}"
            with self.subTest(context):
                found = self.run_mxo("compare", expected, actual, "--gate", gate, "--nan-bits")
                if in_actual and change.of_values and exact and gate == "bits":
                    self.assertEqual(found, 1, "a changed output passed")
                if in_actual and change.name not in change.tensors:
                    self.assertNotEqual(found, 0, "a missing output passed")


if __name__ == "__main__":
    unittest.main()
