"""What a process does around a call: threads, forks, float state, imports."""
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import mxoracle


def runs(code, seconds=60):
    """The standard output of a program of its own, which must end in time."""
    program = textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_nothing_is_imported_that_the_caller_has_not():
    loaded = runs("""
        import sys, array
        import mxoracle
        mxoracle.encode(array.array("f", [1.0]))
        print([name for name in ("numpy", "torch", "ml_dtypes", "pytest") if name in sys.modules])
    """)
    assert loaded == "[]"


def test_import_alone_does_not_load_the_extension():
    assert runs("import sys, mxoracle; print('mxoracle._core' in sys.modules)") == "False"


def test_plugin_imports_nothing_heavy():
    loaded = runs("""
        import sys
        import mxoracle.pytest_plugin
        print([name for name in ("numpy", "torch", "mxoracle._core") if name in sys.modules])
    """)
    assert loaded == "[]"


def test_forked_child_answers_with_one_thread():
    answer = runs("""
        import os, sys
        import numpy as np, mxoracle
        x = np.random.default_rng(1).standard_normal((512, 512)).astype(np.float32)
        want = mxoracle.quantize(x, threads=2)[0].tobytes()
        child = os.fork()
        if child == 0:
            same = mxoracle.quantize(x, threads=2)[0].tobytes() == want
            from mxoracle._library import engine
            os._exit(0 if same and engine("cpu", 8).threads == 1 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert answer == "0"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pools_of_processes_answer(method, tmp_path):
    program = tmp_path / "pool.py"
    program.write_text(textwrap.dedent(f"""
        import multiprocessing
        import numpy as np, mxoracle

        def work(seed):
            x = np.random.default_rng(seed).standard_normal((256, 256)).astype(np.float32)
            return mxoracle.quantize(x)[0].tobytes()

        if __name__ == "__main__":
            here = [work(seed) for seed in range(4)]
            with multiprocessing.get_context("{method}").Pool(2) as pool:
                assert pool.map(work, range(4)) == here
    """))
    subprocess.run([sys.executable, program], check=True, timeout=120)


def test_threads_share_a_backend(random):
    inputs = [random.standard_normal((128, 256)).astype(np.float32) for _ in range(4)]
    wants = [mxoracle.quantize(x)[0].tobytes() for x in inputs]
    haves = [None] * len(inputs)

    def work(i):
        haves[i] = [mxoracle.quantize(inputs[i], threads=2)[0].tobytes() for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert haves == [[want] * 20 for want in wants]


def test_other_threads_run_during_a_call(random):
    x = random.standard_normal((2048, 2048)).astype(np.float32)
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(1)
            stop.wait(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    before = len(ticks)
    mxoracle.quantize(x, backend="reference")
    during = len(ticks) - before
    stop.set()
    thread.join()
    assert during >= 3


FLUSHING = """
    import ctypes
    # SSE's control register by the one door that Python has: fesetenv of a changed fegetenv.
    libm = ctypes.CDLL("libm.so.6")
    env = (ctypes.c_uint32 * 8)()
    libm.fegetenv(env)
    env[7] |= 0x8040  # flush to zero, denormals are zero
    libm.fesetenv(env)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_flushed_subnormals_do_not_change_bits(threads):
    program = textwrap.dedent(f"""
        import numpy as np, mxoracle
        codes = np.full((256, 256), 0x38, np.uint8)
        scales = np.zeros((256, 8), np.uint8)  # 2^-127, a subnormal
        ask = lambda: mxoracle.dequantize(codes, scales, out="f32", threads={threads}).view(np.uint32)
        before = ask()
    """) + textwrap.dedent(FLUSHING) + textwrap.dedent("""
        after = ask()
        libm.fegetenv(env)
        print((before == after).all(), set(before.ravel().tolist()) == {1 << 22}, hex(env[7] & 0x8040))
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "True", "0x8040"], done.stdout + done.stderr
