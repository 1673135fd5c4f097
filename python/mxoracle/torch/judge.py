"""A running model, held against the library product by product."""
from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from mxoracle import _checks, _judge
from mxoracle._errors import Error
from mxoracle._library import engine
from mxoracle._tables import list_sums, operators
from mxoracle.torch import machines
from mxoracle.torch.graphs import unwatched
from mxoracle.torch.operands import overwritten
from mxoracle.torch.products import Judged, Product, as_bf16
from mxoracle.torch.rules import covers
from mxoracle.torch.watcher import Watcher

GATES = ("bits", "bound", "bits|bound")
AGAINST = ("recipe", "bf16")


@dataclass
class Row:
    """One judged call."""

    operator: str
    module: str  # the innermost module that called it; in a backward pass "backward" is appended
    call: int  # of this operator in this module, from 0
    verdict: str  # "bits", "bound", "FAIL" or "unjudged"
    elements: int  # of the output that were compared
    differing: int  # of those, with other bits than the sum
    cause: str  # of a failure; or why it is unjudged; or the machine whose sum has its bits

    def __str__(self) -> str:
        figures = f"{self.differing} of {self.elements} differ"
        text = f"{self.verdict:<9} {self.operator:<24} {self.module:<40} {figures:<32} {self.cause}"
        return text.rstrip()


_active: list[Judge] = []


