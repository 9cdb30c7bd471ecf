"""Which tasks to draw next: a memory of how often each is solved, and draws that prefer tasks with something to teach.

A group of completions teaches only when some are right and some are wrong. How likely that is follows from the task's
pass rate, which is remembered from its earlier groups and forgotten as the policy moves on. Draws depend on nothing but
the seed, the number of the draw and the memory, so a run that is resumed draws what the uninterrupted one would.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FORGET = 0.5
"""What the memory of a task's earlier completions is multiplied by when new ones come."""

FLOOR = 0.05
"""The least chance that a task is given: a task that seems hopeless, or solved, is still tried now and then."""


@dataclass(slots=True)
class PassRates:
    """Completions that were right, and all completions, of every task seen; both discounted by FORGET at each visit."""

    seen: dict[str, tuple[float, float]] = field(default_factory=dict)

    def record(self, task_id: str, right: int, tried: int) -> None:
        """One group's outcome: `right` of `tried` completions that have a verdict. `tried` 0 changes nothing."""
        if not 0 <= right <= tried:
            raise ValueError(f"{right} of {tried} completions of task {task_id} cannot be right")
        if tried:
            old_right, old_tried = self.seen.get(task_id, (0.0, 0.0))
            self.seen[task_id] = (FORGET * old_right + right, FORGET * old_tried + tried)

    def chance(self, task_id: str, group_size: int) -> float:
        """The probability that the next group of `group_size` is neither all right nor all wrong, in [FLOOR, 1].

        The pass rate has the posterior Beta(1 + right, 1 + wrong); the chance is 1 - E[p^G] - E[(1 - p)^G] over it.
        """
        right, tried = self.seen.get(task_id, (0.0, 0.0))
        a, b = 1 + right, 1 + tried - right
        steps = range(group_size)
        all_right = math.prod((a + i) / (a + b + i) for i in steps)
        all_wrong = math.prod((b + i) / (a + b + i) for i in steps)
        return max(FLOOR, 1 - all_right - all_wrong)


class TaskSampler:
    """Draws task ids, without repeating one inside a draw.

    Without a curriculum: shuffled epochs, one after the other; a draw that reaches the end of an epoch goes on in the
    next. With it: weighted by `PassRates.chance`.
    """

    def __init__(self, task_ids: Sequence[str], seed: int, group_size: int, *, curriculum: bool) -> None:
        if len(set(task_ids)) != len(task_ids):
            raise ValueError(f"{len(task_ids) - len(set(task_ids))} task ids occur more than once")
        self._ids = tuple(task_ids)
        self._seed = seed
        self._group_size = group_size
        self._curriculum = curriculum
        self.rates = PassRates()
        self._draws = 0  # calls of `draw`
        self._taken = 0  # tasks that they gave
        self._epochs = 0  # epochs begun
        self._left: list[str] = []  # tasks of these that are still to be drawn, in order

    def __len__(self) -> int:
        """Tasks there are."""
        return len(self._ids)

    def draw(self, count: int, without: Collection[str] = ()) -> list[str]:
        """The next `count` tasks, all different and none of `without` (those of the batch that this draw refills).

        Raises:
            ValueError: there are fewer tasks than that.
        """
        if count + len(set(without)) > len(self._ids):
            raise ValueError(
                f"a batch of {count + len(set(without))} different tasks, but there are {len(self._ids)}; "
                "lower generation_batch_size or give more tasks"
            )
        chosen = self._weighted(count, set(without)) if self._curriculum else self._in_epochs(count, set(without))
        self._draws += 1
        self._taken += count
        return chosen

    @property
    def epoch(self) -> float:
        """Tasks drawn so far over tasks there are."""
        return self._taken / len(self._ids)

    def state(self) -> dict[str, Any]:
        """Everything that later draws depend on beyond the constructor's arguments, ready for JSON."""
        return {
            "draws": self._draws,
            "taken": self._taken,
            "epochs": self._epochs,
            "left": list(self._left),
            "seen": {task: list(counts) for task, counts in self.rates.seen.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`, of a sampler with the same arguments."""
        self._draws, self._taken, self._epochs = int(state["draws"]), int(state["taken"]), int(state["epochs"])
        self._left = list(state["left"])
        self.rates = PassRates({task: (float(right), float(tried)) for task, (right, tried) in state["seen"].items()})

    def _weighted(self, count: int, banned: set[str]) -> list[str]:
        """Without replacement, by the largest keys u ** (1 / weight) (Efraimidis and Spirakis 2006)."""
        weights = np.array([self.rates.chance(task, self._group_size) for task in self._ids])
        uniform = np.random.default_rng((self._seed, self._draws)).random(len(self._ids))
        order = np.argsort(-np.log1p(-uniform) / weights, kind="stable")
        return [task for task in (self._ids[index] for index in order) if task not in banned][:count]

    def _in_epochs(self, count: int, banned: set[str]) -> list[str]:
        """The next of this epoch and of those after it. A task that is passed over stays the next to be drawn."""
        chosen: list[str] = []
        while True:
            passed_over = []
            for task in self._left:
                if len(chosen) < count and task not in banned:
                    chosen.append(task)
                    banned.add(task)
                else:
                    passed_over.append(task)
            self._left = passed_over
            if len(chosen) == count:
                return chosen
            order = np.random.default_rng((self._seed, self._epochs)).permutation(len(self._ids))
            self._left += [self._ids[index] for index in order]
            self._epochs += 1


def refill(wanted: int, live: int, drawn: int, rounds: int, max_rounds: int) -> int:
    """How many groups to generate in the next round of dynamic sampling; 0: go on with what there is.

    `live` of the `drawn` groups so far can be learnt from, `wanted` are needed, `rounds` refills were made. The share
    so far says how many more it will take; never more than `wanted` at a time, so a round costs no more than the first.
    """
    missing = wanted - live
    if missing <= 0 or rounds >= max_rounds:
        return 0
    return min(wanted, math.ceil(missing * drawn / max(1, live)))
