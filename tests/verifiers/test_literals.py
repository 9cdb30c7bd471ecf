"""Numbers as written, their units, and the numeric verifier."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifiers.base import Status
from verifiers.literals import Literal, equal, parse_literal
from verifiers.numeric import verify_numeric


def read(text, **options):
    literal = parse_literal(text, **options)
    assert literal is not None
    return literal


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("033", 33, ""),
        ("-3.50", Fraction(-7, 2), ""),
        (".0000672", Fraction(672, 10**7), ""),
        ("1,500.25", Fraction(6001, 4), ""),
        ("48{,}000", 48000, ""),
        ("48 000", 48000, ""),
        (r"11,\! 111,\! 111,\! 100", 11111111100, ""),
        (r"\frac{9}{19}", Fraction(9, 19), ""),
        (r"-\frac{35}{9}", Fraction(-35, 9), ""),
        (r"\frac 59", Fraction(5, 9), ""),
        (r"\frac{270}7\text{ degrees}", Fraction(270, 7), "degree"),
        ("7/8", Fraction(7, 8), ""),
        (r"4\frac23", Fraction(14, 3), ""),
        ("-4 2/3", Fraction(-14, 3), ""),
        (r"0.\overline{4}", Fraction(4, 9), ""),
        (r"0.1\overline{36}", Fraction(3, 22), ""),
        (r"7.2\times10^{6}", 7200000, ""),
        ("6.02e23", 602 * 10**21, ""),
        (r"1.6 \cdot 10^{-19}", Fraction(16, 10**20), ""),
        (r"\$32,\!348", 32348, "$"),
        ("£15", 15, "£"),
        (r"45\%", 45, "%"),
        ("45 percent", 45, "%"),
        (r"90^\circ", 90, "degree"),
        ("4210_{5}", 4210, "base 5"),
        (r"864 \mbox{ inches}^2", 864, "inch^2"),
        ("36 square inches", 36, "inch^2"),
        ("$12$.", 12, ""),
        ("１２", 12, ""),
    ],
)
def test_values_by_hand(text, value, unit):
    literal = read(text)
    assert (literal.value, literal.unit) == (value, unit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "8d",
        "2,4",
        "8,00",
        "1/0",
        "1,75",
        "--5",
        "5 + 3",
        "2(3)",
        "x",
        "3²",
        "5 million",
        r"5 \text{ or } 6",
        "1.2.3",
        "9" * 300,
    ],
)
def test_not_a_literal(text):
    assert parse_literal(text) is None


def test_decimal_comma_on_request():
    assert read("1,75", decimal_comma=True).value == Fraction(7, 4)
    assert read("1,750", decimal_comma=True).value == 1750


@settings(deadline=None)
@given(st.fractions(max_denominator=10**6))
def test_fractions_come_back(value):
    sign = "-" if value < 0 else ""
    text = f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    assert read(text) == Literal(value)


@settings(deadline=None)
@given(st.integers(-(10**12), 10**12))
def test_grouped_integers_come_back(value):
    assert read(f"{value:,}").value == value


@settings(deadline=None)
@given(st.text(alphabet="0123456789.,-/\\frac{}^_%$ eE×text°", max_size=40))
def test_any_text_is_read_or_refused(text):
    literal = parse_literal(text)
    assert literal is None or isinstance(literal.value, Fraction)


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("2/7", "0.285714286", True),
        ("2/7", "0.285715", False),
        ("2/7", "0.29", False),
        ("1/4", "0.2500001", False),
        ("600000001", "600000000", False),
        ("18", "18.00", True),
        (r"45\%", "45", True),
        (r"45\%", "0.45", True),
        ("0.45", r"45\%", True),
        ("0.45", "45", False),
        (r"\$15", "15", True),
        (r"\$15", "£15", False),
        ("6 kg", "6 g", False),
        (r"15 \text{ cm}^2", "15 square centimeters", True),
        ("143_6", "143_7", False),
        ("143_6", "143", True),
        ("x=5", "5", True),
        ("x=5", "y=5", False),
    ],
)
def test_equality(gold, answer, expected):
    assert equal(read(gold), read(answer)) is expected


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        (r"\boxed{18}", "18", Status.CORRECT),
        ("#### 1,500", "1500", Status.CORRECT),
        ("Answer: 3 + 15 = 18 dollars", "18", Status.CORRECT),
        (r"\boxed{x = 18 \text{ eggs}}", "18", Status.CORRECT),
        ("She makes $18 every day.", "18", Status.CORRECT),
        ("First 3, then -10", "-10", Status.CORRECT),
        (r"\boxed{18 \text{ or } 19}", "18", Status.WRONG),
        (r"\boxed{1}\boxed{2}\boxed{3}", "3", Status.WRONG),
        (r"\boxed{17}", "18", Status.WRONG),
        (r"\boxed{}", "18", Status.WRONG),
        (r"18, so \boxed{18", "18", Status.NO_ANSWER),
        ("none", "18", Status.NO_ANSWER),
        ("<think>18", "18", Status.NO_ANSWER),
        (r"\boxed{many}", "many", Status.ERROR),
    ],
)
def test_numeric_verifier(answer, reference, expected):
    assert verify_numeric(answer, reference, {}).status == expected
