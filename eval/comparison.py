"""Is it a difference? Tests of paired differences over tasks, and what a comparison could have seen at all.

A comparison of two runs or two budgets is one difference a task; `eval.statistics.difference_interval` says how large
it is, the functions here how surprising it would be if there were none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eval.statistics import LEVEL, RESAMPLES, Floats, typical_change

POWER = 0.8
"""Probability with which the smallest detectable difference would be found."""

_BLOCK_CELLS = 1_000_000


def paired_test(differences: Floats, *, seed: int = 0, resamples: int = RESAMPLES) -> float:
    """Two-sided p-value for no difference, from one difference a task; NaN without any task.

    If nothing differs, each task's difference is as likely to have the other sign. Where every difference is -1, 0
    or 1 (one sample a task) that is the exact test of Q. McNemar, 1947. Else signs are drawn at random (R. Fisher, The
    Design of Experiments, 1935), and the draw that was seen counts as one of them, so that p is never 0.
    """
    known = differences[~np.isnan(differences)]
    if not len(known):
        return math.nan
    changed = known[known != 0]
    if np.all(np.abs(changed) == 1):
        return _mcnemar(int((changed > 0).sum()), len(changed))
    seen = abs(changed.sum()) - 1e-9  # sums in another order round differently
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK_CELLS // len(changed))
    as_far = 0
    for start in range(0, resamples, block):
        signs = rng.integers(0, 2, size=(min(block, resamples - start), len(changed))) * 2 - 1
        as_far += int((np.abs(signs @ changed) >= seen).sum())
    return (as_far + 1) / (resamples + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values that hold for all comparisons together, in the order given (S. Holm, 1979). NaN stays, uncounted."""
    order = sorted((index for index, p in enumerate(p_values) if not math.isnan(p)), key=lambda index: p_values[index])
    adjusted, largest = list(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def detectable_difference(differences: Floats, comparisons: int = 1) -> float:
    """The smallest true difference that `paired_test` finds with probability POWER; NaN where it finds none.

    From one difference a task, known or NaN. Found means that p holds for `comparisons` after Holm's correction, of
    which only this one is a difference. With one sample a task it is the exact power of McNemar's test, which never
    finds a few changes, however sure each is. With several, tasks change by `typical_change`. As many change as did
    here, one that gained and one that lost added as in `difference_interval`, or as many as the difference takes.
    """
    from scipy.optimize import brentq

    known = differences[~np.isnan(differences)]
    n_tasks = len(known)
    if not n_tasks:
        return math.nan
    level = (1 - LEVEL) / comparisons
    if 2.0 ** (1 - n_tasks) > level:  # not even if all tasks gain
        return math.nan
    step = typical_change(known)
    share = min((float(np.square(known).sum()) / step**2 + 2) / (n_tasks + 2), 1.0)
    return step * float(brentq(lambda gain: _mcnemar_power(gain, share, n_tasks, level) - POWER, 0.0, 1.0, xtol=1e-6))


def noise_floor(differences: Floats) -> float:
    """Standard deviation of one run's accuracy, from one difference a task between two runs of the same settings.

    The tasks are the same, so this is the noise of sampling alone, not that of having drawn these tasks. The variance
    of a difference is twice that of a run. NaN without any task.
    """
    known = differences[~np.isnan(differences)]
    return float(np.sqrt(np.square(known).sum() / 2) / len(known)) if len(known) else math.nan


def _mcnemar_power(gain: float, share: float, n_tasks: int, level: float) -> float:
    """Probability that McNemar's test finds a gain where `share` of the tasks change, or `gain` if that is more."""
    from scipy.stats import binom

    share = max(share, gain)
    changed = np.arange(1, n_tasks + 1)
    enough = binom.isf(level / 2, changed, 0.5)  # more than these have to gain
    found = binom.sf(enough, changed, (share + gain) / (2 * share))
    return float(binom.pmf(changed, n_tasks, share) @ found)


def _mcnemar(gained: int, changed: int) -> float:
    """P(a count as far from half as `gained`, among `changed` throws of a coin)."""
    if not changed:
        return 1.0
    tail = sum(math.comb(changed, count) for count in range(min(gained, changed - gained) + 1))
    return min(1.0, 2 * tail / 2**changed)
