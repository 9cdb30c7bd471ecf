"""Units and their exact factors."""

from fractions import Fraction

import pytest

from verifiers.mathematics.units import read_unit, same_dimensions


@pytest.mark.parametrize(
    ("a", "b", "factor"),
    [
        ("km", "m", 1000),
        ("kilometers", "metre", 1000),
        ("square inches", "in^2", 1),
        ("sq. ft", "square foot", 1),
        ("inches^2", "sq in", 1),
        ("km/h", "m/s", Fraction(1000, 3600)),
        ("miles per hour", "mph", 1),
        ("cubic centimeters", "mL", 1),
        ("kg m^2 / s^2", "J", 1),
        ("hours", "minutes", 60),
        ("dollars", "cents", 100),
        ("yards", "feet", 3),
        ("gallon", "pints", 8),
        ("apples", "apple", 1),
        ("ways", "different ways", 1),
    ],
)
def test_units_that_convert(a, b, factor):
    first, second = read_unit(a), read_unit(b)
    assert same_dimensions(first, second)
    assert same_dimensions(second, first)
    assert first.factor / second.factor == factor


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("m", "m^2"),
        ("kg", "m"),
        ("dollars", "euros"),
        ("apples", "pears"),
        ("apples", "m"),
        ("m/s", "m"),
        ("degrees", "radians"),
        ("N", "J"),
    ],
)
def test_units_that_do_not(a, b):
    assert not same_dimensions(read_unit(a), read_unit(b))


@pytest.mark.parametrize(
    "text", ["or 5", "to", "is correct", "at least", "", "7", "not", "x^2 + 1", "a" * 100, "|", "undefined"]
)
def test_other_words_are_no_units(text):
    assert read_unit(text) is None


def test_a_large_number_in_words_is_only_a_factor():
    assert (read_unit("million").dimensions, read_unit("million").factor) == ((), 10**6)
