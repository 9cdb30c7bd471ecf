"""Figures of accuracy against what it costs beside tokens, and of policies beside the curve that they improve on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from eval.allocation import MapPoint
from eval.axes import TOKENS, Axis
from eval.curves import MISSING, GradedSample
from eval.figure import End, Words, drawing, files_of, interval_bar, label_ends, log_tokens, percent_axis
from eval.savings import PolicyResult
from eval.style import COLORS, INK, LINES, MARKERS, MUTED, for_text
from reasoning.budgets import format_budget
from reasoning.types import CurvePoint


def accuracy_by_seconds(
    points: Sequence[CurvePoint], samples: Sequence[GradedSample], out: Path, *, device: str, note: str
) -> list[Path]:
    """Accuracy against the mean time of a sample; the points that no other one beats in both are joined by a step."""
    seconds = mean_seconds(samples)
    drawn = [point for point in points if point.n_samples and point.budget in seconds]
    if len(drawn) < 2:
        return []
    x = [seconds[point.budget] for point in drawn]
    y = [100 * point.accuracy for point in drawn]
    words = Words(
        "How often a sample is right, by the time that it takes",
        f"On {device}. Time from the first request of a sample to its last token, mean, in the batch of this run: it "
        "includes waiting and depends on what else was in the batch. Line: the Pareto front. Bars: 95% interval. "
        f"{note}",
    )
    numbers = {
        "device": device,
        "points": [
            {"label": format_budget(p.budget), "seconds": s, "accuracy": p.accuracy, "low": p.low, "high": p.high}
            for p, s in zip(drawn, x, strict=True)
        ],
    }
    with drawing(out, "accuracy_by_seconds", words, numbers, height=2.9) as figure:
        axes = figure.subplots()
        front = _front(x, y)
        corners = [(x[front[0]], y[front[0]])]
        for index in front[1:]:
            corners += [(x[index], corners[-1][1]), (x[index], y[index])]
        axes.plot(*zip(*corners, strict=True), color=COLORS[0], linewidth=1.4)
        for across, point in zip(x, drawn, strict=True):
            interval_bar(axes, across, 100 * point.low, 100 * point.high, COLORS[0])
        axes.plot(x, y, MARKERS[0], color=COLORS[0])
        axes.set_xscale("log")
        axes.set_xlim(0.7 * min(x), 1.5 * max(x))
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=99))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("Seconds of a sample, mean (log scale)")
        percent_axis(axes)
        labels = [format_budget(point.budget) for point in drawn]
        labels[0] = f"budget {labels[0]}"
        label_ends(figure, axes, [End(*end, INK) for end in zip(x, y, labels, strict=True)])
    return files_of(out)


def mean_seconds(samples: Sequence[GradedSample]) -> dict[int, float]:
    """Budget -> mean seconds of a sample, over those whose time is known."""
    known: dict[int, list[float]] = {}
    for sample in samples:
        if sample.seconds and sample.status != MISSING:
            known.setdefault(sample.key.budget, []).append(sample.seconds)
    return {budget: math.fsum(found) / len(found) for budget, found in sorted(known.items())}


def _front(x: Sequence[float], y: Sequence[float]) -> list[int]:
    """Indices of the points that cost less than every more accurate one, by cost."""
    front: list[int] = []
    for index in sorted(range(len(x)), key=lambda i: (x[i], -y[i])):
        if not front or y[index] > y[front[-1]]:
            front.append(index)
    return front


def policy_figure(
    policies: Sequence[PolicyResult],
    points: Sequence[CurvePoint],
    cells: Sequence[MapPoint],
    out: Path,
    *,
    note: str,
    axis: Axis = TOKENS,
) -> list[Path]:
    """Policies by their tokens and accuracy, each with its interval, beside the plain curves of the same run."""
    judged = [policy for policy in policies if policy.n_tasks]
    if not judged:
        return []
    curves = _plain_curves({policy.plain for policy in judged}, points, cells, axis.floor)
    words = Words(
        "What policies bring, beside the plain curve",
        f"Left of the line at the same height: {axis.noun} saved at equal accuracy. Counted are thinking, answers and "
        f"probes; of all samples of a task where samples vote. Bars: 95% interval over tasks. {axis.caption} {note}",
    )
    numbers = {
        "axis": axis.name,
        "policies": [asdict(policy) for policy in judged],
        "plain": {name: [{"tokens": x, "accuracy": y / 100} for x, y in line] for name, line in curves.items()},
    }
    with drawing(out, "policies", words, numbers, height=3.3) as figure:
        axes = figure.subplots()
        ends = []
        for number, (name, line) in enumerate(curves.items()):
            axes.plot(*zip(*line, strict=True), color=MUTED, linestyle=LINES[number], marker=".", linewidth=1.4)
            ends.append(End(*line[-1], name, MUTED))
        for number, policy in enumerate(judged):
            color, x, y = COLORS[number % len(COLORS)], max(policy.tokens_mean, axis.floor), 100 * policy.accuracy
            interval_bar(axes, x, 100 * policy.low, 100 * policy.high, color)
            marker = MARKERS[(number + number // len(COLORS)) % len(MARKERS)]  # no colour has the same one again
            axes.plot([x], [y], color=color, marker=marker, markersize=7, clip_on=False)
            ends.append(End(x, y, policy.policy, for_text(color)))
        xs = [end.x for end in ends] + [x for line in curves.values() for x, _ in line]
        log_tokens(axes, 0.7 * min(xs), 1.6 * max(xs), axis)
        axes.set_xlabel(axis.mean)
        percent_axis(axes)
        label_ends(figure, axes, ends)
    return files_of(out)


def _plain_curves(
    wanted: set[str], points: Sequence[CurvePoint], cells: Sequence[MapPoint], floor: float
) -> Mapping[str, list[tuple[float, float]]]:
    """The curves that the policies are compared with, as (tokens, accuracy in percent), by name."""
    curves = {}
    caps = [(max(p.tokens_mean, floor), 100 * p.accuracy) for p in points if p.budget > 0 and p.n_samples]
    if caps and any("hard caps" in one for one in wanted):
        curves["hard caps"] = caps
    largest = max((cell.budget for cell in cells), default=0)
    votes = [(max(c.tokens_mean, floor), 100 * c.accuracy) for c in cells if c.budget == largest]
    if votes and any("majority of k" in one for one in wanted):
        curves[f"majority of k at {format_budget(largest)}"] = votes
    return curves
