"""The life of one worker process of `verifiers.pool`.

A keeper imports and warms the libraries once, and never runs a job. Jobs run in a child that it forks, which shares
its warm memory: when the kernel ends a job at its deadline or at the memory cap, the next child is there within
milliseconds. A child dies with its keeper, and the keeper goes when the pool's process is gone. For Linux.
"""

from __future__ import annotations

import ctypes
import gc
import json
import mmap
import os
import resource
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn, TextIO

START_DEADLINE_S = 120.0
_PARENT_CHECK_S = 1.0
_WOKEN_BY = {signal.SIGCHLD, signal.SIGTERM}
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def serve(target: str, *, deadline_s: float, memory_bytes: int, parent: int) -> None:
    """Make the function that the factory `target` ("module:name") returns, then have children answer jobs with it.

    A job is a line of JSON, the list of arguments, on the standard input. A reply is a line of JSON on the standard
    output: {"result": ...}, {"error": "what the job raised"} or {"died": exit status of the child}.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not mix with the replies
    _limit_memory(memory_bytes)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    module, _, factory = target.partition(":")
    with _killed_after(START_DEADLINE_S):
        try:
            function = getattr(import_module(module), factory)()
        except Exception as error:  # noqa: BLE001 - told to the pool
            _send(replies, _error(error))
            return
    _send(replies, json.dumps({"result": None}))
    _keep_a_child(lambda at_work: _answer_jobs(function, replies, deadline_s, at_work), replies, parent)


def _keep_a_child(live: Callable[[mmap.mmap], NoReturn], replies: TextIO, parent: int) -> NoReturn:
    """Fork a child that lives by `live`, and another one whenever a job has ended it."""
    at_work = mmap.mmap(-1, 1)  # shared with the child: 1 while it runs a job
    libc = ctypes.CDLL(None)
    keeper = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, _WOKEN_BY)
    gc.freeze()  # what is warm stays shared
    while True:
        child = os.fork()
        if child == 0:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == keeper:
                live(at_work)
            os._exit(0)
        status = _wait(child, parent)
        if status is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os._exit(0)
        if not at_work[0]:  # between two jobs: the pool is gone, or somebody killed the child
            os._exit(0)
        at_work[0] = 0
        _send(replies, json.dumps({"died": status}))


def _wait(child: int, parent: int) -> int | None:
    """The exit status of the child; None when the pool's process is gone or wants an end."""
    while os.getppid() == parent:
        woken = signal.sigtimedwait(_WOKEN_BY, _PARENT_CHECK_S)
        if woken is not None and woken.si_signo == signal.SIGTERM:
            return None
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
    return None


def _answer_jobs(function: Callable[..., Any], replies: TextIO, deadline_s: float, at_work: mmap.mmap) -> NoReturn:
    """The life of a child: answer jobs until the input ends."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WOKEN_BY)
    for job in sys.stdin:
        at_work[0] = 1
        with _killed_after(deadline_s):
            reply = _answer(function, job)
        at_work[0] = 0
        _send(replies, reply)
    os._exit(0)


def _answer(function: Callable[..., Any], job: str) -> str:
    try:
        return json.dumps({"result": function(*json.loads(job))})
    except Exception as error:  # noqa: BLE001 - told to the pool
        return _error(error)


def _error(error: Exception) -> str:
    return json.dumps({"error": f"{type(error).__name__}: {error}"})


def _send(replies: TextIO, reply: str) -> None:
    replies.write(reply + "\n")
    replies.flush()


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
