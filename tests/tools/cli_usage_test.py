#!/usr/bin/env python3
"""Wrong calls of every command: exit code, one line on stderr, no file left.
Usage: cli_usage_test.py MXO [unittest arguments].
"""
import subprocess
import unittest

from cli_case import AGREE, BAD_INPUT, DISAGREE, MXO, NOT_RUN, USAGE, Case, ramp
import safetensors as st

# In a call, {x} is a file of operands, {y} one of outputs, {suite} a suite, {case} a case of quantize in it,
# {out} a name where nothing is, {none} a file that is not there.
WRONG_CALLS = [
    ("", "there are list"), ("compair a b", "did you mean compare?"), ("--bogus", "'--bogus'"),
    ("--bogus list", "'--bogus'"), ("list --bogus", "'--bogus'"), ("list nothing", "'nothing'"),
    ("list ops quantise", "did you mean quantize?"), ("list formats e4m3", "'e4m3'"),
    ("list rules --diverge torchao deepgem", "did you mean deepgemm?"),
    ("list rules --diverge torchao", "needs two"), ("list ops --markdown", "rules"),
    ("list formats --diverge", "rules"), ("list --threads -1", "threads"), ("list --threads x", "--threads: found x, needs 0 to 1024"),
    ("show", "FORMAT"), ("show e4m3", "VALUE"), ("show e9m9 1", "'e9m9'"), ("show e4m3 x", "'x'"),
    ("show e4m3 0x1FF", "0xFF"), ("show e4m3 1 --bogus", "'--bogus'"),
    ("show div.full 1", "a divisor"), ("show div.full.f32 1 x", "found 'x'"), ("show e4m3 1.2.3", "'1.2.3'"),
    ("show ex2.aprox 1", "did you mean ex2.approx?"), ("show ex2.approx 0x1FFFFFFFF", "needs the bits of an f32"),
    ("show sin 1", "rcp.approx, rcp.approx.ftz, rsqrt.approx"), ("show e4m3 0x", "hex code"),
    ("run", "needs OP: the operator"), ("run quantize {x}", "found {x}, which no argument takes; needs --input: the op"), ("run quantise", "did you mean quantize?"),
    ("run quantise --output {out}", "did you mean quantize? (see --help)"), ("run quantize", "--input"),
    ("run quantize -i {x}", "'-i'"), ("run quantize --format e4m3", "a parameter of quantize is given as --set format=VALUE"), ("run quantize --inptu {x}", "did you mean --input?"),
    ("run quantize --input {x}", "--output"),
    ("run quantize --input {x} --output {out} --bogus=3", "'--bogus'"),
    ("run quantize --input {x} --output {out} --set colour=red", "'colour'"),
    ("run quantize --input {x} --output {out} --set format", "key=value"),
    ("run quantize --input {x} --output {out} --set format=e9m9", "e9m9"),
    ("run quantize --input {x} --output {out} --set rule=tochao", "did you mean torchao?"),
    ("run quantize --input {x} --output {out} --set block=0", "block"),
    ("run quantize --input {x} --output {out} --set format=e4m3 block=1x32", "--set block=1x32"),
    ("run quantize --input {x} --output {out} --set=format=e4m3 block=1x32", "--set block=1x32"),
    ("run quantize --input {x} --output {out} --set block=1x32 --set block=1x32", "given twice"),
    ("run quantize --input {x} --output {out} --set block=many", "block=many"),
    ("run quantize --input {x} --output {out} --backend abacus", "'abacus'"),
    ("run quantize --input {x} --output {out} --backend cpu:mmx", "there are"),
    ("run quantize --input {x} --output {out} --backend cuda:x", "needs a number"),
    ("run quantize --input {x} --output {out} --communicator pigeons", "in_process, mpi, nccl"),
    ("run quantize --input {x} --output {x}", "also an --input"),
    ("run quantize --input {x} --output {out}.npy", "safetensors"),
    ("run quantize --input {x} --output {out} extra", "found extra, which no argument takes"),
    ("generate", "DIR"), ("generate {out} --suite quantum", "'quantum'"),
    ("generate {out} --suite quantize --op quantize --shape rows=4,columns=32", "--suite"),
    ("generate {out} --model dsv3 --groups 0", "groups"), ("judge {nothing} {linked} --diff", "twice"),
    ("run dispatch --input {both} --output {out} --set experts=4611686018427387904", "at most 1048576"),
    ("generate {out} --op quantize --shape rows=4,columns=32 --offsets odd", "'odd'"),
    ("generate {out} --level 9", "level"), ("generate {out} --level x", "level"),
    ("generate {out} --seed -1", "needs a whole number from 0 to 18446744073709551615 (see --help)\n"), ("generate {out} --bogus", "'--bogus'"),
    ("verify", "DIR"), ("verify {suite} --bogus", "'--bogus'"), ("verify {suite} --only x", "--only"),
    ("verify {suite} --only op=quantise", "did you mean quantize?"), ("compare {suite} {folder} --op quantize", "found a suite"),
    ("compare", "EXPECTED"), ("compare {y}", "needs EXPECTED and ACTUAL"), ("compare {y} {y} --bogus", "'--bogus'"),
    ("compare {y} {y} --gate", "--gate: a value is missing"), ("compare {y} {y} --gate nearly", "nearly"),
    ("compare {y} {y} --gate ulp=x", "ulp=x"), ("compare {y} {y} --gate sqnr=-1x", "sqnr=-1x"),
    ("compare {y} {y} --gate bound --sum abacus", "'abacus'"),
    ("compare {y} {y} --sum exact", "--gate bound"), ("compare {y} {y} --gate bound", "--op"),
    ("compare {y} {y} --op quantise", "did you mean quantize?"),
    ("compare {y} {y} --op quantize --set colour=red", "'colour'"),
    ("compare {y} {y} --input {x}", "--op"), ("compare {y} {y} --sentinel xyz", "hexadecimal"),
    ("compare {y} {y} --json {y}", "cannot replace"), ("compare {y} {y} --gate bits --gate bits", "--gate: found 2 values, needs one"), ("compare --repeat {y}", "two"),
    ("compare {y} {y} --json - --html -", "two reports"), ("verify {suite} --json {suite}/manifest.json", "cannot replace"), ("compare {y} {y} --html {x}", "holds tensors"),
    ("explain", "CASE"), ("explain {case}", "ACTUAL"), ("explain --set a=1 b=2", "--set b=2"),
    ("explain {x} {y} --op quantise", "did you mean quantize?"),
    ("explain {x} {y} --op quantize --set colour=red", "'colour'"),
    ("explain {x} {y} --op quantize --set format=e4m3 block=1x32", "--set block=1x32"),
    ("explain {case} {y} --set a=1", "--op"), ("explain {y} --input {x}", "--input: needs --op"), ("explain --input {x}", "needs ACTUAL: "), ("explain {case} {y} --bogus", "'--bogus'"),
    ("reduce", "CASE"), ("reduce {case} {y}", "--output"), ("reduce {case} --output {out}", "ACTUAL"),
    ("reduce {case} {y} --output {out} --gate x", "gate"),
    ("reduce {case} {y} --output {out} --runs 0", "runs"),
    ("reduce {case} --output {out} --command k", "{in}"), ("reduce {case} --bogus", "'--bogus'"),
    ("museum --row 0", "--row"), ("museum --row -1", "--row"), ("museum --row 99", "--row"),
    ("museum --row x", "--row"), ("museum --row=", "--row"), ("audit --gate bits --row=", "--row"), ("museum --seed -1", "seed"),
    *[(call + " --seed 18446744073709551616", "seed") for call in [
        "museum", "audit --gate bits", "generate {out} --suite quantize"]], ("museum --bogus", "'--bogus'"),
    ("audit", "--gate"), ("audit --gate bits --row 0", "--row"), ("audit --gate x", "gate"),
    ("audit --gate bits --command k", "needs one"), ("audit --command k", "{expected}"),
    ("audit --gate bits --seed -1", "seed"), ("audit --gate bits --bogus", "'--bogus'"),
    ("fingerprint", "generate or read"), ("fingerprint generate", "DIR"), ("fingerprint read", "DIR"),
    ("fingerprint generate {out} --bogus", "'--bogus'"),
    ("judge", "TRACE"), ("judge {y} {y}", "--diff"), ("judge {y} --diff", "two"),
    ("judge {y} --bogus", "'--bogus'"),
    ("train --steps many", "--steps: found many, needs a number"), ("train --recipe mxfp9", "bf16, e4m3fnuz, flow"), ("train --bogus", "'--bogus'"),
    *[("generate {out} " + words, words.split()[-2] + ": has no effect with " + mode)
      for mode, words in [
          ("--suite", "--suite quantize --dtype f32"), ("--suite", "--tokens 4096"),
          ("--model", "--model dsv3 --level 1"), ("--model", "--model dsv3 --shape rows=4"),
          ("--shape", "--op quantize --shape rows=4,columns=32 --level 1"),
          ("--from", "--op quantize --from {x} --seed 2")]],
    *[("compare --repeat {y} {y} " + words, words.split()[0] + ": has no effect with --repeat")
      for words in ["--gate bound", "--op quantize", "--sentinel ff", "--nan-bits", "--strict",
                    "--only op=quantize", "--html -"]],
    *[("train " + words, words.split()[-2] + ": has no effect with " + words.split()[0])
      for words in ["--sample a --from {x} --steps 5", "--export {out} --from {x} --seed 5",
                    "--replay {x} --steps 5", "--diff-digests {x} {x} --steps 5"]],
    ("train --diff-digests {x} {x}", "one file twice"),
    ("compare {y} {y} --only op=combine", "--only"),
    ("train --from {x}", "needs --sample or --export"),
    ("reduce {case} {y} --output {out} --runs 5", "--runs"),
    ("list ops quantize combine", "'combine'"), ("list --diverge", "--diverge"),
    ("list rules --diverge --markdown", "--markdown"),
    ("train --resume", "--output"), ("train --top-k 99", "top-k"), ("train --seed -1", "seed"),
    ("train --clip nan", "clip"), ("train --normalize maybe", "found maybe, needs true or false"), ("train --compare bf16,bf16 --output {out}", "twice"),
    *[("train --" + words, words.split()[0].replace("=", " ").split()[0]) for words in [
        "steps=0", "decay-steps=-1", "decay-steps=3", "tokens=65", "context=0", "context=9999999",
        "layers=0", "layers=99999999", "width=33", "heads=5", "experts=0", "expert-width=31",
        "shared-experts=-1", "score=tanh", "groups=3", "limited-groups=2", "group-score=worst",
        "other-groups=some", "normalize=maybe", "scale=0", "scale=nan", "scale=1e-50", "clip=1e-50", "beta1=0.999999999", "bias-rate=-1",
        "bias-rate=inf", "learning-rate=nan", "weight-decay=inf", "clip=-1", "width=33", "experts=3 --ranks=2", "sum=exakt", "format=e9m9", "format=bf16", "learning-rate-minimum=1",
        "learning-rate-minimum=nan", "warm-up=-1", "beta1=1", "beta1=nan", "beta2=-0.1",
        "keep=0", "eval-every=-1", "log-every=x", "checkpoint-every=-1", "digest-every=-1",
        "log-every=-1", "learning-rate=1e99", "clip=1e99", "length=3", "temperature=1",
        *[name + "=99999999999999999999" for name in ["seed", "steps", "keep", "log-every"]]]],
    ("train --recipe bf16:mxfp8", "only mxfp8 recipes"), ("train --communicator pigeon", "pigeon"),
    ("train --linears bf17", "'bf17'"), ("train --recipe flow --format e5m2", "flow"),
    ("train --recompute=x", "recompute"),
    ("train --sample a", "--from"), ("train --export {out}", "--from"),
    ("train --sample a --from {x} --length 0", "length"),
    ("train --sample a --from {x} --temperature nan", "temperature"),
]

