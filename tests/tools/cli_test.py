#!/usr/bin/env python3
"""mxo as a user meets it: every command, every exit code, every kind of bad input.

Usage: cli_test.py MXO [unittest arguments].
"""
import json
import lzma
import math
import os
import pty
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import safetensors as st  # noqa: E402

MXO = sys.argv.pop(1)
AGREE, DISAGREE, USAGE, BAD_INPUT, UNSUPPORTED, NOT_RUN = range(6)


def mxo(*args, **environment):
    done = subprocess.run([MXO, *map(str, args)], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.here = Path(self.folder.name)

    def path(self, name, data=None):
        path = self.here / name
        if data is not None:
            path.write_bytes(data)
        return path

    def ok(self, *args, code=AGREE, **environment):
        found, out, err = mxo(*args, **environment)
        self.assertEqual(found, code, f"{args}\n{out}{err}")
        return out

    def refused(self, *args, code=BAD_INPUT, says=""):
        """Exit code, one line on stderr that names what is wrong, nothing on stdout or disk."""
        before = sorted(p.name for p in self.here.rglob("*"))
        found, out, err = mxo(*args)
        self.assertEqual(found, code, f"{args}\n{out}{err}")
        self.assertEqual(out, "", args)
        self.assertRegex(err, r"\Amxo( \w+)?: [^\n]+\n\Z", args)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, err, args)
        self.assertEqual(before, sorted(p.name for p in self.here.rglob("*")), args)
        return err


def ramp(rows=2, columns=64):
    return st.f32([rows, columns], [(i % 97 - 48) * 0.37 for i in range(rows * columns)])


class Main(Case):
    def test_version_and_help_succeed(self):
        self.assertRegex(self.ok("--version"), r"^mxo \d+\.\d+\.\d+\n$")
        for command in ["list", "show", "run", "generate", "verify", "compare"]:
            self.assertIn(command, self.ok("--help"))
            self.assertIn("Usage", self.ok(command, "--help"))

    def test_usage_errors_exit_2(self):
        for args in [(), ("--nonsense",), ("run",), ("run", "quantize"), ("show", "e4m3"),
                     ("compare", "one"), ("generate", "d", "--level", "x"),
                     ("--threads", "-1", "list"), ("run", "quantize", "--input", "a", "--wrong")]:
            code, out, err = mxo(*args)
            self.assertEqual(code, USAGE, f"{args}\n{out}{err}")

    def test_a_mistyped_command_is_answered_with_the_nearest(self):
        self.refused("compair", "a", "b", code=USAGE, says="did you mean compare?")


class List(Case):
    def test_every_subject_prints_something(self):
        subjects = [line.split()[2] for line in self.ok("list").splitlines()]
        self.assertLessEqual({"ops", "formats", "profiles", "backends", "suites", "sums"}, set(subjects))
        for subject in subjects:
            self.assertTrue(self.ok("list", subject).strip(), subject)

    def test_every_operator_is_described(self):
        for line in self.ok("list", "ops").splitlines():
            out = self.ok("list", "ops", line.split()[0])
            self.assertIn("inputs", out)
            self.assertIn("outputs", out)

    def test_quantize_lists_its_parameters(self):
        out = self.ok("list", "ops", "quantize")
        for word in ["[.., R, K]", "rceil|floor|ceil|even", "torchao|te|ocp", "f32 or bf16"]:
            self.assertIn(word, out)

    def test_profiles_diverge_where_the_rules_say(self):
        rows = {}
        for line in self.ok("list", "profiles", "--diverge").splitlines():
            match = re.match(r"(\w+) +(\w+) +([0-9A-F]{8})(?:\.\.[0-9A-F]{8})? \(.*?\) +(.*)", line)
            if match:
                rows[match[1], match[2], match[3]] = re.findall(r"(\w\w) (\w\w)", match[4])
        # torchao, te, ocp, torchao_cuda: scale and code of amax
        self.assertEqual(rows["rceil", "e4m3", "04600001"],
                         [("00", "7E"), ("00", "7E"), ("01", "76"), ("00", "7E")])
        self.assertEqual(rows["rceil", "e5m2", "07E00001"][0][0], "00")
        self.assertEqual(rows["rceil", "e5m2", "07E00001"][2][0], "01")
        self.assertEqual([s for s, _ in rows["floor", "e4m3", "047FFFFF"]],
                         ["00", "01", "00", "01"])
        self.assertEqual([s for s, _ in rows["rceil", "e4m3", "7F800000"]],
                         ["FF", "FE", "FF", "FF"])
        finite = [key for key in rows if key[0] == "rceil" and key[2] != "7F800000"]
        self.assertEqual(len(finite), 4, "one finite amax per format")

    def test_unknown_names_are_bad_input(self):
        self.refused("list", "operators", says="there are")
        self.refused("list", "ops", "quantise", says="did you mean quantize?")
        self.refused("list", "formats", "--diverge", says="profiles")


