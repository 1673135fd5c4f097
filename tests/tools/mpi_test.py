#!/usr/bin/env python3
"""Ranks as MPI processes: the bytes of ranks that are threads, and an end when one fails.
Usage: mpi_test.py MXO [unittest arguments].  Exits with 77 where there is no MPI.
"""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cli_case import MXO, TRAINED, Case
import safetensors as st

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


def run(*args, ranks=None, timeout=60):
    command = ([*MPIRUN, "-n", str(ranks)] if ranks else []) + [MXO, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)


def operands(ranks, width, experts, top_k, seed):
    draw = random.Random(seed)
    tensors = {}
    for p in range(ranks):
        tokens = [5, 0, 9, 3][p % 4]
        tensors[f"rank{p}.x"] = st.normal_bf16(draw, [tokens, width], 1)
        chosen = [e for _ in range(tokens) for e in draw.sample(range(experts), top_k)]
        tensors[f"rank{p}.experts"] = ("I32", [tokens, top_k], struct.pack(f"<{len(chosen)}i", *chosen))
    return tensors


class Mpi(Case):
    def source(self, tensors):
        return self.path("in.safetensors", st.encode(tensors))

    def expect_same(self, *args, files=("",)):
        """Threads and four processes write the same; `args` but for the output."""
        found = []
        for name, ranks in (("threads", None), ("processes", 4)):
            out = self.here / name
            done = run(*args, "--output", out, ranks=ranks)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            found.append([(out / file).read_bytes() for file in files])
        self.assertEqual(found[0], found[1])
        return done

    def test_four_processes_give_the_file_of_four_threads(self):
        source = self.source(operands(4, 64, 8, 2, seed=1))
        for extra in (["layout=rank_major"], ["layout=expert_major_padded", "precision=bf16"]):
            settings = [x for s in ["experts=8", *extra] for x in ("--set", s)]
            self.expect_same("run", "dispatch", "--input", source, *settings)

    def test_a_layer_on_four_processes_gives_the_file_of_four_threads(self):
        source = self.source(st.moe_layer([5, 0, 9, 3], 8, 32, 32))
        self.expect_same("run", "moe_layer", "--input", source, "--set", "top_k=2", "--keep-stages")

    def test_ranks_with_other_arguments_are_refused(self):
        source = self.source(operands(2, 64, 8, 2, seed=3))
        out = self.here / "out.safetensors"

        def process(*settings):
            return [MXO, "run", "dispatch", "--input", str(source), "--output", str(out),
                    *(x for s in settings for x in ("--set", s))]
        done = subprocess.run(
            [*MPIRUN, "-n", "1", *process("experts=8"), ":", "-n", "1",
             *process("experts=8", "precision=bf16")],
            capture_output=True, text=True, check=False, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("other arguments", done.stderr)
        self.assertFalse(out.exists())

    def refused_on(self, ranks, tensors, says):
        out = self.here / "out.safetensors"
        done = run("run", "dispatch", "--input", self.source(tensors), "--output", out, "--set",
                   "experts=8", ranks=ranks)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(says, done.stderr)
        self.assertFalse(out.exists())

    def test_a_rank_that_fails_ends_the_job_with_its_name(self):
        tensors = operands(4, 64, 8, 2, seed=2)
        dtype, shape, data = tensors["rank2.experts"]
        tensors["rank2.experts"] = (dtype, shape, struct.pack("<i", 99) + data[4:])
        self.refused_on(4, tensors, "rank 2 failed: dispatch: experts: entry (0, 0) is 99")

    def test_a_job_of_another_size_is_refused(self):
        self.refused_on(2, operands(4, 64, 8, 2, seed=3), "found 4, needs the size of the MPI job, 2")

    def test_training_on_processes_gives_the_digests_of_threads(self):
        done = self.expect_same(*self.small("--digest-every", 1, "--recipe", "mxfp8_rceil:mxfp8",
                                            "--ranks", 4, "--threads", 1), files=TRAINED)
        self.assertEqual(done.stdout.count("digest of"), 1)  # the first rank alone speaks


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("skipped: no mpirun")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "in.safetensors"
        probe.write_bytes(st.encode(operands(1, 32, 1, 1, seed=0)))
        done = run("run", "dispatch", "--communicator", "mpi", "--input", probe, "--output",
                   Path(folder) / "out", "--set", "experts=1", ranks=1)
    if "this build has none" in done.stderr:
        print("skipped:", done.stderr.strip())
        sys.exit(77)
    os.environ.setdefault("OMPI_MCA_btl_vader_single_copy_mechanism", "none")
    unittest.main()
