"""Mathematical answers: is this expression equal to the reference?

The answer is the last box, or what follows the last anchor. Plain numbers and words are compared here, exactly.
Everything else goes to a worker process with a deadline, where latex2sympy2_extended reads both sides (it parses a
grammar: text is never evaluated) and Math-Verify and sympy compare them. Only that worker imports them.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from verifiers.base import Status, Verdict
from verifiers.extract import find_answer
from verifiers.literals import Literal, clean, equal, is_rounding, parse_literal
from verifiers.pool import JobFailed, JobTimeout, WorkerPool
from verifiers.units import same_unit, split_unit

DEADLINE_S = 5.0
MEMORY_BYTES = 2 * 1024**3
MAX_LENGTH = 2000
MAX_DEPTH = 20
"""Of nested brackets, in which the grammar's parser takes exponential time."""
MAX_DIGITS = 1_000_000
"""Of a whole number that is written out to be compared."""
PRECISION = 40
"""Digits to which constants such as \\sqrt{2} + \\pi must agree."""

_WORKERS = min(8, len(os.sched_getaffinity(0)))
_POOL = WorkerPool("verifiers.math:load", size=_WORKERS, deadline_s=DEADLINE_S, memory_bytes=MEMORY_BYTES)

_WARM_UP = (
    r"\{\frac{\sqrt{2}}{2}, (x+1)^2\}",
    r"(-\infty, 0] \cup (1, \frac{\pi}{2})",
    r"\begin{pmatrix} 1 & -2 \\ 3 & \frac{4}{5} \end{pmatrix}",
    r"y = 2\sin^2 x + \log_3 (x) - x^{10}",
    r"(15/4, 0, 2^{1/3})",
)

