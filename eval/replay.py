"""Rules for spending tokens, replayed on stored samples: each sees only what a run would have known by then.

Thinking rules walk up the budgets of one sample: the answers that were forced there are the probes, and a rule that
asks for them pays for their tokens. Voting rules draw samples of a task in the order of their numbers, not in the
order in which they finished: short traces finish first and would vote first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eval.curves import GradedSample
from eval.voting import vote
from reasoning.budget.drawing import DrawRule, confidence_bar, is_below
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


def draw(samples: Sequence[GradedSample], rule: DrawRule | None) -> list[GradedSample]:
    """The samples of one task that a rule draws, in the order of their numbers; without a rule all."""
    if rule is None:
        return list(samples)
    for count in range(1, len(samples)):
        if rule([sample.label for sample in samples[:count]]):
            return list(samples[:count])
    return list(samples)


@dataclass(frozen=True, slots=True)
class Ballot:
    """The vote of one task: the samples that take part, what each of them weighs, and what all samples cost."""

    voters: Sequence[GradedSample]
    weights: Sequence[float]
    tokens: Sequence[int]

    @property
    def right(self) -> float:
        """Probability that the vote is right, ties split."""
        right = [sample.status == Status.CORRECT for sample in self.voters]
        return vote([sample.label for sample in self.voters], right, self.weights)


def majority(samples: Sequence[GradedSample]) -> Ballot:
    """Every sample has one vote."""
    return Ballot(samples, [1.0] * len(samples), [sample.spent_tokens for sample in samples])


def filter_traces(samples: Sequence[Sequence[GradedSample]], keep: float, warmup: int) -> Ballot:
    """Stop traces that lose confidence (Y. Fu et al., Deep Think with Confidence, 2025, the online form).

    `samples` are those of one task, each at its budgets. The first `warmup` think to their end. The bar is the
    confidence that a share `keep` of them stayed above; a later trace is stopped at the first budget by which it fell
    below the bar, without an answer. Votes weigh as much as the confidence of their thinking, as a probability.
    """
    bar = confidence_bar([rows[-1].thinking_confidence for rows in samples[:warmup]], keep)
    voters, tokens = [], []
    for number, rows in enumerate(samples):
        late = rows if number >= warmup else ()
        stopped = next((row for row in late if row.bound and is_below(row.thinking_confidence, bar)), None)
        if stopped is None and not is_below(rows[-1].thinking_confidence, bar):
            voters.append(rows[-1])
        tokens.append(rows[-1].spent_tokens if stopped is None else stopped.thinking_tokens)
    return Ballot(voters, [math.exp(row.thinking_confidence or 0.0) for row in voters], tokens)
