"""Figures of a training run: reward and held-out accuracy, length, what changed between before and after, behaviours.

Each figure is written as .png and .svg with a .json of its numbers. A figure whose data are missing is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from eval.figure import Words, drawing, files_of
from eval.statistics import Estimate
from eval.style import COLORS, INK, LINES, MARKERS, MUTED, SMALL_SIZE, for_text

_HEIGHT = 2.5  # inches
_SMOOTHED = 0.15
"""Share of the steps that the moving mean of a noisy line spans."""

_FULL = 103
"""Where an axis in per cent ends: a line at 100 stays in sight."""

Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Change:
    """Held-out accuracy at one budget before and after, and the paired difference."""

    label: str  # the budget as people write it
    before: float
    after: float
    difference: Estimate


def reward_figure(records: Records, out: Path, *, note: str) -> list[Path]:
    """Reward of the rollouts and held-out accuracy by step, from the records of metrics.jsonl."""
    steps, rewards = _series(records, "reward")
    budgets = sorted(
        {key.partition("@")[2] for record in records for key in record if key.startswith(_ACCURACY)}, key=_size
    )
    if not steps and not budgets:
        return []
    numbers: dict[str, Any] = {"reward": _pairs(steps, rewards), "held_out": {}}
    words = Words(
        "Reward and held-out accuracy by step", _lines(note, steps) + " Bars: 95 % intervals." * bool(budgets)
    )
    with drawing(out, "reward_figure", words, {"numbers": numbers}, height=_HEIGHT) as figure:
        axes = figure.subplots()
        if steps:
            _noisy(axes, steps, rewards, "reward of the rollouts", COLORS[0])
        for index, budget in enumerate(budgets, start=1):
            color = COLORS[index % len(COLORS)]
            at, values = _series(records, f"{_ACCURACY}{budget}")
            low, high = (_series(records, f"held_out/{side}@{budget}")[1] for side in ("low", "high"))
            axes.errorbar(
                at,
                values,
                yerr=[np.subtract(values, low), np.subtract(high, values)],
                color=color,
                marker=MARKERS[index % len(MARKERS)],
                linestyle=LINES[index % len(LINES)],
                capsize=3,
                label=f"held out at budget {budget}",
            )
            numbers["held_out"][budget] = [
                {"step": step, "accuracy": value, "low": below, "high": above}
                for step, value, below, above in zip(at, values, low, high, strict=True)
            ]
        axes.set_ylabel("Reward, accuracy")
        _by_step(axes, columns=3)
    return files_of(out)


def length_figure(records: Records, out: Path, *, note: str) -> list[Path]:
    """Tokens of a rollout by step, and the share that the budget cut."""
    steps, tokens = _series(records, "completion_tokens")
    if not steps:
        return []
    thinking, bound = _series(records, "thinking_tokens")[1], _series(records, "bound_share")[1]
    numbers = {"completion_tokens": _pairs(steps, tokens), "thinking_tokens": _pairs(steps, thinking)}
    numbers |= {"bound_share": _pairs(steps, bound)}
    words = Words("Length of the rollouts by step", _lines(note, steps))
    with drawing(out, "length_figure", words, {"numbers": numbers}, height=_HEIGHT) as figure:
        left, right = figure.subplots(1, 2)
        _noisy(left, steps, tokens, "completion, mean", COLORS[0])
        _noisy(left, steps, thinking, "thinking, mean", COLORS[1])
        left.set_ylabel("Tokens")
        left.set_ylim(0, 1.12 * max(tokens))
        _noisy(right, steps, [100 * share for share in bound], "cut by the budget", COLORS[2])
        right.set_ylabel("Rollouts (%)")
        right.set_ylim(0, _FULL)
        _by_step(left)
        _by_step(right)
    return files_of(out)


def change_figure(changes: Sequence[Change], out: Path, *, note: str) -> list[Path]:
    """Accuracy before and after at every budget, and the paired difference with its interval."""
    if not changes:
        return []
    numbers = [
        {
            "budget": change.label,
            "before": change.before,
            "after": change.after,
            "difference": change.difference.value,
            "low": change.difference.low,
            "high": change.difference.high,
            "n_tasks": change.difference.n_tasks,
        }
        for change in changes
    ]
    words = Words("Held-out accuracy before and after training", note)
    with drawing(out, "change_figure", words, {"numbers": {"budgets": numbers}}, height=_HEIGHT) as figure:
        left, right = figure.subplots(1, 2)
        left.set_axisbelow(True)
        places = np.arange(len(changes))
        for shift, name, values, color in (
            (-0.19, "before", [change.before for change in changes], COLORS[1]),
            (0.19, "after", [change.after for change in changes], COLORS[0]),
        ):
            bars = left.bar(places + shift, [100 * value for value in values], 0.36, color=color, label=name)
            left.bar_label(bars, fmt="%.0f", fontsize=SMALL_SIZE, color=INK)
        left.set_ylabel("Accuracy (%)")
        left.set_ylim(0, 100)
        left.legend(frameon=False, fontsize=SMALL_SIZE)
        values = np.array([100 * change.difference.value for change in changes])
        spread = np.abs(np.array([[100 * c.difference.low, 100 * c.difference.high] for c in changes]).T - values)
        right.axhline(0, color=MUTED, linewidth=1)
        right.errorbar(places, values, yerr=spread, fmt=MARKERS[0], color=COLORS[0], capsize=4)
        right.set_ylabel("Difference (points), paired by task, 95 %")
        for axes in (left, right):
            axes.set_xticks(places, [change.label for change in changes])
            axes.set_xlabel("Thinking budget (tokens)")
        right.set_xlim(-0.6, len(changes) - 0.4)
    return files_of(out)


def behaviour_figure(shares: Mapping[int, Mapping[str, float]], out: Path, *, note: str) -> list[Path]:
    """Share of traces that show each behaviour, by generation; `shares` is generation -> behaviour -> share."""
    names = sorted({name for found in shares.values() for name in found})
    if not names:
        return []
    at = sorted(shares)
    numbers = {name: [shares[one].get(name, 0.0) for one in at] for name in names}
    words = Words("How the rollouts reason", _lines(note, at))
    with drawing(out, "behaviour_figure", words, {"numbers": numbers}, height=_HEIGHT) as figure:
        axes = figure.subplots()
        for index, name in enumerate(names):
            _noisy(axes, at, [100 * shares[one].get(name, 0.0) for one in at], name, COLORS[index % len(COLORS)])
        axes.set_ylabel("Share of traces (%)")
        axes.set_ylim(0, _FULL)
        _by_step(axes, columns=3)
        axes.set_xlabel("Generation")
    return files_of(out)


_ACCURACY = "held_out/accuracy@"


def _size(label: str) -> float:
    return math.inf if label == "none" else float(label.replace("k", "")) * (1000 if label.endswith("k") else 1)


def _series(records: Records, name: str) -> tuple[list[int], list[float]]:
    found = [(record["step"], record[name]) for record in records if record.get(name) is not None]
    return [step for step, _ in found], [value for _, value in found]


def _pairs(steps: Sequence[int], values: Sequence[float]) -> list[dict[str, float]]:
    return [{"step": step, "value": value} for step, value in zip(steps, values, strict=True)]


def _noisy(axes: Axes, x: Sequence[int], y: Sequence[float], label: str, color: str) -> None:
    """The values faint, and their moving mean over a part of the steps."""
    width = _width(x)
    axes.plot(x, y, color=color, alpha=0.3, linewidth=0.9)
    if width > 1:
        mean = np.convolve(y, np.ones(width) / width, mode="valid")
        axes.plot(x[width - 1 :], mean, color=color, linewidth=1.8, label=label)
    else:
        axes.plot(x, y, color=color, linewidth=1.8, marker=MARKERS[0], markersize=4, label=label)


def _width(x: Sequence[int]) -> int:
    """Points that one of the moving mean is made of."""
    return max(1, round(_SMOOTHED * len(x)))


def _lines(note: str, x: Sequence[int]) -> str:
    """The caption of a figure of noisy lines."""
    return f"{note} Thick lines: means of {_width(x)}." if _width(x) > 1 else note


def _by_step(axes: Axes, columns: int = 1) -> None:
    axes.set_xlabel("Optimizer step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    # Above the axes, where it hides nothing.
    legend = axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False, fontsize=SMALL_SIZE)
    for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
        color = getattr(handle, "get_color", lambda: None)()
        if isinstance(color, str):
            text.set_color(for_text(color))
