"""A second opinion on the mathematical answers of a stored run: where Math-Verify decides otherwise.

Neither side is right by itself: the table is there to be read. Math-Verify reads the whole answer with its own settings
(policy `math_verify_compat`), in worker processes with a deadline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from reasoning.budgets import format_budget, json_budget
from reasoning.grading import THREADS
from reasoning.run_folder import RunFolder, RunFolderError
from reasoning.types import SampleKey, Task
from verifiers import grade
from verifiers.base import Status, Verdict

THEIRS = "math_verify_compat"
MATHEMATICAL = frozenset({"math", "numeric"})
"""The verifiers whose answers Math-Verify can read."""

_LONGEST_CELL = 60


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """The two verdicts on one stored answer. `budgets` share it; `ours` and `theirs` are statuses."""

    task_id: str
    sample: int
    budgets: tuple[int, ...]
    ours: str
    rule: str
    theirs: str
    extracted: str | None
    reference: str

    @property
    def agrees(self) -> bool:
        """Whether both pay, or neither does."""
        return (self.ours == Status.CORRECT) == (self.theirs == Status.CORRECT)


def audit(folder: RunFolder) -> list[SecondOpinion]:
    """Both verdicts on every mathematical answer that is graded, in the order of tasks and samples.

    Raises:
        RunFolderError: the run has no such answers.
    """
    answers = list(_answers(folder.read_answers(), folder.read_tasks(), folder.read_verdicts()))
    if not answers:
        kinds = sorted({task.verifier for task in folder.read_tasks().values()})
        raise RunFolderError(
            f"{folder.path} has no mathematical answers with a verdict (its tasks are graded by: {', '.join(kinds)}); "
            "--audit is for runs on tasks of the verifiers math and numeric"
        )
    with ThreadPoolExecutor(THREADS) as threads:
        return sorted(threads.map(_compare, answers), key=lambda row: (row.task_id, row.sample, row.budgets))


_Answer = tuple[tuple[SampleKey, ...], str, Task, Verdict]


def _answers(
    stored: Iterator[tuple[tuple[SampleKey, ...], str]],
    tasks: Mapping[str, Task],
    verdicts: Mapping[SampleKey, Verdict],
) -> Iterator[_Answer]:
    for keys, text in stored:
        task, verdict = tasks[keys[0].task_id], verdicts.get(keys[0])
        if task.verifier in MATHEMATICAL and verdict is not None:
            yield keys, text, task, verdict


def _compare(answer: _Answer) -> SecondOpinion:
    keys, text, task, ours = answer
    theirs = grade("math", text, task.reference, {"policy": THEIRS})
    return SecondOpinion(
        task_id=task.id,
        sample=keys[0].sample,
        budgets=tuple(key.budget for key in keys),
        ours=ours.status.value,
        rule=ours.rule,
        theirs=theirs.status.value,
        extracted=ours.extracted,
        reference=task.reference,
    )


def print_audit(rows: Sequence[SecondOpinion]) -> None:
    """The disagreements as a table, then the counts."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("task", "sample", "budget", "ours", "theirs", "extracted", "reference"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        if not row.agrees:
            table.add_row(*_cells(row))
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 160
    if table.row_count:
        console.print(table)
    for line in counts(rows):
        console.print(line)


def _cells(row: SecondOpinion) -> tuple[str, ...]:
    return (
        row.task_id,
        str(row.sample),
        ", ".join(map(format_budget, row.budgets)),
        f"{row.ours}: {row.rule}" if row.rule else row.ours,
        row.theirs,
        *map(_cut, (row.extracted, row.reference)),
    )


def _cut(text: str | None) -> str:
    """On one line, and short enough for a cell."""
    line = " ".join((text or "-").split())
    return line if len(line) <= _LONGEST_CELL else line[: _LONGEST_CELL - 1] + "…"


def counts(rows: Sequence[SecondOpinion]) -> list[str]:
    """How often the two agree, and what each says where they do not."""
    found = Counter((row.ours, row.theirs) for row in rows if not row.agrees)
    agreed = sum(row.agrees for row in rows)
    paid = sum(row.agrees and row.ours == Status.CORRECT for row in rows)
    differ = len(rows) - agreed
    lines = [f"{len(rows):,} answers: both pay {paid:,}, neither pays {agreed - paid:,}, they differ on {differ:,}"]
    lines += [f"  ours {ours}, theirs {theirs}: {count:,}" for (ours, theirs), count in sorted(found.items())]
    return lines


def audit_line(row: SecondOpinion) -> dict[str, object]:
    """A line of audit.jsonl. The budget `none` is null, as in the other files."""
    return asdict(row) | {"budgets": [json_budget(budget) for budget in row.budgets]}
