"""What a person sees: progress while a run goes on, and the table at its end.

Results go to standard output, everything else to standard error. Progress is a bar on a terminal and a line now and
then elsewhere, so that a log stays readable.
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from reasoning.budgets import format_budget
from reasoning.types import CurvePoint

LINE_EVERY_S = 30.0
BAR_EVERY_S = 0.5
STEADY_STEPS = 20
"""Steps after which their mean time says something about those to come."""

LOG_WIDTH = 112
"""Columns that a table may have at least where nobody knows the width: in a file or a pipe."""


class Progress(Protocol):
    def update(self, done: int, tokens: int, steps: int) -> None:
        """`done` samples are on disk; the engine has generated `tokens` in `steps` since it started."""
        ...

    def close(self) -> None: ...


def start_progress(done: int, total: int, most_steps_left: Callable[[], int] | None, *, quiet: bool) -> Progress:
    """`most_steps_left` bounds the steps to come; it is asked only when something is shown.

    None: a policy decides how many samples are drawn, `total` at most, and nothing bounds the steps.
    """
    if quiet:
        return Silence()
    pace = Pace(total, most_steps_left)
    return Bar(pace, done) if sys.stderr.isatty() else Lines(pace, done)


class Silence:
    """Progress that nobody wants to see."""

    def update(self, done: int, tokens: int, steps: int) -> None: ...

    def close(self) -> None: ...


class Pace:
    """Turns counts into a rate and the time left.

    The samples that finish first are the short ones, so their rate says nothing about the rest: the time left is a
    bound, the steps that there may still be times the mean time of a step.
    """

    def __init__(self, total: int, most_steps_left: Callable[[], int] | None) -> None:
        self.total = total
        self._most_steps_left = most_steps_left
        self._started = time.monotonic()

    def describe(self, done: int, tokens: int, steps: int) -> str:
        elapsed = max(time.monotonic() - self._started, 1e-9)
        of = "of" if self._most_steps_left is not None else "of at most"
        parts = [f"{done:,} {of} {self.total:,} samples", f"{tokens / elapsed:,.0f} tokens/s"]
        if self._most_steps_left is not None and steps >= STEADY_STEPS and done < self.total:
            parts.append(f"at most {duration(self._most_steps_left() * elapsed / steps)} left")
        return ", ".join(parts)


class Lines:
    """A plain line every half minute."""

    def __init__(self, pace: Pace, done: int) -> None:
        self._pace = pace
        self._next = time.monotonic() + LINE_EVERY_S
        self._last = (done, 0, 0)

    def update(self, done: int, tokens: int, steps: int) -> None:
        self._last = (done, tokens, steps)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY_S
            note(self._pace.describe(*self._last))

    def close(self) -> None:
        note(self._pace.describe(*self._last))


class Bar:
    """A bar at the bottom of the terminal."""

    def __init__(self, pace: Pace, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._pace = pace
        self._last = (done, 0, 0)
        self._bar = Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True))
        self._row = self._bar.add_task(pace.describe(*self._last), total=pace.total, completed=done)
        self._bar.start()
        self._next = time.monotonic() + BAR_EVERY_S

    def update(self, done: int, tokens: int, steps: int) -> None:
        self._last = (done, tokens, steps)
        if time.monotonic() >= self._next:  # the engine steps up to a thousand times a second
            self._next = time.monotonic() + BAR_EVERY_S
            self._draw()

    def close(self) -> None:
        self._draw()
        self._bar.stop()

    def _draw(self) -> None:
        self._bar.update(self._row, completed=self._last[0], description=self._pace.describe(*self._last))


def command_line(module: str, *arguments: str) -> str:
    """A command of this project as it can be typed in this folder, whether its environment is active or not."""
    return shlex.join([_interpreter(), "-m", module, *arguments])


def _interpreter() -> str:
    own, found = Path(sys.executable), shutil.which("python")
    # The folder counts, too: the interpreters of all environments may be links to the same file.
    if found and os.path.samefile(found, own) and os.path.samefile(Path(found).parent, own.parent):
        return "python"
    return str(own.relative_to(Path.cwd()) if own.is_relative_to(Path.cwd()) else own)


def note(text: str) -> None:
    """A remark beside the result."""
    print(text, file=sys.stderr, flush=True)


def say(text: str = "") -> None:
    """A part of the result."""
    print(text, flush=True)


def print_table(points: Sequence[CurvePoint]) -> None:
    """One row a budget: what was spent, what it brought, and how much of it was cut short or silent."""
    headings = ("budget", "tokens spent", "accuracy [95 % interval]", "bound", "no answer", "samples")
    print_rows(headings, map(_row, points))


def print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]], *, wrap: bool = False) -> None:
    """A table: numbers to the right, cut where it is too wide; with `wrap`, texts to the left in several lines."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="left" if wrap else "right", no_wrap=not wrap)
    for row in rows:
        table.add_row(*row)
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
        "-" if math.isnan(point.tokens_mean) else f"{point.tokens_mean:,.0f}",
        f"{100 * point.accuracy:.1f} %  [{100 * point.low:.1f}, {100 * point.high:.1f}]",
        "-" if math.isnan(point.bound_share) else f"{100 * point.bound_share:.0f} %",
        f"{100 * point.no_answer_share:.0f} %",
        f"{point.n_samples:,}",
    )


def duration(seconds: float) -> str:
    """Seconds as a person says them: 40 s, 12 min, 3 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