_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mbox|mathbf)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[A-Za-z][A-Za-z' -]*")
_CHOICE = re.compile(r"\(?([A-J])\)?")
_ARTICLE = re.compile(r"(?:the|an?) +(?=\w)")
_PROGRAM = re.compile(r"__|[\"`]|'\w|\b(?:lambda|import|eval|exec)\b|\\(?:def|newcommand|let)\b")

close = _POOL.close


def verify_math(answer: str, reference: str, meta: Mapping[str, Any]) -> Verdict:
    """`reference` is LaTeX or plain text, perhaps in dollar signs or a box. `meta` is not used."""
    found = find_answer(answer)

    def verdict(status: Status, detail: str = "", seconds: float = 0.0) -> Verdict:
        return Verdict(status, found.text, reference, "math", seconds, detail)

    gold = clean((find_answer(reference).text or "") if "\\boxed" in reference else reference)
    if not gold or len(gold) > MAX_LENGTH:
        return verdict(Status.ERROR, "the reference is empty or too long")
    if found.text is None:
        return verdict(Status.NO_ANSWER, found.problem)
    text = clean(found.text)
    if found.problem or not text or len(text) > MAX_LENGTH or _depth(text) > MAX_DEPTH:
        return verdict(Status.WRONG, found.problem or "the answer is empty, too long or nested too deeply")
    simple = _compare_simple(gold, text)
    if simple is not None:
        return verdict(Status.CORRECT if simple else Status.WRONG)
    return _compare_in_worker(gold, text, verdict)


def _compare_simple(gold: str, answer: str) -> bool | None:
    """The verdict on plain numbers, words and units; None when it takes algebra."""
    words = _words(gold, short=False)
    if words is not None:
        return _words(answer, short=True) == words
    gold_number, number = parse_literal(gold), parse_literal(answer, decimal_comma=True)
    if gold_number is not None and number is not None:
        return equal(gold_number, number)
    return None if same_unit(split_unit(gold)[1], split_unit(answer)[1]) else False


def _words(text: str, *, short: bool) -> str | None:
    """A name, a word or a choice letter in one spelling. Bare short words may be products, so only if `short`."""
    plain = _TEXT_COMMAND.sub(r"\1", text).strip()
    if choice := _CHOICE.fullmatch(plain):
        return choice[1].casefold()
    maybe_product = plain == text and len(plain) < 4 and not re.fullmatch("[A-Z][a-z]+", plain)
    if not _WORDS.fullmatch(plain) or (maybe_product and not short):
        return None
    return _ARTICLE.sub("", " ".join(plain.casefold().split()), count=1)


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest


def _compare_in_worker(gold: str, answer: str, verdict: Callable[..., Verdict]) -> Verdict:
    try:
        (status, detail), seconds = _POOL.call(split_unit(gold)[0], split_unit(answer)[0])
    except JobTimeout:
        return verdict(Status.TIMEOUT, f"not decided within {DEADLINE_S:g} s", DEADLINE_S)
    except JobFailed as error:
        return verdict(Status.ERROR, str(error))
    return verdict(Status(status), detail, seconds)


def load() -> Callable[[str, str], tuple[Status, str]]:
    """What a worker runs, with its libraries imported and their grammar warm."""
    logging.disable(logging.CRITICAL)
    for text in _WARM_UP:
        decide(text, text)
    return decide


def decide(gold_text: str, answer_text: str) -> tuple[Status, str]:
    """Compare two texts by algebra; for worker processes only, because it may hang."""
    import math_verify

    gold = _parse(gold_text)
    if gold is None:
        return Status.ERROR, f"the reference {gold_text[:80]!r} cannot be read"
    answer = None if _PROGRAM.search(answer_text) else _parse(answer_text)
    if answer is None:
        return Status.WRONG, "the answer cannot be read as mathematics"
    if problem := _not_final(gold, answer):
        return Status.WRONG, problem
    same = _equal_constants(gold, answer, parse_literal(answer_text))
    if same is None:
        same = math_verify.verify(gold, answer, allow_set_relation_comp=True, timeout_seconds=0)
    return (Status.CORRECT if same else Status.WRONG), ""


@lru_cache(maxsize=1024)
def _parse(text: str) -> Any:
    """A sympy object with exact numbers, or None for what cannot be read or has no value."""
    import math_verify
    import sympy
    from latex2sympy2_extended import NormalizationConfig

    config = NormalizationConfig(basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="last")
    target = math_verify.LatexExtractionConfig(boxed_match_priority=0, normalization_config=config)
    parsed = math_verify.parse(
        f"\\boxed{{{text}}}",
        [target],
        fallback_mode="no_fallback",
        parsing_timeout=0,
    )
    if not parsed or parsed[0].has(sympy.nan, sympy.zoo):
        return None
    return parsed[0].xreplace({number: sympy.Rational(str(number)) for number in parsed[0].atoms(sympy.Float)})


def _not_final(gold: Any, answer: Any) -> str:
    """Why an answer restates a problem instead of solving it; empty when it does not."""
    import sympy
    from sympy.core.function import AppliedUndef
    from sympy.core.relational import Relational

    unevaluated = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Derivative)
    if answer.has(*unevaluated) and not gold.has(*unevaluated):
        return "the answer is not evaluated"
    if isinstance(answer, AppliedUndef) and not isinstance(gold, AppliedUndef):
        return "the answer is not evaluated"
    if isinstance(answer, Relational) and not _solved(answer):
        if isinstance(answer, sympy.Eq) and not answer.free_symbols:
            return "" if _equal_constants(answer.lhs, answer.rhs, None) else "the two sides are not equal"
        if not isinstance(gold, Relational) or _solved(gold):
            return "the answer is not solved"
    return ""


def _solved(relation: Any) -> bool:
    """Whether one side is a lone symbol, or a function such as f(x), that the other side does not contain."""
    import sympy
    from sympy.core.function import AppliedUndef

    sides = (relation.lhs, relation.rhs)
    return any(
        isinstance(one, sympy.Symbol | AppliedUndef) and not other.has(one) for one, other in (sides, sides[::-1])
    )


def _equal_constants(gold: Any, answer: Any, literal: Literal | None) -> bool | None:
    """Compare two real or complex constants; None when one of them is something else.

    Rationals compare exactly, other constants to `PRECISION` digits of the larger one. A decimal `literal`
    may be the correct rounding of an irrational reference.
    """
    import sympy

    if not all(isinstance(side, sympy.Expr) and side.is_number for side in (gold, answer)):
        return None
    a, b = (sympy.N(side, PRECISION) for side in (gold, answer))
    if not (a.is_finite and b.is_finite):
        return None
    if abs(a - b) > sympy.Float(10) ** (2 - PRECISION) * max(abs(a), abs(b)):
        return literal is not None and bool(a.is_real) and is_rounding(literal, Fraction(str(a)))
    if not (gold.is_rational and answer.is_rational):
        return True
    too_large = max(abs(a), abs(b)) > sympy.Float(10) ** MAX_DIGITS
    return gold == answer if too_large else gold.doit() == answer.doit()