def value_in(text):
    return float(re.search(r"^  value +(\S+)$", text, re.MULTILINE)[1])


def code_in(text):
    return int(re.search(r"^  code +(0x\w+)$", text, re.MULTILINE)[1], 16)


def small_float(code, exponent_bits, mantissa_bits, bias, special):
    """The value of a code by the book: fractions of two."""
    sign = -1.0 if code >> 7 else 1.0
    magnitude = code & 0x7F
    field, fraction = magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1)
    if special == "fnuz" and code == 0x80:
        return math.nan
    if special == "fn" and magnitude == 0x7F:
        return math.nan
    if special == "ieee" and field == (1 << exponent_bits) - 1:
        return math.nan if fraction else sign * math.inf
    whole = 1 if field else 0
    return sign * math.ldexp(whole * (1 << mantissa_bits) + fraction,
                             max(field, 1) - bias - mantissa_bits)


class Show(Case):
    def assertSame(self, a, b, what):
        if math.isnan(b):
            self.assertTrue(math.isnan(a), what)
        else:
            self.assertEqual((a, math.copysign(1, a)), (b, math.copysign(1, b)), what)

    def test_every_code_of_eight_bits_has_its_value(self):
        formats = {"e4m3": (4, 3, 7, "fn"), "e4m3fnuz": (4, 3, 8, "fnuz"),
                   "e5m2": (5, 2, 15, "ieee"), "e5m2fnuz": (5, 2, 16, "fnuz")}
        for name, spec in formats.items():
            out = self.ok("show", name, *(f"0x{code:02X}" for code in range(256)))
            blocks = out.split("code 0x")[1:]
            self.assertEqual(len(blocks), 256)
            for code, text in enumerate(blocks):
                self.assertSame(value_in(text), small_float(code, *spec), f"{name} {code:02X}")

    def test_wide_codes_have_their_values(self):
        for code in [0, 1, 0x3FF, 0x400, 0x3C01, 0x7BFF, 0x7C00, 0x7E00, 0x8001]:
            out = self.ok("show", "f16", hex(code))
            self.assertSame(value_in(out), struct.unpack("<e", struct.pack("<H", code))[0], code)
        for code in [0, 1, 0x7F, 0x80, 0x3F80, 0x7F7F, 0x7F80, 0x7FC0, 0xC049]:
            out = self.ok("show", "bf16", hex(code))
            want = struct.unpack("<f", struct.pack("<I", code << 16))[0]
            self.assertSame(value_in(out), want, code)
        for code in [0, 1, 0x7FFFFF, 0x800000, 0x3DCCCCCD, 0x7F7FFFFF, 0xFF800000]:
            out = self.ok("show", "f32", hex(code))
            want = struct.unpack("<f", struct.pack("<I", code))[0]
            self.assertSame(value_in(out), want, code)
        for code in [0, 1, 127, 254]:
            out = self.ok("show", "e8m0", hex(code))
            self.assertEqual(value_in(out), math.ldexp(1, code - 127))
        self.assertTrue(math.isnan(value_in(self.ok("show", "e8m0", "0xFF"))))

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

    def test_rounding_is_explained(self):
        out = self.ok("show", "e4m3", "3.3")
        self.assertIn("between     0x45 = 3.25 and 0x46 = 3.5", out)
        self.assertIn("0.2 of the way up: nearer to the lower", out)
        self.assertIn("a tie, to the even code", self.ok("show", "e4m3", "464"))
        self.assertIn("saturating 0x7E = 448, non-saturating 0x7F = nan",
                      self.ok("show", "e4m3", "465"))
        self.assertIn("nearest 0x7F, up 0x80, toward zero 0x7F", self.ok("show", "e8m0", "1.25"))

    def test_neighbours_are_the_next_values(self):
        out = self.ok("show", "e4m3fnuz", "0x00")
        self.assertIn("next above  0x01 = 0.0009765625", out)
        self.assertIn("next below  0x81 = -0.0009765625", out)
        self.assertIn("next above  0x00 = 0\n", self.ok("show", "e4m3fnuz", "0x81"))
        self.assertIn("next above  none", self.ok("show", "e4m3", "0x7E"))

    def test_bad_values_are_bad_input(self):
        self.refused("show", "e3m4", "1", says="unknown format 'e3m4'")
        self.refused("show", "e4m3", "0x1FF", says="0xFF")
        self.refused("show", "e4m3", "0x", says="hex code")
        self.refused("show", "e4m3", "1.2.3", says="'1.2.3'")


