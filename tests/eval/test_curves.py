"""Samples to points, with numbers small enough to check by hand."""

from dataclasses import replace
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.curves import MISSING, GradedSample, curve, differences
from reasoning.types import FinishReason, SampleKey
from verifiers.base import Status


def points_of(samples):
    return curve(samples, model="pocket", task_set="countdown", method="force")


def sample(task_id, number, budget, status=Status.CORRECT, **changes):
    made = GradedSample(
        key=SampleKey(task_id, number, budget),
        level="4",
        status=status,
        thinking_tokens=100,
        answer_tokens=10,
        finish_reason=FinishReason.ERROR if status == MISSING else FinishReason.ANSWERED,
        bound=False,
        forced=False,
        escaped=False,
        looped=False,
        extracted="24" if status == Status.CORRECT else None,
    )
    return replace(made, **changes)


def test_one_point_by_hand():
    samples = [
        sample("a", 0, 100, thinking_tokens=90),
        sample("a", 1, 100, Status.WRONG, extracted="7", bound=True, forced=True),
        sample("b", 0, 100, Status.WRONG, extracted="8", escaped=True),
        sample("b", 1, 100, Status.NO_ANSWER, answer_tokens=0, looped=True, bound=True, finish_reason=FinishReason.CUT),
        sample("c", 0, 100, Status.TIMEOUT, thinking_tokens=50),
        sample("c", 1, 100, Status.ERROR),
        sample("c", 2, 100, MISSING, thinking_tokens=9_999),
    ]
    (point,) = points_of(samples)
    assert (point.model, point.task_set, point.method, point.vote) == ("pocket", "countdown", "force", "none")
    assert (point.budget, point.n_tasks, point.n_samples, point.n_missing) == (100, 3, 6, 1)
    assert point.accuracy == pytest.approx(1 / 6)  # tasks: 1/2, 0, 0
    assert point.low <= point.accuracy <= point.high
    assert point.interval == "wilson"
    assert (point.band_low, point.band_high) == (point.low, point.high)  # one point is its own band
    assert point.tokens_mean == pytest.approx((100 + 110 + 110 + 100 + 60 + 110) / 6)
    assert point.tokens_median == 105
    assert point.tokens_p95 == 110
    assert point.thinking_mean == pytest.approx(540 / 6)
    assert point.answer_mean == pytest.approx(50 / 6)
    assert point.bound_share == pytest.approx(2 / 6)
    assert point.no_answer_share == pytest.approx(1 / 6)
    assert point.escaped_share == pytest.approx(1 / 6)
    assert point.looped_share == pytest.approx(1 / 6)
    assert point.wrong_share == pytest.approx(2 / 6)
    assert point.finished_wrong_share == pytest.approx(1 / 6)  # the forced one did not finish by itself
    assert point.verifier_failed_share == pytest.approx(2 / 6)
    assert point.statuses == {"correct": 1, "wrong": 2, "no_answer": 1, "timeout": 1, "error": 1, "missing": 1}
    assert {name: n for name, n in point.finish_reasons.items() if n} == {"answered": 5, "cut": 1, "error": 1}
    assert set(point.finish_reasons) == set(FinishReason)


def test_rates_divide_by_the_samples_that_exist():
    """Eight samples that exist must not become a fraction of sixty-four that were asked for."""
    present = [sample("a", number, 100, Status.CORRECT if number < 4 else Status.WRONG) for number in range(8)]
    missing = [sample("a", number, 100, MISSING) for number in range(8, 64)]
    (point,) = points_of(present + missing)
    assert (point.accuracy, point.n_samples, point.n_missing) == (0.5, 8, 56)
    assert point.pass_at["1"] == 0.5
    assert list(point.pass_at) == ["1", "2", "4", "8"]


def test_a_task_that_lost_samples_keeps_its_weight():
    samples = [sample("a", number, 100) for number in range(4)]
    samples += [sample("b", 0, 100, Status.WRONG)] + [sample("b", number, 100, MISSING) for number in range(1, 4)]
    (point,) = points_of(samples)
    assert point.accuracy == 0.5
    assert list(point.pass_at) == ["1"]  # only where every task has k samples


