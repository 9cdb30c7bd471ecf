"""Rules for spending tokens, replayed on stored samples: each sees only what a run would have known by then.

Thinking rules walk up the budgets of one sample: the answers that were forced there are the probes, and a rule that
asks for them pays for their tokens. Voting rules draw samples of a task in the order of their numbers, not in the
order in which they finished: short traces finish first and would vote first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eval.curves import GradedSample
from reasoning.budget.stopping import Probe, StopRule
from verifiers.base import Status


@dataclass(frozen=True, slots=True)
class Replayed:
    """One sample, or one task's vote, under a rule."""

    right: float
    tokens: int  # thinking and answers, probes included
    probe_tokens: int  # of these, answers that were asked for and not given
    stop: int  # the budget, or the number of samples, at which the rule stopped


def replay_thinking(rows: Sequence[GradedSample], rule: StopRule | None) -> Replayed:
    """One sample at each of its budgets, ascending, without budget 0; `rule` None asks for no probe and never stops."""
    if rule is None:
        return _answered(rows[-1], 0)
    asked = 0
    probes: list[Probe] = []
    for row in rows[:-1]:
        if not row.bound:  # the thinking ended by itself: so it does at all larger budgets
            return _answered(row, asked)
        probes.append(Probe(row.label, row.answer_confidence))
        if rule(probes):
            return _answered(row, asked)
        asked += row.answer_tokens
    return _answered(rows[-1], asked)


def _answered(row: GradedSample, asked: int) -> Replayed:
    return Replayed(float(row.status == Status.CORRECT), row.spent_tokens + asked, asked, row.key.budget)


class DrawRule(Protocol):
    """Whether to stop drawing samples, from the labels of those drawn so far; None: no answer."""

    def __call__(self, labels: Sequence[str | None]) -> bool: ...


@dataclass(frozen=True, slots=True)
class AdaptiveShare:
    """Draw 2, 4, 8 ... samples until the leader has a share of the answers (its_hub's Adaptive-SC)."""

    share: float

    def __call__(self, labels: Sequence[str | None]) -> bool:
        drawn = len(labels)
        if drawn < 2 or drawn & (drawn - 1):
            return False
        votes = Counter(label for label in labels if label is not None)
        return bool(votes) and max(votes.values()) >= self.share * drawn


@dataclass(frozen=True, slots=True)
class BetaStop:
    """Draw until the leader stays ahead of the runner-up with a probability.

    P(p > 1/2) where p, the leader's share of the two, is Beta(v1 + 1, v2 + 1) (P. Aggarwal et al., Let's Sample Step by
    Step: Adaptive-Consistency, 2023, equation 4).
    """

    probability: float

    def __call__(self, labels: Sequence[str | None]) -> bool:
        from scipy.special import betainc

        votes = Counter(label for label in labels if label is not None).most_common(2)
        if not votes:
            return False
        first, second = votes[0][1], votes[1][1] if len(votes) > 1 else 0
        return bool(betainc(second + 1, first + 1, 0.5) >= self.probability)


def draw(samples: Sequence[GradedSample], rule: DrawRule | None) -> list[GradedSample]:
    """The samples of one task that a rule draws, in the order of their numbers; without a rule all."""
    if rule is None:
        return list(samples)
    for count in range(1, len(samples)):
        if rule([sample.label for sample in samples[:count]]):
            return list(samples[:count])
    return list(samples)


@dataclass(frozen=True, slots=True)
class Kept:
    """The samples of one task that were not stopped, at their largest budget, and what all samples cost."""

    voters: list[GradedSample]
    tokens: list[int]


def filter_traces(samples: Sequence[Sequence[GradedSample]], keep: float, warmup: int) -> Kept:
    """Stop traces that lose confidence (Y. Fu et al., Deep Think with Confidence, 2025, the online form).

    The first `warmup` samples think to their end. The bar is the confidence that a share `keep` of them stayed above;
    a later trace is stopped at the first budget by which it fell below the bar, without an answer.
    """
    lowest = [rows[-1].thinking_confidence for rows in samples[:warmup]]
    known = sorted(value for value in lowest if value is not None)
    # As many of the warm-up as `keep` says are at the bar or above; rounding up keeps one at least.
    bar = known[-math.ceil(keep * len(known))] if known else -math.inf
    voters, tokens = [], []
    for number, rows in enumerate(samples):
        stopped = next((row for row in rows if row.bound and _below(row, bar)), None) if number >= warmup else None
        if stopped is None and not _below(rows[-1], bar):
            voters.append(rows[-1])
        tokens.append(rows[-1].spent_tokens if stopped is None else stopped.thinking_tokens)
    return Kept(voters, tokens)


def _below(row: GradedSample, bar: float) -> bool:
    return row.thinking_confidence is not None and row.thinking_confidence < bar
