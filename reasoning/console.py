"""What a person sees: progress while a run goes on, and the table at its end.

Results go to standard output, everything else to standard error. Progress is a bar on a terminal and a line now and
then elsewhere, so that a log stays readable.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Protocol

from reasoning.budgets import format_budget
from reasoning.types import CurvePoint

LINE_EVERY_S = 30.0
BAR_EVERY_S = 0.2
LOG_WIDTH = 88
"""Columns that a table may have at least where nobody knows the width: in a file or a pipe."""


class Progress(Protocol):
    def update(self, done: int, tokens: int) -> None:
        """`done` samples are on disk; the engine has generated `tokens` since it started."""
        ...

    def close(self) -> None: ...


def start_progress(done: int, total: int, *, quiet: bool) -> Progress:
    if quiet:
        return Silence()
    return Bar(done, total) if sys.stderr.isatty() else Lines(done, total)


class Silence:
    """Progress that nobody wants to see."""

    def update(self, done: int, tokens: int) -> None: ...

    def close(self) -> None: ...


class Pace:
    """Turns counts into a rate and the time left."""

    def __init__(self, done: int, total: int) -> None:
        self.total = total
        self._first = done
        self._started = time.monotonic()

    def describe(self, done: int, tokens: int) -> str:
        elapsed = max(time.monotonic() - self._started, 1e-9)
        parts = [f"{done:,} of {self.total:,} samples", f"{tokens / elapsed:,.0f} tokens/s"]
        if self._first < done < self.total:
            parts.append(f"about {duration(elapsed * (self.total - done) / (done - self._first))} left")
        return ", ".join(parts)


class Lines:
    """A plain line every half minute."""

    def __init__(self, done: int, total: int) -> None:
        self._pace = Pace(done, total)
        self._next = time.monotonic() + LINE_EVERY_S
        self._last = (done, 0)

    def update(self, done: int, tokens: int) -> None:
        self._last = (done, tokens)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY_S
            note(self._pace.describe(done, tokens))

    def close(self) -> None:
        note(self._pace.describe(*self._last))


class Bar:
    """A bar at the bottom of the terminal."""

    def __init__(self, done: int, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._pace = Pace(done, total)
        self._bar = Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True))
        self._row = self._bar.add_task(self._pace.describe(done, 0), total=total, completed=done)
        self._bar.start()
        self._next = time.monotonic() + BAR_EVERY_S
        self._last = (done, 0)

    def update(self, done: int, tokens: int) -> None:
        self._last = (done, tokens)
        if time.monotonic() >= self._next:  # the engine steps up to a thousand times a second
            self._next = time.monotonic() + BAR_EVERY_S
            self._draw()

    def close(self) -> None:
        self._draw()
        self._bar.stop()

    def _draw(self) -> None:
        done, tokens = self._last
        self._bar.update(self._row, completed=done, description=self._pace.describe(done, tokens))


def note(text: str) -> None:
    """A remark beside the result."""
    print(text, file=sys.stderr, flush=True)


def say(text: str = "") -> None:
    """A part of the result."""
    print(text, flush=True)


def print_table(points: Sequence[CurvePoint]) -> None:
    """One row a budget: what was spent, what it brought, and how much of it was cut short or silent."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = ("budget", "tokens spent", "accuracy [95 % interval]", "bound", "no answer", "samples")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for point in points:
        table.add_row(*_row(point))
    console = Console(markup=False)
    if not console.is_terminal:
        console.width = max(console.width, LOG_WIDTH)
    console.print(table)


def _row(point: CurvePoint) -> tuple[str, ...]:
    label = format_budget(point.budget)
    if point.n_samples == 0:
        return label, "-", "-", "-", "-", "0"
    return (
        label,
        f"{point.tokens_mean:,.0f}",
        f"{100 * point.accuracy:.1f} %  [{100 * point.low:.1f}, {100 * point.high:.1f}]",
        f"{100 * point.bound_share:.0f} %",
        f"{100 * point.no_answer_share:.0f} %",
        f"{point.n_samples:,}",
    )


def duration(seconds: float) -> str:
    """Seconds as a person says them: 40 s, 12 min, 3 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
