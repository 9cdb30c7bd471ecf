"""The folder of one run and the files in it.

Killing a run at any point loses at most the samples in flight. The manifest marks the folder as a run, config.json that
it is ready to receive samples; `reasoning.run_start` writes both.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from reasoning.files import StoredDataError, read_as, read_json, write_json
from reasoning.records import generations_of, key_of, keys_of, task_of, verdict_of
from reasoning.types import FinishReason, Generation, SampleKey, Task
from verifiers.base import Verdict

KIND = "reasoning-harness evaluation"

FIGURES = (
    "accuracy",
    "outcomes",
    "tokens",
    "seconds",
    "kv",
    "parallel",
    "heatmap",
    "samples",
    "policies",
    "throughput",
    "steps",
    "latency",
    "roofline",
    "comparison",
    "difference",
)
"""Files in plots/, each as .png, .svg and .json. The last two are of several runs."""

WRITTEN = (
    "config.json",  # first: without it, what is left of a run is not taken for one to continue
    "traces.jsonl",
    "verdicts.jsonl",
    "engine.jsonl",
    "steps.jsonl",
    "tasks.jsonl",
    "results.json",
    "results.csv",
    "run.log",
    "audit.jsonl",
    "report.html",
    "comparison.html",
    *(f"plots/{name}.{suffix}" for name in FIGURES for suffix in ("png", "svg", "json")),
)
"""What a run leaves in its folder beside the manifest, in the order in which it is deleted."""


class RunFolderError(ValueError):
    """The run folder cannot be used as asked; the message names the ways out."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where everything of one run lies."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def tasks(self) -> Path:
        return self.path / "tasks.jsonl"

    @property
    def traces(self) -> Path:
        return self.path / "traces.jsonl"

    @property
    def verdicts(self) -> Path:
        return self.path / "verdicts.jsonl"

    @property
    def engine_states(self) -> Path:
        return self.path / "engine.jsonl"

    @property
    def steps(self) -> Path:
        """Of a run that was profiled: what each step of the engine held."""
        return self.path / "steps.jsonl"

    @property
    def log(self) -> Path:
        return self.path / "run.log"

    @property
    def audit(self) -> Path:
        return self.path / "audit.jsonl"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def comparison(self) -> Path:
        return self.path / "comparison.html"

    @property
    def plots(self) -> Path:
        return self.path / "plots"

    @property
    def is_run(self) -> bool:
        return self.manifest.exists() and read_json(self.manifest).get("kind") == KIND

    @property
    def is_ready(self) -> bool:
        return self.is_run and self.config.exists()

    def read_config(self) -> dict[str, Any]:
        return read_json(self.config)

    def read_manifest(self) -> dict[str, Any]:
        return read_json(self.manifest)

    def update_manifest(self, **changes: Any) -> None:
        write_json(self.manifest, self.read_manifest() | changes)

    def read_tasks(self) -> dict[str, Task]:
        """The tasks of the run by id. To ask for one that it does not have is a StoredDataError."""
        return _Tasks(self.tasks, {task.id: task for task in read_as(self.tasks, task_of)})

    def read_generations(self) -> Iterator[Generation]:
        """Every stored generation in the order of writing. A key comes again when its sample had failed before."""
        for rows in read_as(self.traces, lambda line: tuple(generations_of(line))):
            yield from rows

    def read_verdicts(self) -> dict[SampleKey, Verdict]:
        return dict(read_as(self.verdicts, verdict_of))

    def graded_keys(self) -> set[SampleKey]:
        return set(read_as(self.verdicts, key_of, before="status"))

    def read_last_states(self) -> dict[int, dict[str, Any]]:
        """The last state of the engine in each attempt at the run."""
        return dict(read_as(self.engine_states, _by_attempt))

    def read_states(self) -> dict[int, list[dict[str, Any]]]:
        """The states of the engine in each attempt at the run."""
        states: dict[int, list[dict[str, Any]]] = {}
        for attempt, state in read_as(self.engine_states, _by_attempt):
            states.setdefault(attempt, []).append(state)
        return states

    def read_answers(self) -> Iterator[tuple[tuple[SampleKey, ...], str]]:
        """Every stored answer with the samples that it is for, as written; failures of the engine have none."""
        for keys, reason, answer in read_as(self.traces, _answer_of, before="text"):
            if reason != FinishReason.ERROR:
                yield keys, answer

    def finished_keys(self) -> set[SampleKey]:
        return {key for keys, _ in self.read_answers() for key in keys}

    @contextmanager
    def lock(self) -> Generator[None]:
        """Be the only writer. A process that dies gives the lock back.

        Raises:
            RunFolderError: another process is writing here.
        """
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = f"another process is writing to {self.path}; wait for it or end it first"
                raise RunFolderError(message) from None
            yield
        finally:
            os.close(descriptor)


class _Tasks(dict[str, Task]):
    """A sample of a task that is not there is found wherever it is asked for: the file was changed or is gone."""

    def __init__(self, path: Path, tasks: dict[str, Task]) -> None:
        super().__init__(tasks)
        self._path = path

    def __missing__(self, task_id: str) -> Task:
        raise StoredDataError(f"{self._path} has no task '{task_id}', of which a sample is stored; put the file back")


def _answer_of(line: Mapping[str, Any]) -> tuple[tuple[SampleKey, ...], str, str]:
    return keys_of(line), line["finish_reason"], line["answer_text"]


def _by_attempt(state: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return state["attempt"], state


def open_run(path: Path) -> RunFolder:
    """An existing run, to score or report.

    Raises:
        RunFolderError: there is none at `path`.
    """
    folder = RunFolder(path)
    if not path.is_dir():
        raise RunFolderError(f"no run folder at {path}")
    if not folder.is_ready:
        raise RunFolderError(f"{path} is not a run folder: it holds no manifest.json and config.json of an evaluation")
    return folder


def make_folder(path: Path) -> RunFolder:
    """The folder at `path`, which may be there already: to be locked before anything is read or written in it.

    Raises:
        RunFolderError: there can be no folder.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None
    return RunFolder(path)


def make_new_folder(path: Path) -> RunFolder:
    """A folder of one's own: at `path`, or with -2, -3 ... behind it where another run was faster.

    Raises:
        RunFolderError: there can be no folder.
    """
    own, number = path, 1
    while True:
        try:
            own.mkdir(parents=True)
            return RunFolder(own)
        except FileExistsError:
            number += 1
            own = path.with_name(f"{path.name}-{number}")
        except OSError as error:
            raise unwritable(path, error) from None


def default_path(tasks: str, model: str, now: datetime) -> Path:
    """runs/<tasks>--<model>--<yyyymmdd-hhmmss>; of paths, the last part names the run."""
    names = [re.sub(r"[^\w.-]+", "-", name) for name in (Path(tasks).stem, Path(model).name)]
    return Path("runs", "--".join([*names, f"{now:%Y%m%d-%H%M%S}"]))


def unwritable(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(f"cannot write to {path}: {error.strerror}. Choose another --out.")
