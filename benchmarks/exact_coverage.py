"""What intervals for a share of n hold exactly, and the best that any interval could.

With one sample a task the number of right samples is binomial, so that coverage is a sum over all counts: a staircase
in the true share, which no interval can make flat. Near 0 and 1 its steps are high. Intervals for counts are therefore
judged by the average over shares, too (A. Agresti and B. Coull, 1998; L. Brown, T. Cai and A. DasGupta, 2001).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, binom, norm

from eval.statistics import LEVEL, mean_intervals

Interval = tuple[float, float]
TAIL = (1 - LEVEL) / 2
NEAR = 0.25
"""Neighbouring shares: as far from the nearer of 0 and 1, give or take this part."""


def ours(right: int, n: int) -> Interval:
    (estimate,) = mean_intervals(np.repeat([[1.0], [0.0]], [right, n - right], axis=0))
    return estimate.low, estimate.high


def clopper_pearson(right: int, n: int) -> Interval:
    low = 0.0 if right == 0 else float(beta.ppf(TAIL, right, n - right + 1))
    return low, 1.0 if right == n else float(beta.isf(TAIL, right + 1, n - right))


def mid_p(right: int, n: int) -> Interval:
    """Clopper-Pearson with half of the probability of the count that was seen (H. Lancaster, 1961)."""

    def above(share: float) -> float:
        return float(binom.sf(right, n, share) + binom.pmf(right, n, share) / 2)

    low = 0.0 if right == 0 else brentq(lambda share: above(share) - TAIL, 0, 1)
    return low, 1.0 if right == n else brentq(lambda share: above(share) - (1 - TAIL), 0, 1)


def jeffreys(right: int, n: int) -> Interval:
    low = 0.0 if right == 0 else float(beta.ppf(TAIL, right + 0.5, n - right + 0.5))
    return low, 1.0 if right == n else float(beta.isf(TAIL, right + 0.5, n - right + 0.5))


def agresti_coull(right: int, n: int) -> Interval:
    z = float(norm.isf(TAIL))
    size = n + z * z
    centre = (right + z * z / 2) / size
    half = z * (centre * (1 - centre) / size) ** 0.5
    return centre - half, centre + half


OURS = "Wilson (ours)"
INTERVALS: Mapping[str, Callable[[int, int], Interval]] = {
    OURS: ours,
    "Clopper-Pearson": clopper_pearson,
    "mid-P": mid_p,
    "Jeffreys": jeffreys,
    "Agresti-Coull": agresti_coull,
}


def exact_coverage(interval: Callable[[int, int], Interval], n: int, share: float) -> float:
    """Probability that the interval of a binomial count holds `share`."""
    held = [low <= share <= high for low, high in _all(interval, n)]
    return float(binom.pmf(np.arange(n + 1), n, share)[held].sum())


def average_coverage(interval: Callable[[int, int], Interval], n: int, share: float) -> float:
    """Mean coverage over the shares NEAR this one, evenly spread: the steps of the staircase even out."""
    reach = NEAR * min(share, 1 - share)
    shares = np.linspace(share - reach, share + reach, 201)
    return float(np.mean([exact_coverage(interval, n, near) for near in shares]))


@cache
def _all(interval: Callable[[int, int], Interval], n: int) -> list[Interval]:
    """The interval of every count; it does not depend on the true share."""
    return [interval(count, n) for count in range(n + 1)]


def attainable(n: int, share: float) -> float:
    """The coverage nearest to LEVEL that an interval could have at `share`: of all runs of counts that may hold it.

    For one `share` alone: an interval that is best here need not be good anywhere else.
    """
    sums = np.concatenate([[0.0], np.cumsum(binom.pmf(np.arange(n + 1), n, share))])
    runs = (sums[None, :] - sums[:, None])[np.triu_indices(n + 2, 1)]
    return float(runs[np.argmin(np.abs(runs - LEVEL))])
