"""report.html of a run and comparison.html of several: what stands on the page, and in which order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.captions import OPEN_ABOVE
from eval.contrast import Comparison, Contrast, say
from eval.examples import Example
from eval.page import Page, Table, render
from eval.results import Results
from eval.savings import POLICY_HEADINGS, policy_row
from eval.sentences import result_sentences
from eval.throughput import HEADINGS, Throughput, latency_rows, speed_rows
from eval.wording import NONE, p_value, percent, points
from reasoning.budgets import format_budget
from reasoning.types import CurvePoint

_SAME = (
    "Votes take right answers as the same one, however they are written: where expressions or programs are asked for, "
    "answers that are only read would agree less often."
)


def run_report(
    results: Results,
    figures: Sequence[Sequence[Path]],
    examples: Sequence[Example],
    facts: Mapping[str, Mapping[str, str]],
    commands: Mapping[str, str],
) -> str:
    """The report of one run as HTML."""
    run = results.run
    page = Page(
        title=f"{run['model']} on {run['task_set']}{' (partial run)' if results.is_partial else ''}",
        sentences=result_sentences(results),
        warnings=[*results.warnings, *_truncation(results.points)],
        tables=list(_run_tables(results)),
        figures=figures,
        examples=examples,
        facts=facts,
        commands=commands,
    )
    return render(page)


def comparison_report(
    comparison: Comparison,
    warnings: Sequence[str],
    figures: Sequence[Sequence[Path]],
    facts: Mapping[str, Mapping[str, str]],
    commands: Mapping[str, str],
) -> str:
    """The report on several runs as HTML."""
    names = ", ".join(comparison.names)
    curves = [
        Table(f"{name}, on the tasks in common", POINT_HEADINGS, [point_row(point) for point in curve])
        for name, curve in zip(comparison.names, comparison.curves, strict=True)
    ]
    page = Page(
        title=f"Comparison: {names}",
        sentences=[*say(comparison), in_common(comparison)],
        warnings=warnings,
        tables=[*_contrast_tables(comparison), *curves],
        figures=figures,
        examples=(),
        facts=facts,
        commands=commands,
    )
    return render(page)


def in_common(comparison: Comparison) -> str:
    """How many tasks a comparison rests on."""
    if {comparison.n_common} == set(comparison.n_tasks):
        return f"All {comparison.n_common:,} tasks are common to the runs."
    own = ", ".join(f"{name} {n:,}" for name, n in zip(comparison.names, comparison.n_tasks, strict=True))
    return f"Compared on the {comparison.n_common:,} tasks that all runs have (of {own})."


def _truncation(curve: Sequence[CurvePoint]) -> Iterator[str]:
    thought = [point for point in curve if point.budget > 0 and point.n_samples]
    if thought and thought[-1].bound_share > OPEN_ABOVE:
        yield (
            f"truncation: the largest budget, {format_budget(thought[-1].budget)}, still cut "
            f"{thought[-1].bound_share:.0%} of the samples; the curve has not ended there"
        )


POINT_HEADINGS = (
    "budget",
    "accuracy % [95 %]",
    "tokens",
    "95th pct.",
    "cut %",
    "correct",
    "wrong",
    "no answer",
    "ungraded",
    "missing",
    "tasks",
)


def point_row(point: CurvePoint) -> tuple[str, ...]:
    """A point of a curve under POINT_HEADINGS; counts are of samples."""
    failed = point.statuses.get("timeout", 0) + point.statuses.get("error", 0)
    counts = (*(point.statuses.get(name, 0) for name in ("correct", "wrong", "no_answer")), failed, point.n_missing)
    return (
        format_budget(point.budget),
        _accuracy(point),
        _number(point.tokens_mean),
        _number(point.tokens_p95),
        NONE if math.isnan(point.bound_share) else f"{100 * point.bound_share:.0f}",
        *(f"{count:,}" for count in counts),
        f"{point.n_tasks:,}",
    )


def _accuracy(point: CurvePoint) -> str:
    if not point.n_samples:
        return NONE
    return "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * share for share in (point.accuracy, point.low, point.high)))


def _run_tables(results: Results) -> Iterator[Table]:
    yield Table(
        "Accuracy by budget",
        POINT_HEADINGS,
        [point_row(point) for point in results.points],
        f"{_meaning(results.points)} Cut: samples whose thinking the budget ended. Then counts of samples; ungraded "
        "are those on which the verifier failed.",
    )
    if results.differences:
        yield Table(
            "What each larger budget gained",
            ("step", "points [95 %]", "p", "p, all steps together", "would be found from", "tasks"),
            [
                (
                    f"{format_budget(step.budget_low)} to {format_budget(step.budget_high)}",
                    points(step.delta, step.low, step.high),
                    p_value(step.p_value),
                    p_value(step.p_holm),
                    "none" if math.isnan(step.detectable) else f"{100 * step.detectable:.1f} points",
                    f"{step.n_tasks:,}",
                )
                for step in results.differences
            ],
            "Paired by task. p: sign-flip test (McNemar's with one sample a task); all steps together: Holm's "
            "correction. Would be found from: the smallest true difference that holds, corrected, four times in five.",
        )
    yield from _sample_tables(results)
    if results.policies:
        rows = [policy_row(policy) for policy in results.policies]
        note = f"Replayed on the stored samples, probes charged; saved tokens are shares, with 95 % intervals. {_SAME}"
        yield Table("Policies", POLICY_HEADINGS, rows, note)
    if results.levels:
        yield _level_table(results)
    if results.throughput is not None:
        yield from _throughput_tables(results.throughput)
    if costs := [(name.replace("_", " "), _number(n)) for name, n in results.cost.items() if not math.isnan(n)]:
        yield Table("Cost", ("what", "how much"), costs)


def _meaning(curve: Sequence[CurvePoint]) -> str:
    """What accuracy and tokens are of."""
    if any(point.vote != "none" for point in curve):
        return (
            f"A policy, {curve[-1].vote}, decided which samples of a task were drawn: accuracy is that of the vote of "
            "each task, tokens are those of all its samples, mean and 95th percentile over tasks. Intervals are over "
            "tasks; a task that is not decided yet is in no rate."
        )
    return (
        "Accuracy is the mean over tasks, over samples that exist; missing samples are in no rate. Intervals are over "
        "tasks, which are the unit: more samples of a task do not make more tasks. Tokens are thinking and answer of a "
        "sample, mean and 95th percentile."
    )


def _throughput_tables(found: Throughput) -> Iterator[Table]:
    note = f"On {found.device}. Only steps that decode and hold no piece of a prompt are in the line and in the rates."
    yield Table("Throughput", ("what", "how much"), list(speed_rows(found)), note)
    note = "Waits are since the first request of a sample, in the batch of this run: they include time in the queue."
    yield Table("Latency", HEADINGS, latency_rows(found), note)


def _level_table(results: Results) -> Table:
    """A row a level, a column a budget; a level may lack budgets that are not finished."""
    budgets = [point.budget for point in results.points]
    rows = []
    for level, curve in results.levels.items():
        found = {point.budget: _accuracy(point) for point in curve}
        tasks = max(point.n_tasks for point in curve)
        rows.append((level, f"{tasks:,}", *(found.get(budget, NONE) for budget in budgets)))
    headings = ("level", "tasks", *(f"at {format_budget(budget)}" for budget in budgets))
    return Table("Accuracy by level of difficulty, % [95 %]", headings, rows)


def _sample_tables(results: Results) -> Iterator[Table]:
    for title, field, note in (("pass@k", "pass_at", ""), ("majority@k", "majority_at", _SAME)):
        found = {format_budget(point.budget): getattr(point, field) for point in results.points}
        ks = sorted({int(k) for rates in found.values() for k in rates})
        if len(ks) > 1:
            rows = [(budget, *(percent(rates.get(str(k), math.nan)) for k in ks)) for budget, rates in found.items()]
            yield Table(title, ("budget", *(f"k = {k}" for k in ks)), rows, note)


def _contrast_tables(comparison: Comparison) -> Iterator[Table]:
    for name in comparison.names[1:]:
        own = [contrast for contrast in comparison.contrasts if contrast.run == name]
        if own:
            yield Table(
                f"{name} against {comparison.names[0]}",
                (
                    "budget",
                    name,
                    comparison.names[0],
                    "points [95 %]",
                    "p",
                    "p, all together",
                    "a difference?",
                    "tasks",
                ),
                [_contrast_row(contrast) for contrast in own],
                "Each task is compared with itself. All together: Holm's correction for all budgets and runs here.",
            )


def _contrast_row(contrast: Contrast) -> tuple[str, ...]:
    return (
        format_budget(contrast.budget),
        percent(contrast.accuracy),
        percent(contrast.reference_accuracy),
        points(contrast.delta, contrast.low, contrast.high),
        p_value(contrast.p_value),
        p_value(contrast.p_holm),
        "yes" if contrast.is_difference else "run not finished" if contrast.unfinished else "not shown",
        f"{contrast.n_tasks:,}",
    )


def _number(value: Any) -> str:
    return NONE if math.isnan(value) else f"{value:,.0f}"
