"""What a verifier answers: a verdict, never a bare boolean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Status(StrEnum):
    """Five different facts that stay separate to the very end. Only `correct` ever pays."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"  # nothing that could be read as an answer
    TIMEOUT = "timeout"  # the verifier ran out of time: not the model's fault
    ERROR = "error"  # the verifier failed, or the reference cannot be read


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome for one answer. `seconds` is the time that the verifier took.

    `rule` names what decided. `answer_form` and `reference_form` are the two sides as they were compared, cut when
    long. `span` is where the answer stands in the text given, in characters. `score` is the share of tests that passed,
    for verifiers that run tests, None for all others and where the verifier failed. `starved`: a program ran out of its
    time, for more than a tenth of which it waited for a processor.
    """

    status: Status
    extracted: str | None
    reference: str
    verifier: str
    seconds: float = 0.0
    detail: str = ""
    rule: str = ""
    answer_form: str = ""
    reference_form: str = ""
    span: tuple[int, int] | None = None
    score: float | None = None
    starved: bool = False


class Verifier(Protocol):
    """Grades the text of an answer (thinking already removed) against a reference."""

    def __call__(self, answer: str, reference: str, meta: Mapping[str, Any]) -> Verdict: ...
