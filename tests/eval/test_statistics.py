"""Intervals against scipy, hand-computed numbers and simulated data."""

from math import isnan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.coverage import Cell, coverage
from eval.statistics import (
    Z,
    difference_interval,
    mean_intervals,
    paired_differences,
    resampled_means,
    simultaneous_factor,
)


@given(st.integers(1, 300), st.data())
def test_one_sample_a_task_is_the_wilson_interval(n_tasks, data):
    right = data.draw(st.integers(0, n_tasks))
    (estimate,) = mean_intervals(np.repeat([[1.0], [0.0]], [right, n_tasks - right], axis=0))
    wilson = stats.binomtest(right, n_tasks).proportion_ci(method="wilson")
    assert (estimate.value, estimate.method, estimate.n_tasks) == (pytest.approx(right / n_tasks), "wilson", n_tasks)
    assert (estimate.low, estimate.high) == pytest.approx((wilson.low, wilson.high))


@given(st.lists(st.integers(0, 8), min_size=1, max_size=40), st.integers(1, 3))
def test_right_and_wrong_are_mirror_images_and_the_mean_lies_within(counts, widen):
    rates = np.array(counts)[:, None] / 8
    (right,), (wrong,) = mean_intervals(rates, widen=widen), mean_intervals(1 - rates, widen=widen)
    assert (right.low, right.high) == pytest.approx((1 - wrong.high, 1 - wrong.low))
    assert 0.0 <= right.low <= right.value + 1e-12
    assert right.value - 1e-12 <= right.high <= 1.0


