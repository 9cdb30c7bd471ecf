"""Figures of accuracy against the tokens that it took. A plot sees only curve points and never reads a file."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import offset_copy

from eval.axes import TOKENS, Axis
from eval.captions import curve_caption, curve_title, is_open, join_labels, shorten
from eval.figure import (
    GAP,
    MARGIN,
    Words,
    add_text,
    box_of,
    drawing,
    files_of,
    fix_layout,
    log_tokens,
    move,
    percent_axis,
    pixels,
    size_of,
)
from eval.labels import Box, Canvas, above, along, around, beside, group_within, merge_close
from eval.style import COLORS, FAINT, INK, LINES, MARKERS, MUTED, SMALL_SIZE, for_text
from reasoning.budgets import format_budget, json_budget
from reasoning.types import CurvePoint

CLOSE = 1.15
"""Points whose tokens differ by less than this factor share one label."""

BASELINES_CLOSE = 2.0
"""So do baselines that are this many points of accuracy apart or less."""

_MAIN_HEIGHT, _ROW_HEIGHT = 3.3, 0.46  # inches
_BAR_TOP = 0.6  # of a row, for a share of 100 %
_MARKER, _PERCENT_WIDTH = 8.0, 26.0  # points, which are the pixels of the layout


@dataclass(frozen=True, slots=True)
class _Line:
    """One series as it is drawn: its points by ascending budget, and the point without thinking apart."""

    name: str
    points: tuple[CurvePoint, ...]
    baseline: CurvePoint | None
    color: str
    text_color: str
    marker: str
    style: Any
    axis: Axis

    @property
    def x(self) -> list[float]:
        """Mean tokens spent a sample, or what these cost, above zero for the logarithm."""
        return [max(point.tokens_mean, self.axis.floor) for point in self.points]

    @property
    def y(self) -> list[float]:
        return [100 * point.accuracy for point in self.points]

    @property
    def bounds(self) -> tuple[list[float], list[float]]:
        return [100 * point.low for point in self.points], [100 * point.high for point in self.points]

    @property
    def trail(self) -> tuple[list[float], list[float]]:
        """What is drawn between the markers: the line, or the interval of a single point."""
        return (self.x, self.y) if len(self.points) > 1 else (self.x * 2, [*self.bounds[0], *self.bounds[1]])


def accuracy_curve(
    series: Sequence[Sequence[CurvePoint]],
    out: Path,
    *,
    names: Sequence[str],
    note: str = "",
    partial: bool = False,
    axis: Axis = TOKENS,
) -> list[Path]:
    """Accuracy against mean tokens spent, one line a series; beneath it the share of samples that each budget cut.

    Points that hold another cost in place of tokens (`eval.compute`) say so with their `axis`.

    `out` is a path without suffix. Writes .png, .svg and .json (the numbers and the words of the figure) and returns
    the three. Budget 0 is drawn as the baseline without thinking, not as a point. `names`, one a series, tell the lines
    apart. `note` ends the caption with what points do not know, such as the temperature; `partial` warns in the title
    that samples are missing yet. Points without samples or tokens are left out; when nothing is left, nothing is
    written and the list is empty.
    """
    drawn = [sorted(filter(_has_place, points), key=lambda point: point.budget) for points in series]
    lines = _lines([(name, points) for name, points in zip(names, drawn, strict=True) if points], axis)
    if not lines:
        return []
    words = Words(
        curve_title([point for points in drawn for point in points], partial),
        curve_caption([point for points in series for point in points], f"{axis.caption} {note}".strip()),
    )
    strip_height = 0.1 + _ROW_HEIGHT * len(lines)
    with drawing(out, "accuracy_curve", words, _numbers(lines), height=_MAIN_HEIGHT + strip_height) as figure:
        _draw(figure, lines, strip_height)
    return files_of(out)


def _has_place(point: CurvePoint) -> bool:
    return point.n_samples > 0 and not math.isnan(point.tokens_mean)


def _lines(series: Sequence[tuple[str, Sequence[CurvePoint]]], axis: Axis) -> list[_Line]:
    lines = []
    for index, (name, points) in enumerate(series):
        baseline = points[0] if points[0].budget == 0 and len(points) > 1 else None
        color = COLORS[index % len(COLORS)]
        marker, style = MARKERS[index % len(MARKERS)], LINES[index % len(LINES)]
        on_line = tuple(points[1:] if baseline else points)
        lines.append(_Line(name, on_line, baseline, color, for_text(color), marker, style, axis))
    return [replace(lines[0], text_color=INK)] if len(lines) == 1 else lines


def _numbers(lines: Sequence[_Line]) -> dict[str, Any]:
    series = [
        {
            "name": line.name,
            "points": [_point_numbers(point) for point in line.points],
            "baseline": _point_numbers(line.baseline) if line.baseline else None,
        }
        for line in lines
    ]
    return {"axis": lines[0].axis.name, "series": series}


def _point_numbers(point: CurvePoint) -> dict[str, Any]:
    label = format_budget(point.budget)
    return {**asdict(point), "budget": json_budget(point.budget), "label": label, "open": is_open(point)}


def _draw(figure: Figure, lines: Sequence[_Line], strip_height: float) -> None:
    main, strip = figure.subplots(2, 1, sharex=True, height_ratios=[_MAIN_HEIGHT, strip_height])
    _set_x(main, [x for line in lines for x in line.x], lines[0].axis)
    _set_y(main, strip, len(lines))
    strip.set_xlabel(lines[0].axis.per_sample)
    for row, line in enumerate(reversed(lines)):
        _draw_line(main, line)
        _draw_cut(strip, line, row)
    names = [_name_label(figure, main, line) for line in lines] if len(lines) > 1 else []
    fix_layout(figure)
    _label_main(figure, main, lines, names)
    _label_strip(figure, strip, lines)


def _set_x(axes: Axes, xs: Sequence[float], axis: Axis) -> None:
    middle, ratio = (min(xs) * max(xs)) ** 0.5, max(xs) / min(xs)
    half = max(ratio**0.6, 1.65 * ratio**0.5, 3.2)  # a margin for the labels, and a decade at least
    log_tokens(axes, middle / half, middle * half, axis)


def _set_y(main: Axes, strip: Axes, n_lines: int) -> None:
    main.tick_params(labelbottom=False, length=0)
    percent_axis(main)
    strip.set_ylim(0, n_lines)
    strip.set_yticks([])
    strip.set_ylabel("Samples cut\nby budget", rotation=0, ha="right", va="center", fontsize=SMALL_SIZE)
    strip.spines["left"].set_visible(False)


def _draw_line(axes: Axes, line: _Line) -> None:
    if len(line.points) > 1:
        axes.fill_between(line.x, *line.bounds, color=line.color, alpha=0.16, linewidth=0)
        axes.plot(line.x, line.y, color=line.color, linestyle=line.style, linewidth=1.8)
    else:
        axes.vlines(line.x, *line.bounds, color=line.color, alpha=0.4, linewidth=3)
    if line.baseline:
        axes.axhline(100 * line.baseline.accuracy, color=for_text(line.color), linewidth=1, linestyle=(0, (4, 3)))
    for x, y, point in zip(line.x, line.y, line.points, strict=True):
        _draw_marker(axes, line, x, y, point, size=7)


def _draw_cut(axes: Axes, line: _Line, row: int) -> None:
    axes.axhline(row, color=FAINT, linewidth=0.7)
    for x, point in zip(line.x, line.points, strict=True):
        top = row + _BAR_TOP * point.bound_share
        axes.vlines(x, row, top, color=line.color, linewidth=2.5)
        _draw_marker(axes, line, x, top, point, size=4.5)


def _draw_marker(axes: Axes, line: _Line, x: float, y: float, point: CurvePoint, size: float) -> None:
    axes.plot(
        [x],
        [y],
        color=line.color,
        marker=line.marker,
        markersize=size,
        markerfacecolor="white" if is_open(point) else line.color,
        markeredgewidth=size / 4.5,
        clip_on=False,
        zorder=3,
    )


def _name_label(figure: Figure, axes: Axes, line: _Line) -> Text:
    """The name of a line, right of its last point: it takes part in the layout, which leaves room for it."""
    text = "\n".join(textwrap.wrap(shorten(line.name), 20))
    place = offset_copy(axes.transData, figure, x=1.5 * GAP, units="points")
    label = axes.text(line.x[-1], line.y[-1], text, color=line.text_color, fontweight="bold", va="center", ma="left")
    label.set_transform(place)
    return label


def _label_main(figure: Figure, axes: Axes, lines: Sequence[_Line], names: Sequence[Text]) -> None:
    """Puts the names of the lines, then the budgets, then the baselines where they hide nothing."""
    area = box_of(axes.get_window_extent())
    inside = Box(area.x0 + MARGIN, area.y0, area.x1, area.y1 + GAP)
    page = Box(0, inside.y0, figure.bbox.width, inside.y1)
    marks = [pixels(axes, line.x, line.y) for line in lines]
    baselines = sorted(
        ((line.baseline.accuracy, line.color) for line in lines if line.baseline), key=lambda baseline: -baseline[0]
    )
    rates = [round(100 * rate, 6) for rate, _ in baselines]
    levels = [level for _, level in pixels(axes, [1.0] * len(rates), rates)]
    canvas = Canvas(MARGIN)
    canvas.boxes += [Box.centred(*mark, _MARKER, _MARKER) for line_marks in marks for mark in line_marks]
    canvas.paths += [pixels(axes, *line.trail) for line in lines]
    canvas.paths += [[(area.x0, level), (area.x1, level)] for level in levels]
    for name, line_marks in zip(names, marks, strict=False):
        move(figure, name, canvas.place(beside(line_marks[-1], *size_of(name), 1.5 * GAP), page))
    for line, line_marks in zip(lines, marks, strict=True):
        for group in merge_close(line.x, CLOSE):
            words = join_labels([format_budget(line.points[i].budget) for i in sorted(group)])
            says_what = line is lines[0] and 0 in group
            label = add_text(figure, f"budget {words}" if says_what else words, line.text_color)
            move(figure, label, canvas.place(around(line_marks[group[-1]], *size_of(label), GAP), inside))
    for group in group_within(rates, BASELINES_CLOSE):
        color = for_text(baselines[group[0]][1]) if len(group) == 1 else MUTED
        label = add_text(figure, f"no thinking: {join_labels([f'{rates[i]:.0f}%' for i in group])}", color, SMALL_SIZE)
        label.set_bbox({"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.5})  # over other baselines
        places = along(levels[group[0]], levels[group[-1]], area.x0 + GAP, area.x1 - GAP, *size_of(label), GAP / 3)
        move(figure, label, canvas.place(places, inside))


def _label_strip(figure: Figure, axes: Axes, lines: Sequence[_Line]) -> None:
    """Writes each share of cut samples above its bar, one label for bars too close for two."""
    area = box_of(axes.get_window_extent())
    inside = Box(area.x0, area.y0, area.x1, area.y1 + GAP)
    left, right = axes.get_xlim()
    close = max(CLOSE, (right / left) ** (_PERCENT_WIDTH / (area.x1 - area.x0)))
    canvas = Canvas(MARGIN)
    for row, line in enumerate(reversed(lines)):
        tops = pixels(axes, line.x, [row + _BAR_TOP * point.bound_share for point in line.points])
        foot = pixels(axes, line.x[:1], [row])[0][1]
        canvas.paths += [[(x, foot), (x, y + _MARKER / 2)] for x, y in tops]
        for group in merge_close(line.x, close):
            words = join_labels([f"{line.points[i].bound_share:.0%}" for i in sorted(group)])
            label = add_text(figure, words, line.text_color, SMALL_SIZE)
            anchor = sum(tops[i][0] for i in group) / len(group), max(tops[i][1] for i in group)
            move(figure, label, canvas.place(above(anchor, *size_of(label), GAP * 0.7), inside))
