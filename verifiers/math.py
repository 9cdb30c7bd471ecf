"""Mathematical answers: is this expression equal to the reference?

Four stages, each only where the one before leaves it open. The answer is found by a linear scan; both sides are read by
one grammar into typed values; these are compared by exact arithmetic and by matching; what is left goes to killable
worker processes, for values at random points and, where our grammar cannot read the text, for computer algebra.
Text is never evaluated. This module and those that it imports load no library beyond the standard one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

from verifiers.base import Status, Verdict
from verifiers.extract import Found, find_answer
from verifiers.mathematics.compare import compare
from verifiers.mathematics.guards import MAX_LENGTH, brace_problem, is_program
from verifiers.mathematics.judge import Judge
from verifiers.mathematics.nodes import names
from verifiers.mathematics.polynomials import Undecided, Undefined
from verifiers.mathematics.reading import Reading, read
from verifiers.policy import DEFAULT, Policy, policy_named
from verifiers.pool import JobFailed, JobTimeout, WorkerPool

DEADLINE_S = 0.8
"""For one comparison in a worker. The whole verdict stays under a second."""
MEMORY_BYTES = 900 * 1024**2
MAX_INLINE = 400
"""Characters of an answer that is read in this process; a longer one would hold up its other threads."""

_WORKERS = min(8, len(os.sched_getaffinity(0)))
_NUMERIC = WorkerPool(
    "verifiers.mathematics.algebra:load_numeric", size=_WORKERS, deadline_s=DEADLINE_S, memory_bytes=MEMORY_BYTES
)
_SYMBOLIC = WorkerPool(
    "verifiers.mathematics.algebra:load_symbolic", size=_WORKERS, deadline_s=DEADLINE_S, memory_bytes=MEMORY_BYTES
)

_QUOTED_LIST = re.compile(r"\s*[\[(]\s*(['\"]).*\1\s*,?\s*[\])]\s*", re.DOTALL)
_QUOTED = re.compile(r"\s*(['\"])(.*)\1\s*", re.DOTALL)
_COMMAND = re.compile(r"\\([A-Za-z]+|.)")
_KNOWN_LATEX = names(
    "frac sqrt cdot times div pi infty alpha beta gamma theta lambda mu phi omega sin cos tan cot sec csc log ln exp "
     "arcsin arccos arctan sinh cosh tanh binom cup cap setminus in le ge ne pm begin end lfloor rfloor lceil rceil "
     "circ overline max min gcd lcm { } %"
)  # fmt: skip
"""Commands that the grammar of latex2sympy2_extended reads; it skips others, and would read what was not written."""
_ODD_SIGN = re.compile(r"[;?!#&@\"']|(?<![\\A-Za-z])[A-Za-z]{2,}|\.\.")
_ONE_IN_BRACES = re.compile(r"(?<=[_^])\{\s*(\w)\s*\}")
_HAS_CONTENT = re.compile(r"[^\W_]|\\\{\s*\\\}|∞|\\infty|\\emptyset|\\varnothing|∅")


def close() -> None:
    """Stop the worker processes."""
    _NUMERIC.close()
    _SYMBOLIC.close()


def verify_math(answer: str, reference: str, meta: Mapping[str, Any]) -> Verdict:
    """`reference` is LaTeX or plain text, perhaps in dollar signs or a box. `meta["policy"]` names a preset.

    Raises `ValueError` for a policy that does not exist.
    """
    policy = policy_named(meta.get("policy", DEFAULT))
    if policy.engine == "math_verify":
        return _like_math_verify(answer, reference)
    gold = _reference(reference)
    found = find_answer(answer, anchors=policy.anchors)
    if not gold.is_readable and not _may_be_latex(gold):
        if found.text and not found.problem and _is_the_same_text(gold, found.text):
            return _verdict(found, reference, Status.CORRECT, "same_text", (gold, gold))
        detail = f"the reference {reference[:80]!r} cannot be read: {gold.problem or 'no mathematics and no words'}"
        return Verdict(Status.ERROR, None, reference, "math", detail=detail, rule="bad_reference")
    if found.text is None:
        return Verdict(Status.NO_ANSWER, None, reference, "math", detail=found.problem, rule=found.rule)
    if found.problem:
        return _verdict(found, reference, Status.WRONG, found.rule, detail=found.problem)
    verdict = _graded(found, found.text, reference, gold, policy)
    if verdict.status == Status.WRONG and len(found.parts) > 1:
        return _each_part(found, reference, gold, policy) or verdict
    return verdict


def _each_part(found: Found, reference: str, gold: Reading, policy: Policy) -> Verdict | None:
    """The verdict on several boxes that each hold the answer, in several forms; None for all others."""
    parts = [_graded(found, part, reference, gold, policy) for part in found.parts]
    if any(part.status != Status.CORRECT for part in parts):
        return None
    return replace(parts[-1], rule="same_answer_twice")


def _graded(found: Found, text: str, reference: str, gold: Reading, policy: Policy) -> Verdict:
    """The verdict on the text of an answer."""
    if MAX_INLINE < len(text) <= MAX_LENGTH:
        return _in_worker(found, reference, gold, Reading(text), policy)
    given = read(text)
    try:
        correct, rule = compare(gold, given, Judge(policy))
    except Undefined:
        correct, rule = False, "undefined"
    except Undecided:
        return _in_worker(found, reference, gold, given, policy)
    if not correct and _needs_latex(gold, given):
        return _by_algebra(found, reference, gold, given)
    return _verdict(found, reference, Status.CORRECT if correct else Status.WRONG, rule, (gold, given))


def _verdict(
    found: Found,
    reference: str,
    status: Status,
    rule: str,
    sides: tuple[Reading, Reading] | None = None,
    *,
    detail: str = "",
    seconds: float = 0.0,
) -> Verdict:
    gold_form, form = (sides[0].form, sides[1].form) if sides is not None else ("", "")
    return Verdict(
        status=status,
        extracted=found.text,
        reference=reference,
        verifier="math",
        seconds=seconds,
        detail=detail,
        rule=rule,
        answer_form=form,
        reference_form=gold_form,
        span=found.span,
    )


@lru_cache(maxsize=4096)
def _reference(reference: str) -> Reading:
    """The reading of a reference, which may stand in a box, behind an anchor, or in a list of quoted texts."""
    text = reference
    if "\\boxed" in text or "\\fbox" in text or "####" in text or "<answer>" in text:
        found = find_answer(text)
        text = found.text or ""
    elif re.match(r"\s*(?:the )?(?:final )?answer\s*(?:is|:)", text, re.IGNORECASE):
        text = find_answer(text).text or text
    if _QUOTED_LIST.fullmatch(text):
        text = text.strip()[1:-1].replace("'", "").replace('"', "").rstrip(", ")
    elif quoted := _QUOTED.fullmatch(text):
        text = quoted[2]
    if not _HAS_CONTENT.search(text):
        return Reading(text.strip(), problem="empty")
    return read(text)


def _is_the_same_text(gold: Reading, text: str) -> bool:
    """Whether an answer is the text of a reference whose value is not known here, such as an integral."""
    has_no_value = gold.problem in ("", "unevaluated", "unsolved", "statement") or gold.problem.startswith("strange")
    if not has_no_value or not gold.key or is_program(gold.key):
        return False
    return _spelling(read(text).key) == _spelling(gold.key)


def _spelling(key: str) -> str:
    """Without blanks, and without braces around one character."""
    return _ONE_IN_BRACES.sub(r"\1", key).replace(" ", "")


def _may_be_latex(reading: Reading) -> bool:
    """Whether computer algebra may read what our own grammar does not."""
    if reading.problem or "\\" not in reading.key or brace_problem(reading.key) or _ODD_SIGN.search(reading.key):
        return False
    return all(command in _KNOWN_LATEX for command in _COMMAND.findall(reading.key))


def _needs_latex(gold: Reading, given: Reading) -> bool:
    """Whether the reference is LaTeX that our own grammar does not cover, and the answer is mathematics."""
    return not gold.is_readable and (bool(given.values) or _may_be_latex(given))


def _in_worker(found: Found, reference: str, gold: Reading, given: Reading, policy: Policy) -> Verdict:
    """The verdict by numeric evidence."""
    try:
        (correct, rule), seconds = _NUMERIC.call(gold.key, given.key, asdict(policy))
    except JobTimeout:
        detail = f"not decided within {DEADLINE_S:g} s"
        return _verdict(found, reference, Status.TIMEOUT, "timeout", (gold, given), detail=detail, seconds=DEADLINE_S)
    except JobFailed as error:
        return _verdict(found, reference, Status.ERROR, "worker_failed", (gold, given), detail=str(error))
    rule, _, detail = rule.partition(": ")
    status = Status.CORRECT if correct else Status.WRONG
    return _verdict(found, reference, status, rule, (gold, given), detail=detail, seconds=seconds)


def _by_algebra(found: Found, reference: str, gold: Reading, given: Reading) -> Verdict:
    """The verdict by computer algebra on LaTeX that our own grammar does not cover."""
    try:
        (status, rule), seconds = _SYMBOLIC.call("latex", gold.key, given.key)
    except JobTimeout:
        detail = f"not decided within {DEADLINE_S:g} s"
        return _verdict(found, reference, Status.TIMEOUT, "timeout", (gold, given), detail=detail, seconds=DEADLINE_S)
    except JobFailed as error:
        return _verdict(found, reference, Status.ERROR, "worker_failed", (gold, given), detail=str(error))
    return _verdict(found, reference, Status(status), rule, (gold, given), seconds=seconds)


def _like_math_verify(answer: str, reference: str) -> Verdict:
    """What Math-Verify says, for comparison with numbers that were made with it."""
    found = find_answer(answer)
    try:
        (status, rule), seconds = _SYMBOLIC.call("math_verify", reference, answer)
    except JobTimeout:
        return _verdict(found, reference, Status.TIMEOUT, "timeout", seconds=DEADLINE_S)
    return _verdict(found, reference, Status(status), rule, seconds=seconds)
