"""Grades answers beside the engine, on threads, and hands the verdicts back to the thread that writes them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue

from reasoning.types import SampleKey, Task
from verifiers import grade
from verifiers.base import Status, Verdict
from verifiers.policy import PRESETS
from verifiers.sandbox import BOXES

THREADS = BOXES
"""They only wait: what grading takes is done in other processes, of which some may sleep until their time is up."""

Graded = tuple[tuple[SampleKey, ...], Verdict]


def describe_policy(name: str) -> dict[str, str]:
    """What a manifest says of the policy that its run is graded by."""
    return {"policy": name, "policy_hash": PRESETS[name].hash}


def answer_label(status: str, extracted: str | None, form: str | None) -> str | None:
    """Which answer it is, for votes and stopping rules: the same label is the same answer, None is none.

    Right answers equal the reference and thereby each other, however they are written; wrong ones are told apart by
    the form in which the verifier compared them, if it has one, else by their text.
    """
    if status == Status.CORRECT:
        return "= reference"
    return (form or extracted) if status != Status.NO_ANSWER else None


class Grader:
    """One verdict for each submitted answer, for all the keys that share it.

    `policy` says what counts as the same mathematical answer; tasks of other kinds are graded the same under all.
    `fair`: a program's verdict is the same on a busy machine. Otherwise no test is waited for beyond its limit.
    """

    def __init__(self, tasks: Mapping[str, Task], policy: str, *, fair: bool = True) -> None:
        self._tasks = tasks
        self._meta = {"policy": policy, "fair": fair}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="grader")
        self._done: SimpleQueue[Future[Graded]] = SimpleQueue()
        self._pending = 0

    def submit(self, keys: tuple[SampleKey, ...], answer: str) -> None:
        """Grade `answer`, the text that follows the thinking; `keys` are all of one task."""
        self._pending += 1
        self._pool.submit(self._grade, keys, answer).add_done_callback(self._done.put)

    def collect(self, *, wait: bool = False) -> list[Graded]:
        """The verdicts that are there by now; `wait` for the first, if any is outstanding."""
        graded: list[Graded] = []
        while len(graded) < self._pending:
            try:
                graded.append(self._done.get(block=wait and not graded).result())
            except Empty:
                break
        self._pending -= len(graded)
        return graded

    def finish(self) -> list[Graded]:
        """All outstanding verdicts."""
        graded = [self._done.get().result() for _ in range(self._pending)]
        self._pending = 0
        return graded

    def close(self) -> None:
        """Drop what has not begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def label(self, task_id: str, answer: str) -> str | None:
        """Which answer a text gives to a task, now."""
        verdict = self._verdict(task_id, answer)
        return answer_label(verdict.status, verdict.extracted, verdict.answer_form)

    def _grade(self, keys: tuple[SampleKey, ...], answer: str) -> Graded:
        return keys, self._verdict(keys[0].task_id, answer)

    def _verdict(self, task_id: str, answer: str) -> Verdict:
        task = self._tasks[task_id]
        return grade(task.verifier, answer, task.reference, {**task.meta, **self._meta})