@given(st.lists(st.integers(0, 8), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_the_order_of_the_tasks_does_not_matter(counts, random):
    shuffled = random.sample(counts, len(counts))
    (there,), (here,) = (mean_intervals(np.array(order)[:, None] / 8) for order in (counts, shuffled))
    assert (there.low, there.high) == pytest.approx((here.low, here.high))


def test_each_limit_is_told_by_the_tasks_on_its_side():
    """Nine tasks never right and one half right: 1 task tells the upper limit, 9.5^2 / 9.25 tell the lower one."""
    (estimate,) = mean_intervals(np.array([[0.5]] + [[0.0]] * 9))
    design = 0.0225 / (0.05 * 0.95)
    few, many = (design + 2) / 3, (design * 9.75676**2 + 2) / (9.75676**2 + 2)
    wide = stats.t.ppf(0.975, 3) * (1 - design) + Z * design  # 3 degrees of freedom for the one task
    slim = stats.t.ppf(0.975, 9) * (1 - 0.9) + Z * 0.9  # 1 - 2 m of its error comes with the mean
    for limit, own, quantile in ((estimate.high, few, wide), (estimate.low, many, slim)):
        assert abs(limit - 0.05) == pytest.approx(quantile * sqrt(limit * (1 - limit) * own / 10), rel=1e-5)


def test_many_tasks_have_the_normal_interval_of_their_spread():
    rates = np.random.default_rng(3).random((3_000, 1))
    (estimate,) = mean_intervals(rates)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(Z * rates.std() / sqrt(len(rates)), rel=0.01)


def test_one_task_half_right_says_little():
    (estimate,) = mean_intervals(np.array([[0.5]]))
    assert estimate.low < 0.1
    assert estimate.high > 0.9


def test_more_samples_a_task_are_no_more_tasks():
    difficulty = np.repeat([0.0, 1.0], 15)
    few, many = (mean_intervals(np.random.default_rng(1).binomial(k, difficulty)[:, None] / k)[0] for k in (1, 64))
    assert (few.low, few.high) == pytest.approx((many.low, many.high))


@pytest.mark.parametrize(
    "cell",
    [
        Cell(tasks=30, samples=1, mean=0.5, concentration=0.6),
        Cell(tasks=30, samples=16, mean=0.05, concentration=0.6),
        Cell(tasks=30, samples=64, mean=0.9, concentration=2.0),
        Cell(tasks=30, samples=16, mean=0.98, concentration=10.0),
        Cell(tasks=200, samples=4, mean=0.98, concentration=2.0),
        Cell(tasks=200, samples=16, mean=0.3, concentration=10.0),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(cell):
    found = coverage(cell, curves=1_500, seed=4)
    assert 0.935 <= found.point <= 0.975  # the standard error is 0.0056


@pytest.mark.parametrize(
    "cell",
    [
        Cell(tasks=30, samples=4, mean=0.5, concentration=0.6),
        Cell(tasks=30, samples=64, mean=0.05, concentration=10.0),  # few tasks, skewed
    ],
)
def test_the_band_holds_the_whole_curve(cell):
    found = coverage(cell, curves=1_000, seed=5, bands=True)
    assert found.band is not None
    assert found.all_points is not None
    assert 0.93 <= found.band <= 0.975
    assert found.all_points < found.band - 0.01  # intervals that hold one by one do not hold together


def test_there_is_no_band_without_two_budgets_that_vary():
    rates = np.random.default_rng(2).random((50, 1))
    assert simultaneous_factor(rates) == 1.0
    assert simultaneous_factor(np.hstack([rates, np.ones((50, 1))])) == 1.0
    assert simultaneous_factor(np.zeros((5, 3))) == 1.0
    assert simultaneous_factor(np.empty((0, 2))) == 1.0


@pytest.mark.parametrize(("n_tasks", "skew"), [(12, 1), (30, 8), (400, 1)])
def test_the_band_of_budgets_that_move_together_is_the_interval_however_skewed(n_tasks, skew):
    """For the bootstrap all are one column, factor 1; for the multivariate t all are one Student's t."""
    rates = np.random.default_rng(2).random((n_tasks, 1)) ** skew
    student = stats.t.ppf(0.975, n_tasks - 1) / Z
    assert simultaneous_factor(np.hstack([rates, rates, 1 - rates])) == pytest.approx((1 + student) / 2, abs=0.02)


def test_the_band_of_budgets_that_do_not_is_that_of_independent_ones():
    rates = np.random.default_rng(2).random((400, 5))
    sidak = stats.norm.ppf(0.5 + 0.95 ** (1 / 5) / 2)
    assert simultaneous_factor(rates) * Z == pytest.approx(sidak, abs=0.04)


def test_budgets_that_share_no_task_are_independent():
    rates = np.random.default_rng(2).random((400, 1))
    gap = np.full_like(rates, np.nan)
    sidak = stats.norm.ppf(0.5 + 0.95 ** (1 / 2) / 2)
    assert simultaneous_factor(np.block([[rates, gap], [gap, rates]])) * Z == pytest.approx(sidak, abs=0.04)


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_the_band_is_within_bonferroni_and_the_same_for_wrong_as_for_right(counts):
    rates = np.array(counts) / 4
    factor = simultaneous_factor(rates)
    assert 1.0 <= factor <= stats.norm.ppf(1 - 0.025 / 3) / Z + 1e-12
    assert simultaneous_factor(1 - rates) == pytest.approx(factor)


def test_the_band_does_not_depend_on_the_order_of_tasks_or_budgets():
    rng = np.random.default_rng(4)
    rates = rng.random((60, 1)) + 0.5 * rng.random((60, 4))
    shuffled = rates[rng.permutation(60)][:, [2, 0, 3, 1]]
    assert simultaneous_factor(shuffled) == pytest.approx(simultaneous_factor(rates), abs=0.04)


def test_resampling_takes_whole_tasks():
    rates = np.column_stack([np.arange(10.0), 2 * np.arange(10.0)])
    (block,) = resampled_means(rates, seed=1, resamples=500)
    assert block[:, 1] == pytest.approx(2 * block[:, 0])
    assert block[:, 0].std() == pytest.approx(np.arange(10).std() / sqrt(10), rel=0.15)
    again = next(resampled_means(rates, seed=1, resamples=500))
    assert np.array_equal(block, again)
    assert not np.array_equal(block, next(resampled_means(rates, seed=2, resamples=500)))


def test_many_tasks_are_resampled_in_blocks():
    blocks = list(resampled_means(np.zeros((3_000, 1)), resamples=1_000))  # 3 million draws
    assert len(blocks) > 1
    assert sum(map(len, blocks)) == 1_000


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
    assert (same.value, same.method) == (0.0, "bonett-price")
    assert same.low == pytest.approx(-Z * sqrt(2) / 22)  # one task that gained and one that lost are added
    assert same.high == pytest.approx(Z * sqrt(2) / 22)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=30))
def test_the_difference_lies_in_its_interval_whichever_way_it_is_taken(changes):
    differences = np.array(changes) / 4
    there, back = difference_interval(differences), difference_interval(-differences)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert -1.0 <= there.low <= there.value <= there.high <= 1.0


def test_the_interval_of_a_difference_holds_it():
    """Budgets that share their traces: a sample that was right stays so, a wrong one is mended at times."""
    rng = np.random.default_rng(8)
    for tasks, samples in ((30, 4), (30, 16), (200, 1)):
        held = 0
        for _ in range(2_000):
            before = rng.binomial(samples, rng.beta(0.3, 0.3, size=tasks))
            after = before + rng.binomial(samples - before, 0.3)
            estimate = difference_interval((after - before) / samples)
            held += estimate.low <= 0.15 <= estimate.high
        assert 0.925 <= held / 2_000 <= 0.975