def test_points_come_sorted_by_budget_and_a_budget_without_samples_says_so():
    samples = [sample("a", 0, 10_000), sample("a", 0, 1_000, Status.WRONG), sample("a", 0, 50_000, MISSING)]
    points = points_of(samples)
    assert [point.budget for point in points] == [1_000, 10_000, 50_000]
    assert [point.interval for point in points] == ["wilson", "wilson", "none"]
    lost = points[-1]
    assert (lost.n_tasks, lost.n_samples, lost.n_missing) == (0, 0, 1)
    assert all(map(isnan, (lost.accuracy, lost.low, lost.high, lost.tokens_mean, lost.bound_share)))
    assert (lost.pass_at, lost.majority_at) == ({}, {})


def test_no_samples_no_points():
    assert points_of([]) == []
    assert differences([]) == []


def test_pass_and_majority_by_hand():
    answers = [("24", Status.CORRECT), ("24.0", Status.CORRECT), ("7", Status.WRONG), (None, Status.NO_ANSWER)]
    samples = [sample("a", number, 100, status, extracted=text) for number, (text, status) in enumerate(answers)]
    (point,) = points_of(samples)
    assert point.pass_at == pytest.approx({"1": 1 / 2, "2": 5 / 6, "4": 1.0})
    # Of six pairs: both right 1, right against wrong 2 x 1/2, right and nothing 2, wrong and nothing 0.
    assert point.majority_at == pytest.approx({"1": 1 / 2, "2": 4 / 6, "4": 1.0})


def test_wrong_answers_vote_together_only_when_they_agree():
    def majority(texts):
        wrong = [sample("a", number, 100, Status.WRONG, extracted=text) for number, text in enumerate(texts, 2)]
        (point,) = points_of([sample("a", 0, 100), sample("a", 1, 100), *wrong])
        return point.majority_at["4"]

    assert majority(["7", "8"]) == 1.0
    assert majority(["7", "7"]) == 0.5


def test_a_text_without_an_answer_does_not_vote():
    said = sample("a", 1, 100, Status.NO_ANSWER, extracted="I give up")
    (point,) = points_of([sample("a", 0, 100), said])
    assert point.majority_at["2"] == 1.0


def test_repeated_keys_are_refused():
    with pytest.raises(ValueError, match="1 samples are there more than once"):
        points_of([sample("a", 0, 100), sample("a", 0, 100, Status.WRONG)])


OUTCOMES = st.lists(
    st.sampled_from([Status.CORRECT, Status.WRONG, Status.NO_ANSWER, MISSING]), min_size=12, max_size=12
)


@settings(max_examples=30)
@given(OUTCOMES, st.randoms())
def test_the_order_of_samples_does_not_matter(outcomes, random):
    keys = [(task_id, number, budget) for task_id in "abc" for number in range(2) for budget in (100, 200)]
    samples = [sample(*key, status) for key, status in zip(keys, outcomes, strict=True)]
    shuffled = random.sample(samples, len(samples))
    assert str(points_of(shuffled)) == str(points_of(samples))
    assert differences(shuffled) == differences(samples)


@given(OUTCOMES)
def test_every_sample_is_counted_once(outcomes):
    samples = [
        sample(task_id, number, 100, outcomes[4 * i + number]) for i, task_id in enumerate("abc") for number in range(4)
    ]
    (point,) = points_of(samples)
    assert point.n_samples + point.n_missing == 12
    if point.n_samples:
        correct = outcomes.count(Status.CORRECT) / point.n_samples
        assert correct + point.wrong_share + point.no_answer_share == pytest.approx(1.0)
        assert 0.0 <= point.low <= point.accuracy <= point.high <= 1.0
        assert point.pass_at["1"] == pytest.approx(point.accuracy)
        assert point.majority_at["1"] == pytest.approx(point.accuracy)


def test_differences_by_hand():
    right = {100: "", 200: "ab", 400: "abcd"}
    samples = [
        sample(task_id, 0, budget, Status.CORRECT if task_id in right[budget] else Status.WRONG)
        for budget in right
        for task_id in "abcd"
    ]
    first, second = differences(samples)
    assert (first.budget_low, first.budget_high, first.delta, first.n_tasks) == (100, 200, 0.5, 4)
    assert (second.budget_low, second.budget_high, second.delta) == (200, 400, 0.5)
    assert first.low <= 0.5 <= first.high


def test_differences_need_shared_tasks():
    samples = [sample("a", 0, 100), sample("b", 0, 200), sample("b", 0, 400, Status.WRONG)]
    (only,) = differences(samples)
    assert (only.budget_low, only.budget_high, only.delta, only.n_tasks) == (200, 400, -1.0, 1)
