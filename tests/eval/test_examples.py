"""Which samples are shown to be read, and what became of samples."""

from __future__ import annotations

import random

import pytest

from eval.curves import MISSING, GradedSample
from eval.examples import EACH, Examples
from eval.outcomes import Outcome, outcome_counts, outcome_of
from reasoning.types import FinishReason, Generation, SampleKey, Task
from verifiers.base import Status, Verdict

TASK = Task(id="t", prompt=({"role": "user", "content": "What?"},), reference="1", verifier="math")


def graded(key: SampleKey, status: str, **flags: bool) -> GradedSample:
    facts = {"bound": False, "forced": False, "escaped": False, "looped": False} | flags
    return GradedSample(key, None, status, 3, 1, FinishReason.ANSWERED, extracted="1", **facts)


def generation(key: SampleKey, text: str) -> Generation:
    return Generation(
        key, (), (), (), (), 0, text, text, FinishReason.ANSWERED, False, False, False, False, 0, 0, 0, 0
    )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "flags", "expected"),
    [
        (Status.CORRECT, {"bound": True}, Outcome.CORRECT),
        (Status.WRONG, {"bound": True}, Outcome.WRONG),
        (Status.NO_ANSWER, {}, Outcome.NO_ANSWER),
        (Status.NO_ANSWER, {"bound": True}, Outcome.CUT),
        (Status.NO_ANSWER, {"escaped": True}, Outcome.CUT),
        (Status.TIMEOUT, {}, Outcome.UNGRADED),
        (Status.ERROR, {"bound": True}, Outcome.UNGRADED),
        (MISSING, {}, Outcome.MISSING),
    ],
)
def test_outcomes(status, flags, expected):
    assert outcome_of(graded(SampleKey("t", 0, 8), status, **flags)) is expected


def test_outcomes_are_counted_with_those_that_did_not_occur():
    samples = [graded(SampleKey("t", n, 8), "correct" if n else MISSING) for n in range(3)]
    counts = outcome_counts([*samples, graded(SampleKey("t", 0, 4), "wrong")])
    assert list(counts) == [4, 8]
    assert counts[8] == {
        "correct": 2,
        "wrong": 0,
        "no answer": 0,
        "cut, no answer": 0,
        "verifier failed": 0,
        "missing": 1,
    }


def collect(order: list[SampleKey]) -> list[tuple[int, str, int]]:
    examples = Examples()
    for key in order:
        status = "correct" if key.sample % 2 else "wrong"
        verdict = Verdict(Status(status), "1", "1", "math", rule="boxed", detail="same")
        examples.offer(graded(key, status), generation(key, f"text {key.sample}"), TASK, verdict)
    found = list(examples)
    assert all(example.text == f"text {example.sample}" for example in found)
    assert all(example.why == "boxed: same" for example in found)
    return [(example.budget, example.outcome.value, example.sample) for example in found]


def test_the_same_samples_are_picked_in_any_order():
    keys = [SampleKey("t", sample, budget) for sample in range(40) for budget in (8, 16)]
    first = collect(keys)
    shuffled = list(keys)
    random.Random(0).shuffle(shuffled)
    assert collect(shuffled) == first
    groups = [(budget, outcome) for budget, outcome, _ in first]
    assert groups == [(b, o) for b in (8, 16) for o in ("correct", "wrong") for _ in range(EACH)]


def test_a_sample_is_met_again_at_other_budgets():
    found = collect([SampleKey("t", sample, budget) for sample in range(40) for budget in (8, 16)])
    assert [row[2] for row in found if row[0] == 8] == [row[2] for row in found if row[0] == 16]


def test_a_sample_that_is_offered_again_takes_the_place_of_the_former():
    keys = [SampleKey("t", sample, 8) for sample in range(EACH)]
    assert collect(keys * 3) == collect(keys)
