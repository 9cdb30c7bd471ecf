"""Estimates and their uncertainty, as pure functions of numbers.

The unit of resampling is the task, never the sample: the samples of one task are not independent, and
treating them as such makes intervals several times too narrow. Rates divide by the samples that exist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
RESAMPLES = 10_000
MAX_VOTES = 128
"""Largest k of majority@k; up to it the exact count fits a float for as many as 12,000 samples a task."""

_BLOCK_CELLS = 1_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n_tasks` tasks and the interval [low, high] around it; all NaN when there is no task."""

    value: float
    low: float
    high: float
    method: str  # bootstrap, wilson, or none without any task
    n_tasks: int


def mean_intervals(
    values: Floats, *, support: tuple[float, float] = (0.0, 1.0), seed: int = 0, resamples: int = RESAMPLES
) -> list[Estimate]:
    """Mean of each column over tasks, with a percentile interval from resampling whole tasks.

    `values` is [n_tasks, n_columns], NaN where a task has no value; every value lies within `support`. All
    columns share the resampled tasks, so that a whole curve is resampled as one. (B. Efron and R. Tibshirani,
    An Introduction to the Bootstrap, 1993, chapter 13.)

    Where all tasks agree, resampling says nothing and would return an interval of no width. Then
    `unanimous_interval` stands in for it: Wilson's interval where all values are 0 or all are 1.
    """
    known = ~np.isnan(values)
    bounds = _bootstrap_bounds(values, known, seed, resamples)
    return [
        _estimate(values[known[:, column], column], bounds[:, column], support) for column in range(values.shape[1])
    ]


def paired_differences(rates: Floats, *, seed: int = 0, resamples: int = RESAMPLES) -> list[Estimate]:
    """Each column minus the one before it, over the tasks that have both: [n_tasks, n] -> n - 1 estimates.

    Every task is compared with itself, which takes the difficulty of the tasks out of the interval.
    """
    return mean_intervals(np.diff(rates, axis=1), support=(-1.0, 1.0), seed=seed, resamples=resamples)


def unanimous_interval(value: float, n_tasks: int, support: tuple[float, float] = (0.0, 1.0)) -> tuple[float, float]:
    """Interval for the mean when all of `n_tasks` tasks gave the same `value` within `support`.

    None of n tasks deviated, so at most a share h of all tasks does, where h = z^2 / (n + z^2) is the upper end of
    Wilson's score interval for 0 of n (E. B. Wilson, 1927); those could lie at either end of the support.
    For values 0 and 1 this is Wilson's interval itself.
    """
    z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
    share = z * z / (n_tasks + z * z)
    lowest, highest = support
    return value - share * (value - lowest), value + share * (highest - value)


def pass_at_k(right: int, samples: int, k: int) -> float:
    """Probability that at least one of k samples, drawn without replacement, is right.

    1 - C(n - c, k) / C(n, k), the unbiased estimator of M. Chen et al., Evaluating Large Language Models
    Trained on Code, 2021, in whole numbers up to the last division. Raises ValueError unless 1 <= k <= samples.
    """
    _check_k(k, samples)
    subsets = math.comb(samples, k)
    return (subsets - math.comb(samples - right, k)) / subsets


def majority_at_k(right: int, wrong: Sequence[int], abstained: int, k: int) -> float:
    """Probability that the most frequent answer among k samples, drawn without replacement, is right.

    `right` samples gave the right answer, each entry of `wrong` counts the samples that agreed on one wrong answer,
    `abstained` gave none. Abstentions are drawn but cast no vote; m answers tied for the lead win 1/m each; without
    any vote nothing is right. This is the exact expectation over all subsets, not a simulation.
    Raises ValueError unless 1 <= k <= samples and k <= MAX_VOTES.
    """
    samples = right + sum(wrong) + abstained
    _check_k(k, samples)
    if k > MAX_VOTES:
        raise ValueError(f"majority@{k} is beyond the largest supported, majority@{MAX_VOTES}")
    return _majorities(right, tuple(sorted(wrong)), abstained)[k]


