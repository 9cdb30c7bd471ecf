"""Countdown answers: expressions and chains of steps."""

import contextlib
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifiers.base import Status
from verifiers.countdown import NotAnExpression, evaluate, verify_countdown

META = {"numbers": [19, 8, 13]}


def status(answer, target="40", numbers=(19, 8, 13)):
    return verify_countdown(answer, target, {"numbers": list(numbers)}).status


@pytest.mark.parametrize(
    "answer",
    [
        "(19 + 8) + 13",
        "19+8+13 = 40",
        r"\boxed{(19+8)+13}",
        r"so $\boxed{19 + \left(8 + 13\right) = 40}$",
        "<answer>13+8+19</answer>",
        "We try.\nThe answer is 19 + 8 + 13.",
        "19-(-8)+13",
        "19+8+13=27+13=40",
        "[19+8]+{13}",
        "19+8 =27 27 + 13 =40",
        "19 + 8 = 27, 27 + 13 = 40",
        "19+8=27\n13 + 27 = 40.",
        "<think>no</think>19+8+13",
    ],
)
def test_right(answer):
    assert status(answer) == Status.CORRECT


@pytest.mark.parametrize(
    ("answer", "target", "numbers"),
    [
        (r"\boxed{\dfrac{12}{4}\times 2}", "6", (12, 4, 2)),
        (r"\boxed{12 \div 4 \cdot 2}", "6", (12, 4, 2)),
        ("12 ÷ 4 × 2", "6", (12, 4, 2)),
        (r"\frac82 - 3", "1", (8, 2, 3)),
        ("8 / (3 - 8 / 3)", "24", (8, 3, 8, 3)),
        ("4(5 + 1)", "24", (4, 5, 1)),
        ("5 - 12 =-7 20 + -7 =13", "13", (5, 12, 20)),
        ("3 / 2 =1.5 1.5 * 4 =6", "6", (2, 3, 4)),
    ],
)
def test_exact_arithmetic_in_any_notation(answer, target, numbers):
    assert status(answer, target, numbers) == Status.CORRECT


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (r"\boxed{40}", "exactly once"),
        ("19+8+13+0", "exactly once"),
        ("19+8", "exactly once"),
        ("19+8+8+13", "exactly once"),
        ("19*8-13", "gives 139, not 40"),
        ("19+8+13=41", "gives 41, not 40"),
        ("(19+8+13", "ends too early"),
        ("19+8+13)", "out of place"),
        ("19+8**13", "out of place"),
        ("19+8 13", "out of place"),
        ("13/(19-19)+8", "exactly once"),
        ("19+8 =27 27 + 13", "exactly once"),
        ("19+8 =28 28 + 12 =40", "is not right"),
        ("27 + 13 =40 19 + 8 =27", "27 is not there"),
        ("19+8 =27 27 + 13 =40 40 - 0 =40", "0 is not there"),
        ("19+8 =27", "2 values are left"),
        ("19-13 =6 6 + 8 =14", "gives 14, not 40"),
        (r"\boxed{__import__('os')}", "cannot read"),
        (r"\boxed{19+8+x}", "cannot read"),
        (r"\boxed{1" + "+1" * 600 + "}", "longer than"),
        (r"\boxed{" + "(" * 60 + "19" + ")" * 60 + "+8+13}", "nested"),
    ],
)
def test_wrong(answer, detail):
    verdict = verify_countdown(answer, "40", META)
    assert verdict.status == Status.WRONG
    assert detail in verdict.detail


def test_division_by_zero_is_wrong():
    verdict = verify_countdown("8 / (3 - 3)", "8", {"numbers": [8, 3, 3]})
    assert verdict.status == Status.WRONG
    assert "divided by zero" in verdict.detail


@pytest.mark.parametrize("answer", ["", "no", "I think it is 40", "+ = -", r"\boxed{19+8+13", "<think>19+8+13"])
def test_no_answer(answer):
    assert status(answer) == Status.NO_ANSWER


@pytest.mark.parametrize(("reference", "meta"), [("forty", META), ("40", {}), ("40", {"numbers": None})])
def test_an_unreadable_problem_is_an_error(reference, meta):
    assert verify_countdown("19+8+13", reference, meta).status == Status.ERROR


@st.composite
def expressions(draw, depth=3):
    """An expression as text, its value computed apart, and its numbers."""
    if depth == 0 or draw(st.booleans()):
        number = draw(st.integers(1, 99))
        return str(number), Fraction(number), [Fraction(number)]
    a, left, used = draw(expressions(depth=depth - 1))
    b, right, more = draw(expressions(depth=depth - 1))
    operator = draw(st.sampled_from("+-*/" if right else "+-*"))
    value = {"+": left + right, "-": left - right, "*": left * right, "/": left / (right or 1)}[operator]
    return f"({a} {operator} {b})", value, used + more


@settings(deadline=None)
@given(expressions())
def test_values_are_exact(expression):
    text, value, numbers = expression
    assert evaluate(text, numbers) == value


@settings(deadline=None)
@given(st.text(alphabet="0123456789+-*/()= \\frac{}.,", max_size=80))
def test_any_text_is_judged(text):
    with contextlib.suppress(NotAnExpression):
        evaluate(text, [Fraction(3)])


@pytest.mark.parametrize(
    "text", ["(" * 400_000, "1+" * 200_000, "1 + 1 =2 " * 100_000, " " * 300_000 + "1", "1" * 300_000]
)
def test_long_answers_take_linear_time(text):
    started = time.process_time()
    assert status(text) != Status.CORRECT
    assert time.process_time() - started < 1.5
