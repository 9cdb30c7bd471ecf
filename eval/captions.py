"""What a figure says in words: its title and its caption, from curve points alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reasoning.types import CurvePoint

OPEN_ABOVE = 0.10
"""A marker is open where the budget cut more than this share of the samples."""


def curve_title(points: Sequence[CurvePoint], partial: bool) -> str:
    who = shorten(points[0].model) if len({point.model for point in points}) == 1 else "each model"
    tasks = shorten(_distinct(point.task_set for point in points))
    return f"{'PARTIAL RUN: ' if partial else ''}How often {who} solves {tasks}, by thinking budget"


def curve_caption(points: Sequence[CurvePoint], note: str) -> str:
    """Task set, denominators, method, interval and the meaning of every mark; then `note`."""
    missing = sum(point.n_missing for point in points)
    points = [point for point in points if point.n_samples]
    tasks = _distinct(point.task_set for point in points)
    methods = _distinct(point.method for point in points)
    parts = [
        f"{tasks}: {_counts(points)}.",
        "Label at a point: thinking budget in tokens.",
        "Band: 95% interval over tasks (Wilson).",
        f"Open marker: the budget cut more than {OPEN_ABOVE:.0%} of the samples." if any(map(is_open, points)) else "",
        f"Method: {methods}.",
        f"{missing:,} samples missing (engine errors), in no rate." if missing else "",
        f"{note.rstrip('.')}." if note else "",
    ]
    return " ".join(filter(None, parts))


def is_open(point: CurvePoint) -> bool:
    return point.bound_share > OPEN_ABOVE


def join_labels(labels: Sequence[str]) -> str:
    """One label for points that lie together: all of theirs when few, one when equal, else the first and the last."""
    if len(set(labels)) == 1:
        return labels[0]
    return ", ".join(labels) if len(labels) <= 3 else f"{labels[0]} … {labels[-1]}"


def shorten(name: str, width: int = 52) -> str:
    """Leaves out the middle of a long name: what tells two models apart is at either end."""
    if len(name) <= width:
        return name
    return f"{name[: width // 2 - 1]}…{name[-width // 2 :]}"


def _counts(points: Sequence[CurvePoint]) -> str:
    tasks = _span([point.n_tasks for point in points])
    if all(point.n_missing == 0 and point.n_samples % point.n_tasks == 0 for point in points):
        each = _span([point.n_samples // point.n_tasks for point in points])
        return f"{tasks} tasks × {each} sample{'' if each == '1' else 's'}"
    return f"{tasks} tasks, {_span([point.n_samples for point in points])} samples a budget"


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _distinct(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
