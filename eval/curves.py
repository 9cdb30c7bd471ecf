"""Graded samples become points of a curve: one accuracy a budget, with everything that could explain it away."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from eval.comparison import detectable_difference, holm, paired_test
from eval.fits import Fall, LogLinear, S1Metrics, Saturation, log_linear, s1_metrics, saturation, steepest_fall
from eval.statistics import Estimate, Floats, mean_intervals, paired_differences, simultaneous_factor
from eval.voting import MAX_VOTES, labelled_majority_at_k, pass_at_k
from reasoning.grading import answer_label
from reasoning.types import CurvePoint, FinishReason, SampleKey
from verifiers.base import Status

MISSING = "missing"
"""Status of a sample that the engine failed to produce: counted, and in no rate."""


@dataclass(frozen=True, slots=True)
class GradedSample:
    """One generation with its verdict, reduced to what a curve needs."""

    key: SampleKey
    level: str | None
    status: str  # a value of verifiers.base.Status, or MISSING
    thinking_tokens: int
    answer_tokens: int
    finish_reason: FinishReason
    bound: bool
    forced: bool
    escaped: bool
    looped: bool
    extracted: str | None
    form: str | None = None  # the answer as the verifier compared it; None: it has no other than `extracted`
    probe_tokens: int = 0  # this and the following as in `reasoning.types.Generation`
    answer_confidence: float | None = None
    thinking_confidence: float | None = None
    injected_thinking: int = 0
    injected_answer: int = 0
    seconds: float | None = None  # from the sample's first request to its last token
    first_s: float | None = None  # likewise to its first token, in a run that was profiled
    answer_s: float | None = None  # likewise to the first token of its answer
    prompt_tokens: int = 0
    completion_tokens: int = 0  # all that follows the prompt, markers included
    decoded_tokens: int = 0  # as in `reasoning.types.Generation`

    @property
    def label(self) -> str | None:
        """Which answer it is; see `reasoning.grading.answer_label`."""
        return None if self.status == MISSING else answer_label(self.status, self.extracted, self.form)

    @property
    def spent_tokens(self) -> int:
        return self.thinking_tokens + self.answer_tokens + self.probe_tokens


@dataclass(frozen=True, slots=True)
class Difference:
    """Accuracy at `budget_high` minus accuracy at `budget_low`, over the `n_tasks` tasks that have both."""

    budget_low: int
    budget_high: int
    delta: float
    low: float
    high: float
    interval: str  # how the interval was made: bonett-price
    n_tasks: int
    p_value: float
    p_holm: float  # holds for all steps of the curve together
    detectable: float  # the smallest true difference that has p_holm below 5 % with a probability of 80 %


@dataclass(frozen=True, slots=True)
class Shape:
    """What can be said of the curve as a whole. Budget 0, which is no thinking, is no part of it."""

    log_linear: LogLinear | None
    saturation: Saturation | None
    steepest_fall: Fall | None
    s1: S1Metrics | None


def curve(
    samples: Sequence[GradedSample], *, model: str, task_set: str, method: str, seed: int = 0
) -> list[CurvePoint]:
    """One point a budget, sorted by budget.

    Accuracy is the mean over tasks of each task's share of right samples, so that a task that lost samples to the
    engine keeps its weight. Shares are of the samples that exist; without any, every number of a point is NaN.
    Raises ValueError when two samples have the same key.
    """
    by_budget = _present_by_budget(samples)
    missing = [sample for sample in samples if sample.status == MISSING]
    rates = task_rates(by_budget)
    estimates = mean_intervals(rates)
    bands = mean_intervals(rates, widen=simultaneous_factor(rates, seed=seed))
    names = {"model": model, "task_set": task_set, "method": method, "vote": "none"}
    return [
        _point(names, budget, present, [sample for sample in missing if sample.key.budget == budget], estimate, band)
        for (budget, present), estimate, band in zip(by_budget.items(), estimates, bands, strict=True)
    ]


def uncounted(points: Iterable[CurvePoint]) -> tuple[CurvePoint, ...]:
    """The same points where nobody counted tokens, nor saw what ended them: unknown, not zero."""
    tokens = ("tokens_mean", "tokens_median", "tokens_p95", "thinking_mean", "answer_mean")
    nothing = dict.fromkeys((*tokens, "bound_share", "escaped_share", "looped_share"), math.nan)
    return tuple(replace(point, **nothing) for point in points)


def differences(samples: Sequence[GradedSample], seed: int = 0) -> list[Difference]:
    """What each step to the next larger budget gained, paired by task. Neighbours that share no task are left out."""
    by_budget = _present_by_budget(samples)
    rates = task_rates(by_budget)
    gains, gaps = paired_differences(rates), np.diff(rates, axis=1).T
    p_values = [paired_test(gap, seed=seed) for gap in gaps]
    paired = sum(gain.n_tasks > 0 for gain in gains)
    detectable = [detectable_difference(gap, paired) for gap in gaps]
    steps = zip(pairwise(by_budget), gains, p_values, holm(p_values), detectable, strict=True)
    return [
        Difference(low, high, gain.value, gain.low, gain.high, gain.method, gain.n_tasks, p, p_all, found_from)
        for (low, high), gain, p, p_all, found_from in steps
        if gain.n_tasks
    ]


def shape(samples: Sequence[GradedSample], seed: int = 0) -> Shape:
    """Slope, saturation and fall of the curve, and s1's three numbers."""
    by_budget = _present_by_budget([sample for sample in samples if sample.key.budget > 0])
    rates, budgets = task_rates(by_budget), list(by_budget)
    accuracy = [estimate.value for estimate in mean_intervals(rates)]
    return Shape(
        log_linear(rates, [_mean([sample.spent_tokens for sample in present]) for present in by_budget.values()]),
        saturation(rates, budgets, seed=seed),
        steepest_fall(rates, budgets, seed=seed),
        s1_metrics(
            accuracy,
            [_mean([sample.thinking_tokens for sample in present]) for present in by_budget.values()],
            [s.thinking_tokens <= s.key.budget for present in by_budget.values() for s in present],
        ),
    )


