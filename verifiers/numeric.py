"""One number against one number, exactly: word problems with a plain numeric answer.

The answer is taken from the last box or behind the last anchor, and otherwise is the last number of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from verifiers.base import Status, Verdict
from verifiers.extract import after_thinking, find_answer
from verifiers.mathematics.compare import compare
from verifiers.mathematics.evaluate import approximate
from verifiers.mathematics.judge import Judge
from verifiers.mathematics.polynomials import Undecided, Undefined
from verifiers.mathematics.reading import Reading, read
from verifiers.mathematics.values import Scalar
from verifiers.policy import DEFAULT, policy_named

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:\s?\\?%)?")


def verify_numeric(answer: str, reference: str, meta: Mapping[str, Any]) -> Verdict:
    """`reference` is one number, perhaps with a unit. `meta["policy"]` names a preset, as for `verify_math`."""
    gold = read(reference)
    found = find_answer(answer)
    last = _last_number(answer) if found.text is None else None
    text, span = (found.text, found.span) if last is None else (last[0], last.span())

    def verdict(status: Status, rule: str, detail: str = "", given: Reading | None = None) -> Verdict:
        forms = (given.form, gold.form) if given else ("", "")
        return Verdict(status, text, reference, "numeric", 0.0, detail, rule, *forms, span)

    if not _is_number(gold):
        return verdict(Status.ERROR, "bad_reference", f"the reference {reference[:80]!r} is not a number")
    if text is None:
        return verdict(Status.NO_ANSWER, found.rule, found.problem)
    if last is None and found.problem:
        return verdict(Status.WRONG, found.rule, found.problem)
    given = read(text)
    if not _is_number(given):
        return verdict(Status.WRONG, "not_one_number", "not one number", given)
    try:
        correct, rule = compare(gold, given, Judge(policy_named(meta.get("policy", DEFAULT))))
    except (Undecided, Undefined):
        correct, rule = False, "not_one_number"
    return verdict(Status.CORRECT if correct else Status.WRONG, rule, given=given)


def _last_number(answer: str) -> re.Match[str] | None:
    final = after_thinking(answer)
    if final is None or "\\boxed" in answer:
        return None
    last = None
    for number in _NUMBER.finditer(answer, len(answer) - len(final)):
        last = number
    return last


def _is_number(reading: Reading) -> bool:
    return any(isinstance(value, Scalar) and approximate(value.node) is not None for value in reading.values)
