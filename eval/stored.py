"""The samples of a run that are there at every budget: what policies are replayed on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval.curves import MISSING, GradedSample

Rows = list[GradedSample]
"""One sample at all budgets of the run but 0, ascending."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Whole samples, and how many are not whole."""

    tasks: Mapping[str, Sequence[Rows]]  # by task, in the order of the samples' numbers
    budgets: tuple[int, ...]
    left_out: int

    def at(self, budget: int) -> list[list[GradedSample]]:
        """The samples of each task at one budget."""
        column = self.budgets.index(budget)
        return [[rows[column] for rows in samples] for samples in self.tasks.values()]

    def by_budget(self) -> list[dict[int, list[GradedSample]]]:
        """The samples of each task at every budget."""
        return [
            {budget: [rows[column] for rows in samples] for column, budget in enumerate(self.budgets)}
            for samples in self.tasks.values()
        ]


def whole_samples(samples: Sequence[GradedSample]) -> Stored:
    by_sample: defaultdict[tuple[str, int], Rows] = defaultdict(list)
    for sample in sorted((sample for sample in samples if sample.key.budget > 0), key=lambda sample: sample.key):
        by_sample[sample.key.task_id, sample.key.sample].append(sample)
    budgets = tuple(sorted({row.key.budget for rows in by_sample.values() for row in rows}))
    tasks: defaultdict[str, list[Rows]] = defaultdict(list)
    for (task_id, _), rows in by_sample.items():
        if len(rows) == len(budgets) and all(row.status != MISSING for row in rows):
            tasks[task_id].append(rows)
    return Stored(tasks, budgets, len(by_sample) - sum(map(len, tasks.values())))
