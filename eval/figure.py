"""The frame that figures share: title above, caption below, three files; and where texts stand in pixels."""

from __future__ import annotations

import textwrap
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import BboxBase, offset_copy

from eval.axes import TOKENS, Axis
from eval.labels import Box, Canvas, Point, around, beside
from eval.style import MUTED, RC, SMALL_SIZE, TEXT_SIZE, TITLE_SIZE
from reasoning.files import write_json

WIDTH = 7.2  # inches
_TEXT_HEIGHT = 1.4  # of title and caption
GAP, MARGIN, _MARKER = 6.0, 3.0, 6.0  # points, which are the pixels of the layout


@dataclass(frozen=True, slots=True)
class Words:
    """What a figure says around its axes."""

    title: str
    caption: str

    def __post_init__(self) -> None:
        """Sentences that a caption is made of may be empty; no gap is left where they would be."""
        object.__setattr__(self, "caption", " ".join(self.caption.split()))


@contextmanager
def drawing(out: Path, kind: str, words: Words, numbers: Mapping[str, Any], *, height: float) -> Generator[Figure]:
    """A figure to draw on; afterwards it is written beside `out` (a path without suffix), with its numbers.

    `height` is that of the axes, in inches.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with rc_context(RC):
        figure = Figure(figsize=(WIDTH, height + _TEXT_HEIGHT), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06))
        FigureCanvasAgg(figure)
        add_words(figure, words)
        yield figure
        write_figure(figure, out, kind, words, numbers)


def add_words(figure: Figure, words: Words) -> None:
    title, caption = textwrap.fill(words.title, 68), textwrap.fill(words.caption, 120)
    figure.suptitle(title, x=0.012, ha="left", fontsize=TITLE_SIZE, fontweight="bold")
    figure.supxlabel(caption, x=0.012, ha="left", fontsize=SMALL_SIZE, color=MUTED)


def files_of(out: Path) -> list[Path]:
    """The .png, .svg and .json of a figure."""
    return [out.with_name(f"{out.name}.{suffix}") for suffix in ("png", "svg", "json")]


def write_figure(figure: Figure, out: Path, kind: str, words: Words, numbers: Mapping[str, Any]) -> None:
    png, svg, data = files_of(out)
    fix_layout(figure)
    figure.dpi = rcParams["savefig.dpi"]
    # Figure.savefig would draw each file twice, once to find a layout.
    FigureCanvasAgg(figure).print_png(png)
    FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None, "Title": words.title, "Description": words.caption})
    write_json(data, {"figure": kind, "title": words.title, "caption": words.caption, **numbers})


def fix_layout(figure: Figure) -> None:
    """Give everything its place, once and for all: what is placed in pixels afterwards must not move it."""
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.execute(figure)
        figure.set_layout_engine("none")


def log_tokens(axes: Axes, low: float, high: float, axis: Axis = TOKENS) -> None:
    """A logarithmic x axis with ticks written as budgets are, 1k, 2k, 5k, or as those of another cost."""
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 3600 else (1.0,), numticks=99))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axis.text(value)))


def interval_bar(axes: Axes, x: float, low: float, high: float, color: str) -> None:
    """An interval as a line, which labels keep away from."""
    axes.plot([x, x], [low, high], color=color, alpha=0.42, linewidth=2.5, solid_capstyle="butt", zorder=1.5)


def percent_axis(axes: Axes) -> None:
    axes.set_ylim(0, 100)
    axes.set_ylabel("Accuracy (%)")


@dataclass(frozen=True, slots=True)
class End:
    """The right end of a line, and what is written beside it."""

    x: float
    y: float
    text: str
    color: str


def label_ends(figure: Figure, axes: Axes, ends: Sequence[End], width: int = 22) -> None:
    """Writes beside the ends of lines what they are, none over another. Draws the layout, which is then fixed."""
    labels = []
    for end in ends:
        text = "\n".join(textwrap.wrap(end.text, width))
        label = axes.text(end.x, end.y, text, color=end.color, fontsize=SMALL_SIZE, va="center", ma="left")
        label.set_transform(offset_copy(axes.transData, figure, x=1.5 * GAP, units="points"))
        labels.append(label)
    fix_layout(figure)
    area = box_of(axes.get_window_extent())
    page = Box(area.x0, area.y0, figure.bbox.width, area.y1 + GAP)
    canvas = Canvas(MARGIN / 2)
    canvas.paths += [line.get_transform().transform(line.get_xydata()).tolist() for line in axes.lines]
    canvas.boxes += [Box.centred(*mark, _MARKER, _MARKER) for end in ends for mark in pixels(axes, [end.x], [end.y])]
    for label, end in sorted(zip(labels, ends, strict=True), key=lambda pair: -pair[1].y):
        (anchor,) = pixels(axes, [end.x], [end.y])
        size = size_of(label)
        move(figure, label, canvas.place(chain(beside(anchor, *size, 1.2 * GAP), around(anchor, *size, GAP)), page))


def add_text(figure: Figure, text: str, color: str, size: float = TEXT_SIZE) -> Text:
    """A text whose place is still to be found."""
    return figure.text(0.5, 0.5, text, color=color, fontsize=size, va="center", ma="left")


def size_of(label: Text) -> tuple[float, float]:
    """Width and height in pixels."""
    extent = label.get_window_extent()
    return extent.width, extent.height


def box_of(extent: BboxBase) -> Box:
    return Box(extent.x0, extent.y0, extent.x1, extent.y1)


def pixels(axes: Axes, x: Sequence[float], y: Sequence[float]) -> list[Point]:
    return [(across, up) for across, up in axes.transData.transform(np.column_stack([x, y])).tolist()]


def move(figure: Figure, label: Text, box: Box) -> None:
    """Centres `label` in `box`, as fractions of the figure, which hold at every resolution."""
    label.set(transform=figure.transFigure, horizontalalignment="center")
    x, y = figure.transFigure.inverted().transform(box.center).tolist()
    label.set_position((x, y))
