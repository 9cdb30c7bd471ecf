"""The shape of a curve of accuracy against tokens: slope, saturation, a fall, and the three numbers of s1.

All take `rates`, [n_tasks, n_budgets] shares of right samples, budgets ascending, NaN where a task has none. Budgets
share their tasks and their traces, so nothing here takes the points of a curve as independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from eval.statistics import LEVEL, RESAMPLES, Floats, Z, difference_interval, resampled_means

MARGIN = 0.01
"""Accuracy within which a budget counts as good as the best one."""


@dataclass(frozen=True, slots=True)
class LogLinear:
    """accuracy = intercept + slope * log2(tokens): what each doubling of the tokens spent brings."""

    slope: float
    low: float
    high: float
    intercept: float
    n_tasks: int  # with a rate at every budget


@dataclass(frozen=True, slots=True)
class Saturation:
    """The smallest budget within MARGIN of the most accurate one, and where resampled tasks put it."""

    budget: int
    budget_low: int
    budget_high: int


@dataclass(frozen=True, slots=True)
class Fall:
    """The step down, to any larger budget, that stands out most. `p_value`: how often a flat curve has such a one."""

    budget_low: int
    budget_high: int
    drop: float
    p_value: float


@dataclass(frozen=True, slots=True)
class S1Metrics:
    """Of N. Muennighoff et al., s1: Simple test-time scaling, 2025, section 3.2."""

    control: float  # share of samples that kept to their budget
    scaling: float  # mean slope over all pairs of budgets, in points of accuracy per 1,000 thinking tokens
    performance: float  # the best accuracy


def log_linear(rates: Floats, tokens: Sequence[float]) -> LogLinear | None:
    """Least squares over the budgets; None where fewer than two differ in tokens or fewer than two tasks are whole.

    The slope of the mean curve is the mean of the slopes of the tasks, so its interval is Student's t over these.
    The mean tokens of a budget are taken as known.
    """
    from scipy.special import stdtrit  # the inverse of Student's t

    usable = [column for column, spent in enumerate(tokens) if spent > 0]
    whole = rates[~np.isnan(rates[:, usable]).any(axis=1)][:, usable]
    doublings = np.log2([tokens[column] for column in usable])
    spread = doublings - doublings.mean() if len(usable) else doublings
    if len(whole) < 2 or not np.square(spread).sum() > 0:
        return None
    slopes = whole @ spread / np.square(spread).sum()
    half = float(stdtrit(len(whole) - 1, 0.5 + LEVEL / 2) * slopes.std(ddof=1) / math.sqrt(len(whole)))
    slope = float(slopes.mean())
    intercept = float(whole.mean() - slope * doublings.mean())
    return LogLinear(slope, slope - half, slope + half, intercept, len(whole))


def saturation(
    rates: Floats, budgets: Sequence[int], *, seed: int = 0, resamples: int = RESAMPLES
) -> Saturation | None:
    """Where more thinking stops to pay, with a percentile interval from resampling tasks; None without any rate."""
    columns = np.flatnonzero(~np.isnan(rates).all(axis=0))
    if not len(columns):
        return None
    means = np.nanmean(rates[:, columns], axis=0)
    draws = np.concatenate(list(resampled_means(rates[:, columns], seed, resamples)))
    first = np.argmax(draws >= np.nanmax(draws, axis=1, keepdims=True) - MARGIN, axis=1)
    low, high = np.quantile(first, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="nearest")
    best = int(np.argmax(means >= means.max() - MARGIN))
    return Saturation(*(budgets[columns[index]] for index in (best, int(low), int(high))))


def steepest_fall(rates: Floats, budgets: Sequence[int], *, seed: int = 0, resamples: int = RESAMPLES) -> Fall | None:
    """Test that accuracy nowhere falls as the budget grows; None without two budgets that share a task.

    The statistic is the largest fall between any two budgets in standard errors of its paired difference. Its null
    distribution is that of resampled tasks around their own means, a flat curve: the hardest that does not fall.
    """
    pairs = list(combinations(range(len(budgets)), 2))
    falls = np.array([rates[:, low] - rates[:, high] for low, high in pairs]).T if pairs else np.empty((len(rates), 0))
    estimates = [difference_interval(column) for column in falls.T]
    usable = [pair for pair, estimate in enumerate(estimates) if estimate.n_tasks]
    if not usable:
        return None
    means = np.array([estimates[pair].value for pair in usable])
    errors = np.array([(estimates[pair].high - estimates[pair].low) / (2 * Z) for pair in usable])
    scores = means / errors
    worst = int(np.argmax(scores))
    as_far = sum(
        int(((block - means) / errors >= scores[worst]).any(axis=1).sum())
        for block in resampled_means(falls[:, usable], seed, resamples)
    )
    low, high = pairs[usable[worst]]
    return Fall(budgets[low], budgets[high], float(means[worst]), (as_far + 1) / (resamples + 1))


def s1_metrics(accuracy: Sequence[float], thinking: Sequence[float], kept: Sequence[bool]) -> S1Metrics | None:
    """`accuracy` and mean `thinking` tokens of each budget; `kept` of each sample. None without any."""
    points = [(spent, right) for right, spent in zip(accuracy, thinking, strict=True) if not math.isnan(right)]
    if not points or not kept:
        return None
    slopes = [
        1e5 * (after[1] - before[1]) / (after[0] - before[0])
        for before, after in combinations(sorted(points), 2)
        if after[0] > before[0]
    ]
    scaling = math.fsum(slopes) / len(slopes) if slopes else math.nan
    return S1Metrics(sum(kept) / len(kept), scaling, max(right for _, right in points))
