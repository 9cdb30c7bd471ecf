"""The estimators against brute force, hand-computed numbers, scipy and simulated data."""

from collections import Counter
from itertools import combinations
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eval.statistics import majority_at_k, mean_intervals, paired_differences, pass_at_k, unanimous_interval

VOTES = st.lists(st.sampled_from(["right", "a", "b", "c", None]), min_size=1, max_size=8)


def majority_by_subsets(votes, k):
    """The definition, word for word: every subset, ties shared, abstentions drawn but not counted."""
    won = []
    for drawn in combinations(votes, k):
        counts = Counter(vote for vote in drawn if vote is not None)
        leaders = [vote for vote in counts if counts[vote] == max(counts.values())]
        won.append(1 / len(leaders) if "right" in leaders else 0.0)
    return np.mean(won)


def count(votes):
    wrong = Counter(vote for vote in votes if vote not in ("right", None))
    return votes.count("right"), list(wrong.values()), votes.count(None)


def test_pass_at_k_by_hand():
    assert pass_at_k(2, 4, 1) == 0.5
    assert pass_at_k(2, 4, 2) == pytest.approx(5 / 6)  # of the six pairs only one holds no right sample
    assert pass_at_k(1, 4, 4) == 1.0
    assert pass_at_k(0, 4, 4) == 0.0


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_pass_at_k_is_the_mean_over_all_subsets(outcomes, data):
    k = data.draw(st.integers(1, len(outcomes)))
    by_subsets = np.mean([any(drawn) for drawn in combinations(outcomes, k)])
    assert pass_at_k(sum(outcomes), len(outcomes), k) == pytest.approx(by_subsets)


def test_pass_at_k_of_many_samples():
    assert pass_at_k(1, 10_000, 5_000) == pytest.approx(0.5)


@pytest.mark.parametrize("k", [0, 5])
def test_only_samples_that_exist_can_be_drawn(k):
    with pytest.raises(ValueError, match="between 1 and 4"):
        pass_at_k(1, 4, k)
    with pytest.raises(ValueError, match="between 1 and 4"):
        majority_at_k(1, [1, 1], 1, k)


def test_majority_by_hand():
    assert majority_at_k(2, [2], 0, 2) == pytest.approx((1 + 4 / 2) / 6)  # both right, four ties, both wrong
    assert majority_at_k(1, [], 1, 1) == 0.5  # an abstention alone elects nobody
    assert majority_at_k(1, [], 1, 2) == 1.0
    assert majority_at_k(2, [1, 1], 0, 4) == 1.0
    assert majority_at_k(1, [1, 1, 1], 0, 4) == 0.25  # four answers share the lead


@given(VOTES, st.data())
def test_majority_is_the_mean_over_all_subsets(votes, data):
    k = data.draw(st.integers(1, len(votes)))
    assert majority_at_k(*count(votes), k) == pytest.approx(majority_by_subsets(votes, k))


def test_majority_of_many_samples_against_the_hypergeometric_distribution():
    expected = stats.hypergeom(1000, 520, 127).sf(63)  # two answers, 127 votes: 64 decide
    assert majority_at_k(520, [480], 0, 127) == pytest.approx(expected)


def test_majority_says_where_it_ends():
    with pytest.raises(ValueError, match="majority@128"):
        majority_at_k(200, [100], 0, 129)


@pytest.mark.parametrize("n_tasks", [1, 5, 30, 512])
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_all_wrong_or_all_right_is_the_wilson_interval(n_tasks, rate):
    (estimate,) = mean_intervals(np.full((n_tasks, 1), rate))
    wilson = stats.binomtest(int(rate * n_tasks), n_tasks).proportion_ci(method="wilson")
    assert (estimate.value, estimate.method) == (rate, "wilson")
    assert (estimate.low, estimate.high) == pytest.approx((wilson.low, wilson.high))


def test_one_task_half_right_is_not_certain():
    share = 1.959964**2 / (1 + 1.959964**2)
    assert unanimous_interval(0.5, 1) == pytest.approx((0.5 - share / 2, 0.5 + share / 2))


