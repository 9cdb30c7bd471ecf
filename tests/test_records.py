"""What is written to a line comes back from it."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reasoning.records import (
    generation_line,
    generations_of,
    keys_of,
    share_completions,
    task_line,
    task_of,
    verdict_line,
    verdict_of,
)
from reasoning.types import NO_LIMIT, FinishReason, Generation, SampleKey, Task, Timings
from verifiers.base import Status, Verdict

GENERATION = Generation(
    key=SampleKey("t/1", 0, 16),
    prompt_ids=(1, 2),
    completion_ids=(3, 4, 5, 6, 7, 8),
    thinking=((0, 2), (3, 4)),
    injected=((2, 3),),
    answer_start=5,
    text="…</think> “4”\n",
    answer_text="4\u2028",
    finish_reason=FinishReason.ANSWERED,
    bound=False,
    forced=True,
    escaped=False,
    looped=False,
    waits=1,
    seed=2**63 - 1,
    decoded_tokens=0,
    cached_tokens=0,
    timings=Timings(0.1, 0.2, 0.3, 4, 5),
    error=None,
)


def through_json(record: dict) -> dict:
    return json.loads(json.dumps(record))


@given(
    budgets=st.sets(st.sampled_from([0, 16, 1000, NO_LIMIT]), min_size=1),
    decoded=st.integers(0, 99),
    cached=st.integers(0, 99),
    answer_start=st.none() | st.integers(0, 6),
    reason=st.sampled_from(FinishReason),
)
def test_budgets_that_share_a_completion_share_a_line_and_come_back(budgets, decoded, cached, answer_start, reason):
    ordered = sorted(budgets)
    base = replace(GENERATION, answer_start=answer_start, finish_reason=reason)
    shared = [
        replace(
            base,
            key=SampleKey("t/1", 0, budget),
            decoded_tokens=decoded if budget == ordered[-1] else 0,
            cached_tokens=cached if budget == ordered[-1] else 0,
        )
        for budget in ordered
    ]
    other = replace(base, key=SampleKey("t/1", 1, 16))
    groups = share_completions([*reversed(shared), other])
    assert groups == [shared, [other]]
    line = through_json(generation_line(groups[0]))
    assert list(generations_of(line)) == shared
    assert keys_of(line) == tuple(generation.key for generation in shared)


def test_different_completions_of_one_sample_do_not_share():
    cut = replace(GENERATION, key=SampleKey("t/1", 0, 1), completion_ids=(3, 9), answer_start=1)
    assert share_completions([GENERATION, cut]) == [[cut], [GENERATION]]


def test_a_line_says_its_lengths_and_writes_no_limit_as_null():
    line = generation_line([replace(GENERATION, key=SampleKey("t/1", 0, NO_LIMIT))])
    assert line["budgets"] == [None]
    assert (line["thinking_tokens"], line["injected_tokens"], line["answer_tokens"]) == (3, 1, 1)


def test_verdicts_come_back():
    key = SampleKey("t/1", 2, NO_LIMIT)
    verdict = Verdict(Status.TIMEOUT, None, "4", "math", 2.5, "gave up")
    line = through_json(verdict_line(key, verdict))
    assert line["budget"] is None
    assert verdict_of(line) == (key, verdict)


def test_tasks_come_back():
    task = Task("a", ({"role": "user", "content": "1 2 =3"},), "3", "countdown", "3", {"numbers": [1, 2], "target": 3})
    assert task_of(through_json(task_line(task))) == task
