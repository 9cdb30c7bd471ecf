"""The figure of paired differences between runs, budget by budget."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

from eval.contrast import Comparison
from eval.figure import End, Words, drawing, files_of, interval_bar, label_ends
from eval.style import COLORS, LINES, MARKERS, MUTED, for_text
from reasoning.budgets import format_budget, json_budget


def difference_figure(comparison: Comparison, out: Path, *, note: str = "") -> list[Path]:
    """Accuracy minus that of the first run at each budget, with paired intervals and the line of no difference."""
    if not comparison.contrasts:
        return []
    reference = comparison.names[0]
    budgets = sorted({contrast.budget for contrast in comparison.contrasts})
    words = Words(
        f"Difference in accuracy to {reference}, by thinking budget",
        f"{comparison.n_common:,} tasks in common, each compared with itself. Bars: 95% interval of the paired "
        "difference. Filled marker: a difference after Holm's correction for all budgets and runs; open: not shown to "
        f"be one. {note}",
    )
    numbers = {
        "reference": reference,
        "contrasts": [
            asdict(c)
            | {"budget": json_budget(c.budget), "is_difference": c.is_difference}
            | {"detectable": None if math.isnan(c.detectable) else c.detectable}
            for c in comparison.contrasts
        ],
    }
    others = comparison.names[1:]
    with drawing(out, "difference", words, numbers, height=2.5) as figure:
        axes = figure.subplots()
        axes.axhline(0, color=MUTED, linewidth=1)
        ends = []
        for number, name in enumerate(others, start=1):
            own = [contrast for contrast in comparison.contrasts if contrast.run == name]
            if not own:
                continue
            color = COLORS[number % len(COLORS)]
            shift = 0.12 * (number - (len(others) + 1) / 2)
            x = [budgets.index(contrast.budget) + shift for contrast in own]
            y = [100 * contrast.delta for contrast in own]
            axes.plot(x, y, color=color, linestyle=LINES[number % len(LINES)], linewidth=1, alpha=0.6)
            for across, up, contrast in zip(x, y, own, strict=True):
                interval_bar(axes, across, 100 * contrast.low, 100 * contrast.high, color)
                face = color if contrast.is_difference else "white"
                marker = MARKERS[number % len(MARKERS)]
                axes.plot([across], [up], color=color, marker=marker, markersize=6.5, markerfacecolor=face)
            ends.append(End(x[-1], y[-1], name, for_text(color)))
        axes.set_xticks(range(len(budgets)), [format_budget(budget) for budget in budgets])
        axes.set_xlim(-0.5, len(budgets) - 0.4)
        axes.set_xlabel("Thinking budget (tokens)")
        axes.set_ylabel("Difference (points)")
        label_ends(figure, axes, ends)
    return files_of(out)