class Judge(Watcher):
    """Compares every product that runs inside it, forward and backward, with the library's.

    with mxoracle.torch.Judge() as judge:
        model(batch).sum().backward()
    print(judge)

    gate: "bits": every output has the bits of `sum`, rounded once.
        "bound": it is within the certified bound of a sum in f32, in any order.  "bits|bound": bits
        first, and the bound where they fail.
    every: one of so many calls of an operator in a module is judged.
    max_macs: a larger product is judged on evenly spread rows of its output of so many products.
    sum: how the machine adds (`mxo list sums`), "exact" included.  None: what ran on a CPU is held
        to the exact sum, what ran on a GPU to that and to the sums that are known of it.  In how
        many parts a machine cuts K is found.
    against: "recipe": `mxoracle.torch.grouped_linear` is held against the library in its recipe;
        "bf16": against the product of its operands in bf16, which it stands for.
    explain_work: how much of a cause is looked for, in elements that tried calls read; 0: not at all.
    explain_seconds: the same, by 2^28 elements a second; no clock counts.
    no_products: operators of somebody's own, such as "mylib::rope", that multiply no matrices.

    mm, mv, dot, addmm, bmm, _grouped_mm, _scaled_mm, _scaled_grouped_mm (both with _v2), convolutions,
    attention and grouped_linear have rules, and what `judged` wraps; `covers(op)` asks for one.
    linear, matmul and the like are judged as the products that they are made of, under inference_mode
    too, and those of a subclass such as DTensor as its local products.  Each nn.Linear is also held to
    its product by what it took and gave, and so is a function of torch that was replaced.  A product
    that could not be judged is in `missed`, and nothing passes with it: inside of a fused operator, of
    kernels that were compiled before, of arguments that the rule does not take, of an operator without
    a rule.  So is an operator that is not torch's and takes two matrices, outside of `judged`.  Every
    other operator that computes is counted in `unjudged`, and a gradient that is neither torch's nor
    ours in `gradients`: which products it is of is its own affair.  Torch runs functions under torch.compile
    eagerly in here, which is counted too.
    """

    def __init__(self, gate: str = "bits|bound", *, every: int = 1, max_macs: int = 1 << 30,
                 sum: str | None = None, against: str = "recipe", backend: str = "cpu",
                 threads: int | None = None, explain_work: float = 2.0**29,
                 explain_seconds: float | None = None,
                 no_products: Sequence[str] = ()) -> None:  # fmt: skip
        super().__init__(_checks.whole_from("Judge: every", every, 1),
                         _checks.texts("Judge: no_products", no_products))  # fmt: skip
        if sum is not None and (not isinstance(sum, str) or sum not in list_sums()):
            raise _checks.refusal("Judge: sum", sum, "a name of mxoracle.list_sums()")
        engine(backend, threads)  # said here where there is none, not at the first product
        self.gate = _checks.one_of("Judge: gate", gate, GATES)
        self.max_macs = _checks.whole_from("Judge: max_macs", max_macs, 1)
        self.against = _checks.one_of("Judge: against", against, AGAINST)
        self.rows: list[Row] = []
        self.unjudged: Counter[str] = Counter()
        self.gradients: Counter[str] = Counter()  # not torch's, and compared with nothing
        self._settings = {"backend": backend, "threads": threads}
        self._sum = sum
        self._explain_work = _checks.not_negative("Judge: explain_work", explain_work)
        if explain_seconds is not None:
            seconds = _checks.not_negative("Judge: explain_seconds", explain_seconds)
            self._explain_work = seconds * _judge.WORK_A_SECOND

    def __enter__(self) -> Judge:
        super().__enter__()
        _active.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _active.remove(self)
        super().__exit__(*error)

    def _counted(self, what: str) -> None:
        self.unjudged[what] += 1

    def _of_own_gradients(self, names: list[str]) -> None:
        self.gradients.update(names)

    def _missed(self, operator: str, place: tuple[str, int], why: str) -> None:
        self.rows.append(Row(operator, *place, "unjudged", 0, 0, why))

    def _wrong(self, operator: str, place: tuple[str, int], why: str) -> None:
        self.rows.append(Row(operator, *place, "FAIL", 0, 0, why))

    def _seen(self, operator: str, place: tuple[str, int], product: Judged | None) -> None:
        if isinstance(product, Product) and self.against == "bf16":
            product = as_bf16(product)
        why = "no rule for these arguments"
        if product is not None and product.elements == 0 and not product.op:
            if product.actual.shape == product.shape:
                self._counted(f"{operator} without elements")
            else:
                self._wrong(operator, place, f"found {list(product.actual.shape)}, needs {list(product.shape)}")
            return
        if product is not None:
            product = product.sampled(self.max_macs)
            why = "more than max_macs, and cannot be judged by rows"
        if product is None:
            self._missed(operator, place, why)
        elif product.op:
            self._judge(operator, place, product)
        else:
            self.rows.append(self._by_reals(operator, place, product))

    @property
    def failures(self) -> list[Row]:
        """What departs by more than the gate allows."""
        return [row for row in self.rows if row.verdict == "FAIL"]

    @property
    def missed(self) -> list[Row]:
        """Products that were not judged; `cause` says why."""
        return [row for row in self.rows if row.verdict == "unjudged"]

    @property
    def passed(self) -> bool:
        """True where something was judged, nothing failed, and no product was missed."""
        return bool(self.rows) and not self.failures and not self.missed

    @staticmethod
    def covers(op: Any) -> bool:
        """True if calls of `op` are judged: torch.ops.aten.mm, "aten::mm", torch.matmul."""
        return covers(op)

    def __str__(self) -> str:
        rank = {"FAIL": 0, "unjudged": 1, "bound": 2, "bits": 3}
        rows = sorted(self.rows, key=lambda row: rank[row.verdict])
        count = Counter(row.verdict for row in self.rows)
        total = ", ".join(f"{count[verdict]} {verdict}" for verdict in rank if count[verdict])
        lines = [str(row) for row in rows]
        lines.append(f"{len(rows)} products: {total or 'none'}")
        if self.missed:
            listed = ", ".join(dict.fromkeys(f"{row.operator} of {row.module or 'no module'}"
                                             for row in self.missed))  # fmt: skip
            lines.append(f"not passed: {len(self.missed)} were not judged ({listed})")
        if self.gradients:
            listed = ", ".join(f"{name} {n}" for name, n in self.gradients.most_common())
            lines.append(f"not torch's gradients, of which only the products are judged: {listed}")
        if self.unjudged:
            listed = ", ".join(f"{name} {n}" for name, n in self.unjudged.most_common())
            lines.append(f"no rule, not judged: {self.unjudged.total()} calls ({listed})")
        return "\n".join(lines)

    def _machine(self, product: Product) -> dict[str, Any] | None:
        """The machine's sum that gives the bits of `product`."""
        names = (self._sum,) if self._sum else machines.sums_of(product.device)
        names = tuple(name for name in names if name != "exact")
        if not names or self.gate == "bound" or not _sums(product.op or "grouped_matmul"):
            return None
        return machines.sum_found(product, names, self._settings)

    def _by_reals(self, operator: str, place: tuple[str, int], product: Judged) -> Row:
        """What the catalogue has no operator for, against sums of doubles."""
        if self.gate == "bits" and not product.bits:
            return Row(operator, *place, "unjudged", 0, 0, "only a bound is known")
        try:
            held = product.held()
        except Error as error:
            return Row(operator, *place, "FAIL", 0, 0, str(error))
        exact = product.bits and self._sum in (None, "exact")
        if held.differing == 0 and exact and self.gate != "bound":
            return Row(operator, *place, "bits", held.elements, 0, "")
        how = self._machine(product) if isinstance(product, Product) else None
        if how is not None:
            return Row(operator, *place, "bits", held.elements, 0, machines.words(how))
        verdict, cause = "bound", ""
        if held.beyond or self.gate == "bits":
            verdict, cause = "FAIL", f"{held.beyond} beyond the bound, at most by {held.worst:.3g} times"
        elif held.unbounded:
            verdict, cause = "unjudged", _unbounded(held.unbounded)
        elif held.elements == 0:
            verdict, cause = "unjudged", "all keys are masked: nothing is compared"
        return Row(operator, *place, verdict, held.elements, held.differing, cause)

    def _judge(self, operator: str, place: tuple[str, int], product: Product) -> None:
        self.hold(operator, place, product.op, product.inputs, {product.output: product.actual},
                  product.parameters, product)  # fmt: skip

    def hold(
        self,
        operator: str,
        place: tuple[str, int],
        op: str,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        parameters: Mapping[str, Any],
        product: Product | None = None,
    ) -> None:
        """Judges the outputs of one call of operator `op` and keeps the row.  `product`: what sums
        of machines and of doubles may be held against."""
        call = {**self._settings, **parameters}
        asked = {**call, "sum": self._sum} if self._sum and _sums(op) else call
        if product is None:
            call = asked
        cause, how, beyond, unbounded = "", None, 0, 0
        try:
            exact = _judge.judge(op, inputs, outputs, gate="bits", **call)
            if exact.outcome == "INVALID":
                self._counted(f"{operator} without elements")
                return
            enough = product is None or self._sum in (None, "exact")
            verdict = "bits" if exact and enough else "FAIL"
            if product is not None and verdict == "FAIL":
                how = self._machine(product)
            if how is not None:
                verdict, cause = "bits", machines.words(how)
            elif verdict == "FAIL" and self.gate != "bits":
                verdict, beyond, unbounded = _bound_verdict(op, inputs, outputs, call)
                if verdict == "unjudged" and product is not None and product.real() is not None:
                    held = product.held()
                    verdict, unbounded = "FAIL" if held.beyond else "bound", held.unbounded
        except Error as error:
            self.rows.append(Row(operator, *place, "unjudged", 0, 0, str(error)))
            return
        if verdict == "bound" and unbounded:
            verdict, cause = "unjudged", _unbounded(unbounded)
        elif verdict == "unjudged":
            cause = "bits differ, and no bound is known"
        unlike = [f"{output['name']}: {output['reason']}" for output in exact.outputs
                  if output["outcome"] == "FAIL" and output["elements"] == 0]  # fmt: skip
        if verdict == "FAIL" and unlike:  # in type or shape
            cause = "; ".join(unlike)
        elif verdict == "FAIL" and self._explain_work > 0:
            cause = self._cause(op, inputs, outputs, asked)
        elif verdict == "FAIL":
            worst = min(output["sqnr"] for output in exact.outputs)
            cause = f"{worst:.1f} dB from the exact sum" if worst == worst else ""
        elements = sum(output["elements"] for output in exact.outputs)
        differing = sum(output["differing"] for output in exact.outputs) if how is None else 0
        if product is None and not cause:
            cause = exact._judgement.note
        if verdict == "FAIL" and 0 < beyond < differing:
            cause = f"{beyond} beyond the bound; {cause}"
        self.rows.append(Row(operator, *place, verdict, elements, differing, cause))

    def _cause(self, op: str, inputs: Mapping, outputs: Mapping, call: Mapping) -> str:
        try:
            found = _judge.explain(op, inputs, outputs, work=self._explain_work, **call)
        except Error as error:
            return str(error)
        return found.sentence if found else f"no cause found in calls of {self._explain_work:g} elements"


