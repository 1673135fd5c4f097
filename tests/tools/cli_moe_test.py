#!/usr/bin/env python3
"""mxo run moe_layer and mxo train.  Usage: cli_moe_test.py MXO [unittest arguments]."""
import json
import lzma
import math
import random
import re
import shlex
import subprocess
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path

from cli_case import BAD_INPUT, DISAGREE, MXO, TRAINED, UNSUPPORTED, USAGE, Case
import safetensors as st


class MoeLayer(Case):
    """A layer of four experts on two ranks."""
    SET = ["--set", "top_k=2"]

    def setUp(self):
        super().setUp()
        self.source = self.path("in.safetensors", st.encode(st.moe_layer([6, 3], 4, 32, 32)))

    def run_layer(self, name, *args):
        out = self.here / name
        self.ok("run", "moe_layer", "--input", self.source, "--output", out, *self.SET, *args)
        return out

    def test_outputs_and_gradients_are_there_and_stages_on_request(self):
        plain = st.decode(self.run_layer("plain.safetensors").read_bytes())
        self.assertEqual(set(plain), {"rank0.y", "rank1.y", "rank0.dx", "rank1.dx", "drouter", "dw1", "dw2"})
        self.assertEqual(plain["dw1"][1], [4, 64, 32])
        kept = st.decode(self.run_layer("kept.safetensors", "--keep-stages").read_bytes())
        self.assertEqual({name: kept[name] for name in plain}, plain)
        for stage in ["logits", "dispatched.codes", "permuted.scales", "h", "act", "expert_out",
                      "combined", "dexpert_out.codes", "dact", "dh", "dlogits"]:
            self.assertIn(f"rank1.{stage}", kept)

    def test_a_communicator_that_is_not_here_or_not_for_the_backend_says_so(self):
        rows = {line.split()[0]: line for line in self.ok("list", "communicators").splitlines()}
        self.assertEqual(set(rows), {"in_process", "mpi", "nccl"})
        self.assertIn("available", rows["in_process"])
        call = ["run", "moe_layer", "--input", self.source, "--output", self.here / "out",
                *self.SET, "--communicator"]
        for name in ("mpi", "nccl"):
            if "this build has none" in rows[name]:
                self.refused(*call, name, code=UNSUPPORTED, says=f"{name}: this build has none")
            elif name == "nccl":
                self.refused(*call, name, says="found backend cpu")

    def test_compare_names_the_first_step_that_differs(self):
        kept = self.run_layer("kept.safetensors", "--keep-stages")
        actual = st.decode(kept.read_bytes())
        for name in ["rank1.act", "rank0.expert_out", "rank0.y", "dw1"]:
            dtype, shape, data = actual[name]
            actual[name] = (dtype, shape, bytes([data[0] ^ 1]) + data[1:])
        out = self.ok("compare", kept, self.path("actual.safetensors", st.encode(actual)),
                      code=DISAGREE)
        self.assertIn("the first step to differ is rank1.act", out)
        fails = re.findall(r"FAIL\s+\S+ (\S+)", out)
        self.assertEqual(fails[:4], ["rank1.act", "rank0.expert_out", "rank0.y", "dw1"])

    def test_the_layer_of_the_documentation_prints_what_it_says(self):
        page = (Path(__file__).parents[2] / "docs" / "moe_layer.md").read_text()
        command, printed = re.search(r"```sh\n(mxo run .*?)```\n```text\n(.*?)```", page,
                                     re.S).groups()
        draw = random.Random(6)
        shapes = {"router": [8, 256], "w1": [8, 256, 256], "w2": [8, 256, 128],
                  "shared.w1": [256, 256], "shared.w2": [256, 128], "rank0.x": [24, 256]}
        rows = {columns: st.normal_bf16(draw, [1, columns], .3)[2] for columns in (128, 256)}
        tensors = {name: (dtype, shape, rows[shape[-1]] * (math.prod(shape) // shape[-1]))
                   for name, shape in shapes.items() for dtype in ["BF16"]}
        tensors["router.bias"] = st.f32([8], [i / 8 for i in range(8)])
        self.path("layer.safetensors", st.encode(tensors))
        words = [self.here / word if word.endswith(".safetensors") else word
                 for word in shlex.split(command.replace("\\\n", " "))[1:]]
        self.assertEqual(self.ok(*words).rstrip().splitlines(), printed.splitlines())

    def test_only_the_layer_has_stages_to_keep(self):
        self.refused("run", "swiglu", "--input", self.source, "--output", self.here / "out",
                     "--keep-stages", code=USAGE, says="keep_stages")


class Train(Case):
    def capture(self):
        packed = Path(__file__).parents[1] / "data" / "training.safetensors.xz"
        return lzma.decompress(packed.read_bytes())

    def first_step(self):
        keys = {"rceil." + key for key in ("x", "target", "group_ends", "w1.0", "w2.0", "y.1")}
        return {k: v for k, v in st.decode(self.capture()).items() if k in keys}

    def test_fifty_steps_of_a_gpu_are_repeated_to_the_bit(self):
        out = self.ok("train", "--replay", self.path("training.safetensors", self.capture()))
        rows = [line.split() for line in out.splitlines()]
        self.assertEqual(rows.pop(0)[0], "mode")
        self.assertEqual(rows.pop()[:3], ["0", "of", "1769472"])
        found = {(mode, step, tensor) for mode, step, tensor, _, _ in rows}
        self.assertEqual(found, {(mode, step, tensor) for mode in ("rceil", "floor")
                                 for step in ("1", "10", "50") for tensor in ("y", "w1", "w2")})

    def test_one_changed_bit_of_a_captured_output_is_found(self):
        tensors = self.first_step()
        file = self.path("same.safetensors", st.encode(tensors))
        self.assertIn("0 of 32768", self.ok("train", "--replay", file))
        dtype, shape, data = tensors["rceil.y.1"]
        tensors["rceil.y.1"] = (dtype, shape, data[:-1] + bytes([data[-1] ^ 1]))
        file = self.path("changed.safetensors", st.encode(tensors))
        self.assertIn("1 of 32768", self.ok("train", "--replay", file, code=DISAGREE))

    def test_a_capture_that_is_not_compared_whole_is_refused(self):
        tensors = self.first_step()
        half = {"rceil.y.1": ("F16", *tensors["rceil.y.1"][1:])}
        for more, says in (({"rceil.w1.01": tensors["rceil.w1.0"]}, "rceil.w1.01"), (half, "f16")):
            file = self.path("more.safetensors", st.encode(tensors | more))
            self.refused("train", "--replay", file, says=says)
        for name, says in (("rceil.y.1", "no output"), ("rceil.w2.0", "rceil.w2.0")):
            del tensors[name]
            file = self.path("less.safetensors", st.encode(tensors))
            self.refused("train", "--replay", file, says=says)

    def test_recipes_are_compared_in_a_table_and_a_picture(self):
        out = self.ok(*self.small("--compare", "bf16,mxfp8_rceil,e4m3fnuz", "--output",
                                  self.here / "runs", "--digest-every", 3))
        self.assertRegex(out, r"(?m)^bf16 +\d\.\d{5} +\+0\.000%")
        self.assertRegex(out, r"(?m)^e4m3fnuz +\d\.\d{5} +[+-]\d+\.\d{3}%")
        self.assertRegex(out, r"(?m)^digest of mxfp8_rceil at step 6: [0-9a-f]{64}$")
        svg = xml.etree.ElementTree.parse(self.here / "runs" / "loss.svg").getroot()
        curves = [p for p in svg.iter() if p.get("class") == "curve"]
        self.assertEqual(len(curves), 3 * 3)  # two panels and the legend
        rows = (self.here / "runs" / "bf16" / "loss.csv").read_text().splitlines()
        self.assertEqual(rows[0], "step,learning_rate,loss,gradient_norm,held_out,busiest_expert,"
                                  "idlest_expert")
        self.assertEqual(len(rows), 7)
        speed = (self.here / "runs" / "bf16" / "speed.csv").read_text().splitlines()
        self.assertEqual(speed[0], "step,tokens_per_second,peak_memory_mb")
        self.assertEqual(len(speed), 7)

    def test_a_configuration_is_a_command_line(self):
        """Options of the file, of the command line before it, and what is no such file."""
        config = {"steps": 3, "recipe": "bf16", "digest-every": 1, "recompute": True, "clip": 0.5}
        small = self.small()
        del small[small.index("--steps"):small.index("--steps") + 2]
        run = lambda text, *args: [*small, *args, "--config", self.path("c.json", text.encode())]
        words = ["--steps", 3, "--recipe", "bf16", "--digest-every", 1, "--recompute", "--clip", 0.5]
        digest = lambda out: re.search("step 3: ([0-9a-f]{64})", out)[1]
        self.assertEqual(digest(self.ok(*run(json.dumps(config)))), digest(self.ok(*small, *words)))
        self.assertIn("2 steps of", self.ok(*run(json.dumps(config), "--steps", 2)))
        for text, code, says in [
                ("", BAD_INPUT, "no JSON"), ("[1]", BAD_INPUT, "a list"), ("3", BAD_INPUT, "no object"),
                ('{"a": {}}', BAD_INPUT, "an object in an object"), ('{"a": null}', BAD_INPUT, "null"),
                ('{"a": [[1]]}', BAD_INPUT, "a list in a list"), ('{"a": 1e999}', BAD_INPUT, "JSON"),
                ('{"steps": 1, "steps": 2}', BAD_INPUT, "twice"), ("[" * 99999, BAD_INPUT, "a list"),
                ('{"step": 1}', USAGE, "did you mean steps?"), ('{"steps": []}', USAGE, "steps"),
                ('{"steps": [1, 2]}', USAGE, "steps"), ('{"steps": "x"}', USAGE, "steps: found x, needs"),
                ('{"seed": -1}', USAGE, "seed"), ('{"config": "c"}', USAGE, "'config'"),
                ('{"top-k": 1.5}', USAGE, "top-k"), (" " * (1 << 20) + "{}", BAD_INPUT, "1 MB")]:
            self.refused(*run(text, "--output", self.here / "never"), code=code, says=says)
        self.assertFalse((self.here / "never").exists())

    def test_a_run_is_looked_at_exported_and_gone_on_with(self):
        run = self.here / "run"
        held_out = self.path("held", b"blue fish, one fish, two fish, red fish; ")
        done = subprocess.run([MXO, *map(str, self.small(
            "--output", run, "--log-every", 2, "--eval-every", 3, "--val-text", held_out, "--sum",
            "fma_chain", "--linears", "bf16"))], capture_output=True, text=True, check=True)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[2], r"^mxfp8_rceil step 6 of 6: loss \d\.\d{4}, held out \d\.\d{4}, "
                                   r"rate \S+, \d+ tokens/s, \d+ MB$")
        rows = [row.split(",") for row in (run / "loss.csv").read_text().splitlines()[1:]]
        self.assertEqual([row[4] != "" for row in rows], [False, False, True] * 2)
        self.assertTrue(all(float(row[5]) >= 1 >= float(row[6]) for row in rows))
        sampled = self.ok("train", "--sample", "one f", "--from", run, "--length", 7)
        self.assertTrue(sampled.startswith("one f"))
        self.ok("train", "--export", self.here / "hf", "--from", run)
        tensors = st.decode((self.here / "hf" / "model.safetensors").read_bytes())
        self.assertIn("model.layers.0.block_sparse_moe.experts.3.w2.weight", tensors)
        self.assertEqual(json.loads((self.here / "hf" / "config.json").read_text())["model_type"],
                         "mixtral")
        self.ok(*self.small("--init", self.here / "hf" / "model.safetensors"))
        self.refused(*self.small("--init", self.here / "hf" / "model.safetensors", "--width", 64),
                     says="another shape")
        self.ok(*self.small("--output", self.here / "scored", "--score", "sqrtsoftplus"))
        self.refused("train", "--export", self.here / "no", "--from",
                     self.here / "scored", code=UNSUPPORTED, says="Mixtral")
        self.assertFalse((self.here / "no").exists())

    def test_digests_name_the_first_step_and_stage_that_differ(self):
        run = lambda name, *args: self.ok(*self.small("--digest-every", 1, "--output",
                                                      self.here / name, *args))
        a, b, c = (self.here / name / "digests.csv" for name in "abc")
        run("a", "--threads", 1)
        run("b", "--threads", 2, "--ranks", 4)
        self.assertIn("to step 6", self.ok("train", "--diff-digests", a, b))
        run("c", "--recipe", "mxfp8_floor")
        out = self.ok("train", "--diff-digests", a, c, code=DISAGREE)
        self.assertIn("step 1, stage layer0.moe.h: digests differ", out)
        c.write_text(b.read_text().replace("2,", "3,", 1))
        self.refused("train", "--diff-digests", a, c, says="line ")

    def test_a_run_that_is_killed_goes_on_from_its_checkpoint_with_the_same_bits(self):
        more = ["--steps", 40, "--digest-every", 5, "--checkpoint-every", 1]
        stopped = self.here / "stopped"
        self.refused(*self.small(*more, "--output", stopped, "--resume"), code=BAD_INPUT,
                     says="stopped holds no checkpoint")
        self.assertFalse(stopped.exists())
        self.ok(*self.small(*more, "--output", self.here / "whole"))
        command = [MXO, *map(str, self.small(*more, "--output", stopped))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        enough = random.randint(1, 15)  # steps saved; loss.csv has a line more than steps
        log = stopped / "loss.csv"
        while process.poll() is None and not (log.exists() and log.read_text().count("\n") > enough):
            time.sleep(0.001)
        process.kill()  # wherever it is: in a step, or writing
        process.communicate()
        self.refused(*self.small(*more, "--output", stopped), code=BAD_INPUT, says="--resume")
        self.ok(*self.small(*more, "--output", stopped, "--resume"))
        for name in TRAINED:
            self.assertEqual((self.here / "whole" / name).read_bytes(),
                             (stopped / name).read_bytes(), name)


if __name__ == "__main__":
    unittest.main()
