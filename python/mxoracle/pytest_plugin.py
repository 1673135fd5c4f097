"""The fixture `oracle`: outputs of a kernel against the library, and why they differ.

Loaded by pytest in every run, so nothing is imported here before a test asks for it.
"""
from __future__ import annotations

import contextlib
import hashlib
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

_ITEM = pytest.StashKey[pytest.Item]()
_COMPARISONS = pytest.StashKey[dict]()
_PAGES = pytest.StashKey[dict]()
_IN_THREADS = pytest.StashKey[list]()  # failures of other threads, which pytest does not see
_PAGE = "mxo_page"  # of a worker of xdist, on its way to the one that writes


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mxoracle")
    group.addoption("--mxo-backend", default="cpu", help="backend of the oracle (mxo list backends)")
    group.addoption("--mxo-threads", type=int, default=None, help="threads of the cpu backend")
    group.addoption("--mxo-artifacts", default="mxo-artifacts", metavar="DIR",
                    help="where inputs and outputs of a failure are kept")  # fmt: skip
    group.addoption("--mxo-html", metavar="FILE", help="write all verdicts as one page")
    group.addoption("--mxo-no-explain", action="store_true", help="do not look for causes")


class Oracle:
    """Holds outputs against the library's, of whichever test runs."""

    explain_work = 2.0**29  # elements of operands of the calls that are tried

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.backend: str = config.getoption("--mxo-backend")
        self.threads: int | None = config.getoption("--mxo-threads")
        self._explains = not config.getoption("--mxo-no-explain")
        self._failures: Counter[str] = Counter()
        self._artifacts = Path(config.getoption("--mxo-artifacts")).absolute()

    def run(self, op: str, tensors: Mapping[str, Any], **params: Any) -> dict[str, Any]:
        """The library's outputs of operator `op`."""
        from mxoracle._call import run

        return run(op, tensors, backend=self.backend, threads=self.threads, **params)

    def assert_matches(
        self,
        op: str,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        *,
        gate: str = "bits",
        claimed_sum: str = "",
        nothing_compared: bool = False,
        **params: Any,
    ) -> None:
        """Fails unless `outputs` are those of operator `op` on `inputs` under `gate`.

        `gate`: "bits", "ulp=N", "sqnr=DB", "sqnr=auto" or "bound".  Other keywords are
        parameters of the operator (`mxo list ops OP`), with `__` for a dot.  If no element of the outputs
        is compared, the test fails, unless `nothing_compared` is true.
        """
        __tracebackhide__ = True
        with self._seen_in_any_thread():
            self._assert(op, inputs, outputs, gate, claimed_sum, nothing_compared, params)

    @contextlib.contextmanager
    def _seen_in_any_thread(self) -> Iterator[None]:
        """An error that another thread raises fails the test, too."""
        __tracebackhide__ = True
        try:
            yield
        except BaseException as error:
            if threading.current_thread() is not threading.main_thread():
                self._config.stash.setdefault(_IN_THREADS, []).append(str(error))
            raise

    def _assert(self, op, inputs, outputs, gate, claimed_sum, nothing_compared, params) -> None:
        __tracebackhide__ = True
        from mxoracle import _checks, _judge

        if not isinstance(nothing_compared, bool):
            raise _checks.refusal("nothing_compared", nothing_compared, "True or False")
        comparison = _judge.judge(
            op, inputs, outputs, gate=gate, claimed_sum=claimed_sum,
            backend=self.backend, threads=self.threads, **params,
        )  # fmt: skip
        self._keep(op, comparison)
        try:
            if not comparison and not (nothing_compared and comparison.outcome == "INVALID"):
                message = self._message(op, inputs, outputs, comparison, params)
                pytest.fail(message, pytrace=False)
        finally:
            comparison.drop_expected()

    def assert_case(self, case: Any, outputs: Mapping[str, Any], *, gate: str = "bits") -> None:
        """The same for a case of `mxoracle.suite_cases`, some of which have nothing to compare."""
        __tracebackhide__ = True
        from mxoracle import Case, _checks

        if not isinstance(case, Case):
            raise _checks.refusal("case", case, "a case of mxoracle.suite_cases")
        self.assert_matches(
            case.op, case.inputs, outputs, gate=gate, nothing_compared=True, **case.parameters
        )

    def _keep(self, op: str, comparison: Any) -> None:
        if not self._config.getoption("--mxo-html"):
            return
        kept = self._config.stash.setdefault(_COMPARISONS, {})
        nodeid = self._config.stash[_ITEM].nodeid
        name, number = f"{nodeid} {op}", 2
        while name in kept and not _shrinks():
            name, number = f"{nodeid} {op} {number}", number + 1
        kept[name] = comparison

    def _message(self, op, inputs, outputs, comparison, params) -> str:
        from mxoracle import _judge

        set_text = ", ".join(f"{key}={value}" for key, value in params.items())
        lines = [f"{op}({set_text}) is not what the oracle gives on {self.backend}"]
        lines += [f"  {name}: {_shape(value)}" for name, value in inputs.items()]
        lines += str(comparison).splitlines()
        if self._explains and comparison.outcome == "FAIL":
            lines.append("cause: " + self._cause(op, inputs, outputs, params))
        nodeid = self._config.stash[_ITEM].nodeid
        self._failures[nodeid] += 1
        where = self._artifacts / _folder(nodeid, 1 if _shrinks() else self._failures[nodeid])
        command = _judge.write_artifacts(where, op, inputs, outputs, comparison, params)
        lines += [f"kept in {where}", f"repeat: {command}"]
        return "\n".join(lines)

    def _cause(self, op, inputs, outputs, params) -> str:
        from mxoracle import _judge
        from mxoracle._errors import Error

        try:
            found = _judge.explain(
                op, inputs, outputs, backend=self.backend, threads=self.threads,
                work=self.explain_work, **params,
            )  # fmt: skip
        except Error as error:
            return str(error)
        if found is None:
            return "not found in calls of 2^29 elements; the command below looks on"
        return found.sentence


