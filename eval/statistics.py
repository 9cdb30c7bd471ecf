"""Means over tasks and their uncertainty, as pure functions of numbers.

The unit is the task, never the sample: the samples of one task are not independent, and treating them as such makes
intervals several times too narrow. Rates divide by the samples that exist. `benchmarks/coverage.py` shows how often
the intervals hold the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
RESAMPLES = 10_000
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)

_PRIOR = 2.0
"""Weight of the worst case where few tasks tell how much tasks differ; chosen by the coverage that it gives."""
_FREEDOM = 3.0
"""Degrees of freedom of Student's t for each task that tells how much tasks differ; chosen likewise."""

_NO_SPREAD = 1e-12
_BLOCK_CELLS = 1_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n_tasks` tasks and the interval [low, high] around it; all NaN when there is no task."""

    value: float
    low: float
    high: float
    method: str  # wilson, bonett-price, or none without any task
    n_tasks: int


def mean_intervals(rates: Floats, *, widen: float = 1.0) -> list[Estimate]:
    """Mean of each column over tasks, with an interval that holds at each column on its own.

    `rates` is [n_tasks, n_columns], in 0 to 1, NaN where a task has no value. `widen` multiplies the quantile:
    with `simultaneous_factor` the intervals form a band that holds the whole curve.

    Wilson's score interval (1927) for as many samples as the tasks are worth, n / design. The design effect is the
    variance of the rates over m (1 - m), what it would be with one sample a task; with one sample it is 1 and the
    interval is Wilson's. The effective sample size in a binomial interval is that of E. Korn and B. Graubard (1998).

    Each limit has its own: drawn towards 1 by K^2 : 2 where few tasks tell it, with K the effective number of tasks
    that were ever right for the upper limit, ever wrong for the lower one, (sum x)^2 / sum x^2 (L. Kish, Survey
    Sampling, 1965). Few right tasks may have missed the rare ones that are right often, so that the truth may lie far
    above the mean, not far below. The quantile is Student's with 3 K degrees of freedom, at most n - 1, as
    far as the mean does not tell its own error: it does with one sample a task, and where few high rates raise both
    together, for the lower limit near 0 and the upper near 1.
    """
    return [_mean_interval(column[~np.isnan(column)], widen) for column in rates.T]


def paired_differences(rates: Floats) -> list[Estimate]:
    """Each column minus the one before it, over the tasks that have both: [n_tasks, n] -> n - 1 estimates.

    Every task is compared with itself, which takes the difficulty of the tasks out of the interval.
    """
    return [difference_interval(after - before) for before, after in zip(rates.T[:-1], rates.T[1:], strict=True)]


def difference_interval(differences: Floats) -> Estimate:
    """Mean of one difference a task, in -1 to 1, NaN where a task has none.

    The normal interval after one task that gained and one that lost are added: with one sample a task the interval of
    D. Bonett and R. Price, Adjusted Wald Intervals for a Difference of Binomial Proportions Based on Paired Data,
    2012. What they gained is the mean change, weighted by itself, of the tasks that changed, drawn towards 1 where
    these are few, as in `mean_intervals`. So no change in any task is not certainty.
    """
    known = differences[~np.isnan(differences)]
    n_tasks = len(known)
    if not n_tasks:
        return Estimate(math.nan, math.nan, math.nan, "none", 0)
    step = typical_change(known)
    centre = known.sum() / (n_tasks + 2)
    variance = (float(np.square(known).sum()) + 2 * step**2) / (n_tasks + 2) - centre**2
    half = _quantile(n_tasks - 1, step) * math.sqrt(variance / (n_tasks + 2))
    low, high = max(-1.0, centre - half), min(1.0, centre + half)
    return Estimate(float(known.mean()), float(low), float(high), "bonett-price", n_tasks)


def typical_change(differences: Floats) -> float:
    """By how much a task changes that does: the mean change, weighted by itself, drawn towards 1 where few change."""
    squares = float(np.square(differences).sum())
    change = float(np.abs(differences).sum())
    return _towards_one(squares / change, change**2 / squares) if squares else 1.0


def simultaneous_factor(rates: Floats, *, seed: int = 0, resamples: int = RESAMPLES) -> float:
    """How much wider the intervals of `mean_intervals` must be to hold the whole curve with the same probability.

    The mean of two factors, each at least 1 and at most Bonferroni's; `benchmarks/coverage.py` shows what it holds.
    One is a bootstrap of the largest |t| (J. Montiel Olea and M. Plagborg-Moller, Simultaneous Confidence Bands, 2019):
    whole tasks are resampled, each mean is divided by the standard error of its own resample, and the LEVEL quantile of
    the largest over all columns is divided by the mean of those of the single columns. It sees skewed rates, and errs
    wide where tasks are few. The other is the quantile of the largest of C. Dunnett's multivariate |t| (1955) with the
    correlations of the rates and n - 1 degrees of freedom, over the normal one: it sees no skew, and errs narrow.
    """
    counts = (~np.isnan(rates)).sum(axis=0)
    varies = np.flatnonzero((counts > 0) & (_spread(rates, counts) > 0))
    if len(varies) < 2:
        return 1.0
    own, counts = rates[:, varies], counts[varies]
    resampled = _resampled_t(own, counts, seed, resamples)
    single = np.quantile(resampled, LEVEL, axis=0).mean()
    factors = (
        np.quantile(resampled.max(axis=1), LEVEL) / single,
        np.quantile(_multivariate_t(own, counts, seed, resamples).max(axis=1), LEVEL) / Z,
    )
    bonferroni = NormalDist().inv_cdf(1 - (1 - LEVEL) / (2 * len(varies)))
    return float(np.clip(factors, 1.0, bonferroni / Z).mean())


def resampled_means(rates: Floats, seed: int = 0, resamples: int = RESAMPLES) -> Iterator[Floats]:
    """Blocks of [n, n_columns] means over tasks drawn with replacement, all columns of a task together.

    NaN where a resample missed every task with a value.
    """
    n_tasks = len(rates)
    known = ~np.isnan(rates)
    filled = np.where(known, rates, 0.0)
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK_CELLS // max(1, n_tasks))
    for start in range(0, resamples, block):
        draws = _draw_counts(n_tasks, min(block, resamples - start), rng)
        with np.errstate(invalid="ignore"):  # 0/0
            yield (draws @ filled) / (draws @ known.astype(np.float64))


def _mean_interval(rates: Floats, widen: float) -> Estimate:
    n_tasks = len(rates)
    if not n_tasks:
        return Estimate(math.nan, math.nan, math.nan, "none", 0)
    mean = float(rates.mean())
    design = float(rates.var()) / (mean * (1 - mean)) if 0 < mean < 1 else 1.0

    def limits(telling: float, skew: float) -> tuple[float, float]:
        own = _towards_one(design, telling)
        return wilson(mean, n_tasks / own, widen * _quantile(min(n_tasks - 1, _FREEDOM * telling), max(design, skew)))

    low, _ = limits(_kish(1 - rates), 1 - 2 * mean)
    _, high = limits(_kish(rates), 2 * mean - 1)
    return Estimate(mean, low, high, "wilson", n_tasks)


def wilson(share: float, n: float, quantile: float = Z) -> tuple[float, float]:
    """Wilson's score interval for a share of `n` samples; `n` need not be whole."""
    square = quantile * quantile
    centre = share + square / (2 * n)
    half = quantile * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    return max(0.0, (centre - half) / (1 + square / n)), min(1.0, (centre + half) / (1 + square / n))


def _kish(values: Floats) -> float:
    """As many equal values would weigh as much together; 0 where all values are 0."""
    squares = float(np.square(values).sum())
    return float(values.sum()) ** 2 / squares if squares else 0.0


def _towards_one(estimate: float, telling: float) -> float:
    return (estimate * telling**2 + _PRIOR) / (telling**2 + _PRIOR)


def _quantile(freedom: float, known: float) -> float:
    """Student's t where the spread of the tasks is estimated, the normal as far as the mean alone tells it."""
    from scipy.special import stdtrit  # the inverse of Student's t

    student = float(stdtrit(max(freedom, 1), 0.5 + LEVEL / 2))
    return student + (Z - student) * min(known, 1.0)


def _spread(rates: Floats, counts: NDArray[np.int_]) -> Floats:
    """[n_columns]: standard deviation over the tasks with a value, 0 where there is none."""
    safe = np.maximum(counts, 1)
    means = np.nansum(rates, axis=0) / safe
    return np.sqrt(np.nansum(np.square(rates - means), axis=0) / safe)


def _resampled_t(rates: Floats, counts: NDArray[np.int_], seed: int, resamples: int) -> Floats:
    """[resamples, n_columns]: |t| of the mean over all tasks in each resample of whole tasks."""
    means = np.nansum(rates, axis=0) / counts
    blocks = []
    for block in resampled_means(np.hstack([rates, np.square(rates)]), seed, resamples):
        drawn, squares = np.split(block, 2, axis=1)
        errors = np.sqrt(np.maximum(squares - np.square(drawn), _NO_SPREAD) / counts)
        # A resample that missed every task with a value at a budget says nothing about it.
        blocks.append(np.nan_to_num(np.abs(drawn - means) / errors))
    return np.concatenate(blocks)


def _multivariate_t(rates: Floats, counts: NDArray[np.int_], seed: int, draws: int) -> Floats:
    """[draws, n_columns]: |t| of columns whose means are as correlated as those of the rates, which must vary."""
    standard = np.nan_to_num((rates - np.nansum(rates, axis=0) / counts) / (_spread(rates, counts) * np.sqrt(counts)))
    root = np.linalg.qr(standard, mode="r")  # root^T root is the correlation of the means, gaps in the rates included
    rng = np.random.default_rng(seed)
    freedom = int(counts.max()) - 1
    scale = np.sqrt(rng.chisquare(freedom, size=(draws, 1)) / freedom)
    return np.abs(rng.standard_normal((draws, len(root))) @ root) / scale


def _draw_counts(n_tasks: int, resamples: int, rng: np.random.Generator) -> Floats:
    """[resamples, n_tasks]: how often each task was drawn in n_tasks draws with replacement."""
    drawn = rng.integers(0, n_tasks, size=(resamples, n_tasks))
    cells = drawn + np.arange(resamples)[:, None] * n_tasks
    return np.bincount(cells.ravel(), minlength=resamples * n_tasks).reshape(resamples, n_tasks).astype(np.float64)
