"""Words, choices, times and dates."""

import pytest

from verifiers.mathematics.words import (
    choice_of,
    date_of,
    number_in_words,
    time_of,
    unwrapped,
    without_qualifier,
    words_of,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Isosceles", "isosceles"),
        ("the circle", "circle"),
        ("DNE", "does not exist"),
        ("Does not exist.", "does not exist"),
        ("infinitely many", "infinity"),
        ("No solutions", "no solution"),
        ("Fri", "friday"),
        ("x", "x"),
        ("N", "N"),
        ("n!", ""),
        ("x'", ""),
        ("x + 1", ""),
        ("4 apples", ""),
    ],
)
def test_words(text, expected):
    assert words_of(text) == expected


@pytest.mark.parametrize(
    ("text", "letter", "value"),
    [
        ("D", "D", ""),
        ("(D)", "D", ""),
        ("d", "D", ""),
        ("D.", "D", ""),
        ("Option D", "D", ""),
        ("(D) 12", "D", "12"),
        ("D. 12", "D", "12"),
        ("D: -12", "D", "-12"),
        ("e", "", ""),
        ("(B) or 7", "", ""),
        ("(B), 17", "", ""),
        ("(E)+1", "", ""),
        ("N", "", ""),
        ("DE", "", ""),
    ],
)
def test_choices(text, letter, value):
    assert choice_of(text) == (letter, value)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("1:30 PM", "13:30", True),
        ("1:30 p.m.", "1:30 pm", True),
        ("1:30", "13:30", True),
        ("1:30 AM", "13:30", False),
        ("10:15", "1:15", False),
        ("noon", "12:00 PM", True),
        ("midnight", "12:00 AM", True),
        ("12:00 AM", "12:00 PM", False),
        ("4:51:06 PM", "16:51:06", True),
        ("3 PM", "15:00", True),
    ],
)
def test_times(a, b, expected):
    assert time_of(a).agrees(time_of(b)) is expected
    assert time_of(b).agrees(time_of(a)) is expected


@pytest.mark.parametrize("text", ["25:00", "10:75", "13:00 PM", "1530", "5", "", "10:5"])
def test_no_times(text):
    assert time_of(text) is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("March 5", "5 March", True),
        ("March 5, 2021", "2021-03-05", True),
        ("Mar. 5th, 2021", "3/5/2021", True),
        ("Friday, March 5", "the 5th of March", True),
        ("March 5, 2021", "March 5", True),
        ("March 5, 2021", "March 5, 2022", False),
        ("March 5", "May 3", False),
        ("March 2021", "March 5, 2021", False),
    ],
)
def test_dates(a, b, expected):
    assert date_of(a).agrees(date_of(b)) is expected
    assert date_of(b).agrees(date_of(a)) is expected


@pytest.mark.parametrize("text", ["March", "13/45/2021", "5", "2021", "x 2021-3"])
def test_no_dates(text):
    assert date_of(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("nine", 9), ("twenty-one", 21), ("three hundred and five", 305), ("two thousand", 2000), ("many", None)],
)
def test_numbers_in_words(text, value):
    assert number_in_words(text) == value


def test_qualifiers_and_wrappers():
    assert without_qualifier("x^2 + c for any real c") == "x^2 + c"
    assert without_qualifier("x + c, where c is a constant") == "x + c"
    assert without_qualifier("for all") == "for all"
    assert unwrapped(r"\textbf{(B) }\text{isosceles}") == "(B) isosceles"
