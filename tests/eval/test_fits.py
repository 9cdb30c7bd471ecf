"""The shape of a curve: by hand, and on simulated curves of known shape."""

from math import isnan, nan, sqrt

import numpy as np
import pytest
from scipy import stats

from eval.fits import log_linear, s1_metrics, saturation, steepest_fall

BUDGETS = (250, 500, 1000, 2000)


def curves(means, tasks=100, k=4, seed=0):
    """Rates of tasks whose difficulty moves every budget alike, around `means`."""
    rng = np.random.default_rng(seed)
    p = np.clip(np.array(means)[None] + rng.normal(0, 0.05, size=(tasks, 1)), 0, 1)
    return rng.binomial(k, p) / k


def test_a_straight_line_is_found_exactly():
    rates = np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.5, 0.7, 0.9]])
    fit = log_linear(rates, BUDGETS)
    assert fit.slope == pytest.approx(0.15)
    assert fit.intercept + fit.slope * np.log2(1000) == pytest.approx(0.5)
    half = stats.t.ppf(0.975, 1) * np.std([0.1, 0.2], ddof=1) / sqrt(2)
    assert (fit.low, fit.high) == pytest.approx((0.15 - half, 0.15 + half))


def test_the_slope_is_that_of_a_regression_on_the_mean_curve():
    rates = curves((0.2, 0.35, 0.4, 0.7))
    tokens = (230.0, 410.0, 900.0, 1500.0)
    fit = log_linear(rates, tokens)
    theirs = stats.linregress(np.log2(tokens), rates.mean(axis=0))
    assert (fit.slope, fit.intercept) == pytest.approx((theirs.slope, theirs.intercept))


def test_the_interval_of_the_slope_holds_it():
    held = sum(
        fit.low <= 0.1 <= fit.high
        for seed in range(400)
        if (fit := log_linear(curves((0.3, 0.4, 0.5, 0.6), tasks=30, seed=seed), BUDGETS))
    )
    assert 0.925 <= held / 400 <= 0.975


def test_tasks_that_miss_a_budget_are_in_no_fit():
    rates = np.array([[0.1, 0.2], [0.3, 0.5], [nan, 1.0]])
    assert log_linear(rates, (500, 1000)).n_tasks == 2
    assert log_linear(rates[:1], (500, 1000)) is None
    assert log_linear(rates, (500, 500)) is None  # one number of tokens has no slope
    assert log_linear(np.empty((0, 0)), ()) is None


def test_saturation_is_where_the_rest_brings_less_than_a_point():
    flat = saturation(np.repeat([[0.2, 0.6, 0.605, 0.6]], 50, axis=0), BUDGETS)
    assert (flat.budget, flat.budget_low, flat.budget_high) == (500, 500, 500)
    rising = saturation(curves((0.2, 0.4, 0.6, 0.8)), BUDGETS)
    assert (rising.budget, rising.budget_low, rising.budget_high) == (2000, 2000, 2000)
    unsure = saturation(curves((0.2, 0.58, 0.6, 0.6), tasks=40), BUDGETS)
    assert unsure.budget_low < unsure.budget_high
    assert saturation(np.full((3, 2), nan), (1, 2)) is None


def test_a_fall_is_found():
    fall = steepest_fall(curves((0.3, 0.7, 0.6, 0.4)), BUDGETS)
    assert (fall.budget_low, fall.budget_high) == (500, 2000)
    assert fall.drop == pytest.approx(0.3, abs=0.06)
    assert fall.p_value < 0.001


def test_a_fall_of_every_task_alike_is_no_accident():
    assert steepest_fall(np.repeat([[1.0, 0.0]], 20, axis=0), (1, 2)).p_value < 0.001


def test_a_curve_that_rises_or_stays_has_no_fall():
    assert steepest_fall(curves((0.2, 0.4, 0.6, 0.8)), BUDGETS).p_value > 0.9
    found = sum(
        steepest_fall(curves([0.5] * 4, 40, seed=seed), BUDGETS, resamples=400).p_value <= 0.05 for seed in range(300)
    )
    assert found / 300 < 0.08
    assert steepest_fall(np.full((4, 2), 0.5), (1, 2)).p_value == 1.0
    assert steepest_fall(np.full((4, 1), 0.5), (1,)) is None
    assert steepest_fall(np.array([[0.5, nan], [nan, 0.5]]), (1, 2)) is None


def test_the_three_numbers_of_s1():
    found = s1_metrics([0.2, 0.4, 0.5], [1000, 2000, 4000], [True, True, False, True])
    assert found.control == 0.75
    assert found.scaling == pytest.approx((20 / 1 + 30 / 3 + 10 / 2) / 3)
    assert found.performance == 0.5


def test_s1_of_nothing():
    assert s1_metrics([], [], []) is None
    assert s1_metrics([nan], [nan], []) is None
    assert isnan(s1_metrics([0.5], [100], [True]).scaling)
