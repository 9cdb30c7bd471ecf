"""Grades answers beside the engine, on threads, and hands the verdicts back to the thread that writes them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue

from reasoning.types import SampleKey, Task
from verifiers import grade
from verifiers.base import Verdict

THREADS = 4

Graded = tuple[tuple[SampleKey, ...], Verdict]


class Grader:
    """One verdict for each submitted answer, for all the keys that share it."""

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self._tasks = tasks
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="grader")
        self._done: SimpleQueue[Future[Graded]] = SimpleQueue()
        self._pending = 0

    def submit(self, keys: tuple[SampleKey, ...], answer: str) -> None:
        """Grade `answer`, the text that follows the thinking; `keys` are budgets of one sample."""
        self._pending += 1
        self._pool.submit(self._grade, keys, answer).add_done_callback(self._done.put)

    def collect(self) -> list[Graded]:
        """The verdicts that are there by now."""
        graded = []
        while True:
            try:
                graded.append(self._done.get_nowait().result())
            except Empty:
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

    def _grade(self, keys: tuple[SampleKey, ...], answer: str) -> Graded:
        task = self._tasks[keys[0].task_id]
        return keys, grade(task.verifier, answer, task.reference, task.meta)
