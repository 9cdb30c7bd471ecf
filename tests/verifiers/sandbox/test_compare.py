"""Comparing outputs and values: what counts, what does not, and what may never be right."""

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifiers.sandbox.compare import check_compare, compare_output, compare_values

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("name", "expected", "got", "right"),
    [
        ("lines", "1\n2\n", b"1\n2\n", True),
        ("lines", "1\n2", b"1 \t\r\n2\r\n\n  \n", True),
        ("lines", "", b"\n \n", True),
        ("lines", "é\n", "é".encode(), True),
        ("lines", b"\xff", b"\xff\n", True),
        ("lines", "1\n2\n", b"1 2\n", False),
        ("lines", "1\n2\n", b"1\n", False),  # a right beginning is not a right output
        ("lines", "1\n", b"1\n2\n", False),
        ("lines", "1\n", b"\n1\n", False),
        ("lines", " 1\n", b"1\n", False),
        ("lines", "1  2\n", b"1 2\n", False),
        ("lines", "1\n", b"", False),
        ("lines", "", b"1", False),
        ("lines", "1\n\n2", b"1\n2", False),
        ("lines", "a\n", b"A\n", False),
        ("lines", "1\n", b"1.0\n", False),
        ("lines", "1\n1\n2", b"2\n1\n1", False),
        ("tokens", "1 2\n3", b"1\n\n2\t3 ", True),
        ("tokens", "1 2 3", b"1 2", False),
        ("tokens", "1 2", b"1 2 3", False),
        ("tokens", "12", b"1 2", False),
        ("tokens", "", b" \n", True),
        ("float:1e-6", "1.41421356", b"1.4142135623\n", True),
        ("float:1e-6", "1000000.0", b"1000000.9", True),  # relative to what was expected
        ("float:1e-6", "0.0", b"0.0000009", True),  # absolute
        ("float:1e-6", "0.0", b"0.0000011", False),
        ("float:1e-6", "1.0 2.0", b"1.0", False),
        ("float:1e-6", "1.0", b"1.0 1.0", False),
        ("float:1e-6", "3", b"3.0000001", True),
        ("float:1e-6", "3.0", b"3", True),
        ("float:1e-6", "1e3", b"1000", True),
        ("float:1e-6", "-0.0", b"0", True),
        ("float:1e-6", "-0", b"0", True),
        ("float:1e-6", "007", b"+7", True),
        ("float:1e-6", "7", b"-7", False),
        ("float:1e-6", "1000000000", b"1000000001", False),
        ("float:1e-6", "9007199254740993", b"9007199254740992", False),
        ("float:0", "9007199254740993", b"9007199254740993.0", True),
        ("float:0", "9007199254740993", b"9007199254740992.0", False),
        ("float:1e-6", "1e400", b"1e400", True),
        ("float:1e-6", "1e400", b"1e500", False),
        ("float:1e-6", "1e400", b"inf", False),
        ("float:1e-6", "nan", b"nan", False),
        ("float:1e-6", "NaN", b"0", False),
        ("float:1e-6", "1.0", b"nan", False),
        ("float:1e9", "1.0", b"inf", False),
        ("float:1e-6", "inf", b"Infinity", True),
        ("float:1e-6", "inf", b"-inf", False),
        ("float:1e-6", "inf", b"1e999999", False),
        ("float:1e-6", "yes 1.0", b"yes 1.0", True),
        ("float:1e-6", "yes 1.0", b"no 1.0", False),
        ("float:1e-6", "1.0", b"1_0.0", False),
        ("float:1e-6", "1.0", b"0x1", False),
        ("float:1e-6", "1.0", "１.0".encode(), False),
        ("float:1e-6", "1.0", b"1.0.0", False),
    ],
)
def test_outputs(name, expected, got, right):
    assert compare_output(name, expected, got) is right