BAD_FILES = [
    ("run quantize --input x={x} --output {out}", "needs {x}"), ("explain {suite}/cases/a {y}", "found no case 'a' in {suite}"),
    ("run quantize --input {y} --output {out}", "quantize has no operand 'y'; needs one of x, group_ends"),
    ("run quantize --input {x} --input {x} --output {out}", "earlier file too"),
    ("compare {y} {y} --op quantize --input {x} --input {x}", "earlier file too"),
    ("run quantize --input {empty} --output {out}", "holds no tensor, needs x"),
    ("run quantize --input {text} --output {out}", "needs safetensors"),
    ("run quantize --input {flat} --output {out}", "found rank 1"),
    ("run quantize --input {x} --output /dev/null", "a device"),
    ("run quantize --input {x} --output {folder}", "directory"),
    ("run quantize --input {x} --output {none}/o", "none"),
    ("run dispatch --input {x} --output {out}", "dispatch has no operand 'x'"),
    ("run dispatch --input {both} --output {out} --set experts=2", "found it and codes or scales"),
    ("run dispatch --input {ranks} --output {out} --set experts=2", "top_k"),
    ("run grouped_linear --input {scales} --output {out}", "x.scales: found without x.codes"),
    ("judge {blank}", "is empty"), ("judge {nothing} {none_there} --diff", "no product in either"),
    ("generate {suite} --suite quantize", "suite"), ("verify {none}", "none"),
    ("verify {folder}", "manifest.json: no such file; needs the directory of a suite"), ("compare {none} {y}", "none"), ("compare {y} {none}", "none"),
    ("compare {suite} {y}", "needs a directory"), ("compare {text} {y}", "needs safetensors"),
    ("compare {unknown} {y}", "'quantise'"), ("compare {y} {y} --json {none}/j", "none"),
    ("explain {none} {none}", "no case of a suite: found no "), ("explain {suite} {y}", "is a suite; needs SUITE/cases/ID"), ("explain {x} {y} --op quantize", "holds no output"),
    ("explain {y} {y} --op quantize", "quantize has no operand 'y'; needs one of x"),
    ("reduce {none} {y} --output {out}", "own: mxo explain --op"),
    ("reduce {case} {case} --output {out}", "passes"),
    ("reduce {case} {x} --output {out}", "holds no output of quantize; needs one of codes, scales"),
    ("compare {outputs} {outputs} --op grouped_matmul", "holds no output of grouped_matmul"),
    ("reduce {case} {outputs} --output {suite}", "not an empty directory"),
    ("fingerprint read {folder}", "no outputs"), ("fingerprint read {none}", "is no directory"), ("fingerprint generate {x}", "needs a directory"), ("judge {folder}", "Recorder"),
    ("judge {trace}", "'quantise'"),
    ("train --text {none}", "no such file"), ("train --replay {x}", "rceil.x"),
    ("train --diff-digests {none} {none}", "no such file"),
    ("train --val-text {none}", "--val-text"), ("train --init {none} --steps 1", "no such file"),
    ("train --init {x} --steps 1", "the model has no"), ("train --config {none}", "no such file"),
    ("train --config {x}", "found no JSON"), ("train --sample a --from {x}", "no checkpoint"),
    ("train --export {out} --from {none}", "no such file"),
]

