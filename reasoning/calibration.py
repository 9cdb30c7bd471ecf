"""Do the reference programs of code tasks pass their own tests on this machine?

A problem whose reference fails would be scored 0 whatever a model writes: it is left out and named instead.

What passed is remembered in the user's cache folder, by a hash of the program, its tests, the interpreter and the
sandbox; what failed is tried again every time.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from reasoning.tasks import TaskError
from reasoning.types import Task
from verifiers.code import describe, run_program
from verifiers.sandbox import Outcome


@dataclass(frozen=True, slots=True)
class Calibration:
    """`checked` references were run or remembered; `left_out` says by task id why a problem cannot be scored.

    `unchecked` code tasks have no reference solution, and stay.
    """

    checked: int
    unchecked: int
    left_out: Mapping[str, str]


def calibrate(tasks: Sequence[Task], tier: str, cache: Path | None = None) -> tuple[list[Task], Calibration]:
    """The tasks without those whose reference solution fails, in order. `cache` is the file of what is remembered.

    Raises:
        TaskError: there is nothing to run, or nothing is left.
    """
    code = [task for task in tasks if task.verifier == "code"]
    with_reference = [task for task in code if task.meta.get("solution")]
    if not with_reference:
        raise TaskError("--calibrate runs reference solutions, and none of these tasks has one; leave it out")
    file = cache or cache_file()
    known = _read(file)
    keys = {task.id: _key(task, tier) for task in with_reference}
    unknown = [task for task in with_reference if keys[task.id] not in known]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        failed = [task for task, why in zip(unknown, threads.map(_failure, unknown), strict=True) if why is not None]
    again = {task.id: _failure(task) for task in failed}  # alone: a slow one may have had too little of the machine
    left_out = {task_id: why for task_id, why in again.items() if why is not None}
    _remember(file, [keys[task.id] for task in unknown if task.id not in left_out])
    kept = [task for task in tasks if task.id not in left_out]
    if not kept:
        first = next(iter(left_out))
        raise TaskError(
            f"no task is left: the reference solutions of all {len(left_out):,} fail here; {first}: {left_out[first]}"
        )
    return kept, Calibration(len(with_reference), len(code) - len(with_reference), left_out)


def cache_file() -> Path:
    """Where what passed is remembered: in $XDG_CACHE_HOME, or in .cache of the home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reasoning-harness" / "calibration.txt"


def _failure(task: Task) -> str | None:
    """Why the reference solution of a task does not pass; None: it does."""
    report = run_program(task.meta["solution"], task.meta)
    return None if report.outcome is Outcome.PASS else f"{report.outcome}: {describe(report)}"


def _key(task: Task, tier: str) -> str:
    made_of = [task.meta["solution"], task.meta["tests"], task.meta.get("limits"), sys.version, tier]
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


def _read(file: Path) -> set[str]:
    with suppress(OSError, UnicodeDecodeError):
        return set(file.read_text(encoding="ascii").split())
    return set()


def _remember(file: Path, keys: Sequence[str]) -> None:
    """Append in one write, so that two runs do not mix their lines. Without a cache the next run is only slower."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab", buffering=0) as out:
            out.write("".join(f"{key}\n" for key in keys).encode())
