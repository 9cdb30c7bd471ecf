"""Worker processes with a hard deadline, for functions that may hang, eat memory or crash.

A pool runs one function in a few persistent processes. Jobs and results are lines of JSON over pipes. The kernel
ends a job that reaches the deadline or the memory cap; the worker is fit for the next one within milliseconds, for it
keeps its warm memory (`verifiers.worker`). The clock starts when a warm worker takes the job, never in the queue.
Workers are plain new processes, so the pool's own may hold threads, CUDA or a server, or be a fork itself; they die
with it. For Linux.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from verifiers.worker import START_DEADLINE_S

_END_DEADLINE_S = 2.0


class JobTimeout(Exception):
    """The job reached the deadline and was killed."""


class JobFailed(Exception):
    """The job raised, or its process died; the message says which."""


class WorkerPool:
    """Calls the function that the factory `target` ("module:name") returns, in up to `size` processes at a time.

    The factory runs once in every worker before its first job: imports and warm-up belong there. Arguments and
    results must be JSON values. `call` may be used from many threads, each gets the result of its own job, and so
    from asyncio by `asyncio.to_thread`. Workers start when needed, and again after a fork or `close`.
    """

    def __init__(self, target: str, *, size: int, deadline_s: float, memory_bytes: int) -> None:
        self._command = _worker_command(target, deadline_s, memory_bytes)
        self._size = size
        self._reset()
        os.register_at_fork(after_in_child=self._reset)  # a forked child must not share our pipes

    def _reset(self) -> None:
        self._slots = threading.BoundedSemaphore(self._size)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()

    def call(self, *arguments: Any) -> tuple[Any, float]:
        """The result and the seconds it took. Raises `JobTimeout` or `JobFailed`. Waits for a free worker."""
        with self._slots:
            worker = self._take()
            started = time.perf_counter()
            try:
                reply = worker.ask(arguments)
            except BaseException:
                self._discard(worker)
                raise
            seconds = time.perf_counter() - started
            with self._lock:
                self._idle.append(worker)
        return _result(reply), seconds

    def close(self) -> None:
        """End all workers; jobs that run fail. A later call starts new ones."""
        with self._lock:
            for worker in self._all:
                worker.terminate()
            for worker in self._all:
                worker.kill()

    def _take(self) -> _Worker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    return worker
                self._all.discard(worker)
                worker.release()
            worker = _Worker(self._command)
            self._all.add(worker)
        try:
            worker.wait_until_ready()
        except BaseException:
            self._discard(worker)
            raise
        return worker

    def _discard(self, worker: _Worker) -> None:
        with self._lock:
            self._all.discard(worker)
        worker.release()


def _result(reply: dict[str, Any]) -> Any:
    if reply.get("died") == -signal.SIGALRM:
        raise JobTimeout("the deadline was reached")
    if "died" in reply:
        raise JobFailed(f"the worker died (exit status {reply['died']})")
    if "error" in reply:
        raise JobFailed(reply["error"])
    return reply["result"]


class _Worker:
    """The pool's side of one worker. Used by one thread at a time, but for `kill`."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            [*command, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for the pool's process to handle
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._jobs, self._replies = self._process.stdin, self._process.stdout

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        try:
            _result(self._read())
        except JobTimeout:
            raise JobFailed(f"the worker was not ready after {START_DEADLINE_S:.0f} s") from None
        except JobFailed as error:
            raise JobFailed(f"the worker could not start: {error}") from None

    def ask(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        with suppress(BrokenPipeError):  # it died: reading tells of what
            self._jobs.write(json.dumps(arguments) + "\n")
            self._jobs.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._replies.readline()
        if line.endswith("\n"):
            return json.loads(line)
        return {"died": self._process.wait()}

    def terminate(self) -> None:
        """Ask the process to end, with the job that it runs."""
        self._process.terminate()

    def kill(self) -> None:
        """End the process; it has a moment to go in good order."""
        self.terminate()
        try:
            self._process.wait(_END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)

    def release(self) -> None:
        """End the process if it still runs, and free what it held here."""
        self.kill()
        self._process.wait()
        self._replies.close()
        with suppress(BrokenPipeError):  # a job that was never read
            self._jobs.close()


def _worker_command(target: str, deadline_s: float, memory_bytes: int) -> list[str]:
    """A new interpreter that finds the modules that this one finds, whatever the working directory holds."""
    program = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from verifiers.worker import serve\n"
        f"serve({target!r}, deadline_s={deadline_s!r}, memory_bytes={memory_bytes!r}, parent=int(sys.argv[1]))"
    )
    return [sys.executable, "-P", "-c", program]
