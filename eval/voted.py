"""Runs whose policy draws the samples of a task: they come to one vote a task, at the cost of all its samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eval.curves import MISSING, GradedSample, curve
from eval.replay import Ballot, filter_traces, majority
from eval.statistics import mean_intervals
from reasoning.budget.policies import FILTER, read_online
from reasoning.types import CurvePoint, FinishReason
from verifiers.base import Status


@dataclass(frozen=True, slots=True)
class Voting:
    """How a run was drawn, at `budget` at most. `undecided` tasks still owe samples: they are in no rate."""

    policy: str
    budget: int
    undecided: Collection[str] = ()


def task_ballots(samples: Sequence[GradedSample], voting: Voting) -> dict[str, Ballot]:
    """The vote of each decided task, by task id: the one of the replay, on the samples that were drawn."""
    name, values = read_online(voting.policy)
    drawn: defaultdict[str, list[GradedSample]] = defaultdict(list)
    for sample in sorted(samples, key=lambda sample: (sample.key.task_id, sample.key.sample)):
        if sample.status != MISSING and sample.key.task_id not in voting.undecided:
            drawn[sample.key.task_id].append(sample)
    if name in FILTER:
        return {task_id: filter_traces([[row] for row in rows], **values) for task_id, rows in drawn.items()}
    return {task_id: majority(rows) for task_id, rows in drawn.items()}


def voted_curve(
    samples: Sequence[GradedSample], voting: Voting, *, model: str, task_set: str, method: str, seed: int = 0
) -> list[CurvePoint]:
    """The one point of such a run, at its largest budget; none without a decided task.

    Accuracy, its interval and tokens are of tasks: the vote, and the tokens of all samples together. Other shares are
    of samples, and `no_answer_share` of those that were asked for an answer. pass@k and majority@k are left out: the
    answers decided how many samples there are, which makes both wrong.
    """
    ballots = task_ballots(samples, voting)
    present = [one for one in samples if one.key.task_id in ballots or one.status == MISSING]
    if not ballots:
        return []
    together = [replace(one, key=replace(one.key, budget=voting.budget)) for one in present]
    (point,) = curve(together, model=model, task_set=task_set, method=method, seed=seed)
    (estimate,) = mean_intervals(np.array([[ballot.right] for ballot in ballots.values()]).reshape(-1, 1))
    tokens = np.array([sum(ballot.tokens) for ballot in ballots.values()], dtype=float)
    thinking = sum(one.thinking_tokens for one in present if one.status != MISSING)
    asked = [one for one in present if one.status != MISSING and one.finish_reason is not FinishReason.CUT]
    silent = sum(one.status == Status.NO_ANSWER for one in asked)
    return [
        replace(
            point,
            vote=voting.policy,
            n_tasks=estimate.n_tasks,
            accuracy=estimate.value,
            low=estimate.low,
            high=estimate.high,
            band_low=estimate.low,
            band_high=estimate.high,
            interval=estimate.method,
            tokens_mean=float(tokens.mean()),
            tokens_median=float(np.median(tokens)),
            tokens_p95=float(np.quantile(tokens, 0.95)),
            thinking_mean=thinking / len(ballots),
            answer_mean=(float(tokens.sum()) - thinking) / len(ballots),
            no_answer_share=silent / max(len(asked), 1),
            pass_at={},
            majority_at={},
        )
    ]


def voted_rates(samples: Sequence[GradedSample], voting: Voting) -> Mapping[str, float]:
    """Probability that the vote is right, by task id."""
    return {task_id: ballot.right for task_id, ballot in task_ballots(samples, voting).items()}
