"""How to divide tokens between longer thinking and more samples.

A cell is a budget and a number of samples that vote. What a cell brings on a task is an exact expectation over the
samples that exist; which cell to take is always decided on other tasks than those it is judged on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from eval.curves import GradedSample
from eval.statistics import RESAMPLES, Floats, mean_intervals, resampled_means
from eval.stored import Stored, whole_samples
from eval.voting import MAX_VOTES, labelled_majority_at_k, pass_at_k
from reasoning.budgets import format_budget
from verifiers.base import Status

PRICES = np.concatenate([[0.0], np.logspace(-9, 1, 201)])
"""What a token may cost, in accuracy, when the best cells within a budget are sought."""

TaskRows = Mapping[int, Sequence[GradedSample]]
"""The samples of one task at each budget, the same samples at all of them."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Accuracy and mean tokens of every cell on every task: [n_tasks, n_cells]."""

    cells: tuple[tuple[int, int], ...]  # (budget, votes)
    majority: Floats
    passed: Floats  # at least one of the votes is right: what a perfect verifier would pick
    tokens: Floats


@dataclass(frozen=True, slots=True)
class MapPoint:
    """A cell over all tasks. `pareto`: share of resampled task sets where no cell is as cheap and more accurate."""

    budget: int
    votes: int
    n_tasks: int
    accuracy: float
    low: float
    high: float
    pass_at: float
    tokens_mean: float
    pareto: float


def make_grid(tasks: Sequence[TaskRows], most_votes: int = MAX_VOTES) -> Grid:
    """Votes are 1, 2, 4 ... up to the samples that every task has, and up to `most_votes`."""
    budgets = sorted(tasks[0]) if tasks else []
    common = min((len(rows) for task in tasks for rows in task.values()), default=0)
    votes = [1 << power for power in range(min(common, most_votes).bit_length())]
    cells = tuple(product(budgets, votes))
    shape = len(tasks), len(cells)
    majority, passed, tokens = np.empty(shape), np.empty(shape), np.empty(shape)
    for number, task in enumerate(tasks):
        for column, (budget, k) in enumerate(cells):
            rows = task[budget]
            right = [row.status == Status.CORRECT for row in rows]
            majority[number, column] = labelled_majority_at_k([row.label for row in rows], right, k)
            passed[number, column] = pass_at_k(sum(right), len(rows), k)
            tokens[number, column] = k * sum(row.spent_tokens for row in rows) / len(rows)
    return Grid(cells, majority, passed, tokens)


def parallel_map(tasks: Sequence[TaskRows], *, seed: int = 0, resamples: int = RESAMPLES) -> list[MapPoint]:
    """Every cell with its interval and how sure it is one of the best for its cost."""
    grid = make_grid(tasks)
    if not grid.cells:
        return []
    shares = np.zeros(len(grid.cells))
    drawn = np.column_stack([grid.majority, grid.tokens])
    for block in resampled_means(drawn, seed, resamples):
        shares += _undominated(block[:, : len(grid.cells)], block[:, len(grid.cells) :]).sum(axis=0)
    return [
        MapPoint(budget, votes, one.n_tasks, one.value, one.low, one.high, float(passed), float(tokens), float(pareto))
        for (budget, votes), one, passed, tokens, pareto in zip(
            grid.cells,
            mean_intervals(grid.majority),
            grid.passed.mean(axis=0),
            grid.tokens.mean(axis=0),
            shares / resamples,
            strict=True,
        )
    ]


def map_of(samples: Sequence[GradedSample], seed: int = 0) -> list[MapPoint]:
    """Sequential against parallel, over the samples that are there at every budget; empty with one sample a task."""
    points = parallel_map(whole_samples(samples).by_budget(), seed=seed)
    return points if any(point.votes > 1 for point in points) else []


@dataclass(frozen=True, slots=True)
class Chosen:
    """A cell for each of the tasks that it is judged on, told by other tasks."""

    judged: Sequence[TaskRows]
    grid: Grid
    cells: NDArray[np.int_]  # [n_tasks], indices into the grid's cells
    chosen: Sequence[int]  # the cell of each group, first as the odd tasks chose it, then as the even ones did