# Commands that write a file and say so.
SPEAKING = [
    ("run quantize --input {x} --output {out}", 0),
    ("generate {out} --suite quantize --level 0", 0),
    ("compare {y} {y} --json {out}", 0), ("compare {y} {z} --junit {out}", 1),
    ("compare {y} {z} --html {out}", 1), ("verify {suite} --json {out}", 0),
    ("compare --repeat {y} {z} --json {out}", 1),
    ("reduce {case} {outputs} --output {out}", 0), ("fingerprint generate {out}", 0),
]


class Usage(Case):
    def setUp(self):
        super().setUp()
        suite = self.here / "suite"
        self.ok("generate", suite, "--suite", "quantize", "--level", 0, "--quiet")
        case = min((suite / "cases").glob("quantize.*"))
        tensors = st.decode(case.read_bytes())
        wrong = {name: (kind, shape, bytes([data[0] ^ 1]) + data[1:])
                 for name, (kind, shape, data) in tensors.items() if name in ("codes", "scales")}
        trace = self.trace({"output.y": ramp()}, '"op": "quantise", "parameters": {}')
        empty = '{"schema": "mxo-trace/1"}\n'
        for name, text in [("folder", None), ("blank", ""), ("nothing", empty), ("none_there", empty), ("linked", None)]:
            (self.here / name).mkdir()
            if text is not None:
                (self.here / name / "trace.jsonl").write_text(text)
        (self.here / "linked" / "trace.jsonl").hardlink_to(self.here / "nothing" / "trace.jsonl")
        experts = {"rank0.experts": ("I32", [2, 1], bytes(8)), "rank0.x": ramp(2, 32)}
        codes = {"rank0.codes": ("U8", [2, 32], bytes(64)), "rank0.scales": ("U8", [2, 1], bytes(2))}
        other = {"rank1.experts": ("I32", [2, 2], bytes(16)), "rank1.x": ramp(2, 32)}
        linear = {"x": ramp(2, 32), "x.scales": ("U8", [2, 1], bytes(2)), "w": st.f32([1, 1, 32], [1.0] * 32),
                  "group_ends": ("I32", [1], b"\2\0\0\0")}
        self.names = {
            "suite": suite, "case": case, "trace": trace,
            **{name: self.here / name for name in ("out", "none", "folder", "blank", "nothing", "none_there", "linked")},
            "both": self.path("both.safetensors", st.encode({**experts, **codes})),
            "ranks": self.path("ranks.safetensors", st.encode({**experts, **other})),
            "scales": self.path("scales.safetensors", st.encode(linear)),
            "x": self.path("x.safetensors", st.encode({"x": ramp()})),
            "y": self.path("y.safetensors", st.encode({"y": ramp()})),
            "z": self.path("z.safetensors", st.encode({"y": ramp(1, 128)})),
            "flat": self.path("flat.safetensors", st.encode({"x": st.f32([64], [1.0] * 64)})),
            "empty": self.path("empty.safetensors", st.encode({})),
            "text": self.path("text.safetensors", b"{not tensors}"),
            "outputs": self.path("outputs.safetensors", st.encode(wrong)),
            "unknown": self.path("unknown.safetensors", st.encode({"y": ramp()}, {"mxo.op": "quantise"})),
        }

    def filled(self, text):
        for name, path in self.names.items():
            text = text.replace("{%s}" % name, str(path))
        return text

    def test_a_wrong_command_line_is_usage_and_a_wrong_file_bad_input(self):
        for code, calls in [(USAGE, WRONG_CALLS), (BAD_INPUT, BAD_FILES)]:
            for call, says in calls:
                with self.subTest(call):
                    self.refused(*self.filled(call).split(), code=code, says=self.filled(says))

    def ends(self, call, redirection):
        done = subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirection}', MXO, *self.filled(call).split()],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_a_closed_stderr_changes_no_code(self):
        for code, calls in [(USAGE, WRONG_CALLS), (BAD_INPUT, BAD_FILES)]:
            for call, _ in calls:
                with self.subTest(call):
                    self.assertEqual(self.ends(call, "2>&-")[0], code)

    def test_nothing_is_left_where_stdout_is_full(self):
        before = sorted(p.name for p in self.here.rglob("*"))
        for call, code in SPEAKING:
            for redirection in (">/dev/full", ">&-"):
                with self.subTest(call + redirection):
                    found, _, err = self.ends(call, redirection)
                    self.assertEqual(found, BAD_INPUT, err)
                    self.assertRegex(err, r"\Amxo[^\n]*: stdout: cannot be written[^\n]*\n\Z")
                    self.assertEqual(before, sorted(p.name for p in self.here.rglob("*")))
            self.assertEqual(self.ends(call, "")[0], code, call)
            self.assertTrue((self.here / "out").exists(), call)
            subprocess.run(["rm", "-r", self.here / "out"], check=True)


