"""How often do the intervals hold the truth?

    python -m benchmarks.coverage --curves 16000

Tasks have a difficulty from a Beta distribution with a known mean, samples are right with that probability. Counts how
often the 95 % interval of the mean over tasks holds the mean, and how often the band holds a whole curve of budgets.
Concentration a + b of the Beta distribution: 0.6 is a set of tasks that are either easy or hard, 10 one of tasks that
are alike. With one sample a task nothing is simulated: the coverage is exact, for other intervals too, also on average
over the means near by, and beside it stands the nearest to 95 % that any interval could have there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from benchmarks.exact_coverage import INTERVALS, OURS, attainable, average_coverage, exact_coverage, ours
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
    """`point` is of the last budget: exact with one sample a task, else of `curves` simulated evaluations."""
    rng = np.random.default_rng(seed)
    point = exact_coverage(ours, cell.tasks, cell.mean) if cell.samples == 1 else _simulated(cell, curves, rng)
    if not bands:
        return Coverage(point, None, None)
    all_points = band = 0
    for number in range(curves):
        rates, truth = simulate(cell, rng)
        all_points += _holds(rates, truth, 1.0)
        band += _holds(rates, truth, simultaneous_factor(rates, seed=number, resamples=500))
    return Coverage(point, all_points / curves, band / curves)


def _simulated(cell: Cell, curves: int, rng: np.random.Generator) -> float:
    """Share of evaluations at one budget whose interval holds the mean: one column each, their tasks its rows."""
    shape = cell.tasks, curves
    difficulty = rng.beta(cell.mean * cell.concentration, (1 - cell.mean) * cell.concentration, size=shape)
    estimates = mean_intervals(rng.binomial(cell.samples, difficulty) / cell.samples)
    return sum(one.low <= cell.mean <= one.high for one in estimates) / curves


def _holds(rates: Floats, truth: Floats, widen: float) -> bool:
    estimates = mean_intervals(rates, widen=widen)
    return all(one.low <= true <= one.high for one, true in zip(estimates, truth, strict=True))


def print_exact() -> list[dict[str, Any]]:
    """What intervals hold with one sample a task, at a mean and on average over the means near it, and the nearest to
    95 % that one could hold; printed, and as rows.
    """
    print("one sample a task, exact: at this mean / on average near it")
    print("tasks  mean " + "".join(f"{name:>17}" for name in (*INTERVALS, "attainable")))
    rows = []
    for tasks, mean in product(TASKS, MEANS):
        held = {name: exact_coverage(interval, tasks, mean) for name, interval in INTERVALS.items()}
        average = {name: average_coverage(interval, tasks, mean) for name, interval in INTERVALS.items()}
        best = attainable(tasks, mean)
        rows.append({"tasks": tasks, "mean": mean, "held": held, "average": average, "attainable": best})
        cells = "".join(f"{100 * held[name]:10.1f} /{100 * average[name]:5.1f}" for name in INTERVALS)
        print(f"{tasks:5} {mean:5.2f} {cells}{100 * best:17.1f}")
    return rows


def print_counts(exact: Sequence[Mapping[str, Any]], points: Floats) -> None:
    """How many cells are within; with one sample a task also how many could be, and are on average near their mean."""
    print(f"intervals: {_counts(points)}")
    of = len(exact) * len(CONCENTRATIONS)
    for what, shares in (
        ("could be by any interval", [row["attainable"] for row in exact]),
        ("are on average near their mean", [row["average"][OURS] for row in exact]),
    ):
        print(f"of the {of} with one sample a task {_inside(np.array(shares)).sum() * len(CONCENTRATIONS)} {what}")


def _counts(shares: Floats) -> str:
    return (
        f"{_inside(shares).sum()} of {len(shares)} cells within {LEAST:.0%} to {MOST:.0%}, {(shares < LEAST).sum()} "
        f"below (least {shares.min():.1%}), {(shares > MOST).sum()} above (most {shares.max():.1%}), "
        f"mean {shares.mean():.1%}"
    )


def _inside(shares: Floats) -> NDArray[np.bool_]:
    return (shares >= LEAST) & (shares <= MOST)


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--curves", type=int, default=4_000, help="simulated evaluations for each cell")
    options.add_argument("--bands", action="store_true", help="bands over budgets, too: far longer")
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    rows, started = [], time.monotonic()
    exact = print_exact()
    print("\ntasks  mean  a+b " + "".join(f"{f'k={k}':>14}" for k in SAMPLES))
    for tasks, mean, concentration in product(TASKS, MEANS, CONCENTRATIONS):
        line = f"{tasks:5} {mean:5.2f} {concentration:4.1f} "
        for samples in SAMPLES:
            cell = Cell(tasks, samples, mean, concentration)
            found = coverage(cell, curves=given.curves, bands=given.bands)
            rows.append(asdict(cell) | asdict(found))
            line += f"{100 * found.point:6.1f}" + (" " * 8 if found.band is None else f" /{100 * found.band:6.1f}")
        print(line, flush=True)
    print_counts(exact, np.array([row["point"] for row in rows]))
    if given.bands:
        print(f"bands: {_counts(np.array([row['band'] for row in rows]))}")
    print(f"{time.monotonic() - started:.0f} s")
    if given.json:
        command = ["python", "-m", "benchmarks.coverage", *arguments]
        record = {"command": command, "exact": exact, "cells": rows}
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