@lru_cache(maxsize=4096)
def _majorities(right: int, wrong: tuple[int, ...], abstained: int) -> tuple[float, ...]:
    """majority@k for k = 0 ... min(samples, MAX_VOTES), by counting subsets.

    For each number j of right votes: table[size, ties] counts the subsets of that size in which no wrong answer has
    more than j votes and `ties` of them have exactly j. It is a product of polynomials, one factor an answer.
    """
    samples = right + sum(wrong) + abstained
    largest = min(samples, MAX_VOTES)
    wins = np.zeros(largest + 1)
    for j in range(1, min(right, largest) + 1):
        rivals = [count for count in wrong if count >= j]
        harmless = samples - right - sum(rivals)
        table = np.zeros((largest + 1, largest // j + 1))
        table[j:, 0] = [math.comb(right, j) * math.comb(harmless, size) for size in range(largest - j + 1)]
        for count in rivals:
            table = _with_rival(table, count, j)
        wins += table @ (1.0 / np.arange(1, table.shape[1] + 1))
    subsets = np.array([float(math.comb(samples, size)) for size in range(largest + 1)])
    return tuple(np.minimum(wins / subsets, 1.0).tolist())  # rounding may end just above 1


def _with_rival(table: Floats, count: int, j: int) -> Floats:
    """`table` times the polynomial of one wrong answer that `count` samples gave: at most j of them are drawn."""
    product = table.copy()
    for drawn in range(1, min(j, len(table))):
        product[drawn:] += math.comb(count, drawn) * table[:-drawn]
    product[j:, 1:] += math.comb(count, j) * table[:-j, :-1]
    return product


def _estimate(present: Floats, bounds: Floats, support: tuple[float, float]) -> Estimate:
    if not len(present):
        return Estimate(math.nan, math.nan, math.nan, "none", 0)
    if np.all(present == present[0]):
        value = float(present[0])
        return Estimate(value, *unanimous_interval(value, len(present), support), "wilson", len(present))
    return Estimate(float(present.mean()), float(bounds[0]), float(bounds[1]), "bootstrap", len(present))


def _bootstrap_bounds(values: Floats, known: NDArray[np.bool_], seed: int, resamples: int) -> Floats:
    """[2, n_columns]: the ends of the percentile interval of each column's mean over resampled tasks."""
    n_tasks, n_columns = values.shape
    bounds = np.full((2, n_columns), np.nan)
    filled = np.where(known, values, 0.0)
    means = np.empty((resamples, n_columns))
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK_CELLS // max(1, n_tasks))
    for start in range(0, resamples if n_tasks else 0, block):
        draws = _draw_counts(n_tasks, min(block, resamples - start), rng)
        with np.errstate(invalid="ignore"):  # 0/0: a resample that missed every task with a value
            means[start : start + block] = (draws @ filled) / (draws @ known.astype(np.float64))
    tail = (1.0 - LEVEL) / 2
    for column in np.flatnonzero(known.any(axis=0)):
        bounds[:, column] = np.nanquantile(means[:, column], [tail, 1.0 - tail])
    return bounds


def _draw_counts(n_tasks: int, resamples: int, rng: np.random.Generator) -> Floats:
    """[resamples, n_tasks]: how often each task was drawn in n_tasks draws with replacement."""
    drawn = rng.integers(0, n_tasks, size=(resamples, n_tasks))
    cells = drawn + np.arange(resamples)[:, None] * n_tasks
    return np.bincount(cells.ravel(), minlength=resamples * n_tasks).reshape(resamples, n_tasks).astype(np.float64)


def _check_k(k: int, samples: int) -> None:
    if not 1 <= k <= samples:
        raise ValueError(f"k = {k} needs between 1 and {samples} samples: only those that exist can be drawn")