def choose(stored: Stored, tokens: float, bins: int | None = None, most_votes: int = MAX_VOTES) -> Chosen:
    """One cell for all tasks within a mean of `tokens` a task, or with `bins` one for each group of tasks.

    Groups are of how hard a task is, told by its even samples; the cells are then chosen and judged on the odd ones.

    Raises:
        ValueError: there are too few tasks, or not even the cheapest cells fit.
    """
    tasks = stored.by_budget()
    judged, groups = (tasks, [0] * len(tasks)) if bins is None else _held_out(tasks, bins)
    if len(judged) < 2:
        raise ValueError(f"it chooses on one half of the tasks and judges on the other, and there are {len(judged)}")
    grid = make_grid(judged, most_votes)
    return Chosen(judged, grid, *allocate(grid, groups, tokens))


def allocate(grid: Grid, groups: Sequence[int], budget: float) -> tuple[NDArray[np.int_], list[int]]:
    """The best cell for each group of tasks within a mean of `budget` tokens a task, chosen on the other half.

    `groups` is the group of each task, 0, 1, 2 ... Tasks are split into halves by their place: even and odd.
    Returns the cell of each task, [n_tasks], and those that the halves chose, as in `Chosen`.

    Raises:
        ValueError: not even the cheapest cells fit.
    """
    places = np.arange(len(grid.majority))
    own = np.empty(len(places), dtype=int)
    chosen = []
    labels = np.asarray(groups)
    for half in (0, 1):
        cells = _cheapest_best(grid, labels, places % 2 != half, budget)
        own[places % 2 == half] = np.array(cells)[labels[places % 2 == half]]
        chosen += cells
    return own, chosen


def _held_out(tasks: Sequence[TaskRows], bins: int) -> tuple[Sequence[TaskRows], list[int]]:
    """Tasks with their odd samples, grouped by how often their even samples are right at the largest budget.

    The even samples are not charged: how hard a task is is taken as known, as by C. Snell et al., 2024.
    """
    held_out = [task[max(task)][::2] for task in tasks]
    easy = np.array([np.mean([row.status == Status.CORRECT for row in rows]) for rows in held_out])
    # The place among all tasks, so that groups are as even as ties allow.
    ranks = np.searchsorted(np.sort(easy), easy) / max(len(easy), 1)
    present = {group: number for number, group in enumerate(sorted({int(rank * bins) for rank in ranks}))}
    return [{b: rows[1::2] for b, rows in task.items()} for task in tasks], [present[int(r * bins)] for r in ranks]


def describe_cells(grid: Grid, chosen: Sequence[int]) -> str:
    """`4 x 1k or 1 x 10k; ...`: what the two halves chose, group by group."""
    half = len(chosen) // 2
    names = [f"{grid.cells[cell][1]} x {format_budget(grid.cells[cell][0])}" for cell in chosen]
    return "; ".join(" or ".join(dict.fromkeys(pair)) for pair in zip(names[:half], names[half:], strict=True))


def _cheapest_best(grid: Grid, groups: np.ndarray, rows: np.ndarray, budget: float) -> list[int]:
    """A cell for each group: the most accurate within the budget over the tasks `rows`.

    Lagrange: for a price a token each group takes the cell with the most accuracy after paying, and the price
    is the one that leaves the tasks within the budget (H. Everett, 1963).
    """
    numbers = range(int(groups.max()) + 1)
    # A group that has no task in this half is told by all of its half's tasks.
    members = [rows & (groups == group) if (rows & (groups == group)).any() else rows for group in numbers]
    weights = np.array([(rows & (groups == group)).sum() for group in numbers]) / rows.sum()
    gains = np.stack([grid.majority[own].mean(axis=0) for own in members])
    costs = np.stack([grid.tokens[own].mean(axis=0) for own in members])
    best: list[int] | None = None
    highest = -1.0
    for price in PRICES:
        cells = np.argmax(gains - price * costs, axis=1)
        picked = np.arange(len(cells)), cells
        if weights @ costs[picked] <= budget and weights @ gains[picked] > highest:
            best, highest = cells.tolist(), float(weights @ gains[picked])
    if best is None:
        cheapest = weights @ costs.min(axis=1)
        raise ValueError(
            f"{budget:,.0f} tokens a task are too few: the cheapest that was sampled costs {cheapest:,.0f}"
        )
    return best


def _undominated(accuracy: Floats, tokens: Floats) -> np.ndarray:
    """[n, n_cells] of bool: no other cell is at least as accurate and at most as costly, and better in one."""
    better = np.zeros(accuracy.shape, dtype=bool)
    for cell in range(accuracy.shape[1]):
        as_good = (accuracy >= accuracy[:, [cell]]) & (tokens <= tokens[:, [cell]])
        strictly = (accuracy > accuracy[:, [cell]]) | (tokens < tokens[:, [cell]])
        better[:, cell] = (as_good & strictly).any(axis=1)
    return ~better
