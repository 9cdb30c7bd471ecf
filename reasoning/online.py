"""Policies that draw the samples of a task while the run goes on, above the budget controller.

A task gets its next samples when its policy wants them and not before; no task waits for another. What a policy decides
follows from the finished samples alone, in the order of their numbers: a run that is continued decides the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.allocation import choose
from eval.contrast import identity
from eval.stored import whole_samples
from reasoning.budget.drawing import Allocation, Draw, Drawn, DrawPolicy, owed_draws
from reasoning.budget.early_exit import Label
from reasoning.budget.policies import ADAPTIVE, ALLOCATION, draws_samples, read_online
from reasoning.budgets import format_budget
from reasoning.config import ConfigError
from reasoning.drawn import policy_by_name
from reasoning.eval_config import EvalConfig
from reasoning.grading import Graded, answer_label
from reasoning.run_folder import RunFolder, open_run
from reasoning.summary import check_replayable, read_samples
from reasoning.types import FinishReason, Generation, SampleKey, Task


def draw_policy(config: EvalConfig, tasks: Sequence[Task], budgets: Sequence[int]) -> DrawPolicy | None:
    """The policy of the settings if it draws samples, and None if it does not.

    Raises:
        ConfigError, RunFolderError: it cannot be used with these settings, tasks or budgets, ascending.
    """
    text = config.policy
    if text is None or not draws_samples(text):
        return None
    name, values = read_online(text)
    if budgets[0] == 0:
        raise ConfigError(f"policy {text} has no use for budget 0; leave it out")
    if name in ALLOCATION:
        return _allocation(text, values, config.samples, tasks, budgets)
    if name in ADAPTIVE and len(budgets) > 1:
        one, many = format_budget(budgets[-1]), ",".join(map(format_budget, budgets))
        raise ConfigError(f"policy {text} compares the answers at one budget: write --budgets {one}, not {many}")
    fewest = 1 if name in ADAPTIVE else values["warmup"]
    if config.samples <= fewest:
        raise ConfigError(
            f"policy {text} has nothing to decide with {config.samples:,} samples a task; "
            f"--samples says how many it may draw: write {fewest + 1:,} or more"
        )
    return policy_by_name(name, values, budgets[-1], config.samples)


def _allocation(
    text: str, values: Mapping[str, Any], samples: int, tasks: Sequence[Task], budgets: Sequence[int]
) -> Allocation:
    """Chosen from a stored run of the same tasks as its replay would choose: each task by the other half of them."""
    folder = open_run(Path(values["from"]))
    check_replayable(folder)
    known, wanted = folder.read_tasks(), {task.id: identity(task) for task in tasks}
    others = [task_id for task_id in wanted if task_id not in known or identity(known[task_id]) != wanted[task_id]]
    if others:
        raise ConfigError(
            f"policy {text}: {folder.path} does not have {len(others):,} of the {len(tasks):,} tasks, such as "
            f"{others[0]}; sample it with the same --tasks, --limit and --seed"
        )
    rows = read_samples(folder)
    if missing := sorted({*budgets} - {row.key.budget for row in rows}):
        raise ConfigError(f"policy {text}: {folder.path} has no budget {format_budget(missing[0])} to choose by")
    stored = whole_samples([row for row in rows if row.key.task_id in wanted and row.key.budget in budgets])
    least = 1 if "bins" not in values else 2
    if short := [task_id for task_id in wanted if len(stored.tasks.get(task_id, ())) < least]:
        raise ConfigError(f"policy {text}: {folder.path} has fewer than {least} whole samples of task {short[0]}")
    arguments = {name: value for name, value in values.items() if name != "from"}
    try:
        found = choose(stored, **arguments, most_votes=samples)
    except ValueError as error:
        raise ConfigError(f"policy {text}: {error}") from None
    cells = zip(stored.tasks, found.cells, strict=True)
    return Allocation({task_id: found.grid.cells[cell] for task_id, cell in cells})


class Draws:
    """What each task of a run still has to draw. `label` reads the stored answers that have no verdict."""

    def __init__(self, policy: DrawPolicy, tasks: Iterable[str], label: Label, folder: RunFolder) -> None:
        self._policy = policy
        self._finished: dict[str, dict[int, Drawn]] = {task_id: {} for task_id in tasks}
        self._asked: defaultdict[str, set[int]] = defaultdict(set)
        self._ungraded: dict[SampleKey, Generation] = {}
        verdicts = folder.read_verdicts()
        for row in folder.read_generations():
            if row.finish_reason is not FinishReason.ERROR:
                known = verdicts.get(row.key)
                if known is None:
                    self._note(row, label(row.key.task_id, row.answer_text))
                else:
                    self._note(row, answer_label(known.status, known.extracted, known.answer_form))

    @property
    def n_finished(self) -> int:
        return sum(map(len, self._finished.values()))

    def first(self) -> list[tuple[str, Draw]]:
        """The first samples of every task, those of low numbers first: so tasks advance together."""
        wanted = [(task_id, draw) for task_id in self._finished for draw in self._new(task_id)]
        return sorted(wanted, key=lambda one: one[1].number)

    @property
    def is_waiting(self) -> bool:
        """Whether a sample is finished and not graded yet."""
        return bool(self._ungraded)

    def add(self, rows: Iterable[Generation], graded: Iterable[Graded]) -> list[tuple[str, Draw]]:
        """What is wanted after rows that finished, and verdicts that came for these or earlier ones.

        A task of which the engine failed a sample gets no more of them.
        """
        self._ungraded |= {row.key: row for row in rows if row.finish_reason is not FinishReason.ERROR}
        tasks = []
        for (key, *_), verdict in graded:
            if (row := self._ungraded.pop(key, None)) is not None:
                self._note(row, answer_label(verdict.status, verdict.extracted, verdict.answer_form))
                tasks.append(key.task_id)
        return [(task_id, draw) for task_id in dict.fromkeys(tasks) for draw in self._new(task_id)]

    def _new(self, task_id: str) -> list[Draw]:
        wanted = owed_draws(self._policy, task_id, self._finished[task_id])
        new = [draw for draw in wanted if draw.number not in self._asked[task_id]]
        self._asked[task_id].update(draw.number for draw in new)
        return new

    def _note(self, row: Generation, label: str | None) -> None:
        self._finished[row.key.task_id][row.key.sample] = Drawn(label, row.thinking_confidence)