def _present_by_budget(samples: Sequence[GradedSample]) -> dict[int, list[GradedSample]]:
    repeated = [key for key, count in Counter(sample.key for sample in samples).items() if count > 1]
    if repeated:
        raise ValueError(f"{len(repeated)} samples are there more than once, the first is {min(repeated)}")
    grouped: dict[int, list[GradedSample]] = {budget: [] for budget in sorted({s.key.budget for s in samples})}
    for sample in samples:
        if sample.status != MISSING:
            grouped[sample.key.budget].append(sample)
    return grouped


def task_rates(by_budget: Mapping[int, Sequence[GradedSample]]) -> Floats:
    """[n_tasks, n_budgets]: share of right samples, NaN where a task has none; tasks in the order of their ids."""
    tasks = sorted({sample.key.task_id for present in by_budget.values() for sample in present})
    rows = {task_id: row for row, task_id in enumerate(tasks)}
    right = np.zeros((len(tasks), len(by_budget)))
    total = np.zeros_like(right)
    for column, present in enumerate(by_budget.values()):
        for sample in present:
            total[rows[sample.key.task_id], column] += 1
            right[rows[sample.key.task_id], column] += sample.status == Status.CORRECT
    return np.divide(right, total, out=np.full_like(right, np.nan), where=total > 0)


def _point(
    names: Mapping[str, str],
    budget: int,
    present: Sequence[GradedSample],
    missing: Sequence[GradedSample],
    estimate: Estimate,
    band: Estimate,
) -> CurvePoint:
    tokens = [sample.spent_tokens for sample in present]
    by_task = _by_task(present)

    def share(holds: Callable[[GradedSample], bool]) -> float:
        return _mean([holds(sample) for sample in present])

    return CurvePoint(
        **names,
        budget=budget,
        n_tasks=estimate.n_tasks,
        n_samples=len(present),
        n_missing=len(missing),
        accuracy=estimate.value,
        low=estimate.low,
        high=estimate.high,
        band_low=band.low,
        band_high=band.high,
        interval=estimate.method,
        tokens_mean=_mean(tokens),
        tokens_median=_quantile(tokens, 0.5),
        tokens_p95=_quantile(tokens, 0.95),
        thinking_mean=_mean([sample.thinking_tokens for sample in present]),
        answer_mean=_mean([sample.answer_tokens for sample in present]),
        bound_share=share(lambda s: s.bound),
        no_answer_share=share(lambda s: s.status == Status.NO_ANSWER),
        escaped_share=share(lambda s: s.escaped),
        looped_share=share(lambda s: s.looped),
        wrong_share=share(lambda s: s.status == Status.WRONG),
        finished_wrong_share=share(lambda s: s.status == Status.WRONG and not (s.bound or s.forced)),
        verifier_failed_share=share(lambda s: s.status in (Status.TIMEOUT, Status.ERROR)),
        pass_at=_pass_at(by_task),
        majority_at=_majority_at(by_task),
        statuses=_counts((*Status, MISSING), [sample.status for sample in (*present, *missing)]),
        finish_reasons=_counts(FinishReason, [sample.finish_reason for sample in (*present, *missing)]),
    )


def _counts(names: Iterable[str], found: Iterable[str]) -> dict[str, int]:
    """How often each name was found, those that were not included."""
    counts = Counter(found)
    return {str(name): counts[name] for name in names}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _quantile(values: Sequence[float], share: float) -> float:
    return float(np.quantile(values, share)) if values else math.nan


def _by_task(present: Sequence[GradedSample]) -> list[list[GradedSample]]:
    tasks: defaultdict[str, list[GradedSample]] = defaultdict(list)
    for sample in present:
        tasks[sample.key.task_id].append(sample)
    return [tasks[task_id] for task_id in sorted(tasks)]


def _powers_of_two(by_task: Sequence[Sequence[GradedSample]], largest: int | None = None) -> list[int]:
    """1, 2, 4 ... up to the number of samples that every task has."""
    common = min((len(task) for task in by_task), default=0)
    return [1 << power for power in range(min(common, largest or common).bit_length())]


def _pass_at(by_task: Sequence[Sequence[GradedSample]]) -> dict[str, float]:
    right = [sum(sample.status == Status.CORRECT for sample in task) for task in by_task]
    return {
        str(k): _mean([pass_at_k(c, len(task), k) for c, task in zip(right, by_task, strict=True)])
        for k in _powers_of_two(by_task)
    }


def _majority_at(by_task: Sequence[Sequence[GradedSample]]) -> dict[str, float]:
    ks = _powers_of_two(by_task, MAX_VOTES)
    votes = [([s.label for s in task], [s.status == Status.CORRECT for s in task]) for task in by_task]
    return {str(k): _mean([labelled_majority_at_k(labels, right, k) for labels, right in votes]) for k in ks}
