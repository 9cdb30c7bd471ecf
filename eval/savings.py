"""What a policy brings: its accuracy and its tokens against the same samples without it, paired by task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eval.comparison import paired_test
from eval.statistics import LEVEL, RESAMPLES, Floats, difference_interval, mean_intervals, resampled_means
from eval.wording import percent, points


@dataclass(frozen=True, slots=True)
class Outcomes:
    """A policy on the tasks that have all it needs, and the plain curve that it is compared with.

    `accuracy` and `tokens` are [n_tasks]. `plain_accuracy` and `plain_tokens` are [n_tasks, n_points], tokens
    ascending: what the same samples give without the policy, the last point being the baseline.
    """

    accuracy: Floats
    tokens: Floats
    probe_tokens: Floats
    plain_accuracy: Floats
    plain_tokens: Floats
    plain: str  # what the points of the plain curve are
    stops: Mapping[str, float]  # share of samples or tasks, by where the policy stopped
    n_samples: int
    left_out: int  # samples that lack something that the policy needs
    chosen: str = ""  # what an allocation chose


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """A policy, as results.json has it. Tokens are thinking and answers, probes included.

    `saved` is the share of the baseline's tokens that the policy did without. `saved_equal` is the same against the
    plain curve at the policy's accuracy, between two points on a log scale of tokens; where the plain curve never gets
    that far its most accurate point stands in, so that the saving is understated. Intervals are 95 %.
    """

    policy: str
    n_tasks: int
    n_samples: int
    left_out: int
    accuracy: float
    low: float
    high: float
    tokens_mean: float
    probe_tokens_mean: float
    plain: str
    baseline_accuracy: float
    baseline_tokens_mean: float
    difference: float  # in accuracy, policy minus baseline
    difference_low: float
    difference_high: float
    p_value: float
    saved: float
    saved_low: float
    saved_high: float
    saved_equal: float
    saved_equal_low: float
    saved_equal_high: float
    stops: Mapping[str, float]
    chosen: str


POLICY_HEADINGS = ("policy", "tokens", "accuracy", "difference [95 %]", "tokens saved", "saved at equal accuracy")


def policy_row(result: PolicyResult) -> tuple[str, ...]:
    """A policy under POLICY_HEADINGS, as it is shown; with the number of its tasks where something is left out."""
    saved = (result.saved, result.saved_low, result.saved_high)
    equal = (result.saved_equal, result.saved_equal_low, result.saved_equal_high)
    return (
        f"{result.policy} (on {result.n_tasks:,} tasks)" if result.left_out else result.policy,
        f"{result.tokens_mean:,.0f}",
        percent(result.accuracy),
        points(result.difference, result.difference_low, result.difference_high),
        *("{:z.0f} % [{:z.0f}, {:z.0f}]".format(*(100 * value for value in shares)) for shares in (saved, equal)),
    )


def compare(policy: str, found: Outcomes, *, seed: int = 0, resamples: int = RESAMPLES) -> PolicyResult:
    """Judge `found`; every number is NaN without any task."""
    accuracy, baseline = mean_intervals(np.stack([found.accuracy, found.plain_accuracy[:, -1]], axis=1))
    gaps = found.accuracy - found.plain_accuracy[:, -1]
    difference = difference_interval(gaps)
    means = (_mean(found.tokens), _mean(found.probe_tokens), _mean(found.plain_tokens[:, -1]))
    saved, saved_equal = _savings(found, seed, resamples) if accuracy.n_tasks else np.full((2, 3), np.nan)
    return PolicyResult(
        policy,
        accuracy.n_tasks,
        found.n_samples,
        found.left_out,
        accuracy.value,
        accuracy.low,
        accuracy.high,
        *means[:2],
        found.plain,
        baseline.value,
        means[2],
        difference.value,
        difference.low,
        difference.high,
        paired_test(gaps, seed=seed),
        *map(float, saved),
        *map(float, saved_equal),
        found.stops,
        found.chosen,
    )


def tokens_for(target: Floats, accuracy: Floats, tokens: Floats) -> Floats:
    """Tokens at which curves first reach `target`: [n], from [n, n_points] accuracy and ascending tokens.

    Straight lines on log tokens between the points of the best so far. A target below the first point costs that
    point, one above them all the most accurate point.
    """
    best = np.maximum.accumulate(accuracy, axis=1)
    rows = np.arange(len(best))
    wanted = np.minimum(target, best[:, -1])
    at = np.argmax(best >= wanted[:, None] - 1e-12, axis=1)
    before = np.maximum(at - 1, 0)
    rise = best[rows, at] - best[rows, before]
    part = np.where(rise > 0, (wanted - best[rows, before]) / np.where(rise > 0, rise, 1.0), 1.0)
    logs = np.log(np.maximum(tokens, 1.0))
    return np.exp(logs[rows, before] + np.clip(part, 0.0, 1.0) * (logs[rows, at] - logs[rows, before]))


def _savings(found: Outcomes, seed: int, resamples: int) -> Floats:
    """[2, 3]: share of tokens saved, against the baseline and at equal accuracy; each with its percentile interval."""
    n_points = found.plain_accuracy.shape[1]
    table = np.column_stack([found.accuracy, found.tokens, found.plain_accuracy, found.plain_tokens])

    def savings(means: Floats) -> Floats:
        plain_tokens = means[:, 2 + n_points :]
        needed = tokens_for(means[:, 0], means[:, 2 : 2 + n_points], plain_tokens)
        with np.errstate(divide="ignore", invalid="ignore"):  # a model that writes nothing has nothing to save
            return 1 - means[:, 1] / np.stack([plain_tokens[:, -1], needed])

    drawn = np.concatenate([savings(block) for block in resampled_means(table, seed, resamples)], axis=1)
    tail = (1 - LEVEL) / 2
    return np.column_stack([savings(table.mean(axis=0)[None]), np.nanquantile(drawn, [tail, 1 - tail], axis=1).T])


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")
