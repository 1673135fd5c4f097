"""What the tests of the command line share: how mxo is called and how it must refuse."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import safetensors as st  # noqa: E402

MXO = sys.argv.pop(1)
TRAINED = ("digests.csv", "loss.csv", "checkpoint.safetensors")  # by a run with digests
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

    @staticmethod
    def flip(path, byte):
        data = bytearray(path.read_bytes())
        data[byte] ^= 4
        path.write_bytes(data)

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

    def trace(self, tensors, call):
        """A trace of one product."""
        trace = self.here / "trace"
        trace.mkdir(exist_ok=True)
        (trace / "trace.jsonl").write_text(
            '{"schema": "mxo-trace/1"}\n{"step": 0, "operator": "mm", "module": "m", "call": 0, '
            + call + ', "inputs": {}, "output": "y", "rows": ["r.safetensors"],'
            '"digest": "%064d"}\n' % 0)
        (trace / "r.safetensors").write_bytes(st.encode(tensors))
        return trace

    def small(self, *args):
        """To train for a tenth of a second; an option in `args` stands in for its own."""
        text = self.path("text", b"one fish, two fish, red fish, blue fish; " * 60)
        own = {"--text": text, "--steps": 6, "--tokens": 64, "--context": 16, "--layers": 1,
               "--width": 32, "--experts": 4, "--expert-width": 32, "--heads": 2, "--warm-up": 2}
        return ["train", *(x for item in own.items() if item[0] not in args for x in item), *args]


def ramp(rows=2, columns=64):
    return st.f32([rows, columns], [(i % 97 - 48) * 0.37 for i in range(rows * columns)])
