"""Figures of longer thinking against more samples: both spend tokens, and voting pays for all of its samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from eval.allocation import MapPoint
from eval.axes import TOKENS, Axis, short
from eval.figure import End, Words, drawing, files_of, interval_bar, label_ends, log_tokens, percent_axis
from eval.style import COLORS, INK, LINES, MARKERS, MUTED, SMALL_SIZE, for_text
from reasoning.budgets import format_budget, json_budget
from reasoning.types import CurvePoint

_FEWEST_VOTES = 3
"""Numbers of samples (1, 2, 4) from which on there is a line to draw."""

_MOST_LINES = 3
_WIDE_GAP = 15.0
"""Points of accuracy between two lines that leave room for a label."""

_IN_PARETO = 0.5
"""A cell belongs to the Pareto set if it does in more than this share of resampled task sets."""


def parallel_heat_map(cells: Sequence[MapPoint], out: Path, *, note: str) -> list[Path]:
    """Accuracy by budget and number of samples, majority@k on the left and pass@k on the right."""
    budgets, votes = _sizes(cells)
    if len(budgets) < 2 or len(votes) < _FEWEST_VOTES:
        return []
    words = Words(
        "Longer thinking or more samples?",
        f"{_count(cells)}. Number in a cell: accuracy in percent. Dashed lines: equal cost, in tokens of a whole task. "
        "Frame: in the Pareto set of accuracy (majority) and cost, with the share of resampled task sets that put it "
        f"there. pass@k is what a perfect verifier would reach. {note}",
    )
    numbers = {"cells": [_numbers(cell) for cell in cells]}
    with drawing(out, "parallel_heat_map", words, numbers, height=0.9 + 0.42 * len(votes)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        _draw_cells(left, cells, [cell.accuracy for cell in cells], "majority of k")
        _draw_cells(right, cells, [cell.pass_at for cell in cells], "pass@k")
        for cell in cells:
            if cell.pareto > _IN_PARETO:
                _frame(left, budgets.index(cell.budget), votes.index(cell.votes), cell.pareto)
        left.set_ylabel("Samples k")
    return files_of(out)


def _sizes(cells: Sequence[MapPoint]) -> tuple[list[int], list[int]]:
    return sorted({cell.budget for cell in cells}), sorted({cell.votes for cell in cells})


def _count(cells: Sequence[MapPoint]) -> str:
    return f"{cells[0].n_tasks:,} tasks whose samples are there at every budget"


def _numbers(cell: MapPoint) -> dict[str, float | int | str | None]:
    return {**asdict(cell), "budget": json_budget(cell.budget), "label": format_budget(cell.budget)}


def _draw_cells(axes: Axes, cells: Sequence[MapPoint], values: Sequence[float], title: str) -> None:
    budgets, votes = _sizes(cells)
    shape = len(budgets), len(votes)  # the cells come budget by budget
    table = 100 * np.array(values).reshape(shape).T
    cost = np.log10(np.maximum(np.array([cell.tokens_mean for cell in cells]), 1.0)).reshape(shape).T
    axes.pcolormesh(table, cmap="cividis", vmin=0, vmax=100, edgecolors="white", linewidth=1.5)
    steps = [level for power in range(8) for level in (10.0**power, 3 * 10.0**power)]
    places = {level: place for level in steps if (place := label_place(cost, level)) is not None}
    centres = np.arange(shape[0]) + 0.5, np.arange(shape[1]) + 0.5
    if places:
        drawn = axes.contour(*centres, cost, np.log10(list(places)), colors="white", linewidths=0.9, linestyles="--")
        drawn.set_path_effects([withStroke(linewidth=1.6, foreground=MUTED)])  # white is not seen on light cells
        for level, place in places.items():
            _write(axes, *place, short(level))
    for (row, column), value in np.ndenumerate(table):
        color = INK if float(value) > 62 else "white"
        place = (column + 0.5, row + 0.72)
        looks: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL_SIZE, "color": color, "zorder": 4}
        axes.text(*place, f"{value:.0f}", fontweight="bold", **looks)
    axes.set_xticks(centres[0], [format_budget(budget) for budget in budgets])
    axes.set_yticks(centres[1], [str(k) for k in votes])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.set_title(title, fontsize=SMALL_SIZE + 0.5, color=INK)
    axes.set_xlabel("Thinking budget (tokens)")


def label_place(cost: np.ndarray, level: float) -> tuple[float, int] | None:
    """Where the cost of a line is written on it: between two rows of cells, where no number is.

    `cost` is log10 of the tokens, [rows, columns]. None where the line crosses no such place: unnamed it says nothing.
    """
    rows, columns = cost.shape
    wanted = np.log10(level)
    spots: list[tuple[float, int]] = []
    for edge in range(1, rows):
        along = (cost[edge - 1] + cost[edge]) / 2
        if along[0] <= wanted <= along[-1]:
            spots.append((float(np.interp(wanted, along, np.arange(columns) + 0.5)), edge))
    return min(spots, key=lambda spot: abs(spot[0] - columns / 2)) if spots else None


def _write(axes: Axes, x: float, y: float, text: str) -> None:
    box = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 0.6}
    looks: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL_SIZE - 1.5, "color": INK}
    axes.text(x, y, text, bbox=box, zorder=4, **looks)


def _frame(axes: Axes, column: int, row: int, share: float) -> None:
    place = (column + 0.05, row + 0.05)
    axes.add_patch(Rectangle(place, 0.9, 0.9, fill=False, edgecolor=COLORS[1], linewidth=2, zorder=3))
    _write(axes, column + 0.5, row + 0.27, f"{share:.0%}")


def sequential_or_parallel(
    points: Sequence[CurvePoint], cells: Sequence[MapPoint], out: Path, *, note: str, axis: Axis = TOKENS
) -> list[Path]:
    """Accuracy against the tokens of a whole task: one long sample, a majority of k, and one right among k."""
    budgets, votes = _sizes(cells)
    if len(votes) < _FEWEST_VOTES:
        return []
    words = Words(
        f"Longer thinking or more samples, at equal {axis.noun}",
        f"{_count(cells)}. Solid: one sample, by budget. Dashed: majority of k samples at a budget; dotted: at least "
        f"one of k is right (pass@k). Voting counts the {axis.noun} of all k samples. Band and bars: 95% interval. "
        f"{axis.caption} {note}",
    )
    numbers = {"axis": axis.name, "cells": [_numbers(cell) for cell in cells]}
    shown = [budgets[index] for index in sorted({*np.linspace(0, len(budgets) - 1, _MOST_LINES).astype(int).tolist()})]
    with drawing(out, "sequential_or_parallel", words, numbers, height=3.4) as figure:
        axes = figure.subplots()
        alone = [cell for cell in cells if cell.votes == 1]
        ends = []
        if len(alone) > 1:
            rates = [cell.accuracy for cell in alone]
            ends.append(_line(axes, alone, rates, 0, "-", "one sample, longer", interval="band"))
        for number, budget in enumerate(shown, start=1):
            own = [cell for cell in cells if cell.budget == budget]
            name = f"majority of {own[-1].votes} at {format_budget(budget)}"
            ends.append(_line(axes, own, [cell.accuracy for cell in own], number, LINES[1], name))
        own = [cell for cell in cells if cell.budget == budgets[-1]]
        passed, name = [cell.pass_at for cell in own], f"pass@{own[-1].votes} at {format_budget(budgets[-1])}"
        ends.append(_line(axes, own, passed, len(shown), LINES[3], name, interval="none"))
        _no_thinking(axes, points)
        costs = [max(cell.tokens_mean, axis.floor) for cell in cells]
        log_tokens(axes, 0.75 * min(costs), 1.3 * max(costs), axis)
        percent_axis(axes)
        axes.set_xlabel(axis.per_task)
        label_ends(figure, axes, ends)
    return files_of(out)


def _line(
    axes: Axes,
    cells: Sequence[MapPoint],
    values: Sequence[float],
    number: int,
    style: Any,
    name: str,
    *,
    interval: str = "bar",
) -> End:
    color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
    x, y = [cell.tokens_mean or 1.0 for cell in cells], [100 * value for value in values]
    axes.plot(x, y, color=color, linestyle=style, marker=marker, markersize=4.5, linewidth=1.6, clip_on=False)
    low, high = [100 * cell.low for cell in cells], [100 * cell.high for cell in cells]
    if interval == "band":
        axes.fill_between(x, low, high, color=color, alpha=0.14, linewidth=0)
    elif interval == "bar":
        interval_bar(axes, x[-1], low[-1], high[-1], color)
    return End(x[-1], y[-1], name, for_text(color))


def _no_thinking(axes: Axes, points: Sequence[CurvePoint]) -> None:
    baseline = next((point for point in points if point.budget == 0 and point.n_samples), None)
    if baseline is not None:
        level = 100 * baseline.accuracy
        axes.axhline(level, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        text = f"no thinking: {level:.0f}%"
        axes.text(0.01, level + 1, text, transform=axes.get_yaxis_transform(), fontsize=SMALL_SIZE, color=MUTED)


def samples_curve(points: Sequence[CurvePoint], out: Path, *, note: str) -> list[Path]:
    """Accuracy by the number of samples at the largest budget: pass@k, majority@k and the gap between them."""
    point = next((point for point in reversed(points) if len(point.pass_at) >= _FEWEST_VOTES), None)
    if point is None:
        return []
    words = Words(
        f"What more samples bring at a budget of {format_budget(point.budget)}",
        f"{point.n_tasks:,} tasks, {point.n_samples:,} samples. pass@k: the unbiased estimator; majority@k: the exact "
        "expectation over subsets, ties split. Open marker: k is more than half of the samples, where the estimate is "
        f"unsteady. {note}",
    )
    numbers = {"label": format_budget(point.budget), "pass_at": point.pass_at, "majority_at": point.majority_at}
    most = point.n_samples / max(point.n_tasks, 1)
    with drawing(out, "samples_curve", words, numbers, height=2.9) as figure:
        axes = figure.subplots()
        passed = _by_samples(axes, point.pass_at, most, 0)
        voted = _by_samples(axes, point.majority_at, most, 1)
        ks = sorted(map(int, point.majority_at))
        low, high = ([100 * found[str(k)] for k in ks] for found in (point.majority_at, point.pass_at))
        axes.fill_between(ks, low, high, color=MUTED, alpha=0.12, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(map(int, point.pass_at)), sorted(point.pass_at, key=int))
        axes.set_xlabel("Samples k (log scale)")
        percent_axis(axes)
        gap = End(ks[-1], (low[-1] + high[-1]) / 2, "gap: what a verifier could add", MUTED)
        label_ends(figure, axes, [passed, voted] + [gap] * (high[-1] - low[-1] > _WIDE_GAP))
    return files_of(out)


def _by_samples(axes: Axes, found: Mapping[str, float], most: float, number: int) -> End:
    ks, color = sorted(map(int, found)), COLORS[number]
    y = [100 * found[str(k)] for k in ks]
    axes.plot(ks, y, color=color, linestyle=LINES[number], linewidth=1.8)
    for k, value in zip(ks, y, strict=True):
        face = color if k <= most / 2 else "white"
        axes.plot([k], [value], color=color, marker=MARKERS[number], markersize=6, markerfacecolor=face, clip_on=False)
    name = ("pass@k", "majority@k")[number]
    return End(ks[-1], y[-1], f"{name}: {y[-1]:.0f}%", for_text(color))
