"""What became of a sample, in the words of figures and reports: six facts that are never folded into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from eval.curves import MISSING, GradedSample
from verifiers.base import Status


class Outcome(StrEnum):
    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no answer"
    CUT = "cut, no answer"  # the budget or the room of the answer ended it before there was one
    UNGRADED = "verifier failed"
    MISSING = "missing"  # the engine or the sandbox failed


def outcome_of(sample: GradedSample) -> Outcome:
    match sample.status:
        case Status.CORRECT:
            return Outcome.CORRECT
        case Status.WRONG:
            return Outcome.WRONG
        case Status.NO_ANSWER:
            return Outcome.CUT if sample.bound or sample.escaped else Outcome.NO_ANSWER
        case _:
            return Outcome.MISSING if sample.status == MISSING else Outcome.UNGRADED


def outcome_counts(samples: Sequence[GradedSample]) -> dict[int, dict[str, int]]:
    """Budget, ascending -> how many samples had each outcome, those of none included."""
    counts: dict[int, Counter[Outcome]] = {budget: Counter() for budget in sorted({s.key.budget for s in samples})}
    for sample in samples:
        counts[sample.key.budget][outcome_of(sample)] += 1
    return {budget: {name.value: found[name] for name in Outcome} for budget, found in counts.items()}
