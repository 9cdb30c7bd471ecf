"""What a run found, in sentences that stand on their own: no number without its interval, or why it has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eval.curves import Difference
from eval.results import Results
from eval.statistics import LEVEL
from eval.wording import percent, points, said_p
from reasoning.budgets import format_budget
from reasoning.types import NO_LIMIT, CurvePoint


def result_sentences(results: Results) -> list[str]:
    """The result first, then what can be said of the curve."""
    found = [point for point in results.points if point.n_samples]
    if not found:
        return ["This run has no result yet: no sample is graded."]
    return [_headline(results, found), *_of_the_curve(results)]


def _headline(results: Results, found: Sequence[CurvePoint]) -> str:
    point = found[-1]
    right = f"{results.run['model']} is right on {percent(point.accuracy)} of {results.run['task_set']}"
    if results.is_unfinished:  # its samples are no random ones
        return f"So far, {right} [no interval holds before the run is finished] {_within(point, results)}."
    interval = f"[95 % interval {100 * point.low:.1f} to {100 * point.high:.1f}]"
    return f"{right} {interval} {_within(point, results)}{_without_thinking(found)}."


def _within(point: CurvePoint, results: Results) -> str:
    if "imported" in results.run:
        limit = "in completions of another tool"
    elif point.budget == 0:
        limit = "without thinking"
    elif point.budget == NO_LIMIT:
        limit = "with no limit on its thinking"
    else:
        limit = f"within {format_budget(point.budget)} thinking tokens"
    unit = "sample" if point.vote == "none" else f"task, by the vote of the samples that {point.vote} drew"
    spent = "" if point.tokens_mean != point.tokens_mean else f", at {point.tokens_mean:,.0f} tokens a {unit}"
    return f"{limit}{spent} ({point.n_tasks:,} tasks, {point.n_samples:,} samples)"


def _without_thinking(found: Sequence[CurvePoint]) -> str:
    if found[0].budget != 0 or len(found) == 1:
        return ""
    return f"; without thinking it is on {percent(found[0].accuracy)} {_interval(found[0])}"


def _interval(point: CurvePoint) -> str:
    return f"[{100 * point.low:.1f} to {100 * point.high:.1f}]"


def _of_the_curve(results: Results) -> Iterator[str]:
    if results.is_unfinished:
        return
    if results.differences:
        yield _steps(results.differences)
    shape = results.shape
    if shape.log_linear is not None:
        fit = shape.log_linear
        gain = points(fit.slope, fit.low, fit.high)
        yield f"On average over these budgets, each doubling of the tokens spent brings {gain} points of accuracy."
    if shape.saturation is not None and len([p for p in results.points if p.budget > 0]) > 1:
        best = shape.saturation
        where = f"{format_budget(best.budget_low)} to {format_budget(best.budget_high)}"
        yield f"The smallest budget within a point of the best accuracy is {format_budget(best.budget)} [{where}]."
    if shape.steepest_fall is not None and shape.steepest_fall.p_value < 1 - LEVEL:
        fall = shape.steepest_fall
        yield (
            f"Accuracy falls by {100 * fall.drop:.1f} points from {format_budget(fall.budget_low)} to "
            f"{format_budget(fall.budget_high)} ({said_p(fall.p_value)})."
        )


def _steps(differences: Sequence[Difference]) -> str:
    """Which steps to a larger budget are differences, after Holm's correction."""
    shown = [step for step in differences if step.p_holm < 1 - LEVEL]
    if not shown:
        return "No step to a larger budget is shown to change the accuracy, after Holm's correction for all steps."
    steps = [
        f"{format_budget(step.budget_low)} to {format_budget(step.budget_high)} "
        f"({points(step.delta, step.low, step.high)} points)"
        for step in shown
    ]
    rest = "" if len(shown) == len(differences) else "; the other steps show no difference"
    return f"Accuracy changes with the budget from {', from '.join(steps)}, after Holm's correction{rest}."