@pytest.mark.parametrize(
    ("name", "expected", "got", "right"),
    [
        ("python_eq", [1, [2, 3]], (1, (2, 3)), True),
        ("python_eq", 1, True, True),
        ("python_eq", 1, 1.0, True),
        ("python_eq", 2**53 + 1, float(2**53), False),
        ("python_eq", 0.1 + 0.2, 0.3, False),
        ("python_eq", NAN, NAN, False),
        ("python_eq", [NAN], [NAN], False),
        ("python_eq", INF, INF, True),
        ("python_eq", "1", 1, False),
        ("python_eq", "a", b"a", False),
        ("python_eq", None, None, True),
        ("python_eq", None, False, False),
        ("python_eq", [], None, False),
        ("python_eq", [1, 2], [1, 2, 3], False),
        ("python_eq", [1, 2], [2, 1], False),
        ("python_eq", [1, 2], {1, 2}, False),
        ("python_eq", {1, 2}, frozenset({2, 1}), True),
        ("python_eq", {1, 2}, {1}, False),
        ("python_eq", {"a": [1, 2]}, {"a": (1, 2)}, True),
        ("python_eq", {"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("python_eq", {"a": 1}, {"a": 1, "b": 2}, False),
        ("python_eq", {"a": 1}, {"b": 1}, False),
        ("python_eq", {"1": 2}, {1: 2}, False),
        ("python_eq", {(1, 2): 3}, {(1, 2): 3}, True),
        ("python_eq", "ab", ["a", "b"], False),
        ("float:1e-6", [1.0, {"a": 2.0}], (1.0000001, {"a": 2}), True),
        ("float:1e-6", 1.0, 1.01, False),
        ("float:1e-6", 10**400, 1.5, False),
        ("float:1e-6", 1.5, 10**400, False),
        ("float:1e-6", 10**400, 1j, False),
        ("float:1e-6", 10, 11, False),
        ("float:0.5", 10, 10, True),
        ("float:2", 10, 11, False),
        ("float:1e-6", 1, 1.0000001, True),
        ("float:1e-6", True, 1.0, True),
        ("float:1e-6", 1 + 1j, 1 + 1.0000001j, True),
        ("float:1e-6", 1 + 1j, 1 - 1j, False),
        ("float:1e-6", NAN, NAN, False),
        ("float:1e9", 1.0, INF, False),
        ("float:1e9", INF, 1.0, False),
        ("float:1e-6", INF, INF, True),
        ("float:1e-6", INF, -INF, False),
        ("float:1e-6", 1e308, -1e308, False),
        ("float:1e-6", "1.0", 1.0, False),
        ("float:1e-6", "1.0", "1.0000001", False),
        ("float:1e-6", None, 0.0, False),
    ],
)
def test_values(name, expected, got, right):
    assert compare_values(name, expected, got) is right


class Equal(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize("forged", [Equal(), [Equal()], {"a": Equal()}, object(), Equal])
def test_what_is_not_plain_equals_nothing(forged):
    for expected in (7, [7], {"a": 7}):
        for name in ("python_eq", "float:1e-6"):
            assert not compare_values(name, expected, forged)


@pytest.mark.parametrize("name", ["lines ", "line", "float", "float:", "float:x", "float:-1", "float:nan", "float:inf"])
def test_unknown_comparisons_are_refused_with_those_that_exist(name):
    with pytest.raises(ValueError, match=r"for stdio tests; write lines, tokens, float:TOL"):
        compare_output(name, "", b"")
    with pytest.raises(ValueError, match=r"for call tests; write python_eq, float:TOL"):
        compare_values(name, 1, 1)


def test_each_form_has_its_own():
    check_compare("lines", "stdio")
    check_compare("python_eq", "call")
    for name, form in (("python_eq", "stdio"), ("lines", "call"), ("float:TOL", "call")):
        with pytest.raises(ValueError, match="unknown comparison"):
            check_compare(name, form)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"))), st.data())
def test_blanks_behind_lines_never_count(lines, data):
    blanks = st.text(" \t\r")
    got = "".join(line + data.draw(blanks) + "\n" for line in lines) + data.draw(st.text(" \r\n\t"))
    assert compare_output("lines", "\n".join(lines), got.encode())
    assert not compare_output("lines", "\n".join(lines), got.encode() + b"x")


@given(st.lists(st.binary(min_size=1)), st.lists(st.binary(min_size=1)), st.sampled_from([b" ", b"\n", b"\r\n\t"]))
def test_tokens_are_those_of_split(left, right, blank):
    a, b = b" ".join(left), blank.join(right)
    assert compare_output("tokens", a, b) == (a.split() == b.split())
    assert compare_output("tokens", a, blank.join(a.split()) + blank)


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(FLOATS, FLOATS, st.sampled_from([0.0, 1e-9, 1e-3, 10.0]))
def test_tolerance_is_absolute_or_relative(expected, got, tolerance):
    right = abs(expected - got) <= tolerance * max(1.0, abs(expected))
    assert compare_values(f"float:{tolerance}", expected, got) == right
    assert compare_output(f"float:{tolerance}", repr(expected), repr(expected).encode())


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
)


def as_tuples(value):
    if type(value) in (list, tuple):
        return tuple(map(as_tuples, value))
    return {key: as_tuples(inner) for key, inner in value.items()} if type(value) is dict else value


@given(PLAIN, PLAIN)
def test_python_eq_is_pythons_but_for_tuples(left, right):
    assert compare_values("python_eq", left, as_tuples(left))
    assert compare_values("float:0", as_tuples(left), left)
    assert compare_values("python_eq", left, right) == (as_tuples(left) == as_tuples(right))


def test_deep_nesting_is_no_danger():
    deep, other = [], []
    for _ in range(100_000):
        deep, other = [deep], (other,)
    assert compare_values("python_eq", deep, other)
    assert not compare_values("float:1", deep, [other])
    while deep:
        deep = deep.pop()
        (other,) = other or ((),)


@pytest.mark.parametrize("name", ["lines", "tokens", "float:1e-6"])
def test_megabytes_take_seconds_and_little_memory(name):
    data = b"".join(b"%d.%d\n" % (n, n) for n in range(50_000))
    tracemalloc.start()
    started = time.process_time()
    assert compare_output(
        name, data, data.replace(b"\n", b" \n" if name == "lines" else b"0\r\n" if "float" in name else b"\t")
    )
    assert not compare_output(name, data, data + b"1")
    assert time.process_time() - started < 20
    assert tracemalloc.get_traced_memory()[1] < 8 * len(data)
    tracemalloc.stop()


@pytest.mark.parametrize("token", [b"1" * 10**6 + b"x", b"0" * 10**6 + b"x", b"1." + b"1" * 10**6 + b"x", b"1" * 10**6])
def test_a_token_of_a_megabyte_takes_no_time(token):
    started = time.process_time()
    assert not compare_output("float:1e-6", "1.0", token)
    assert compare_output("float:1e-6", token, token)
    assert time.process_time() - started < 5
