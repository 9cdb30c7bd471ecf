"""What a task source is asked for, and how it says that it cannot deliver."""

from __future__ import annotations

from dataclasses import dataclass


class TaskError(ValueError):
    """Tasks cannot be made from this input. The message is ready to show: place, value, remedy."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Which tasks to load.

    `name` is a key of `reasoning.tasks.TASKS` or the path of a .jsonl, .csv or .parquet file. `path` gives a
    local file for a named set, which otherwise comes from the hub at `revision`. `limit` keeps that many tasks
    after a shuffle by `seed`; None keeps all (64 for `countdown`, which has no end). `verifier` replaces the
    default one of the set. `levels` (how many numbers) and `prompt` (`plain` or `compact`) are for `countdown`.
    """

    name: str
    split: str = "test"
    limit: int | None = None
    seed: int = 0
    path: str | None = None
    verifier: str | None = None
    levels: tuple[int, ...] = (3, 4, 5, 6)
    prompt: str = "plain"
    revision: str | None = None