class Run(Case):
    def quantize(self, tensor, *args, out="out.safetensors"):
        source = self.path("in.safetensors", st.encode({"x": tensor}))
        output = self.path(out)
        self.ok("run", "quantize", "--input", source, "--output", output, *args)
        return st.decode(output.read_bytes())

    def test_quantizes_a_block_to_the_known_bytes(self):
        values = [0.0] * 32
        values[3], values[4] = 448.0, -1.0
        made = self.quantize(st.f32([1, 32], values))
        self.assertEqual(made["scales"], ("U8", [1, 1], b"\x7f"))
        self.assertEqual(made["codes"][2][3:5], b"\x7e\xb8")

    def test_gives_the_same_file_from_every_backend_and_thread_count(self):
        files = []
        backends = [line.split()[0] for line in self.ok("list", "backends").splitlines()
                    if " available " in line and not line.startswith("cuda")]
        self.assertIn("reference", backends)
        for backend in backends:
            for threads in ["1", "2"]:
                self.quantize(ramp(33, 96), "--backend", backend, "--threads", threads)
                files.append(self.path("out.safetensors").read_bytes())
        self.assertEqual(len(set(files)), 1)

    def test_takes_npy_and_f32_bits(self):
        dtype, shape, data = ramp()
        want = self.quantize((dtype, shape, data))
        array = self.path("x.npy", st.npy("<f4", tuple(shape), data))
        other = self.path("other.npy", array.read_bytes())
        for text in [array, f"x={other}"]:
            output = self.path("npy.safetensors")
            self.ok("run", "quantize", "--input", text, "--output", output)
            self.assertEqual(st.decode(output.read_bytes()), want)
        self.assertEqual(self.quantize(("I32", shape, data)), want)

    def test_native_dtypes_are_written_on_request(self):
        made = self.quantize(ramp(), "--native-dtypes")
        self.assertEqual((made["codes"][0], made["scales"][0]), ("F8_E4M3", "F8_E8M0"))

    def test_quiet_says_nothing(self):
        source = self.path("in.safetensors", st.encode({"x": ramp()}))
        args = ("run", "quantize", "--input", source, "--output", self.path("out.safetensors"))
        self.assertIn("codes", self.ok(*args))
        self.assertEqual(self.ok(*args, "--quiet"), "")

    def test_bad_operands_and_names_are_refused(self):
        wrong = {
            "k33": ({"x": st.f32([1, 33], [1.0] * 33)}, "quantize: x: K is 33"),
            "rank1": ({"x": st.f32([32], [1.0] * 32)}, "quantize: x: found"),
            "dtype": ({"x": ("I64", [1, 32], bytes(256))}, "quantize: x: found"),
            "missing": ({"y": ramp()}, "quantize: "),
            "extra": ({"x": ramp(), "z": ramp()}, "unknown operand 'z'"),
            "none": ({}, "quantize: x: missing"),
        }
        for name, (tensors, says) in wrong.items():
            source = self.path(f"{name}.safetensors", st.encode(tensors))
            self.refused("run", "quantize", "--input", source, "--output", self.path("out"),
                         says=says)
        good = self.path("in.safetensors", st.encode({"x": ramp()}))
        args = ("--input", good, "--output", self.path("out"))
        self.refused("run", "quantise", *args, says="did you mean quantize?")
        self.refused("run", "quantize", *args, "--set", "format=e9m9", says="format=e9m9")
        self.refused("run", "quantize", *args, "--set", "colour=red", says="'colour'")
        self.refused("run", "quantize", *args, "--set", "format", says="key=value")
        self.refused("run", "quantize", *args, "--set", "axis=-1", "--set", "axis=-2",
                     says="given twice")
        self.refused("run", "quantize", *args, "--set", "block=0", says="block")
        self.refused("run", "quantize", *args, "--set", "block=many", says="block=many")
        self.refused("run", "quantize", *args, "--backend", "abacus", says="unknown backend")
        self.refused("run", "quantize", *args, "--backend", "cpu:mmx", says="there are")
        self.refused("run", "quantize", *args, "--input", good, says="earlier --input")
        self.refused("run", "quantize", "--input", self.path("absent"), "--output",
                     self.path("out"), says="absent")
        self.refused("run", "quantize", "--input", good, "--output",
                     self.path("no/such/folder/out"), says="no/such/folder")

    def test_what_this_machine_lacks_exits_4(self):
        good = self.path("in.safetensors", st.encode({"x": ramp()}))
        absent = [line.split()[0] for line in self.ok("list", "backends").splitlines()
                  if " not here " in line]
        for backend in absent:
            self.refused("run", "quantize", "--input", good, "--output", self.path("out"),
                         "--backend", backend, code=UNSUPPORTED)
        if not absent:
            self.skipTest("this machine has every backend")

    def test_malformed_files_are_refused_and_an_old_output_survives(self):
        header = {"x": {"dtype": "F32", "shape": [1, 32], "data_offsets": [0, 128]}}

        def changed(**fields):
            return st.container(json.dumps({"x": {**header["x"], **fields}}).encode(), bytes(128))

        text = json.dumps(header).encode()
        two = {**header, "y": {"dtype": "F32", "shape": [1], "data_offsets": [124, 128]}}
        hole = {**header, "y": {"dtype": "F32", "shape": [1], "data_offsets": [132, 136]}}
        huge = [1 << 32, 1 << 32]
        files = {
            "empty": b"",
            "short": b"\x10\x00\x00",
            "header_beyond_file": struct.pack("<Q", 1000) + text,
            "header_above_100_MB": struct.pack("<Q", 100_000_001) + text,
            "header_length_all_ones": b"\xff" * 8 + text,
            "bad_utf8": st.container(b'{"\xff\xfe": {}}', b""),
            "bad_json": st.container(b'{"x": ', b""),
            "no_object": st.container(b"[1, 2]", b""),
            "duplicate_name": st.container(text[:-1] + b", " + text[1:], bytes(128)),
            "unknown_dtype": changed(dtype="F7"),
            "shape_overflows": changed(shape=huge),
            "negative_extent": changed(shape=[-1, 32]),
            "shape_disagrees": changed(shape=[1, 31]),
            "offsets_reversed": changed(data_offsets=[128, 0]),
            "past_the_end": changed(shape=[1, 64], data_offsets=[0, 256]),
            "overlap": st.container(json.dumps(two).encode(), bytes(128)),
            "hole": st.container(json.dumps(hole).encode(), bytes(136)),
            "trailing_bytes": st.container(text, bytes(129)),
            "truncated_buffer": st.container(text, bytes(127)),
        }
        output = self.path("out.safetensors", b"what was here before")
        for name, data in files.items():
            source = self.path(f"{name}.safetensors", data)
            self.refused("run", "quantize", "--input", source, "--output", output,
                         says=source.name)
            self.assertEqual(output.read_bytes(), b"what was here before", name)
        bad = self.path("x.npy", st.npy("<f4", (1, 32), bytes(100)))
        self.refused("run", "quantize", "--input", bad, "--output", output, says="x.npy")


