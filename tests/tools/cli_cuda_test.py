#!/usr/bin/env python3
"""The commands of mxo on a GPU, and on one GPU a rank over NCCL: the files of the CPU.
Usage: cli_cuda_test.py MXO [unittest arguments].  Exits with 77 where there is no device.
"""
import lzma
import sys
import unittest
from pathlib import Path

from cli_case import TRAINED, UNSUPPORTED, Case, mxo
import safetensors as st


def rows_of(subject):
    """`mxo list`: name -> (is it here, why)."""
    found = {}
    for line in mxo("list", subject)[1].splitlines():
        name, rest = line.split(None, 1)
        found[name] = (rest.startswith("available"), rest)
    return found


BACKENDS = rows_of("backends")
GPUS = sum(name.startswith("cuda:") for name in BACKENDS)
NCCL = rows_of("communicators")["nccl"]


class OnAGpu(Case):
    def layer(self, tokens, **shared):
        return self.path("in.safetensors", st.encode(st.moe_layer(tokens, 8, 64, 64, **shared)))

    def file_of(self, op, source, *args):
        out = self.here / f"out{len(list(self.here.iterdir()))}.safetensors"
        self.ok("run", op, "--input", source, "--output", out, *args)
        return out.read_bytes()

    def test_the_backend_is_listed_with_its_card(self):
        for device in range(GPUS):
            available, why = BACKENDS[f"cuda:{device}"]
            self.assertTrue(available)
            self.assertIn("NVIDIA", why)

    def test_every_suite_made_on_either_is_verified_on_the_other(self):
        for number, (maker, judge) in enumerate((("cpu", "cuda"), ("cuda", "cpu"))):
            for suite in rows_of("suites"):
                folder = self.here / f"{suite}{number}"
                self.ok("generate", folder, "--suite", suite, "--level", number, "--backend", maker)
                self.ok("verify", folder, "--backend", judge)

    def test_a_layer_has_the_file_of_the_cpu_in_every_pipeline(self):
        source = self.layer([21], shared=32)
        for pipeline in ("mxfp8", "bf16", "quantize_after", "flow"):
            args = ["--set", "top_k=2", "--set", f"pipeline={pipeline}", "--keep-stages"]
            owed = self.file_of("moe_layer", source, *args)
            self.assertEqual(owed, self.file_of("moe_layer", source, *args, "--backend", "cuda"))
            if NCCL[0]:
                self.assertEqual(owed, self.file_of("moe_layer", source, *args, "--backend", "cuda",
                                                    "--communicator", "nccl"))

    def test_ranks_with_a_gpu_each_have_the_file_of_threads(self):
        if not NCCL[0] or GPUS < 2:
            self.skipTest(f"nccl {NCCL[1]}, {GPUS} GPU")
        for tokens in ([9, 12], [5, 0, 9, 3]):
            if len(tokens) > GPUS:
                continue
            source = self.layer(tokens, shared=32)
            for pipeline in ("mxfp8", "bf16", "quantize_after", "flow"):
                args = ["--set", "top_k=2", "--set", f"pipeline={pipeline}", "--keep-stages"]
                owed = self.file_of("moe_layer", source, *args)
                for way in ("nccl", "in_process"):
                    self.assertEqual(owed, self.file_of("moe_layer", source, *args, "--backend",
                                                        "cuda", "--communicator", way))

    def train(self, name, *args):
        out = self.here / name
        self.ok(*self.small("--digest-every", 1, "--recipe", "mxfp8_rceil:mxfp8", "--output", out, *args))
        return [(out / file).read_bytes() for file in TRAINED]

    def test_training_has_the_digests_of_the_cpu(self):
        owed = self.train("cpu")
        self.assertEqual(owed, self.train("cuda", "--backend", "cuda"))
        for ranks in (2, 4):
            if NCCL[0] and ranks <= GPUS:
                self.assertEqual(owed, self.train(f"nccl{ranks}", "--backend", "cuda", "--ranks",
                                                  ranks, "--communicator", "nccl"))

    def test_fifty_steps_of_a_gpu_are_repeated_on_one(self):
        packed = Path(__file__).parents[1] / "data" / "training.safetensors.xz"
        capture = self.here / "training.safetensors"
        capture.write_bytes(lzma.decompress(packed.read_bytes()))
        self.assertIn("0 of 1769472", self.ok("train", "--replay", capture, "--backend", "cuda"))

    def test_what_is_not_there_ends_with_four_and_no_file(self):
        source = self.layer([3])
        out = self.here / "out"
        for args in (["--backend", "cuda:99"], *([] if NCCL[0] else [["--communicator", "nccl"]])):
            code, _, err = mxo("run", "moe_layer", "--input", source, "--output", out, *args)
            self.assertEqual(code, UNSUPPORTED, err)
            self.assertEqual(len(err.splitlines()), 1, err)
            self.assertFalse(out.exists())

    def test_more_ranks_than_gpus_are_refused(self):
        if not NCCL[0]:
            self.skipTest(f"nccl {NCCL[1]}")
        if 8 % (2 * GPUS) != 0:
            self.skipTest("eight experts do not fit")
        source = self.layer([1] * 2 * GPUS)
        code, _, err = mxo("run", "moe_layer", "--input", source, "--output", self.here / "out",
                           "--backend", "cuda", "--communicator", "nccl")
        self.assertEqual(code, UNSUPPORTED, err)
        self.assertIn("each needs a GPU of its own", err)


if __name__ == "__main__":
    if GPUS == 0:
        print("skipped: cuda", BACKENDS["cuda"][1])
        sys.exit(77)
    unittest.main()
