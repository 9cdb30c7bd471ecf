"""Figures of accuracy against the tokens that it took. A plot sees only curve points and never reads a file."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import BboxBase, offset_copy

from eval.captions import curve_caption, curve_title, is_open, join_labels, shorten
from eval.labels import Box, Canvas, Point, above, along, around, beside, group_within, merge_close
from eval.style import COLORS, FAINT, INK, LINES, MARKERS, MUTED, RC, SMALL_SIZE, TEXT_SIZE, TITLE_SIZE, for_text
from reasoning.budgets import format_budget
from reasoning.files import write_json
from reasoning.types import NO_LIMIT, CurvePoint

CLOSE = 1.15
"""Points whose tokens differ by less than this factor share one label."""

BASELINES_CLOSE = 2.0
"""So do baselines that are this many points of accuracy apart or less."""

_WIDTH, _MAIN_HEIGHT, _TEXT_HEIGHT, _ROW_HEIGHT = 7.2, 3.3, 1.4, 0.46  # inches
_BAR_TOP = 0.6  # of a row, for a share of 100 %
_GAP, _MARGIN, _MARKER, _PERCENT_WIDTH = 6.0, 3.0, 8.0, 26.0  # points, which are the pixels of the layout


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

    @property
    def x(self) -> list[float]:
        """Mean tokens spent a sample, at least 1 for the logarithm."""
        return [max(point.tokens_mean, 1.0) for point in self.points]

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
    series: Sequence[Sequence[CurvePoint]], out: Path, *, names: Sequence[str], note: str = "", partial: bool = False
) -> list[Path]:
    """Accuracy against mean tokens spent, one line a series; beneath it the share of samples that each budget cut.

    `out` is a path without suffix. Writes .png, .svg and .json (the numbers and the words of the figure) and returns
    the three. Budget 0 is drawn as the baseline without thinking, not as a point. `names`, one a series, tell the lines
    apart. `note` ends the caption with what points do not know, such as the temperature; `partial` warns in the title
    that samples are missing yet. Points without samples are left out; when nothing is left, nothing is written and the
    list is empty.
    """
    drawn = [sorted((p for p in points if p.n_samples), key=lambda point: point.budget) for points in series]
    lines = _lines([(name, points) for name, points in zip(names, drawn, strict=True) if points])
    if not lines:
        return []
    title = curve_title([point for points in drawn for point in points], partial)
    caption = curve_caption([point for points in series for point in points], note)
    out.parent.mkdir(parents=True, exist_ok=True)
    png, svg, numbers = (out.with_name(f"{out.name}.{suffix}") for suffix in ("png", "svg", "json"))
    with rc_context(RC):
        figure = _draw(lines, title, caption)
        figure.savefig(png)
        figure.savefig(svg, metadata={"Date": None, "Title": title, "Description": caption})
    write_json(numbers, _numbers(lines, title, caption))
    return [png, svg, numbers]


def _lines(series: Sequence[tuple[str, Sequence[CurvePoint]]]) -> list[_Line]:
    lines = []
    for index, (name, points) in enumerate(series):
        baseline = points[0] if points[0].budget == 0 and len(points) > 1 else None
        color = COLORS[index % len(COLORS)]
        marker, style = MARKERS[index % len(MARKERS)], LINES[index % len(LINES)]
        on_line = tuple(points[1:] if baseline else points)
        lines.append(_Line(name, on_line, baseline, color, for_text(color), marker, style))
    return [replace(lines[0], text_color=INK)] if len(lines) == 1 else lines


def _numbers(lines: Sequence[_Line], title: str, caption: str) -> dict[str, Any]:
    series = [
        {
            "name": line.name,
            "points": [_point_numbers(point) for point in line.points],
            "baseline": _point_numbers(line.baseline) if line.baseline else None,
        }
        for line in lines
    ]
    return {"figure": "accuracy_curve", "title": title, "caption": caption, "series": series}


def _point_numbers(point: CurvePoint) -> dict[str, Any]:
    budget = None if point.budget == NO_LIMIT else point.budget
    return {**asdict(point), "budget": budget, "label": format_budget(point.budget), "open": is_open(point)}


def _draw(lines: Sequence[_Line], title: str, caption: str) -> Figure:
    strip_height = 0.1 + _ROW_HEIGHT * len(lines)
    figure = Figure(
        figsize=(_WIDTH, _MAIN_HEIGHT + strip_height + _TEXT_HEIGHT),
        layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06),
    )
    FigureCanvasAgg(figure)
    main, strip = figure.subplots(2, 1, sharex=True, height_ratios=[_MAIN_HEIGHT, strip_height])
    _set_x(main, [x for line in lines for x in line.x])
    _set_y(main, strip, len(lines))
    figure.suptitle(textwrap.fill(title, 68), x=0.012, ha="left", fontsize=TITLE_SIZE, fontweight="bold")
    figure.supxlabel(textwrap.fill(caption, 120), x=0.012, ha="left", fontsize=SMALL_SIZE, color=MUTED)
    for row, line in enumerate(reversed(lines)):
        _draw_line(main, line)
        _draw_cut(strip, line, row)
    names = [_name_label(figure, main, line) for line in lines] if len(lines) > 1 else []
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the labels are placed on the finished layout and must not move it
    _label_main(figure, main, lines, names)
    _label_strip(figure, strip, lines)
    return figure


def _set_x(axes: Axes, xs: Sequence[float]) -> None:
    middle, ratio = (min(xs) * max(xs)) ** 0.5, max(xs) / min(xs)
    half = max(ratio**0.6, 1.65 * ratio**0.5, 3.2)  # a margin for the labels, and a decade at least
    axes.set_xscale("log")
    axes.set_xlim(middle / half, middle * half)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if half < 60 else (1.0,), numticks=99))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tokens, _: format_budget(round(tokens)) if tokens >= 1 else ""))


def _set_y(main: Axes, strip: Axes, n_lines: int) -> None:
    main.tick_params(labelbottom=False, length=0)
    main.set_ylim(0, 100)
    main.set_ylabel("Accuracy (%)")
    strip.set_xlabel("Tokens spent per sample: thinking + answer, mean (log scale)")
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
    place = offset_copy(axes.transData, figure, x=1.5 * _GAP, units="points")
    label = axes.text(line.x[-1], line.y[-1], text, color=line.text_color, fontweight="bold", va="center", ma="left")
    label.set_transform(place)
    return label


def _label_main(figure: Figure, axes: Axes, lines: Sequence[_Line], names: Sequence[Text]) -> None:
    """Puts the names of the lines, then the budgets, then the baselines where they hide nothing."""
    area = _box(axes.get_window_extent())
    inside = Box(area.x0 + _MARGIN, area.y0, area.x1, area.y1 + _GAP)
    page = Box(0, inside.y0, figure.bbox.width, inside.y1)
    marks = [_pixels(axes, line.x, line.y) for line in lines]
    baselines = sorted(
        ((line.baseline.accuracy, line.color) for line in lines if line.baseline), key=lambda baseline: -baseline[0]
    )
    rates = [round(100 * rate, 6) for rate, _ in baselines]
    levels = [level for _, level in _pixels(axes, [1.0] * len(rates), rates)]
    canvas = Canvas(_MARGIN)
    canvas.boxes += [Box.centred(*mark, _MARKER, _MARKER) for line_marks in marks for mark in line_marks]
    canvas.paths += [_pixels(axes, *line.trail) for line in lines]
    canvas.paths += [[(area.x0, level), (area.x1, level)] for level in levels]
    for name, line_marks in zip(names, marks, strict=False):
        _move(figure, name, canvas.place(beside(line_marks[-1], *_size(name), 1.5 * _GAP), page))
    for line, line_marks in zip(lines, marks, strict=True):
        for group in merge_close(line.x, CLOSE):
            words = join_labels([format_budget(line.points[i].budget) for i in sorted(group)])
            says_what = line is lines[0] and 0 in group
            label = _text(figure, f"budget {words}" if says_what else words, line.text_color)
            _move(figure, label, canvas.place(around(line_marks[group[-1]], *_size(label), _GAP), inside))
    for group in group_within(rates, BASELINES_CLOSE):
        color = for_text(baselines[group[0]][1]) if len(group) == 1 else MUTED
        label = _text(figure, f"no thinking: {join_labels([f'{rates[i]:.0f}%' for i in group])}", color, SMALL_SIZE)
        label.set_bbox({"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.5})  # over other baselines
        places = along(levels[group[0]], levels[group[-1]], area.x0 + _GAP, area.x1 - _GAP, *_size(label), _GAP / 3)
        _move(figure, label, canvas.place(places, inside))


def _label_strip(figure: Figure, axes: Axes, lines: Sequence[_Line]) -> None:
    """Writes each share of cut samples above its bar, one label for bars too close for two."""
    area = _box(axes.get_window_extent())
    inside = Box(area.x0, area.y0, area.x1, area.y1 + _GAP)
    left, right = axes.get_xlim()
    close = max(CLOSE, (right / left) ** (_PERCENT_WIDTH / (area.x1 - area.x0)))
    canvas = Canvas(_MARGIN)
    for row, line in enumerate(reversed(lines)):
        tops = _pixels(axes, line.x, [row + _BAR_TOP * point.bound_share for point in line.points])
        foot = _pixels(axes, line.x[:1], [row])[0][1]
        canvas.paths += [[(x, foot), (x, y + _MARKER / 2)] for x, y in tops]
        for group in merge_close(line.x, close):
            words = join_labels([f"{line.points[i].bound_share:.0%}" for i in sorted(group)])
            label = _text(figure, words, line.text_color, SMALL_SIZE)
            anchor = sum(tops[i][0] for i in group) / len(group), max(tops[i][1] for i in group)
            _move(figure, label, canvas.place(above(anchor, *_size(label), _GAP * 0.7), inside))


def _text(figure: Figure, text: str, color: str, size: float = TEXT_SIZE) -> Text:
    return figure.text(0.5, 0.5, text, color=color, fontsize=size, va="center", ma="left")


def _size(label: Text) -> tuple[float, float]:
    """Width and height in pixels."""
    extent = label.get_window_extent()
    return extent.width, extent.height


def _box(extent: BboxBase) -> Box:
    return Box(extent.x0, extent.y0, extent.x1, extent.y1)


def _pixels(axes: Axes, x: Sequence[float], y: Sequence[float]) -> list[Point]:
    return [(across, up) for across, up in axes.transData.transform(np.column_stack([x, y])).tolist()]


def _move(figure: Figure, label: Text, box: Box) -> None:
    """Centres `label` in `box`, as fractions of the figure, which hold at every resolution."""
    label.set(transform=figure.transFigure, horizontalalignment="center")
    x, y = figure.transFigure.inverted().transform(box.center).tolist()
    label.set_position((x, y))
