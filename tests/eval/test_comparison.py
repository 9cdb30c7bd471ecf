"""Tests of paired differences against scipy, brute force and simulated data."""

from itertools import product
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eval.comparison import detectable_difference, holm, noise_floor, paired_test


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 30))
def test_one_sample_a_task_is_mcnemars_exact_test(gained, lost, same):
    differences = np.array([1.0] * gained + [-1.0] * lost + [0.0] * same)
    expected = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    if not len(differences):
        assert isnan(paired_test(differences))
    else:
        assert paired_test(differences) == pytest.approx(expected)


def test_several_samples_a_task_are_all_ways_to_set_the_signs():
    differences = np.array([0.5, 0.25, -0.25, 0.75, 0.5, 0.0, 1.0, -0.5])
    changed = differences[differences != 0]
    totals = [abs(np.dot(signs, changed)) for signs in product((-1, 1), repeat=len(changed))]
    expected = np.mean([total >= abs(changed.sum()) - 1e-9 for total in totals])
    assert paired_test(differences, resamples=200_000) == pytest.approx(expected, abs=0.005)


def test_tasks_without_a_difference_are_left_out():
    assert paired_test(np.array([1.0, nan, 1.0, nan])) == 0.5
    assert isnan(paired_test(np.array([nan])))


def test_nothing_is_found_where_nothing_is():
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(400):
        rates = rng.binomial(4, rng.beta(0.5, 0.5, size=(40, 1)), size=(40, 2)) / 4
        found += paired_test(rates[:, 1] - rates[:, 0], resamples=500) <= 0.05
    assert found / 400 < 0.08


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_comparison_without_tasks_costs_the_others_nothing():
    adjusted = holm([0.01, nan, 0.03])
    assert adjusted[::2] == pytest.approx([0.02, 0.03])
    assert isnan(adjusted[1])


@pytest.mark.parametrize("comparisons", [1, 5])
def test_the_detectable_difference_is_found_four_times_in_five(comparisons):
    rng = np.random.default_rng(2)
    p, n, k = 0.5, 200, 4
    gaps = [(rng.binomial(k, p, n) - rng.binomial(k, p, n)) / k for _ in range(20)]
    delta = float(np.mean([detectable_difference(gap, comparisons) for gap in gaps]))
    hits = 0
    for _ in range(400):
        gap = (rng.binomial(k, p + delta, n) - rng.binomial(k, p, n)) / k
        hits += paired_test(gap, resamples=2_000) <= 0.05 / comparisons
    assert 0.74 < hits / 400 < 0.86


@pytest.mark.parametrize("comparisons", [1, 3, 9])
@pytest.mark.parametrize(("n_tasks", "changed"), [(12, 0), (30, 0), (30, 9), (100, 0), (100, 10), (300, 90)])
def test_the_detectable_difference_of_one_sample_a_task_is_found_by_mcnemars_test(n_tasks, changed, comparisons):
    seen = np.zeros(n_tasks)
    seen[:changed] = np.resize([1.0, -1.0], changed)
    delta = detectable_difference(seen, comparisons)
    share = max((changed + 2) / (n_tasks + 2), delta)
    rng = np.random.default_rng(4)
    drawn = rng.choice([1.0, -1.0, 0.0], (2_000, n_tasks), p=[(share + delta) / 2, (share - delta) / 2, 1 - share])
    found = np.mean([paired_test(one) <= 0.05 / comparisons for one in drawn])
    assert 0.77 < found < 0.83


def test_the_detectable_difference_by_hand():
    # Six gains of six are p = 2 / 64 = 0.031; with two comparisons it takes seven. All must gain: 0.8^(1/6), 0.8^(1/7)
    assert detectable_difference(np.zeros(6)) == pytest.approx(0.8 ** (1 / 6), abs=1e-4)
    assert detectable_difference(np.zeros(7), 2) == pytest.approx(0.8 ** (1 / 7), abs=1e-4)
    assert isnan(detectable_difference(np.zeros(5)))
    assert isnan(detectable_difference(np.zeros(6), 2))
    assert isnan(detectable_difference(np.array([nan])))


@given(st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, nan]), max_size=40), st.integers(1, 12))
def test_a_detectable_difference_is_one_that_can_be(differences, comparisons):
    size = detectable_difference(np.array(differences), comparisons)
    assert isnan(size) or 0 < size <= 1


def test_the_noise_floor_is_the_noise_of_sampling():
    rng = np.random.default_rng(3)
    p = rng.beta(0.5, 0.5, size=400)
    first, second = rng.binomial(4, p) / 4, rng.binomial(4, p) / 4
    assert noise_floor(second - first) == pytest.approx(np.sqrt((p * (1 - p) / 4).sum()) / 400, rel=0.15)


def test_the_same_run_is_no_difference():
    rates = np.array([0.0, 0.5, 1.0, nan])
    assert noise_floor(rates - rates) == 0.0
    assert np.isnan(noise_floor(np.array([nan])))
