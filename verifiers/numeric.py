"""One number against one number, exactly: word problems with a plain numeric answer.

The answer is taken from the last box or behind the last anchor, and otherwise is the last number of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from verifiers.base import Status, Verdict
from verifiers.extract import after_thinking, find_answer
from verifiers.literals import Literal, clean, equal, parse_literal

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:\s?\\?%)?")


def verify_numeric(answer: str, reference: str, meta: Mapping[str, Any]) -> Verdict:
    """`reference` is one number, perhaps with a unit. `meta` is not used."""
    gold = parse_literal(reference)
    found = find_answer(answer)
    text = found.text if found.text is not None else _last_number(answer)

    def verdict(status: Status, detail: str = "") -> Verdict:
        return Verdict(status, text, reference, "numeric", detail=detail)

    if gold is None:
        return verdict(Status.ERROR, f"the reference {reference[:80]!r} is not a number")
    if text is None:
        return verdict(Status.NO_ANSWER, found.problem)
    if found.text is not None and found.problem:
        return verdict(Status.WRONG, found.problem)
    number = _one_number(text)
    if number is None:
        return verdict(Status.WRONG, "not one number")
    return verdict(Status.CORRECT if equal(gold, number) else Status.WRONG)


def _last_number(answer: str) -> str | None:
    numbers = _NUMBER.findall(after_thinking(answer) or "")
    return numbers[-1] if numbers and "\\boxed" not in answer else None


def _one_number(text: str) -> Literal | None:
    """The value of a text such as `18`, `x = 18`, `3 + 15 = 18` or `18 eggs a day`."""
    value = clean(text).rpartition("=")[2].strip()
    literal = parse_literal(value, decimal_comma=True)
    if literal is not None:
        return literal
    numbers = _NUMBER.findall(value)
    return parse_literal(numbers[0]) if len(numbers) == 1 else None
