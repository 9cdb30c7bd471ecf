"""How often do the intervals hold the truth?

    python -m benchmarks.coverage --curves 4000

Tasks have a difficulty from a Beta distribution with a known mean, samples are right with that probability. Counts how
often the 95 % interval of the mean over tasks holds the mean, and how often the band holds a whole curve of budgets.
Concentration a + b of the Beta distribution: 0.6 is a set of tasks that are either easy or hard, 10 one of tasks that
are alike. Near 0 and 1 with few tasks, runs without any right (or wrong) sample are all that differs from one run to
the next, so that no interval can hold the truth in just 95 % of them: `exact` is what Wilson's interval holds there
with one sample a task, by summing over all counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import betaincinv
from scipy.stats import binom

from eval.statistics import Floats, mean_intervals, simultaneous_factor

TASKS = (30, 200)
SAMPLES = (1, 4, 16, 64)
MEANS = (0.02, 0.05, 0.2, 0.5, 0.9, 0.98)
CONCENTRATIONS = (0.6, 2.0, 10.0)
SHARES = (0.4, 0.6, 0.8, 0.9, 1.0)
"""Accuracy at the budgets of a curve, as shares of that at the largest."""

LEAST, MOST = 0.93, 0.97


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of evaluation: `samples` of each of `tasks` tasks."""

    tasks: int
    samples: int
    mean: float
    concentration: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares of simulated evaluations; None where no bands were asked for."""

    point: float  # the interval of one budget holds its accuracy
    all_points: float | None  # those of all budgets do
    band: float | None  # the band holds the whole curve


def simulate(cell: Cell, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """[tasks, len(SHARES)] rates and the true means.

    Beta-binomial at every budget, and as correlated as budgets of one trace: a task keeps its rank among the tasks, and
    a sample that is right stays so.
    """
    means = cell.mean * np.array(SHARES)
    rank = rng.random((cell.tasks, 1))
    difficulty = betaincinv(means * cell.concentration, (1 - means) * cell.concentration, rank)
    luck = rng.random((cell.tasks, cell.samples, 1))
    return (luck < difficulty[:, None]).mean(axis=1), means


def coverage(cell: Cell, *, curves: int, seed: int = 0, bands: bool = False) -> Coverage:
    """Simulate `curves` evaluations. `point` is of the last budget."""
    rng = np.random.default_rng(seed)
    point = all_points = band = 0
    for number in range(curves):
        rates, truth = simulate(cell, rng)
        (last,) = mean_intervals(rates[:, -1:])
        point += int(last.low <= truth[-1] <= last.high)
        if bands:
            all_points += _holds(rates, truth, 1.0)
            band += _holds(rates, truth, simultaneous_factor(rates, seed=number, resamples=500))
    return Coverage(point / curves, all_points / curves if bands else None, band / curves if bands else None)


def wilson_exact(cell: Cell) -> float:
    """What Wilson's interval holds with one sample a task, where the number of right samples is binomial."""
    held = 0.0
    for right in range(cell.tasks + 1):
        (estimate,) = mean_intervals(np.repeat([[1.0], [0.0]], [right, cell.tasks - right], axis=0))
        held += binom.pmf(right, cell.tasks, cell.mean) * (estimate.low <= cell.mean <= estimate.high)
    return float(held)


def _holds(rates: Floats, truth: Floats, widen: float) -> bool:
    estimates = mean_intervals(rates, widen=widen)
    return all(one.low <= true <= one.high for one, true in zip(estimates, truth, strict=True))


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--curves", type=int, default=4_000, help="simulated evaluations for each cell")
    options.add_argument("--bands", action="store_true", help="bands over budgets, too: ten times as long")
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    rows, started = [], time.monotonic()
    print("tasks  mean  a+b " + "".join(f"{f'k={k}':>14}" for k in SAMPLES) + "   exact k=1")
    for tasks, mean, concentration in product(TASKS, MEANS, CONCENTRATIONS):
        line = f"{tasks:5} {mean:5.2f} {concentration:4.1f} "
        for samples in SAMPLES:
            cell = Cell(tasks, samples, mean, concentration)
            found = coverage(cell, curves=given.curves, bands=given.bands)
            rows.append(asdict(cell) | asdict(found))
            line += f"{100 * found.point:6.1f}" + (" " * 8 if found.band is None else f" /{100 * found.band:6.1f}")
        print(f"{line}   {100 * wilson_exact(Cell(tasks, 1, mean, concentration)):6.1f}", flush=True)
    points = np.array([row["point"] for row in rows])
    inside = (points >= LEAST) & (points <= MOST)
    print(
        f"{inside.sum()} of {len(points)} cells within {LEAST:.0%} to {MOST:.0%}, {(points < LEAST).sum()} below "
        f"(least {points.min():.1%}), {(points > MOST).sum()} above (most {points.max():.1%}), "
        f"mean {points.mean():.1%}; {time.monotonic() - started:.0f} s"
    )
    if given.json:
        record = {"command": ["python", "-m", "benchmarks.coverage", *arguments], "cells": rows}
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
