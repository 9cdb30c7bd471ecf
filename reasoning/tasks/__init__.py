"""Where tasks come from: the countdown generator, named sets, and the user's own files."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from reasoning.tasks import countdown
from reasoning.tasks.base import TaskError, TaskSpec
from reasoning.tasks.code_sets import CODE_SETS
from reasoning.tasks.named import NAMED_SETS, NamedSet, from_rows, load_hub
from reasoning.tasks.records import READERS, check_verifier, read_records, to_tasks
from reasoning.types import Task

__all__ = ["TASKS", "TaskError", "TaskSpec", "data_hash", "load_tasks"]

DEFAULT_FILE_VERIFIER = "math"


def load_tasks(spec: TaskSpec) -> list[Task]:
    """The tasks that `spec` asks for. Raises `TaskError` with a message that is ready to show."""
    if spec.limit is not None and spec.limit < 1:
        raise TaskError(f"a limit of {spec.limit} leaves no tasks; write at least 1")
    if spec.name in TASKS:
        return TASKS[spec.name](spec)
    if Path(spec.name).suffix.lower() in READERS:
        return _from_file(spec)
    near = get_close_matches(spec.name, TASKS, n=1)
    write = f"did you mean '{near[0]}'? Write" if near else "write"
    raise TaskError(f"unknown tasks '{spec.name}'; {write} {', '.join(TASKS)}, or a {', '.join(READERS)} file")


def data_hash(tasks: Sequence[Task]) -> str:
    """SHA-256, in hexadecimal, over all fields of the tasks in order."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(json.dumps(asdict(task), sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def _countdown(spec: TaskSpec) -> list[Task]:
    if spec.path is not None or spec.verifier not in (None, "countdown"):
        raise TaskError("countdown has its own problems and verifier; leave out --data.path and --data.verifier")
    count = countdown.DEFAULT_COUNT if spec.limit is None else spec.limit
    return countdown.tasks(spec.levels, count, spec.split, spec.seed, spec.prompt)


def _named(spec: TaskSpec, *, name: str, named: NamedSet) -> list[Task]:
    verifier = spec.verifier or named.verifier
    check_verifier(verifier, name)
    if spec.path is None:
        records, source = load_hub(name, named, spec.split, spec.revision), named.hub
    else:
        records, source = read_records(Path(spec.path)), spec.path
        if name in CODE_SETS:
            records = from_rows(name, named, records, spec.split)
    return _limited(to_tasks(records, source, verifier), spec)


def _from_file(spec: TaskSpec) -> list[Task]:
    if spec.path is not None:
        raise TaskError(f"--data.path gives a file for a named set; '{spec.name}' is a file already")
    tasks = to_tasks(read_records(Path(spec.name)), spec.name, spec.verifier or DEFAULT_FILE_VERIFIER)
    return _limited(tasks, spec)


def _limited(tasks: list[Task], spec: TaskSpec) -> list[Task]:
    """All tasks in order, or the first `limit` of a seeded shuffle."""
    if spec.limit is None:
        return tasks
    return random.Random(spec.seed).sample(tasks, len(tasks))[: spec.limit]


TASKS: dict[str, Callable[[TaskSpec], list[Task]]] = {
    "countdown": _countdown,
    **{name: partial(_named, name=name, named=named) for name, named in (NAMED_SETS | CODE_SETS).items()},
}
