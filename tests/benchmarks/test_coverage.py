"""What intervals hold exactly, against hand counts and other libraries."""

import pytest
from scipy.stats import binomtest

from benchmarks.coverage import Cell, coverage, main
from benchmarks.exact_coverage import INTERVALS, attainable, average_coverage, clopper_pearson, exact_coverage, ours
from reasoning.files import read_json


@pytest.mark.parametrize("right", [0, 1, 7, 30])
def test_intervals_are_those_of_scipy(right):
    found = binomtest(right, 30)
    assert clopper_pearson(right, 30) == pytest.approx(tuple(found.proportion_ci(method="exact")))
    assert ours(right, 30) == pytest.approx(tuple(found.proportion_ci(method="wilson")))


def test_coverage_by_hand():
    """Of two throws of a coin: an interval that holds one half unless both were alike."""
    assert exact_coverage(lambda right, n: (0.4, 0.6) if right == 1 else (0.0, 0.1), 2, 0.5) == pytest.approx(0.5)
    assert exact_coverage(lambda right, n: (0.0, 1.0), 2, 0.5) == pytest.approx(1.0)
    assert attainable(2, 0.5) == pytest.approx(1.0)  # 0, 1/4, 1/2, 3/4 or 1
    # With 30 tasks of which one in fifty is right: 0.545, 0.334, 0.099, 0.019 ... for 0, 1, 2, 3 right ones.
    assert attainable(30, 0.02) == pytest.approx(0.9783, abs=1e-4)


def test_the_average_is_over_shares_on_both_sides():
    """One throw, which holds the half of the shares that it speaks for: right from 1/2 on."""

    def halves(right: int, n: int) -> tuple[float, float]:
        return (0.0, 0.5) if right == 0 else (0.5, 1.0)

    # From 3/8 to 5/8: the mean of max(share, 1 - share).
    assert average_coverage(halves, 1, 0.5) == pytest.approx(9 / 16, abs=0.005)
    assert average_coverage(halves, 1, 0.9) == pytest.approx(0.9, abs=1e-9)  # 0.875 to 0.925


def test_the_mid_p_interval_halves_what_was_seen():
    low, high = INTERVALS["mid-P"](3, 30)
    wide = INTERVALS["Clopper-Pearson"](3, 30)
    assert wide[0] < low < high < wide[1]
    assert INTERVALS["mid-P"](0, 30)[1] == pytest.approx(1 - 0.05 ** (1 / 30))  # half of (1 - p)^30 is 0.025


def test_one_sample_a_task_is_not_simulated():
    cell = Cell(tasks=30, samples=1, mean=0.2, concentration=0.6)
    assert coverage(cell, curves=1, seed=1) == coverage(cell, curves=2, seed=2)


def test_the_record_has_both(tmp_path, capsys):
    assert main(["--curves", "4", "--json", str(tmp_path / "found.json")]) == 0
    found = read_json(tmp_path / "found.json")
    assert (len(found["cells"]), len(found["exact"])) == (144, 12)
    printed = capsys.readouterr().out
    assert "of the 36 with one sample a task 30 could be by any interval" in printed
    assert "of the 36 with one sample a task 36 are on average near their mean" in printed