def test_bootstrap_agrees_with_scipy():
    rates = np.random.default_rng(7).beta(0.5, 0.5, size=(40, 1))
    (ours,) = mean_intervals(rates)
    theirs = stats.bootstrap((rates[:, 0],), np.mean, method="percentile", n_resamples=10_000, rng=1)
    assert ours.value == pytest.approx(rates.mean())
    assert (ours.low, ours.high) == pytest.approx(theirs.confidence_interval, abs=0.006)


def test_the_curve_is_resampled_as_one():
    rates = np.random.default_rng(3).random((25, 3))
    together = mean_intervals(rates, seed=5)
    apart = [mean_intervals(rates[:, [column]], seed=5)[0] for column in range(3)]
    for one, other in zip(together, apart, strict=True):
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def test_seeds_repeat_and_differ():
    rates = np.random.default_rng(3).random((25, 1))
    assert mean_intervals(rates, seed=1) == mean_intervals(rates, seed=1)
    assert mean_intervals(rates, seed=1) != mean_intervals(rates, seed=2)


def test_many_tasks_are_resampled_in_blocks():
    rates = np.random.default_rng(3).random((3_000, 1))  # 30 million draws
    (estimate,) = mean_intervals(rates)
    half_width = 1.96 * rates.std() / np.sqrt(len(rates))
    assert (estimate.high - estimate.low) / 2 == pytest.approx(half_width, rel=0.05)


def test_tasks_without_a_value_are_left_out():
    known = np.random.default_rng(3).random(20)
    padded = np.concatenate([known, [np.nan] * 10])
    full, gappy, empty = mean_intervals(np.column_stack([np.resize(known, 30), padded, [np.nan] * 30]))
    assert (full.n_tasks, gappy.n_tasks, empty.n_tasks) == (30, 20, 0)
    assert gappy.value == pytest.approx(known.mean())
    assert gappy.high - gappy.low > full.high - full.low
    assert isnan(empty.value)
    assert isnan(empty.low)
    assert empty.method == "none"


def test_a_task_that_resamples_may_miss():
    (estimate,) = mean_intervals(np.array([[0.0], [1.0], [np.nan], [np.nan]]))
    assert (estimate.value, estimate.low, estimate.high) == (0.5, 0.0, 1.0)


def test_no_tasks_at_all():
    assert mean_intervals(np.empty((0, 1)))[0].method == "none"


def test_differences_by_hand():
    rates = np.array([[0.0, 0.5, 1.0], [0.5, 0.5, np.nan], [0.0, 1.0, 1.0]])
    first, second = paired_differences(rates)
    assert (first.value, first.n_tasks) == (pytest.approx(0.5), 3)
    assert (second.value, second.n_tasks) == (pytest.approx(0.25), 2)


def test_pairing_takes_the_difficulty_of_the_tasks_out():
    difficulty = np.random.default_rng(0).beta(0.4, 0.4, size=60)
    rates = np.column_stack([0.9 * difficulty, 0.9 * difficulty + 0.1 * np.resize([0.0, 1.0], 60)])
    before, after = mean_intervals(rates)
    (gain,) = paired_differences(rates)
    assert before.high > after.low  # the separate intervals overlap
    assert gain.low > 0.0
    assert gain.value == pytest.approx(0.05)


def test_no_change_in_any_task_is_not_certainty():
    (same,) = paired_differences(np.full((20, 2), 1.0))
    assert (same.value, same.method) == (0.0, "wilson")
    assert -0.2 < same.low < 0.0 < same.high < 0.2


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """30 tasks of difficulty Beta(0.4, 0.4), 4 samples each: pooling the samples covers far too rarely."""
    rng = np.random.default_rng(11)
    covered = pooled_covered = 0
    for _ in range(800):
        right = rng.binomial(4, rng.beta(0.4, 0.4, size=30))
        (estimate,) = mean_intervals(right[:, None] / 4, resamples=1_000)
        covered += estimate.low <= 0.5 <= estimate.high
        pooled = stats.binomtest(int(right.sum()), 120).proportion_ci(method="wilson")
        pooled_covered += pooled.low <= 0.5 <= pooled.high
    assert 0.92 <= covered / 800 <= 0.975
    assert pooled_covered / 800 < 0.85
