"""Countdown: is this expression, or this chain of steps, made of the given numbers and equal to the target?

Two forms count: an infix expression such as `(19 + 8) * 2` (perhaps followed by `= 54`, in a box or behind an anchor,
with LaTeX operators), and a chain of steps such as `12 + 7 =19 5 * 3 =15 19 - 15 =4`, each using up two of the
values still there. Arithmetic is exact. Own parser: linear in the text, bounded in length and depth.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from verifiers.base import Status, Verdict
from verifiers.extract import after_thinking, find_answer

MAX_LENGTH = 1000
MAX_DEPTH = 50

_REWRITES = (
    (re.compile(r"\\[dt]?frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\[dt]frac"), r"\\frac"),
    (re.compile(r"\\(?:left|right|displaystyle|quad|[,;:! ])|\\[()\[\]]|\$"), " "),
    (re.compile(r"\\(?:times|cdot)|[×·⋅∗]"), "*"),
    (re.compile(r"\\div|[÷∕]"), "/"),
    (re.compile(r"[−–]"), "-"),
)
_BRACKETS = str.maketrans("[]{}", "()()")
_NUMBER = r"\d{1,12}(?:\.\d{1,12})?(?![\d.]*\d)"
_TOKEN = re.compile(rf"\s*(?:(?P<number>{_NUMBER})|(?P<sign>\\frac|[-+*/()]))")
_STEP = re.compile(rf"[\s,;]*(-?{_NUMBER})\s*([-+*/])\s*(-?{_NUMBER})\s*=\s*(-?{_NUMBER})[\s,;]*")
_ARITHMETIC = re.compile(r"(?:\\frac|[\d\s.,;+\-*/()=])*")


class NotAnExpression(ValueError):
    """The text cannot be read as arithmetic, or divides by zero; the message says what is wrong."""


def verify_countdown(answer: str, reference: str, meta: Mapping[str, Any]) -> Verdict:
    """`reference` is the target, `meta["numbers"]` the numbers to use, each exactly once."""
    text = _candidate(answer)

    def verdict(status: Status, detail: str = "", value: Fraction | None = None) -> Verdict:
        plain = Verdict(status, text, reference, "countdown", detail=detail)
        return plain if value is None else replace(plain, answer_form=str(value), reference_form=reference)

    try:
        target = Fraction(reference)
        numbers = [Fraction(number) for number in meta["numbers"]]
    except (KeyError, TypeError, ValueError) as error:
        return verdict(Status.ERROR, f"not a countdown problem: {type(error).__name__}: {error}")
    if text is None:
        return verdict(Status.NO_ANSWER, "no expression")
    try:
        value = evaluate(text, numbers)
    except NotAnExpression as error:
        return verdict(Status.WRONG, str(error))
    right = value == target
    return verdict(Status.CORRECT if right else Status.WRONG, "" if right else f"gives {value}, not {target}", value)


def evaluate(text: str, numbers: Sequence[Fraction]) -> Fraction:
    """The value of an expression or a chain of steps. Raises `NotAnExpression`; also where numbers are misused."""
    if len(text) > MAX_LENGTH:
        raise NotAnExpression(f"longer than {MAX_LENGTH} characters")
    text = _normalise(text)
    steps = _steps(text)
    return _end_of(steps, numbers) if steps else _value_of(text, numbers)


def _candidate(answer: str) -> str | None:
    """The boxed or anchored answer, otherwise the whole text when it is nothing but arithmetic."""
    found = find_answer(answer)
    if found.text is not None:
        return found.text
    bare = (after_thinking(answer) or "").strip()
    normal = _normalise(bare[:MAX_LENGTH])
    return bare if any(map(str.isdigit, normal)) and _ARITHMETIC.fullmatch(normal) else None


def _normalise(text: str) -> str:
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text.translate(_BRACKETS).strip(" \t\n*.,;")


def _steps(text: str) -> list[tuple[str, ...]]:
    """(a, operator, b, result) of every step, or nothing when the text is not a chain of steps."""
    steps, position = [], 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            return []
        steps.append(step.groups())
        position = step.end()
    return steps


def _end_of(steps: Sequence[tuple[str, ...]], numbers: Sequence[Fraction]) -> Fraction:
    left = Counter(numbers)
    for a, operator, b, result in steps:
        step = f"{a} {operator} {b} = {result}"
        for value in (a, b):
            if not left[Fraction(value)]:
                raise NotAnExpression(f"{value} is not there to use in {step}")
            left[Fraction(value)] -= 1
        if _apply(operator, Fraction(a), Fraction(b)) != Fraction(result):
            raise NotAnExpression(f"{step} is not right")
        left[Fraction(result)] += 1
    rest = list(left.elements())
    if len(rest) > 1:
        raise NotAnExpression(f"{len(rest)} values are left: {', '.join(map(str, rest))}")
    return rest[0]


def _value_of(text: str, numbers: Sequence[Fraction]) -> Fraction:
    expression, *claims = (_tokens(part) for part in text.split("="))
    used = Counter(token for token in expression if isinstance(token, Fraction))
    if used != Counter(numbers):  # before evaluating: this bounds the work
        raise NotAnExpression(f"does not use {', '.join(map(str, numbers))} exactly once each")
    value, *claimed = (_Parser(tokens).parse() for tokens in (expression, *claims))
    for claim in claimed:
        if claim != value:
            raise NotAnExpression(f"gives {claim}, not {value}")
    return value


def _tokens(text: str) -> list[Fraction | str]:
    tokens: list[Fraction | str] = []
    position, text = 0, text.strip()
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise NotAnExpression(f"cannot read {text[position : position + 20]!r}")
        tokens.append(Fraction(token["number"]) if token["number"] else token["sign"])
        position = token.end()
    return tokens


def _apply(operator: str, a: Fraction, b: Fraction) -> Fraction:
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    if operator == "*":
        return a * b
    if b == 0:
        raise NotAnExpression(f"{a} is divided by zero")
    return a / b


class _Parser:
    """Recursive descent over + - * / with the usual precedence; values are exact."""

    def __init__(self, tokens: Sequence[Fraction | str]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def parse(self) -> Fraction:
        value = self._sum()
        if self._next < len(self._tokens):
            raise NotAnExpression(f"'{self._tokens[self._next]}' is out of place")
        return value

    def _peek(self) -> Fraction | str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> Fraction | str:
        token = self._peek()
        if token is None:
            raise NotAnExpression("ends too early")
        self._next += 1
        return token

    def _sum(self) -> Fraction:
        value = self._product()
        while self._peek() in ("+", "-"):
            value = _apply(str(self._take()), value, self._product())
        return value

    def _product(self) -> Fraction:
        value = self._factor()
        while self._peek() in ("*", "/", "("):
            operator = "*" if self._peek() == "(" else str(self._take())
            value = _apply(operator, value, self._factor())
        return value

    def _factor(self) -> Fraction:
        token = self._take()
        if isinstance(token, Fraction):
            return token
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NotAnExpression(f"nested deeper than {MAX_DEPTH}")
        if token == "-":
            value = -self._factor()
        elif token == "(":
            value = self._group()
        elif token == "\\frac":
            value = _apply("/", self._bracketed(), self._bracketed())
        else:
            raise NotAnExpression(f"'{token}' is out of place")
        self._depth -= 1
        return value

    def _bracketed(self) -> Fraction:
        if self._take() != "(":
            raise NotAnExpression("a fraction without its braces")
        return self._group()

    def _group(self) -> Fraction:
        value = self._sum()
        if self._take() != ")":
            raise NotAnExpression("a bracket never closes")
        return value