class Suites(Case):
    def generate(self, name, *args):
        directory = self.here / name
        self.ok("generate", directory, "--suite", "quantize", "--level", 0, "--seed", 7, *args)
        return directory

    @staticmethod
    def contents(directory):
        return {p.relative_to(directory).as_posix(): p.read_bytes()
                for p in directory.rglob("*") if p.is_file()}

    def test_the_same_seed_gives_the_same_bytes(self):
        first = self.contents(self.generate("a", "--backend", "reference"))
        self.assertIn("manifest.json", first)
        for threads in ["1", "2"]:
            again = self.generate(f"b{threads}", "--backend", "cpu", "--threads", threads)
            self.assertEqual(first, self.contents(again))

    def test_verify_accepts_what_generate_wrote_and_nothing_changed(self):
        directory = self.generate("suite")
        self.assertIn("PASS", self.ok("verify", directory))
        self.assertEqual(self.ok("verify", directory, "--quiet"), "")
        case = sorted((directory / "cases").iterdir())[0]
        data = bytearray(case.read_bytes())
        data[-1] ^= 1
        case.write_bytes(data)
        self.assertIn("INVALID", self.ok("verify", directory, code=BAD_INPUT))
        case.unlink()
        self.assertIn("INVALID", self.ok("verify", directory, code=BAD_INPUT))

    def test_compares_a_directory_of_outputs_with_a_suite(self):
        directory = self.generate("suite")
        self.ok("compare", directory, directory)
        outputs = self.here / "outputs"
        outputs.mkdir()
        out = self.ok("compare", directory, outputs, code=NOT_RUN)
        self.assertIn("NOT_RUN", out)

    def test_unknown_suites_and_used_folders_are_refused(self):
        self.refused("generate", self.path("d"), "--suite", "quantum", says="'quantum'")
        self.refused("generate", self.path("d"), "--level", "99", says="level")
        self.refused("verify", self.path("absent"), says="absent")
        directory = self.generate("suite")
        before = self.contents(directory)
        self.refused("generate", directory, "--suite", "quantize", says="suite")
        self.assertEqual(before, self.contents(directory))
        (directory / "manifest.json").write_text('{"schema": "mxo-vectors/2"}')
        self.refused("verify", directory, says="manifest.json")

    def test_a_killed_generate_leaves_no_suite_that_verify_accepts(self):
        directory = self.here / "killed"
        process = subprocess.Popen([MXO, "generate", str(directory), "--level", "1"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not any(self.here.rglob("*.safetensors*")):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:
            self.skipTest("generate was done before it could be killed")
        for leftover in [directory, *self.here.iterdir()]:
            code, _, _ = mxo("verify", leftover)
            self.assertEqual(code, BAD_INPUT, leftover)


class Compare(Case):
    def pair(self, expected, actual):
        return (self.path("expected.safetensors", st.encode(expected)),
                self.path("actual.safetensors", st.encode(actual)))

    def test_agreement_exits_0_and_difference_1(self):
        same = self.pair({"y": ramp()}, {"y": ramp()})
        self.assertIn("PASS", self.ok("compare", *same))
        dtype, shape, data = ramp()
        other = self.pair({"y": ramp()}, {"y": (dtype, shape, data[:-1] + b"\x41")})
        out = self.ok("compare", *other, code=DISAGREE)
        self.assertIn("FAIL", out)
        self.assertIn("1, 63", out)  # where

    def test_gates_decide(self):
        one = struct.unpack("<f", struct.pack("<I", 0x3F800001))[0]
        files = self.pair({"y": st.f32([4], [1.0] * 4)}, {"y": st.f32([4], [1.0, 1.0, 1.0, one])})
        self.ok("compare", *files, code=DISAGREE)
        self.ok("compare", *files, "--gate", "ulp=1")
        self.ok("compare", *files, "--gate", "sqnr=100")
        self.ok("compare", *files, "--gate", "sqnr=200", code=DISAGREE)
        for gate in ["close", "ulp=x", "ulp=-1", "sqnr=", "bits=2"]:
            self.refused("compare", *files, "--gate", gate, says=gate)

    def test_nan_is_a_class_unless_bits_are_asked_for(self):
        quiet, other = b"\x00\x00\xc0\x7f", b"\xff\xff\xff\x7f"
        files = self.pair({"y": ("F32", [1], quiet)}, {"y": ("F32", [1], other)})
        self.ok("compare", *files)
        self.ok("compare", *files, "--nan-bits", code=DISAGREE)
        zero = self.pair({"y": ("F32", [1], quiet)}, {"y": ("F32", [1], bytes(4))})
        self.ok("compare", *zero, code=DISAGREE)

    def test_a_missing_tensor_is_a_failure_that_names_it(self):
        files = self.pair({"y": ramp(), "z": ramp()}, {"y": ramp()})
        self.assertRegex(self.ok("compare", *files, code=DISAGREE), r"FAIL .* z ")

    def test_the_sum_of_a_bound_must_exist(self):
        files = self.pair({"y": ramp()}, {"y": ramp()})
        self.refused("compare", *files, "--gate", "bound", "--sum", "abacus",
                     says=["abacus", "fma_chain"])
        self.refused("compare", *files, "--sum", "exact", says="--gate bound")

    def test_malformed_and_missing_files_exit_3(self):
        good, _ = self.pair({"y": ramp()}, {"y": ramp()})
        bad = self.path("bad.safetensors", b"\xff" * 20)
        self.refused("compare", good, bad, says="bad.safetensors")
        self.refused("compare", bad, good, says="bad.safetensors")
        self.refused("compare", self.path("absent.safetensors"), good, says="absent")

    def test_reports_are_json_junit_and_html(self):
        files = self.pair({"y": ramp()}, {"y": ramp()})
        self.ok("compare", *files, "--json", self.path("r.json"), "--junit", self.path("r.xml"),
                "--html", self.path("r.html"))
        json.loads(self.path("r.json").read_text())
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
        done = subprocess.run([MXO, *map(str, args)], stdout=theirs, check=True,
                              env={**clean, **environment})
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


class MoeLayer(Case):
    """A layer of four experts on two ranks."""
    SET = ["--set", "top_k=2"]

    def setUp(self):
        super().setUp()
        draw = random.Random(5)

        def bf16(shape, scale):
            values = [draw.gauss(0, scale) for _ in range(math.prod(shape))]
            return ("BF16", shape, b"".join(struct.pack("<f", v)[2:] for v in values))

        self.tensors = {"router": bf16([4, 32], 1), "w1": bf16([4, 64, 32], .3),
                        "w2": bf16([4, 32, 32], .3)}
        for p, tokens in enumerate([6, 3]):
            self.tensors[f"rank{p}.x"] = bf16([tokens, 32], 1)
            self.tensors[f"rank{p}.dy"] = bf16([tokens, 32], 1)
        self.source = self.path("in.safetensors", st.encode(self.tensors))

    def run_layer(self, name, *args):
        out = self.here / name
        self.ok("run", "moe_layer", "--input", self.source, "--output", out, *self.SET, *args)
        return out

    def test_outputs_and_gradients_are_there_and_stages_on_request(self):
        plain = st.decode(self.run_layer("plain.safetensors").read_bytes())
        self.assertEqual(set(plain), {"rank0.y", "rank1.y", "rank0.dx", "rank1.dx", "drouter",
                                      "dw1", "dw2"})
        self.assertEqual(plain["dw1"][1], [4, 64, 32])
        kept = st.decode(self.run_layer("kept.safetensors", "--keep-stages").read_bytes())
        self.assertEqual({name: kept[name] for name in plain}, plain)
        for stage in ["logits", "dispatched.codes", "permuted.scales", "h", "act", "expert_out",
                      "combined", "dexpert_out.codes", "dact", "dh", "dlogits"]:
            self.assertIn(f"rank1.{stage}", kept)

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

    def test_only_the_layer_has_stages_to_keep(self):
        self.refused("run", "swiglu", "--input", self.source, "--output", self.here / "out",
                     "--keep-stages", says="keep_stages")


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

    def test_a_file_that_is_no_capture_is_refused(self):
        file = self.path("other.safetensors", st.encode({"x": st.f32([2], [1, 2])}))
        self.refused("train", "--replay", file, says="rceil.x")
        tensors = self.first_step()
        del tensors["rceil.w2.0"]
        file = self.path("less.safetensors", st.encode(tensors))
        self.refused("train", "--replay", file, says="rceil.w2.0")

    def small(self, *args):
        """A run of a tenth of a second; an option in `args` stands in for its own."""
        text = self.path("text", b"one fish, two fish, red fish, blue fish; " * 60)
        own = {"--text": text, "--steps": 6, "--tokens": 64, "--context": 16, "--layers": 1,
               "--width": 32, "--experts": 4, "--expert-width": 32, "--heads": 2, "--warm-up": 2}
        return ["train", *(x for item in own.items() if item[0] not in args for x in item), *args]

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
        self.assertEqual(rows[0], "step,learning_rate,loss,gradient_norm")
        self.assertEqual(len(rows), 7)

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
        self.ok(*self.small(*more, "--output", self.here / "whole"))
        stopped = self.here / "stopped"
        command = [MXO, *map(str, self.small(*more, "--output", stopped))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        enough = random.randint(1, 15)  # steps saved; loss.csv has a line more than steps
        log = stopped / "loss.csv"
        while process.poll() is None and not (log.exists() and log.read_text().count("\n") > enough):
            time.sleep(0.001)
        process.kill()  # wherever it is: in a step, or writing
        process.communicate()
        self.refused(*self.small(*more, "--output", stopped), says="--resume")
        self.ok(*self.small(*more, "--output", stopped, "--resume"))
        for name in ("loss.csv", "digests.csv", "checkpoint.safetensors"):
            self.assertEqual((self.here / "whole" / name).read_bytes(),
                             (stopped / name).read_bytes(), name)

    def test_what_cannot_be_trained_is_refused_by_name(self):
        self.refused("train", "--text", self.here / "none", says="none: cannot be opened")
        for more, says in [(["--recipe", "mxfp8_rciel"], "did you mean mxfp8_rceil?"),
                           (["--recipe", "bf16:mxfp8"], "only mxfp8 recipes"),
                           (["--compare", "bf16,bf16"], "named twice"),
                           (["--ranks", 3], "experts: found 4, needs a multiple of 3"),
                           (["--width", 33], "width: found 33, needs a multiple of 32"),
                           (["--tokens", 65], "tokens: found 65, needs a multiple of 16"),
                           (["--context", 1024, "--tokens", 1024], "text: found "),
                           (["--communicator", "pigeon"], "pigeon")]:
            self.refused(*self.small(*more), says=says)
        self.refused("train", "--diff-digests", self.here / "none", self.here / "none",
                     says="cannot be opened")
        code, _, _ = mxo("train", "--steps", "many")
        self.assertEqual(code, USAGE)

    def test_a_checkpoint_of_another_model_is_refused(self):
        run = self.here / "run"
        self.assertEqual(self.ok(*self.small("--output", run, "--quiet")), "")
        self.refused(*self.small("--output", run, "--resume", "--layers", 2),
                     says="layers: found '1', needs '2'")


if __name__ == "__main__":
    unittest.main()
