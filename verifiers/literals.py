"""Plain numbers as people write them, with exact values.

1,500  -3.50  \\frac{9}{19}  4\\frac23  4 2/3  0.\\overline{4}  7.2\\times10^6  6.02e23

A literal may carry a name (`x = 5`) and a unit. What is not a literal is left to computer algebra.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from verifiers.units import same_unit, split_unit

MAX_LENGTH = 200
MIN_SIGNIFICANT = 6
"""Digits that a rounded decimal must show before it may stand for an exact value."""


@dataclass(frozen=True, slots=True)
class Literal:
    """An exact value as written: 45 % has value 45 and unit "%". `decimals` is None unless written as a decimal."""

    value: Fraction
    decimals: int | None = None
    significant: int = 0
    unit: str = ""
    name: str = ""


_CHARACTERS = str.maketrans(
    "−–０１２３４５６７８９\u00a0\u2009\u202f", "--0123456789   ", "\u200b\u200c\u200d\u2060\ufeff"
)
_REWRITES = (
    (re.compile(r"(?<!\\)\\!\s*"), ""),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])"), ""),
    (re.compile(r"(?<!\\)\\[,;:> ]|~"), " "),
    (re.compile(r"(?<!\\)\$"), ""),
)
_NAME = re.compile(r"([A-Za-z])\s*=(?!=)\s*")
_SIGN = re.compile(r"[-+]\s*")
_INTEGER = r"(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+|\d+)"
_DECIMAL = rf"(?:{_INTEGER}(?:\.\d+)?|\.\d+)"
_PART = rf"(?:\{{\s*([-+]?{_DECIMAL})\s*\}}|(\d))"
_FRACTION = rf"\\[dt]?frac\s*{_PART}\s*{_PART}"


def _exact(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "").replace(" ", ""))


def _decimal(match: re.Match[str]) -> Literal:
    whole, point, part = match[0].replace(",", "").replace(" ", "").partition(".")
    return Literal(
        Fraction(f"{whole}.{part}" if point else whole),
        decimals=len(part) if point else None,
        significant=len((whole + part).lstrip("0")),
    )


def _quotient(a: Fraction, b: Fraction) -> Literal | None:
    return Literal(a / b) if b else None


def _fraction(match: re.Match[str]) -> Literal | None:
    return _quotient(_exact(match[1] or match[2]), _exact(match[3] or match[4]))


def _mixed(match: re.Match[str]) -> Literal | None:
    a, b = _exact(match[2] or match[3]), _exact(match[4] or match[5])
    return _quotient(_exact(match[1]) * b + a, b)


def _repeating(match: re.Match[str]) -> Literal:
    whole, fixed, period = match[1] or "0", match[2], match[3]
    shift = 10 ** len(fixed)
    return Literal(Fraction(int(whole + fixed), shift) + Fraction(int(period), shift * (10 ** len(period) - 1)))


def _scientific(match: re.Match[str]) -> Literal:
    return Literal(_exact(match[1]) * Fraction(10) ** int(match[2]))


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Literal | None]], ...] = (
    (re.compile(_DECIMAL), _decimal),
    (re.compile(_FRACTION), _fraction),
    (re.compile(r"(\d+)()\s*/\s*(\d+)()"), _fraction),
    (re.compile(rf"(\d+)\s*{_FRACTION}"), _mixed),
    (re.compile(r"(\d+)\s+(\d+)()\s*/\s*(\d+)()"), _mixed),
    (re.compile(r"(\d*)\.(\d*)\\overline\s*\{?(\d+)\}?"), _repeating),
    (re.compile(rf"({_DECIMAL})\s*(?:\\times|\\cdot|[×·*])\s*10\s*\^\s*\{{?\s*([-+]?\d{{1,3}})\s*\}}?"), _scientific),
    (re.compile(rf"({_DECIMAL})[eE]([-+]?\d{{1,3}})"), _scientific),
)
_DECIMAL_COMMA = re.compile(r"\d+,(?:\d{1,2}|\d{4,})")


def parse_literal(text: str, *, decimal_comma: bool = False) -> Literal | None:
    """The number that is all of `text`, or None. `decimal_comma` reads `1,75` as 1.75 instead of as a list."""
    if len(text) > MAX_LENGTH:
        return None
    text = clean(text)
    name = _NAME.match(text)
    text, unit = split_unit(text[name.end() :] if name else text)
    sign = _SIGN.match(text)
    digits = text[sign.end() :] if sign else text
    if decimal_comma and _DECIMAL_COMMA.fullmatch(digits):
        digits = digits.replace(",", ".")
    for form, build in _FORMS:
        match = form.fullmatch(digits)
        if match is not None and (literal := build(match)) is not None:
            value = -literal.value if text.startswith("-") else literal.value
            return replace(literal, value=value, unit=unit, name=name[1] if name else "")
    return None


def clean(text: str) -> str:
    """The text without spacing commands, the dollar signs of LaTeX, invisible characters and a final full stop."""
    text = text.translate(_CHARACTERS)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text.strip().rstrip(".").rstrip()


def equal(gold: Literal, answer: Literal) -> bool:
    """Whether an answer is the reference: exactly, or as its correct rounding to at least six significant digits.

    Percent signs count: 0.45 is 45 %; a bare 45 is accepted for a reference of 45 %, but not for 0.45.
    """
    if gold.name and answer.name and gold.name != answer.name:
        return False
    if "%" in (gold.unit, answer.unit):
        return _equal_percent(gold, answer)
    if not same_unit(gold.unit, answer.unit):
        return False
    return gold.value == answer.value or (gold.decimals is None and is_rounding(answer, gold.value))


def _equal_percent(gold: Literal, answer: Literal) -> bool:
    if not {gold.unit, answer.unit} <= {"%", ""}:
        return False
    if gold.unit and answer.value == gold.value:
        return True
    return gold.value / (100 if gold.unit else 1) == answer.value / (100 if answer.unit else 1)


def is_rounding(answer: Literal, exact: Fraction) -> bool:
    """Whether a decimal with enough digits is the correct rounding of an exact value at its own last digit."""
    if not answer.decimals or answer.significant < MIN_SIGNIFICANT:
        return False
    return abs(exact - answer.value) * 2 <= Fraction(1, 10**answer.decimals)