class NothingCompared(Case):
    def test_a_trace_of_which_nothing_is_compared_does_not_pass(self):
        zeros = {"x": st.f32([2, 32], [0.0] * 64), "w": st.f32([1, 1, 32], [0.0] * 32),
                 "output.y": st.f32([2, 1], [0.0] * 2)}
        huge = {"x": st.f32([2, 32], [1e30] * 64), "w": st.f32([1, 1, 32], [1e30, -1e30] * 16)}
        for rows, other, code, said in (
            (2, {}, AGREE, "1 bits"), (0, {}, NOT_RUN, "0 bits"), (2, {"output.y": st.f32([2], [9.0] * 2)}, DISAGREE, "1 FAIL"),
            (2, {"output.y": ("I32", [2, 1], bytes(8))}, DISAGREE, "1 FAIL"), (2, huge, AGREE, "1 bits"),
            (2, {**huge, "output.y": st.f32([2, 1], [9.0] * 2)}, NOT_RUN, "not passed: 1 unjudged")):
            trace = self.trace({**zeros, "group_ends": ("I32", [1], bytes([rows, 0, 0, 0])), **other},
                               '"op": "grouped_matmul", "parameters": {"out": "f32"}')
            self.assertIn(said, self.ok("judge", trace, code=code))


if __name__ == "__main__":
    unittest.main()
