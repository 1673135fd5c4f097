"""Operators on ranks, `ranks` as a parameter, and the cases of every suite through every door."""
import ml_dtypes
import numpy as np
import pytest

import mxoracle
from mxoracle._call import run_into

TOKENS = np.arange(8, dtype=np.int32)
INDICES = {"experts": 4, "alignment": 1, "max_len": 64}


def exchange(op="dispatch"):
    return next(case for case in mxoracle.suite_cases("exchange") if case.op == op)


def as_lists(tensors):
    """{"rank0.x": a, "rank1.x": b} as {"x": [a, b]}."""
    lists = {}
    for name, value in sorted(tensors.items()):
        lists.setdefault(name.split(".", 1)[1], []).append(value)
    return lists


def into(op, tensors, **given):
    """What `run` returns, written to arrays that are there."""
    found = mxoracle.run(op, tensors, **given)
    homes = {name: np.zeros_like(value) for name, value in found.items()}
    run_into(op, tensors, homes, **given)
    assert all(same(found[name], homes[name]) for name in found)
    return homes


def same(a, b):
    return a.dtype == b.dtype and mxoracle.compare(a, b).outcome != "FAIL"


@pytest.mark.parametrize("call", [
    lambda **given: mxoracle.permute_indices(TOKENS, **given)[2],
    lambda **given: mxoracle.run("permute_indices", {"tokens_per_expert": TOKENS}, **given)["ends"],
    lambda **given: into("permute_indices", {"tokens_per_expert": TOKENS}, **given)["ends"],
], ids=["function", "run", "run_into"])  # fmt: skip
def test_ranks_reach_an_operator_that_takes_them(call):
    assert call(ranks=2, **INDICES).tolist() == [4, 10, 18, 28]


def test_steps_of_a_layer_are_written_where_they_are_asked_for(random):
    layer = {name: random.standard_normal(shape).astype(ml_dtypes.bfloat16) for name, shape in {
        "x": (32, 32), "router": (4, 32), "w1": (4, 64, 32), "w2": (4, 32, 32)}.items()}  # fmt: skip
    assert {"h", "dispatched.codes", "y"} <= set(into("moe_layer", layer, top_k=2, keep_stages=True))


def test_ranks_of_a_parameter_are_judged(oracle, tmp_path):
    ends = {"ends": np.array([4, 10, 18, 28], np.int32)}
    operands = {"tokens_per_expert": TOKENS}
    oracle.assert_matches("permute_indices", operands, ends, ranks=2, **INDICES)
    ends["ends"][3] = 29
    found = mxoracle.judge("permute_indices", operands, ends, ranks=2, **INDICES)
    assert not found and found.outputs[0]["differing"] == 1


def test_no_operator_hides_a_parameter():
    taken = {"op", "tensors", "inputs", "outputs", "actual", "backend", "threads", "gate",
             "claimed_sum", "work"}  # fmt: skip
    for entry in mxoracle.operators():
        assert not taken & {spec["key"] for spec in entry["parameters"]}, entry["name"]
        assert not entry["ranks"] or "ranks" not in {spec["key"] for spec in entry["parameters"]}


def test_ranks_without_meaning_are_refused(random):
    x = random.standard_normal((2, 32)).astype(np.float32)
    assert set(mxoracle.run("quantize", {"x": x}, ranks=1)) == {"codes", "scales"}
    with pytest.raises(mxoracle.Error, match="quantize: ranks: found 2, needs 1"):
        mxoracle.run("quantize", {"x": x}, ranks=2)


@pytest.mark.parametrize("op", ["dispatch", "dispatch_backward", "combine", "combine_backward"])
def test_names_and_lists_of_ranks_agree(op):
    case = exchange(op)
    named = mxoracle.run(op, case.inputs, **case.parameters)
    for ranks in (None, 2):
        listed = mxoracle.run(op, as_lists(case.inputs), ranks=ranks, **case.parameters)
        assert all(same(named[f"rank{p}.{name}"], parts[p])
                   for name, parts in listed.items() for p in range(2))  # fmt: skip
    assert len(named) == 2 * len(listed)
    for operands in (case.inputs, as_lists(case.inputs)):
        for outputs in (named, listed):
            assert mxoracle.judge(op, operands, outputs, **case.parameters)


def test_a_fault_of_one_rank_is_found(oracle, tmp_path):
    case = exchange()
    outputs = mxoracle.run(case.op, as_lists(case.inputs), **case.parameters)
    outputs["tokens_per_expert"][1][0] += 1
    found = mxoracle.judge(case.op, as_lists(case.inputs), outputs, **case.parameters)
    wrong = [output["name"] for output in found.outputs if output["outcome"] == "FAIL"]
    assert wrong == ["rank1.tokens_per_expert"]
    assert [len(parts) for parts in found.expected.values()] == [2] * len(outputs)
    with pytest.raises(pytest.fail.Exception, match="rank1.tokens_per_expert") as caught:
        oracle.assert_matches(case.op, as_lists(case.inputs), outputs, **case.parameters)
    assert "lacks" not in str(caught.value)  # explained with the ranks that there are
    (kept,) = tmp_path.rglob("actual.safetensors")
    assert set(mxoracle.load(kept)) == {output["name"] for output in found.outputs}


@pytest.mark.parametrize("change, words", [
    (lambda lists: {**lists, "x": lists["x"][:1]}, "x: found 1 tensor, needs one for each of 2 ranks"),
    (lambda lists: {**lists, "rank0.x": lists["x"][0]}, "rank0.x: found it twice, needs it once"),
    (lambda lists: {**lists, "rank7.x": lists["x"][0]}, "needs one for each of 8 ranks"),
], ids=["length", "twice", "gap"])  # fmt: skip
def test_ranks_that_do_not_fit_are_refused(change, words):
    case = exchange()
    with pytest.raises(mxoracle.Error, match=words):
        mxoracle.run(case.op, change(as_lists(case.inputs)), **case.parameters)


def test_fewer_ranks_than_named_are_refused():
    case = exchange()
    with pytest.raises(mxoracle.Error, match="found 1 and an operand of rank1, needs ranks=2"):
        mxoracle.run(case.op, case.inputs, ranks=1, **case.parameters)


@pytest.mark.parametrize("suite", [name for name in mxoracle.list_suites() if name != "huge"])
def test_every_case_passes_its_own_outputs(oracle, suite):
    for case in mxoracle.suite_cases(suite, level=1):
        inputs = case.inputs
        outputs = mxoracle.run(case.op, inputs, **case.parameters)
        if all(0 in value.shape for value in outputs.values()) or no_row(inputs):
            oracle.assert_case(case, outputs)  # of a suite's cases some owe nothing
            continue
        oracle.assert_matches(case.op, inputs, outputs, **case.parameters)


def no_row(inputs):
    return "group_ends" in inputs and not inputs["group_ends"].any()