def _shrinks() -> bool:
    """Within hypothesis, whose last failure is the smallest: it replaces those before."""
    hypothesis = sys.modules.get("hypothesis")
    return hypothesis is not None and hypothesis.currently_in_test_context()


def _folder(nodeid: str, failure: int) -> str:
    """Short, and of this test alone: names that lose letters get a digest of the whole."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", nodeid)
    if re.sub(r"[/:]+", "_", nodeid) != name or len(name) > 80:
        name = f"{name[:60]}-{hashlib.sha256(nodeid.encode()).hexdigest()[:8]}"
    return name if failure == 1 else f"{name}_{failure}"


def _shape(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(_shape(part) for part in value)
    extents = ", ".join(str(extent) for extent in getattr(value, "shape", ()))
    return f"{getattr(value, 'dtype', type(value).__name__)} [{extents}]"


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[_ITEM] = item


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Any:
    """A test fails if `assert_matches` failed in a thread of its own."""
    report = (yield).get_result()
    found = item.config.stash.get(_IN_THREADS, [])
    hidden = report.passed or (report.skipped and not hasattr(report, "wasxfail"))
    if found and hidden and call.when != "setup":
        report.outcome, report.longrepr = "failed", "\n".join(found)
    if call.when != "setup":
        found.clear()


@pytest.fixture(scope="session")  # hypothesis takes no fixture of a function beside @given
def oracle(request: pytest.FixtureRequest) -> Oracle:
    """The oracle of the test that runs: `oracle.assert_matches(op, inputs, outputs, **params)`."""
    return Oracle(request.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """A worker of xdist has ended: its verdicts come as a page."""
    page = getattr(node, "workeroutput", {}).get(_PAGE)
    if page:
        node.config.stash.setdefault(_PAGES, {})[node.gateway.id] = page


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--mxo-html")
    if not path:
        return
    kept = session.config.stash.get(_COMPARISONS, {})
    pages = session.config.stash.get(_PAGES, {})
    if kept:
        from mxoracle._judge import html_page

        worker = getattr(session.config, "workerinput", {}).get("workerid", "")
        page = html_page(kept, f"pytest {worker}".strip())
        if worker:
            session.config.workeroutput[_PAGE] = page
            return
        pages = {"": page}
    if pages:
        Path(path).write_text(_one_page(pages))


def _one_page(pages: Mapping[str, str]) -> str:
    """Pages below each other; what a page names within itself is named for its worker."""
    begin, end = "<body>", "<script>"
    whole = ""
    for worker in sorted(pages):
        page = pages[worker].replace("case-", f"case-{worker}-") if worker else pages[worker]
        head, rest = page.split(begin, 1)
        body, tail = rest.rsplit(end, 1)
        whole += (head + begin if not whole else "") + body
    return whole + end + tail
