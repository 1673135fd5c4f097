#!/usr/bin/env python3
"""mxo run: what it reads and writes, and what it says of names and rules.
Usage: cli_run_test.py MXO [unittest arguments].
"""
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

    def test_takes_npy_and_f32_bits(self):
        dtype, shape, data = ramp()
        want = self.quantize((dtype, shape, data))
        array, output = self.path("x.npy", st.npy("<f4", tuple(shape), data)), self.path("npy.out")
        for text in [array, f"x={self.path('other.npy', array.read_bytes())}"]:
            self.ok("run", "quantize", "--input", text, "--output", output)
            self.assertEqual(st.decode(output.read_bytes()), want)
            for call in [("compare", output, "--gate", "bound", "--input"), ("explain", "--input"), ("explain",)]:
                self.ok(*call, text, output, "--op", "quantize")
        self.assertEqual(self.quantize(("I32", shape, data)), want)

    def test_native_dtypes_are_written_on_request(self):
        made = self.quantize(ramp(), "--native-dtypes")
        self.assertEqual((made["codes"][0], made["scales"][0]), ("F8_E4M3", "F8_E8M0"))

    def test_quiet_says_nothing(self):
        source = self.path("in.safetensors", st.encode({"x": ramp()}))
        args = ("run", "quantize", "--input", source, "--output", self.path("out.safetensors"))
        self.assertIn("codes", self.ok(*args))
        self.assertEqual(self.ok(*args, "--quiet"), "")

    def test_what_a_rule_does_not_have_is_refused(self):
        good = self.path("in.safetensors", st.encode({"x": ramp(4, 128)}))
        args = ("run", "quantize", "--input", good, "--output", self.path("out"))
        wrong = {
            ("rule=deepgemm", "block=1x64"): "of block 1x64, needs f32 scales of 1x128|",
            ("rule=vllm", "block=1xK", "power_of_2=up"): "needs one of none",
            ("block_size=128",): "did you mean block?",
            ("use_ue8m0=true",): "did you mean power_of_2?",
            ("block=per_token_group",): "1x128 of vLLM",
            ("block=(1,128,3)",): "needs rows x columns, as 1x32",
            ("format=nvfp4",): "format: found nvfp4, of 4 bits",
            ("format=fp8",): "format: found fp8, needs e4m3 (torch.float8_e4m3fn) or e5m2",
            ("rule=te", "block=1x64", "scale=f32"): "needs e8m0 scales of any block",
            ("rounding=nearest",): "rounding: found nearest", }
        for settings, says in wrong.items():
            flags = [word for setting in settings for word in ("--set", setting)]
            self.refused(*args, *flags, code=USAGE, says=says)
        half = self.path("half.safetensors", st.encode({"x": ("F16", [1, 32], bytes(64))}))
        self.ok("run", "quantize", "--input", half, "--output", self.path("out"), "--set", "rule=jax")

    def test_names_of_other_stacks_lead_to_those_here(self):
        good = self.path("in.safetensors", st.encode({"x": ramp(4, 128)}))
        args = ("--input", good, "--output", self.path("out"))
        for operator, here in {"silu_and_mul": "swiglu", "fused_topk": "route",
                               "m_grouped_fp8_gemm_nt_contiguous": "grouped_matmul"}.items():
            self.refused("run", operator, *args, code=USAGE, says=f"did you mean {here}?")
        self.refused("run", "grouped_matmul", "--input", self.path("p", st.encode({"x": ("BF16", [4, 32], bytes(256)),
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


if __name__ == "__main__":
    unittest.main()