def _unbounded(differing: int) -> str:
    return f"{differing} that differ have no bound: sums in f32 may overflow, or scores are not finite"


def _bound_verdict(
    op: str, inputs: Mapping, outputs: Mapping, call: Mapping[str, Any]
) -> tuple[str, int, int]:
    """"bound" where all is within its bound, "unjudged" where an output that differs has none but
    could have one: that of a product; how many elements are beyond, and how many of no bound differ."""
    held = _judge.judge(op, inputs, outputs, gate="bound", **call)
    if held:
        return "bound", 0, sum(output["unbounded_differing"] for output in held.outputs)
    plain = {key: value for key, value in call.items() if key not in ("backend", "threads")}
    bounded = all(
        _judge.has_bound(op, name, inputs, **plain) for name in outputs
    )
    if not bounded:
        return ("unjudged" if _sums(op) else "FAIL"), 0, 0
    return "FAIL", sum(output["violating"] for output in held.outputs), 0


@functools.cache
def _sums(op: str) -> bool:
    return any(
        entry["name"] == op and any(spec["key"] == "sum" for spec in entry["parameters"])
        for entry in operators()
    )


def judged(op: str, **parameters: Any) -> Callable:
    """A kernel of your own as operator `op` of the catalogue, judged inside a `Judge`.

    @judged("quantize", scale_mode="rceil")
    def my_quantizer(x): ...                 # returns codes, scales

    Its arguments that are called like operands of `op` (`x`, `group_ends`; `x_codes` for x.codes)
    are those; it returns the outputs in the order of `mxo list ops OP`, or a dict.
    """
    _checks.text("judged: operator", op)
    entry = next((entry for entry in operators() if entry["name"] == op), None)
    if entry is None:
        raise Error(f"judged: found operator '{op}', needs one of mxoracle.list_ops()")
    keys = {spec["key"].replace(".", "__") for spec in entry["parameters"]}
    for key in parameters:
        _checks.one_of(f"judged: parameter of {op}", key, sorted(keys))
    operands = {spec["name"].replace(".", "_"): spec["name"] for spec in entry["inputs"]}

    def wrap(kernel: Callable) -> Callable:
        signature = inspect.signature(kernel)

        @functools.wraps(kernel)
        def inner(*args: Any, **kwargs: Any) -> Any:
            judges = [(judge, judge._place(op)) for judge in _active]
            given, inputs = {}, {}
            if any(place is not None for _, place in judges):
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                given = {operands[key]: value for key, value in bound.arguments.items()
                         if key in operands and value is not None}  # fmt: skip
                inputs = _copied(given)
            for judge, _ in judges:
                judge._kernels += 1
            try:
                result = kernel(*args, **kwargs)
            finally:
                for judge, _ in judges:
                    judge._kernels -= 1
            for judge, place in judges:
                if place is not None:
                    with unwatched():
                        for operand in overwritten(inputs, given, result):
                            judge._wrong(kernel.__name__, place, f"wrote over its operand {operand}")
                    _hold_kernel(judge, place, kernel.__name__, entry, inputs, result, parameters)
            return result

        return inner

    return wrap


def _copied(tensors: Any) -> Any:
    """On the host, whatever becomes of the tensors; a judge does not see it."""

    def one(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value.copy() if hasattr(value, "__array_interface__") else value
        return value.detach().clone() if value.device.type == "cpu" else value.detach().cpu()

    with unwatched():
        return tree_map(one, tensors)


def _hold_kernel(judge, place, name, entry, inputs, result, parameters) -> None:
    names = [spec["name"] for spec in entry["outputs"]]
    if isinstance(result, Mapping):
        outputs = dict(result)
    else:
        values = result if isinstance(result, (tuple, list)) else (result,)
        if len(values) > len(names):
            judge._missed(name, place, f"gave {len(values)} outputs, needs {', '.join(names)}")
            return
        outputs = dict(zip(names, values))
    with unwatched():
        judge.hold(name, place, entry["name"], inputs, _copied(outputs), parameters)
