"""Does what a program gave equal what was expected? Decided outside the box, on plain data alone.

Outputs are compared as contest checkers do it: `lines`, `tokens` or `float:TOL`. Values that a function returned are
compared by `python_eq` or `float:TOL`. A missing or an extra line, token or element is never right, NaN equals nothing,
and whole numbers are compared digit by digit, never as floats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import partial
from io import BytesIO
from itertools import zip_longest
from typing import Any

_BLANKS = b" \t\r\n\v\f"
_BLANK = re.compile(rb"\s")
_CHUNK = 1 << 16
_INTEGER = re.compile(rb"([-+]?)(?=\d)0*+(\d*+)")
_NUMBER = re.compile(rb"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d{1,9})?")
_INFINITY = re.compile(rb"([-+]?)inf(?:inity)?", re.IGNORECASE)
_WIDE = Context(prec=40, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_SEQUENCES = (list, tuple)
_SETS = (set, frozenset)

COMPARES = {"stdio": ("lines", "tokens", "float:TOL"), "call": ("python_eq", "float:TOL")}
"""Names of comparisons by the form of the test; TOL is a number such as 1e-6."""


def check_compare(name: str, form: str) -> None:
    """Refuse a comparison that tests of this form ("stdio" or "call") do not have.

    Raises:
        ValueError: naming those that exist.
    """
    names = COMPARES[form]
    if name in names and name != "float:TOL":
        return
    kind, _, tolerance = name.partition(":")
    if kind == "float" and _tolerance(tolerance) is not None:
        return
    raise ValueError(f"unknown comparison '{name}' for {form} tests; write {', '.join(names)} (such as float:1e-6)")


def compare_output(name: str, expected: bytes | str, got: bytes) -> bool:
    """Whether an output is right. Takes little memory beside the two.

    `lines`: line by line; blanks at the end of a line, carriage returns there and blank last lines do not count.
    `tokens`: word by word, whatever stands between them. `float:TOL`: likewise, but two numbers may differ by TOL,
    absolutely or relative to the expected one; two whole numbers have to be the same.

    Raises:
        ValueError: there is no such comparison.
    """
    check_compare(name, "stdio")
    wanted = expected.encode("utf-8", "surrogatepass") if isinstance(expected, str) else expected
    if name == "lines":
        return all(a == b for a, b in zip_longest(_lines(wanted), _lines(got)))
    same: Callable[[bytes, bytes], bool] = bytes.__eq__
    if name != "tokens":
        same = partial(_same_token, tolerance=Decimal(name.partition(":")[2]))
    pairs = zip_longest(_tokens(wanted), _tokens(got))
    with localcontext(_WIDE):
        return all(a is not None and b is not None and same(a, b) for a, b in pairs)


def compare_values(name: str, expected: Any, got: Any) -> bool:
    """Whether a returned value is right, both being plain data (numbers, text, bytes, None and containers of them).

    `python_eq`: Python's `==`, so that 1 == 1.0 == True, but a tuple equals a list of the same elements. `float:TOL`:
    likewise, but a float and a number may differ by TOL, absolutely or relative to the expected one. What is not
    exactly of a plain type (a subclass, an object) equals nothing.

    Raises:
        ValueError: there is no such comparison.
    """
    check_compare(name, "call")
    tolerance = None if name == "python_eq" else float(name.partition(":")[2])
    pairs = [(expected, got)]  # not by recursion: a program may return what is nested a million times
    while pairs:
        wanted, value = pairs.pop()
        if type(wanted) in _SEQUENCES and type(value) in _SEQUENCES:
            if len(wanted) != len(value):
                return False
            pairs.extend(zip(wanted, value, strict=True))
        elif type(wanted) is dict and type(value) is dict:
            if len(wanted) != len(value) or any(key not in value for key in wanted):
                return False
            pairs.extend((wanted[key], value[key]) for key in wanted)
        elif type(wanted) in _SETS and type(value) in _SETS:
            if wanted != value:
                return False
        elif not _same_scalar(wanted, value, tolerance):
            return False
    return True


def _tolerance(text: str) -> float | None:
    """The tolerance that is written here, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _lines(data: bytes) -> Iterator[bytes]:
    return (line.rstrip(_BLANKS) for line in BytesIO(data.rstrip(_BLANKS)))


def _tokens(data: bytes) -> Iterator[bytes]:
    """The words of `data`, split a piece at a time: all of them at once would take many times its size."""
    start = 0
    while start < len(data):
        blank = _BLANK.search(data, start + _CHUNK)
        end = blank.start() if blank else len(data)
        yield from data[start:end].split()
        start = end


def _same_token(expected: bytes, got: bytes, tolerance: Decimal) -> bool:
    if expected == got:
        return expected.lower().lstrip(b"+-") != b"nan"
    wanted, value = _INTEGER.fullmatch(expected), _INTEGER.fullmatch(got)
    if wanted and value:
        return wanted[2] == value[2] and (not wanted[2] or (wanted[1] == b"-") == (value[1] == b"-"))
    if _NUMBER.fullmatch(expected) and _NUMBER.fullmatch(got):
        exact = Decimal(expected.decode())
        return abs(exact - Decimal(got.decode())) <= tolerance * max(Decimal(1), abs(exact))
    wanted, value = _INFINITY.fullmatch(expected), _INFINITY.fullmatch(got)
    return bool(wanted and value) and (wanted[1] == b"-") == (value[1] == b"-")


def _same_scalar(expected: Any, got: Any, tolerance: float | None) -> bool:
    if type(expected) not in _SCALARS or type(got) not in _SCALARS:
        return False
    if expected == got:
        return True
    kinds = {type(expected), type(got)}
    if tolerance is None or not kinds <= {bool, int, float, complex} or not kinds & {float, complex}:
        return False
    if not _is_finite(expected) or not _is_finite(got):
        return False
    if int in kinds and complex not in kinds:  # it may be too large for a float
        exact = Fraction(expected)
        return abs(exact - Fraction(got)) <= Fraction(tolerance) * max(1, abs(exact))
    try:
        return abs(expected - got) <= tolerance * max(1.0, abs(expected))
    except OverflowError:  # a complex number against a whole one that is too large
        return False


def _is_finite(value: complex) -> bool:
    return isinstance(value, int) or (math.isfinite(value.real) and math.isfinite(value.imag))
