#!/usr/bin/env python3
"""mxo run: every backend and thread count, every kind of bad input.

Usage: cli_run_test.py MXO [unittest arguments].
"""
import json
import struct
import unittest

from cli_case import UNSUPPORTED, USAGE, Case, ramp
import safetensors as st


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

    def test_each_side_of_a_product_has_a_format(self):
        codes = {"a": ("U8", [1, 2, 32], bytes(range(64))),
                 "b": ("U8", [1, 3, 32], bytes(range(16, 112))),
                 "c": st.f32([1, 2, 3], [1.0] * 6)}
        source = self.path("dot.safetensors", st.encode(codes))

        def dot(a, b):
            out = self.here / f"{a}.safetensors"
            self.ok("run", "fused_dot", "--input", source, "--output", out, "--set",
                    "sum=h200_wgmma_fast", "--set", a, "--set", b)
            return st.decode(out.read_bytes())["d"]

        self.assertNotEqual(dot("format_a=e5m2", "format_b=e4m3"),
                            dot("format_a=e4m3", "format_b=e5m2"))
        for name in ("format", "format_x"):
            self.refused("run", "fused_dot", "--input", source, "--output", self.here / "no",
                         "--set", "sum=h200_wgmma_fast", "--set", f"{name}=e5m2", code=USAGE, says=name)

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
        self.refused("run", "quantise", *args, code=USAGE, says="did you mean quantize?")
        self.refused("run", "quantize", *args, "--set", "format=e9m9", code=USAGE, says="format: found e9m9")
        self.refused("run", "quantize", *args, "--set", "colour=red", code=USAGE, says="'colour'")
        self.refused("run", "quantize", *args, "--set", "format", code=USAGE, says="key=value")
        self.refused("run", "quantize", *args, "--set", "block=1x32", "--set", "block=32x1",
                     code=USAGE, says="given twice")
        self.refused("run", "quantize", *args, "--set", "block=0", code=USAGE, says="block")
        self.refused("run", "quantize", *args, "--set", "block=many", code=USAGE, says="block=many")
        self.refused("run", "quantize", *args, "--backend", "abacus", code=USAGE, says="unknown backend")
        self.refused("run", "quantize", *args, "--backend", "cpu:mmx", code=USAGE, says="there are")
        self.refused("run", "quantize", *args, "--input", good, says="earlier --input")
        self.refused("run", "quantize", "--input", self.path("absent"), "--output",
                     self.path("out"), says="absent")
        self.refused("run", "quantize", "--input", good, "--output",
                     self.path("no/such/folder/out"), says="no/such/folder")

    def test_what_a_rule_does_not_have_is_refused(self):
        good = self.path("in.safetensors", st.encode({"x": ramp(4, 128)}))
        args = ("run", "quantize", "--input", good, "--output", self.path("out"))
        wrong = {
            ("rule=deepgem",): "did you mean deepgemm?",
            ("rule=deepgemm", "scale=e8m0"): "found e8m0 scales",
            ("rule=deepgemm", "block=1x64"): "of block 1x64, needs f32 scales of 1x128|",
            ("rule=deepgemm", "format=e5m2"): "format: found e5m2, needs one of e4m3",
            ("rule=deepgemm", "power_of_2=down"): "power_of_2: found down, needs one of none|up",
            ("rule=vllm", "block=1xK", "power_of_2=up"): "needs one of none",
            ("rule=deepgemm", "power_of_2=true"): "power_of_2: found true, needs one of none|up",
            ("block_size=128",): "did you mean block?",
            ("use_ue8m0=true",): "did you mean power_of_2?",
            ("block=per_channel",): "1xK for the output channels of a weight [N, K]; a column is Rx1",
            ("block=128",): "1x128 for 128 along a row, 128x128",
            ("block=per_token_group",): "1x128 of vLLM",
            ("block=(1,128,3)",): "needs rows x columns, as 1x32",
            ("block=0x128",): "needs rows x columns, as 1x32",
            ("rule=mxfp8",): "a format with e8m0 scales",
            ("rule=fp8",): "set format=e4m3",
            ("rule=nvfp4",): "of 4 bits",
            ("rule=float8_e4m3fn",): "a format: format=e4m3",
            ("format=nvfp4",): "format: found nvfp4, of 4 bits",
            ("format=fp8",): "format: found fp8, e4m3 (torch.float8_e4m3fn) or e5m2",
            ("rule=flashinfer", "scale=f32"): "found f32 scales",
            ("rule=flashinfer", "scale_mode=even"): "has its own exponent",
            ("rule=te", "block=1x64", "scale=f32"): "needs e8m0 scales of any block",
            ("rounding=od",): "did you mean odd?",
            ("rounding=nearest",): "rounding: found nearest",
        }
        for settings, says in wrong.items():
            flags = [word for setting in settings for word in ("--set", setting)]
            self.refused(*args, *flags, code=USAGE, says=says)
        half = self.path("half.safetensors", st.encode({"x": ("F16", [1, 32], bytes(64))}))
        self.ok("run", "quantize", "--input", half, "--output", self.path("out"), "--set", "rule=jax")
        for settings in [("rule=DeepGEMM",), ("rule=transformer_engine",), ("format=e4m3fn",),
                         ("format=mxfp8", "scale_mode=RCEIL"), ("rounding=Ties_Away",), ("format=torch.float8_e4m3fn", "scale=ue8m0"),
                         ("scale_layout=128x4",), ("rule=vllm", "block=per_token"),
                         ("block=(1, 32)",), ("block=[128,128]",), ("block=(1,-1)", "scale=f32")]:
            flags = [word for setting in settings for word in ("--set", setting)]
            self.ok(*args, *flags)

    def test_dequantize_reads_blocks_off_the_shape_of_scales(self):
        good = self.path("in.safetensors", st.encode({"x": ramp(256, 512)}))
        for block in ("1x128", "128x128", "1xK", "RxK", "1x32", "1x64"):
            codes, with_block, without = (self.here / name for name in ("codes", "with", "without"))
            self.ok("run", "quantize", "--input", good, "--output", codes, "--set", f"block={block}",
                    "--set", "scale=f32")
            self.ok("run", "dequantize", "--input", codes, "--output", without)
            self.ok("run", "dequantize", "--input", codes, "--output", with_block, "--set",
                    f"block={block}")
            self.assertEqual(st.decode(with_block.read_bytes())["x"],
                             st.decode(without.read_bytes())["x"], block)
        odd = st.encode({"codes": ("U8", [4, 128], bytes(512)), "scales": st.f32([4, 3], [1] * 12)})
        self.refused("run", "dequantize", "--input", self.path("odd", odd), "--output",
                     self.path("out"), says="scales: found f32 [4, 3], needs [4, 1] for 1x128")

    def test_names_of_other_stacks_lead_to_those_here(self):
        good = self.path("in.safetensors", st.encode({"x": ramp(4, 128)}))
        args = ("--input", good, "--output", self.path("out"))
        for operator, here in {"silu_and_mul": "swiglu", "fused_topk": "route",
                               "m_grouped_fp8_gemm_nt_contiguous": "grouped_matmul"}.items():
            self.refused("run", operator, *args, code=USAGE, says=f"did you mean {here}?")
        self.refused("run", "grouped_matmul", "--input",
                     self.path("p", st.encode({"x": ("BF16", [4, 32], bytes(256)),
                                               "w": ("BF16", [1, 8, 32], bytes(512)),
                                               "group_ends": ("I32", [1], bytes([4, 0, 0, 0]))})),
                     "--output", self.path("out"), "--set", "sum=h100",
                     code=USAGE, says="did you mean h200_wgmma_fast?")

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


if __name__ == "__main__":
    unittest.main()
