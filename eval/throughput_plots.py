"""Figures of a profiled run: speed against position, the time of a step against what it reads, and latencies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from eval.figure import End, Words, drawing, files_of, label_ends, log_tokens
from eval.style import COLORS, FAINT, INK, MARKERS, MUTED, SMALL_SIZE, for_text
from eval.throughput import HEADINGS, Throughput, duration, line_in_words, waits_of
from reasoning.throughput import Speed, StepTime

_LINES = 4  # batches that are drawn: those with most steps
_FEWEST = 5  # steps behind a point
_ROW = 0.36  # inches for each latency

Timed = TypeVar("Timed", Speed, StepTime)


def speed_by_position(found: Throughput | None, out: Path, *, note: str) -> list[Path]:
    """Decoded tokens a second against the position, a line a batch, with the limit that the memory sets."""
    lines = {} if found is None else _by_batch([speed for speed in found.speeds if speed.steps >= _FEWEST])
    if found is None or not any(len(line) > 1 for line in lines.values()):
        return []
    limit = "Dashed: weights and cache read at the rate at which the device copies its memory. "
    words = Words(
        "How fast tokens are decoded, by position in the context",
        f"On {found.device}. Tokens a second of all requests together, in the median step without any prompt; the "
        f"batches with most steps. {limit if found.copy_rate and _has_bytes(lines) else ''}{note}",
    )
    numbers = {
        "device": found.device,
        "copy_rate": found.copy_rate,
        "lines": [{"points": [asdict(speed) for speed in line]} for line in lines.values()],
    }
    with drawing(out, "speed_by_position", words, numbers, height=3.3) as figure:
        axes = figure.subplots()
        ends = []
        for number, line in enumerate(lines.values()):
            x, y = [speed.position for speed in line], [speed.tokens_per_s for speed in line]
            axes.plot(x, y, color=COLORS[number], marker=MARKERS[number], markersize=4, linewidth=1.4)
            if found.copy_rate is not None and (limits := _limits(line, found.copy_rate)):
                axes.plot(x, limits, color=COLORS[number], linestyle=(0, (5, 2)), linewidth=1.0, alpha=0.7)
            ends.append(End(x[-1], y[-1], _batch_in_words(line), for_text(COLORS[number])))
        positions = [speed.position for line in lines.values() for speed in line]
        log_tokens(axes, 0.8 * max(min(positions), 1.0), 2.2 * max(positions))
        axes.set_yscale("log")
        _plain_numbers(axes)
        axes.set_xlabel("Position: tokens before, mean of the batch (log scale)")
        axes.set_ylabel("Decoded tokens a second (log scale)")
        label_ends(figure, axes, ends)
    return files_of(out)


def step_times(found: Throughput | None, out: Path, *, note: str) -> list[Path]:
    """The time of a step against the tokens of context in it, with the fitted line."""
    groups = [] if found is None else [time for time in found.step_times if time.steps >= _FEWEST]
    if found is None or len({time.context for time in groups}) < 2:
        return []
    fitted = ""
    if found.line is not None:
        fitted = f"Lines: {line_in_words(found.line)}, fitted to all steps (median error {found.line.error:.1%}). "
    words = Words(
        "How long a step takes, by the context that it reads",
        f"On {found.device}. Each point is the median of the steps of one batch and nearly one context. {fitted}{note}",
    )
    lines = _by_batch(groups)
    numbers = {
        "device": found.device,
        "line": None if found.line is None else asdict(found.line),
        "points": [asdict(time) for time in groups],
    }
    with drawing(out, "step_times", words, numbers, height=3.1) as figure:
        axes = figure.subplots()
        axes.plot([t.context for t in groups], [1e3 * t.seconds for t in groups], ".", color=FAINT, zorder=1)
        ends = []
        for number, line in enumerate(lines.values()):
            color, x, y = COLORS[number], [t.context for t in line], [1e3 * t.seconds for t in line]
            axes.plot(x, y, MARKERS[number], color=color, markersize=4)
            ends.append(End(x[-1], y[-1], _batch_in_words(line), for_text(color)))
            if found.line is not None:
                batch = float(np.average([t.batch for t in line], weights=[t.steps for t in line]))
                axes.plot(x, [1e3 * found.line.seconds(batch, context) for context in x], color=color, linewidth=1.2)
        axes.set_xlim(0, 1.25 * max(t.context for t in groups))
        axes.set_ylim(0, 1.1e3 * max(t.seconds for t in groups))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("Context of a step: tokens of all its requests")
        axes.set_ylabel("Time of a step (ms)")
        label_ends(figure, axes, ends)
    return files_of(out)


def latencies(found: Throughput | None, out: Path, *, note: str) -> list[Path]:
    """Percentiles of what a reader waits for: the first token, the first of the answer, each next one."""
    waits = {} if found is None else waits_of(found)
    if found is None or not waits:
        return []
    words = Words(
        "How long a reader waits",
        f"On {found.device}, in the batch of this run: waits are since the first request of a sample and include the "
        f"time in the queue. {note}",
    )
    numbers = {"device": found.device, "seconds": waits}
    with drawing(out, "latencies", words, numbers, height=0.7 + _ROW * len(waits)) as figure:
        axes = figure.subplots()
        for row, shares in enumerate(waits.values()):
            x = [max(shares[column], 1e-6) for column in HEADINGS[1:]]
            axes.plot(x, [row] * len(x), color=MUTED, linewidth=1.0, zorder=1)
            for number, value in enumerate(x):
                axes.plot([value], [row], MARKERS[number], color=COLORS[number], markersize=6)
        for number, column in enumerate(HEADINGS[1:]):
            axes.plot([], [], MARKERS[number], color=COLORS[number], label=column)
        axes.set_yticks(range(len(waits)), list(waits))
        axes.set_ylim(len(waits) - 0.5, -0.5)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=12))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
        axes.grid(axis="x")
        axes.set_xlabel("Time (log scale)")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=SMALL_SIZE)
    return files_of(out)


def _by_batch(found: Sequence[Timed]) -> Mapping[int, list[Timed]]:
    """The batches with most steps, the largest first, alike within a root of two; each in order of position."""
    kinds: dict[int, list[Timed]] = {}
    for one in found:
        kinds.setdefault(round(2 * math.log2(max(one.batch, 1))), []).append(one)
    most = sorted(kinds, key=lambda kind: -sum(one.steps for one in kinds[kind]))[:_LINES]
    return {kind: sorted(kinds[kind], key=_place) for kind in sorted(most, reverse=True)}


def _place(one: Speed | StepTime) -> float:
    return one.position if isinstance(one, Speed) else one.context


def _batch_in_words(line: Sequence[Speed] | Sequence[StepTime]) -> str:
    lows = [one.batch_low if isinstance(one, Speed) else one.batch for one in line]
    highs = [one.batch_high if isinstance(one, Speed) else one.batch for one in line]
    low, high = round(min(lows)), round(max(highs))
    return f"batch {low}" if low == high else f"batch {low} to {high}"


def _has_bytes(lines: Mapping[int, Sequence[Speed]]) -> bool:
    return any(speed.step_bytes is not None for line in lines.values() for speed in line)


def _limits(line: Sequence[Speed], copy_rate: float) -> list[float]:
    """Tokens a second if every step took no longer than its bytes at the copy rate."""
    return [speed.batch * copy_rate / speed.step_bytes for speed in line if speed.step_bytes]


def _plain_numbers(axes: Axes) -> None:
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=99))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.tick_params(axis="y", colors=INK)
