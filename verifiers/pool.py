"""Worker processes with a hard deadline, for functions that may hang, eat memory or crash.

A pool runs one function in a few persistent processes. Jobs and results are lines of JSON over pipes. The kernel
ends a worker whose job reaches the deadline or the memory cap; the next job gets a fresh one. The clock starts when a
warmed-up worker takes the job, never in the queue. Workers are plain new processes, so the parent may hold threads,
CUDA or a server; they die with the parent. For POSIX systems.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

START_DEADLINE_S = 120.0
_IDLE_CHECK_S = 1.0


class JobTimeout(Exception):
    """The job reached the deadline; its worker was killed."""


class JobFailed(Exception):
    """The job raised, or its worker died; the message says which."""


class WorkerPool:
    """Calls the function that the factory `target` ("module:name") returns, in up to `size` processes.

    The factory runs once in every worker before its first job: imports and warm-up belong there. Arguments and
    results must be JSON values. `call` may be used from many threads; each gets the result of its own job.
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
            with self._lock:
                self._idle.append(worker)
            if "error" in reply:
                raise JobFailed(reply["error"])
            return reply["result"], time.perf_counter() - started

    def close(self) -> None:
        """Kill all workers; jobs that run fail. A later call starts new ones."""
        with self._lock:
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


class _Worker:
    """The parent's side of one worker process. Used by one thread at a time, but for `kill`."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            [*command, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for the parent to handle
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._jobs, self._replies = self._process.stdin, self._process.stdout

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        try:
            reply = self._read()
        except JobTimeout:
            raise JobFailed(f"the worker was not ready after {START_DEADLINE_S:.0f} s") from None
        if "error" in reply:
            raise JobFailed(f"the worker could not start: {reply['error']}")

    def ask(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        with suppress(BrokenPipeError):  # it died: reading tells of what
            self._jobs.write(json.dumps(arguments) + "\n")
            self._jobs.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._replies.readline()
        if line.endswith("\n"):
            return json.loads(line)
        status = self._process.wait()
        if status == -signal.SIGALRM:
            raise JobTimeout("the deadline was reached")
        raise JobFailed(f"the worker died (exit status {status})")

    def kill(self) -> None:
        self._process.kill()

    def release(self) -> None:
        """Kill the process if it still runs, and free what it held here."""
        self._process.kill()
        self._process.wait()
        self._replies.close()
        with suppress(BrokenPipeError):  # a job that was never read
            self._jobs.close()


def _worker_command(target: str, deadline_s: float, memory_bytes: int) -> list[str]:
    """A new interpreter that finds the modules that this one finds, whatever the working directory holds."""
    program = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from verifiers.pool import serve\n"
        f"serve({target!r}, deadline_s={deadline_s!r}, memory_bytes={memory_bytes!r}, parent=int(sys.argv[1]))"
    )
    return [sys.executable, "-P", "-c", program]


def serve(target: str, *, deadline_s: float, memory_bytes: int, parent: int) -> None:
    """The life of a worker: make the function, then answer jobs until the parent goes away."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not mix with the replies
    _limit_memory(memory_bytes)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})

    def send(message: str) -> None:
        replies.write(message + "\n")
        replies.flush()

    module, _, factory = target.partition(":")
    with _killed_after(START_DEADLINE_S):
        try:
            function = getattr(import_module(module), factory)()
        except Exception as error:  # noqa: BLE001 - told to the parent
            send(_error(error))
            return
    send(json.dumps({"result": None}))
    for job in _jobs(parent):
        with _killed_after(deadline_s):
            message = _answer(function, job)
        send(message)


def _limit_memory(size: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    cap = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_AS, (cap, cap))


@contextmanager
def _killed_after(seconds: float) -> Generator[None]:
    """The kernel ends this process when the block takes longer, even while C code holds the interpreter."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


def _jobs(parent: int) -> Iterator[str]:
    """Lines of the standard input, until it ends or the parent is gone (a fork of it may hold the pipe open)."""
    while os.getppid() == parent:
        if select.select([sys.stdin], [], [], _IDLE_CHECK_S)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            yield line


def _answer(function: Callable[..., Any], job: str) -> str:
    try:
        return json.dumps({"result": function(*json.loads(job))})
    except Exception as error:  # noqa: BLE001 - told to the parent
        return _error(error)


def _error(error: Exception) -> str:
    return json.dumps({"error": f"{type(error).__name__}: {error}"})
