"""What was published, from its counts."""

import pytest
from scipy import stats

from benchmarks.published import HALVED, PUBLISHED, halved, main, measured, s1_difference


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: one.name)
def test_counts_give_the_figures_back(one):
    found = measured(one)
    assert round(found["percent"], 1) == one.percent
    wilson = stats.binomtest(one.right, one.questions).proportion_ci(method="wilson")
    assert (found["low"], found["high"]) == pytest.approx((100 * wilson.low, 100 * wilson.high))


def test_missing_samples_that_count_as_wrong_halve_the_figure():
    assert [round(halved(samples), 4) for samples in (8, 16, 32, 64)] == list(HALVED)


def test_one_run_on_thirty_questions_shows_no_difference():
    assert s1_difference() == 0.5


def test_the_benchmark_finds_no_difference(capsys):
    assert main() == 0
    assert "DIFFERS" not in capsys.readouterr().out
