"""The fixture `oracle`: outputs of a kernel against the library, and why they differ.

Loaded by pytest in every run, so nothing is imported here before a test asks for it.
"""
from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

_COMPARISONS = pytest.StashKey[dict]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mxoracle")
    group.addoption("--mxo-backend", default="cpu", help="backend of the oracle (mxo list backends)")
    group.addoption("--mxo-threads", type=int, default=None, help="threads of the cpu backend")
    group.addoption("--mxo-artifacts", default="mxo-artifacts", metavar="DIR",
                    help="where inputs and outputs of a failure are kept")  # fmt: skip
    group.addoption("--mxo-html", metavar="FILE", help="write all verdicts as one page")
    group.addoption("--mxo-no-explain", action="store_true", help="do not look for causes")


class Oracle:
    """Holds outputs against the library's; one for each test."""

    explain_work = 2.0**29  # elements of operands of the calls that are tried

    def __init__(self, node: pytest.Item) -> None:
        config = node.config
        self._node = node
        self.backend: str = config.getoption("--mxo-backend")
        self.threads: int | None = config.getoption("--mxo-threads")
        self._explains = not config.getoption("--mxo-no-explain")
        self._failures = 0
        self._artifacts = Path(config.getoption("--mxo-artifacts"))

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
        nothing_owed: bool = False,
        **params: Any,
    ) -> None:
        """Fails unless `outputs` are those of operator `op` on `inputs` under `gate`.

        `gate`: "bits", "ulp=N", "sqnr=DB" or "bound".  Other keywords are parameters of the operator
        (`mxo list ops OP`), with `__` for a dot.  Outputs of which no element is compared fail, but
        for `nothing_owed`.
        """
        __tracebackhide__ = True
        from mxoracle import _judge

        comparison = _judge.judge(
            op, inputs, outputs, gate=gate, claimed_sum=claimed_sum,
            backend=self.backend, threads=self.threads, **params,
        )  # fmt: skip
        self._keep(op, comparison)
        if not comparison and not (nothing_owed and comparison.outcome == "INVALID"):
            pytest.fail(self._message(op, inputs, outputs, comparison, params), pytrace=False)

    def assert_case(self, case: Any, outputs: Mapping[str, Any], *, gate: str = "bits") -> None:
        """The same for a case of `mxoracle.suite_cases`, of which some owe nothing."""
        __tracebackhide__ = True
        self.assert_matches(
            case.op, case.inputs, outputs, gate=gate, nothing_owed=True, **case.parameters
        )

    def _keep(self, op: str, comparison: Any) -> None:
        kept = self._node.config.stash.setdefault(_COMPARISONS, {})
        name, number = f"{self._node.nodeid} {op}", 2
        while name in kept:
            name, number = f"{self._node.nodeid} {op} {number}", number + 1
        kept[name] = comparison

    def _message(self, op, inputs, outputs, comparison, params) -> str:
        from mxoracle import _judge

        set_text = ", ".join(f"{key}={value}" for key, value in params.items())
        lines = [f"{op}({set_text}) is not what the oracle gives on {self.backend}"]
        lines += [f"  {name}: {_shape(value)}" for name, value in inputs.items()]
        lines += str(comparison).splitlines()
        if self._explains and comparison.outcome == "FAIL":
            lines.append("cause: " + self._cause(op, inputs, outputs, params))
        self._failures += 1
        folder = re.sub(r"[^A-Za-z0-9_.-]+", "_", self._node.nodeid)
        if self._failures > 1:
            folder += f"_{self._failures}"
        where = self._artifacts / folder
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


def _shape(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(_shape(part) for part in value)
    extents = ", ".join(str(extent) for extent in getattr(value, "shape", ()))
    return f"{getattr(value, 'dtype', type(value).__name__)} [{extents}]"


@pytest.fixture
def oracle(request: pytest.FixtureRequest) -> Oracle:
    """The oracle of this test: `oracle.assert_matches(op, inputs, outputs, **params)`."""
    return Oracle(request.node)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--mxo-html")
    kept = session.config.stash.get(_COMPARISONS, {})
    if path and kept:
        from mxoracle._judge import write_html

        write_html(Path(path), kept, "pytest")
