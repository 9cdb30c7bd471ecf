"""What k samples of one task are worth together: passing, voting, picking. Exact expectations, no simulation.

Answers are told apart by labels: samples with the same label gave the same answer, None gave none. Whoever makes the
labels decides what counts as the same.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from eval.statistics import Floats

MAX_VOTES = 128
"""Largest k of majority@k; up to it the exact count fits a float for as many as 12,000 samples a task."""


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


def labelled_majority_at_k(labels: Sequence[str | None], right: Sequence[bool], k: int) -> float:
    """`majority_at_k` where several answers may be right: the sum over them of the probability that it wins.

    A label of which only some samples are right (a verifier that failed on the others) is right by that share.
    """
    shares = _right_shares(labels, right)
    votes = Counter(label for label in labels if label is not None)
    abstained = len(labels) - votes.total()
    _check_k(k, len(labels))
    return math.fsum(
        share * majority_at_k(votes[label], [votes[other] for other in votes if other != label], abstained, k)
        for label, share in shares.items()
        if share
    )


def vote(labels: Sequence[str | None], right: Sequence[bool], weights: Sequence[float] | None = None) -> float:
    """Probability that the answer with the largest sum of weights is right, over all samples given; ties are split.

    Without weights every sample counts 1: the plain majority. Without any vote nothing is right.
    """
    totals: defaultdict[str, list[float]] = defaultdict(list)
    for label, weight in zip(labels, weights or [1.0] * len(labels), strict=True):
        if label is not None:
            totals[label].append(weight)
    if not totals:
        return 0.0
    sums = {label: math.fsum(values) for label, values in totals.items()}
    leaders = [label for label, total in sums.items() if math.isclose(total, max(sums.values()))]
    shares = _right_shares(labels, right)
    return math.fsum(shares[label] for label in leaders) / len(leaders)


def best_of_k(scores: Sequence[float], right: Sequence[bool], k: int) -> float:
    """Probability that the sample with the highest score among k, drawn without replacement, is right.

    Samples with the same score are picked with the same probability. Raises ValueError unless 1 <= k <= samples.
    """
    samples = len(scores)
    _check_k(k, samples)
    by_score: defaultdict[float, list[bool]] = defaultdict(list)
    for score, is_right in zip(scores, right, strict=True):
        by_score[score].append(is_right)
    subsets, below, won = math.comb(samples, k), 0, 0.0
    for _, tied in sorted(by_score.items()):
        # The highest is among these: drawn from them and those below, but not from those below alone.
        highest = math.comb(below + len(tied), k) - math.comb(below, k)
        won += highest / subsets * sum(tied) / len(tied)
        below += len(tied)
    return won


def _right_shares(labels: Sequence[str | None], right: Sequence[bool]) -> dict[str, float]:
    marks: defaultdict[str, list[bool]] = defaultdict(list)
    for label, is_right in zip(labels, right, strict=True):
        if label is not None:
            marks[label].append(is_right)
    return {label: sum(found) / len(found) for label, found in marks.items()}


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


def _check_k(k: int, samples: int) -> None:
    if not 1 <= k <= samples:
        raise ValueError(f"k = {k} needs between 1 and {samples} samples: only those that exist can be drawn")
