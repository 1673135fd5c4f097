"""Nothing that was not compared passes."""
import ml_dtypes  # noqa: F401
import numpy as np
import pytest

import mxoracle


def product(ends):
    return {"x": np.ones((4, 32), np.float32), "w": np.ones((2, 8, 32), np.float32),
            "group_ends": np.array(ends, np.int32)}  # fmt: skip


def test_rows_of_no_group_are_invalid(oracle):
    wrong = {"y": np.full((4, 8), 7, np.float32)}
    found = mxoracle.judge("grouped_matmul", product([0, 0]), wrong, out="f32")
    assert found.outcome == "INVALID" and not found
    assert str(found).startswith("INVALID: nothing was compared\n")
    with pytest.raises(pytest.fail.Exception, match="INVALID: nothing was compared"):
        oracle.assert_matches("grouped_matmul", product([0, 0]), wrong, out="f32")


def test_one_owed_row_is_compared():
    right = {"y": np.full((4, 8), 32, np.float32)}
    assert mxoracle.judge("grouped_matmul", product([0, 1]), right, out="f32").outcome == "PASS"


def test_tensors_without_elements_are_invalid():
    codes, scales = mxoracle.quantize(np.ones((0, 32), np.float32))
    found = mxoracle.judge("quantize", {"x": np.ones((0, 32), np.float32)},
                           {"codes": codes, "scales": scales})  # fmt: skip
    assert found.outcome == "INVALID" and not found
    assert not mxoracle.compare(np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32))


def test_an_empty_tensor_beside_another_passes():
    both = {"a": np.zeros((0, 4), np.float32), "b": np.ones(4, np.float32)}
    assert mxoracle.compare(both, both).outcome == "PASS"


def test_a_case_of_a_suite_may_owe_nothing(oracle):
    cases = [case for case in mxoracle.suite_cases("quantize", level=1) if "empty" in case.flags]
    assert cases
    for case in cases:
        oracle.assert_case(case, mxoracle.run(case.op, case.inputs, **case.parameters))


def test_a_case_is_one_of_a_suite(oracle):
    for case in (3, "quantize", None):
        with pytest.raises(mxoracle.Error, match="^case: found .*, needs a case of mxoracle.suite_cases$"):
            oracle.assert_case(case, {})


A = np.ones(4, np.float32)


@pytest.mark.parametrize("call, words", [
    (lambda: mxoracle.compare({}, {}), "compare: expected: found no tensor"),
    (lambda: mxoracle.compare({"a": A}, {}), "found no a, needs every expected tensor"),
    (lambda: mxoracle.compare({"a": A}, {"a": A, "b": A}), "actual: found b, not among the expected tensors, needs a alone"),
    (lambda: mxoracle.compare({"a": None}, {"a": None}), "a: found NoneType"),
    (lambda: mxoracle.compare(A, {"a": A}), "compare: expected: found ndarray, needs a dict"),
    (lambda: mxoracle.judge("encode", {"x": A}, {}), "encode: outputs: found none"),
    (lambda: mxoracle.judge("encode", {"x": A}, {"codes": None}), "codes: found None"),
    (lambda: mxoracle.explain("encode", {"x": A}, {}), "encode: outputs: found none"),
    (lambda: mxoracle.compare(A, A, gate="sqnr=-5"), "sqnr=DB above 0"),
    (lambda: mxoracle.compare(A, A, gate="sqnr=0"), "sqnr=DB above 0"),
    (lambda: mxoracle.compare(A, A, gate="ulp=-1"), "gate: found 'ulp=-1'"),
    (lambda: mxoracle.judge("encode", {"x": A}, {"codes": A}, claimed_sum="exact"), "claimed_sum"),
    (lambda: mxoracle.judge("encode", {"x": A}, {"codes": A}, gate="bound", claimed_sum="e"),
     "claimed_sum: found 'e', needs one of"),
    (lambda: mxoracle.suite_cases("all", level=-1), "level: found -1"),
    (lambda: mxoracle.suite_cases("all", level=3), "level: found 3, needs a whole number from 0 to 2"),
    (lambda: mxoracle.suite_cases("al"), "suite"),
])  # fmt: skip
def test_what_compares_nothing_is_refused(call, words):
    with pytest.raises(mxoracle.Error, match=words):
        call()
