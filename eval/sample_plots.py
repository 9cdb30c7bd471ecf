"""Figures of single samples: what became of them, and where their tokens went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from eval.curves import MISSING, GradedSample
from eval.figure import End, Words, drawing, files_of, label_ends, log_tokens
from eval.outcomes import Outcome, outcome_counts
from eval.style import COLORS, INK, MUTED, SMALL_SIZE, for_text
from reasoning.budgets import format_budget, json_budget
from reasoning.types import NO_LIMIT

_OUTCOME_COLORS = {
    Outcome.CORRECT: COLORS[0],
    Outcome.WRONG: COLORS[1],
    Outcome.NO_ANSWER: "#bdbdbd",
    Outcome.CUT: "#7a7a7a",
    Outcome.UNGRADED: COLORS[3],
    Outcome.MISSING: "#ffffff",
}
_HATCHES = {Outcome.CUT: "////", Outcome.MISSING: "xxxx"}
_LEGIBLE = 0.05
"""A part of a bar smaller than this share of it has no number inside."""

_POINTS = 200
"""Of a line that shows a distribution: more would not be seen."""

_ROW = 0.42  # inches for each budget


def outcome_mix(samples: Sequence[GradedSample], out: Path, *, note: str) -> list[Path]:
    """One bar a budget: the share of samples with each outcome; each is named even where there is none."""
    counts = outcome_counts(samples)
    if not counts:
        return []
    words = Words(
        "What became of the samples, by thinking budget",
        f"Shares of all samples that were asked for, missing ones included. Cut, no answer: the budget or the room for "
        f"the answer ended the sample before it had one. {note}",
    )
    numbers = {"budgets": [_with_budget(budget) | {"counts": found} for budget, found in counts.items()]}
    with drawing(out, "outcome_mix", words, numbers, height=0.9 + _ROW * len(counts)) as figure:
        axes = figure.subplots()
        rows = np.arange(len(counts))
        left = np.zeros(len(counts))
        totals = np.array([sum(found.values()) for found in counts.values()])
        for name in Outcome:
            shares = np.array([found[name] for found in counts.values()]) / totals
            axes.barh(
                rows,
                100 * shares,
                0.68,
                left=100 * left,
                color=_OUTCOME_COLORS[name],
                hatch=_HATCHES.get(name),
                edgecolor=INK if name is Outcome.MISSING else "white",
                linewidth=np.where(shares > 0, 0.5, 0.0),  # no edge of a bar that is not there
                label=_in_total(name, counts),
            )
            _write_shares(axes, shares, left)
            left += shares
        axes.set_yticks(rows, [format_budget(budget) for budget in counts])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("Share of samples (%)")
        axes.set_ylabel("Budget")
        axes.grid(False)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=SMALL_SIZE)
    return files_of(out)


def _in_total(name: Outcome, counts: dict[int, dict[str, int]]) -> str:
    """A kind with its number over all budgets: `missing (0)` says more than no bar."""
    return f"{name} ({sum(found[name] for found in counts.values()):,})"


def _write_shares(axes: Axes, shares: np.ndarray, left: np.ndarray) -> None:
    box = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.8}
    for row, (share, start) in enumerate(zip(shares, left, strict=True)):
        if share >= _LEGIBLE:
            place, text = 100 * (start + share / 2), f"{100 * share:.0f}%"
            axes.text(place, row, text, ha="center", va="center", fontsize=SMALL_SIZE, color=INK, bbox=box)


def token_use(samples: Sequence[GradedSample], out: Path, *, note: str) -> list[Path]:
    """Left: mean tokens of a sample by what they are; right: the distribution of those spent, one line a budget."""
    by_budget = {
        budget: [s for s in samples if s.key.budget == budget and s.status != MISSING]
        for budget in sorted({s.key.budget for s in samples})
    }
    by_budget = {budget: found for budget, found in by_budget.items() if any(s.spent_tokens for s in found)}
    if not by_budget:
        return []
    words = Words(
        "Where the tokens go, by thinking budget",
        "Left: mean tokens of a sample; injected are those that the harness put into thinking and answers, probes are "
        "answers that a policy asked for on the way. Right: share of samples that spent at most so many tokens; thin "
        f"vertical lines are the budgets. {note}",
    )
    parts = {budget: _parts(found) for budget, found in by_budget.items()}
    lines = {budget: np.sort([max(s.spent_tokens, 1) for s in found]) for budget, found in by_budget.items()}
    shares = np.linspace(0, 1, _POINTS)
    numbers = {
        "budgets": [
            _with_budget(budget)
            | {"mean_tokens": parts[budget], "spent_quantiles": np.quantile(lines[budget], shares).tolist()}
            for budget in by_budget
        ]
    }
    with drawing(out, "token_use", words, numbers, height=2.9) as figure:
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.35])
        _draw_parts(left, parts)
        label_ends(figure, right, _draw_lengths(right, lines))
    return files_of(out)


def _parts(samples: Sequence[GradedSample]) -> dict[str, float]:
    """Mean tokens of a sample: they add up to what was spent."""
    injected = [s.injected_thinking + s.injected_answer for s in samples]
    columns = {
        "thinking": [s.thinking_tokens - s.injected_thinking for s in samples],
        "answer": [s.answer_tokens - s.injected_answer for s in samples],
        "injected": injected,
        "probes": [s.probe_tokens for s in samples],
    }
    return {name: float(np.mean(values)) for name, values in columns.items()}


def _draw_parts(axes: Axes, parts: dict[int, dict[str, float]]) -> None:
    rows = np.arange(len(parts))
    start = np.zeros(len(parts))
    for index, name in enumerate(("thinking", "answer", "injected", "probes")):
        widths = np.array([found[name] for found in parts.values()])
        if widths.any():
            axes.barh(rows, widths, 0.68, left=start, color=COLORS[index], label=name, edgecolor="white", linewidth=0.5)
        start += widths
    for row, total in enumerate(start):
        looks: dict[str, Any] = {"va": "center", "fontsize": SMALL_SIZE, "color": INK}
        axes.annotate(f"{total:,.0f}", (total, row), xytext=(3, 0), textcoords="offset points", **looks)
    axes.set_yticks(rows, [format_budget(budget) for budget in parts])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.22 * start.max())
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter(lambda tokens, _: f"{tokens:,.0f}")
    axes.grid(False)
    axes.set_xlabel("Mean tokens of a sample")
    axes.set_ylabel("Budget")
    axes.legend(loc="upper right", frameon=False, fontsize=SMALL_SIZE)


def _draw_lengths(axes: Axes, lines: dict[int, np.ndarray]) -> list[End]:
    ends = []
    for index, (budget, lengths) in enumerate(lines.items()):
        color = COLORS[index % len(COLORS)]
        picked = np.unique(np.linspace(0, len(lengths) - 1, _POINTS).astype(int))
        axes.plot(
            lengths[picked], 100 * (picked + 1) / len(lengths), color=color, drawstyle="steps-post", linewidth=1.5
        )
        if 0 < budget < NO_LIMIT:
            axes.axvline(budget, color=MUTED, linewidth=0.5, linestyle=(0, (2, 3)))
        thought_less = float(np.mean(lengths < budget))  # beyond these the line jumps: there is room beside it
        height = (1 + thought_less) / 2 if budget < NO_LIMIT else 0.9
        text = f"budget {format_budget(budget)}" if index == 0 else format_budget(budget)
        ends.append(End(float(lengths[-1]), 100 * height, text, for_text(color)))
    low, high = min(line[0] for line in lines.values()), max(line[-1] for line in lines.values())
    log_tokens(axes, 0.8 * low, 2 * max(high, 4 * low))
    axes.set_ylim(0, 103)
    axes.set_ylabel("Samples (%)")
    axes.set_xlabel("Tokens spent (log scale)")
    return ends


def _with_budget(budget: int) -> dict[str, int | str | None]:
    return {"budget": json_budget(budget), "label": format_budget(budget)}
