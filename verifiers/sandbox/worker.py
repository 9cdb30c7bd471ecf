"""A worker process: takes a program with its tests, has it run in boxes of its zygote, and makes the verdict.

It is a new interpreter of its own, so that deadlines hold while the process that uses it is busy, and the only one
that knows the expected answers. Jobs and results are lines of JSON.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TextIO

from verifiers.sandbox.assertions import leaves_no_trace
from verifiers.sandbox.client import SandboxError, Zygote
from verifiers.sandbox.forms import FORMS, Result
from verifiers.sandbox.memory import Group
from verifiers.sandbox.running import Box
from verifiers.sandbox.tests_process import TestsProcess
from verifiers.sandbox.types import Limits, Outcome, Tier
from verifiers.sandbox.worker_process import GIVES_WAY

MAX_PROGRAM = 1_000_000
"""Characters."""
_CHECK_EVERY = 2000
_TESTS_USES = 500
_IDLE_CHECK_S = 1.0
_DETAIL = 300


class Worker:
    """Runs jobs one after the other. `user` is whom programs run as, where this process may choose.

    `gives_way` is called when nobody need wait for a program any more (`verifiers.sandbox.look.Look`).
    """

    def __init__(self, tier: Tier, user: int | None, gives_way: Callable[[], None]) -> None:
        self._tier, self._user, self._gives_way = tier, user, gives_way
        self._group = Group.make() if tier is not Tier.PROCESS else None
        self._zygote: Zygote | None = None
        self._tests: TestsProcess | None = None
        self._jobs = 0

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        """The parts of a report. Never raises: what fails here is an outcome of its own."""
        started = time.perf_counter()
        count = job["count"]
        if len(job["program"]) > MAX_PROGRAM:
            detail = f"the program has {len(job['program'])} characters; at most {MAX_PROGRAM} are run"
            return _report([[Outcome.CRASH, 0.0, detail] for _ in range(count)], "split", started)
        for attempt in (1, 2):
            try:
                self._get_ready()
                return self._run(job, started)
            except Exception as error:  # noqa: BLE001 - a named boundary: what fails here is no program's fault
                self._restart()
                if attempt == 2:
                    problem = f"{type(error).__name__}: {error}"[:_DETAIL]
                    return _report([[Outcome.SANDBOX_ERROR, 0.0, problem] for _ in range(count)], "split", started)
        raise AssertionError

    def prepare(self) -> str:
        """Start what programs are forked from. Why that cannot be done, or ""."""
        try:
            self._get_ready()
        except (SandboxError, OSError) as error:
            return str(error) or type(error).__name__
        return ""

    def close(self) -> None:
        self._restart()
        if self._group is not None:
            self._group.remove()

    def check(self) -> None:
        """Raises SandboxError unless a good program passes and one that forges does not."""
        call = {"form": "call", "entry": "f", "compare": "python_eq", "cases": [[[1], 2]], "count": 1}
        forged = "class E:\n    __eq__ = lambda s, o: True\nf = lambda x: E()"
        for program, wanted in (("f = lambda x: x + 1", Outcome.PASS), (forged, Outcome.FAIL)):
            limits = {"timeout_s": 30.0, "memory_mb": 256, "pids": 16, "output_kb": 64, "fsize_mb": 4}
            job = {**call, "program": program, "limits": limits, "patience_s": None, "fail_fast": True}
            outcome = self._run(job, time.perf_counter())["tests"][0]
            if outcome[0] != wanted:
                raise SandboxError(f"the self-check gave {outcome[0]} for {wanted}: {outcome[2]}")

    def _get_ready(self) -> None:
        if self._zygote is None:
            self._zygote = Zygote(self._tier, self._user, self._group)
            self._tests = TestsProcess(self._zygote)
            self.check()
        elif self._jobs % _CHECK_EVERY == 0:
            self.check()
        self._jobs += 1

    def _restart(self) -> None:
        if self._zygote is not None:
            self._zygote.close()
        self._zygote = self._tests = None

    def _run(self, job: dict[str, Any], started: float) -> dict[str, Any]:
        form = FORMS[job["form"]](self, job)
        form.run()
        trust = "shared" if job["form"] == "shared" else "split"
        found = _report(form.results, trust, started)
        said = {"stdout": form.stdout, "stderr": form.stderr}
        return {**found, **said, "starved": form.starved, "needed_s": form.needed_s}

    def box(self, limits: Limits, patience_s: float | None, stdin: bytes, *, floods: bool) -> Box:
        assert self._zygote is not None
        return Box(self._zygote, self._group, limits, stdin, patience_s, self._gives_way, floods=floods)

    def tests_for(self, code: str) -> TestsProcess:
        """A process for this test code: the shared one if the code leaves no trace in it, otherwise its own."""
        assert self._zygote is not None
        assert self._tests is not None
        if not leaves_no_trace(code):
            return TestsProcess(self._zygote)
        if self._tests.ended or self._tests.uses >= _TESTS_USES:
            self._tests.end()
            self._tests = TestsProcess(self._zygote)
        return self._tests

    def done_with(self, tests: TestsProcess) -> None:
        if tests is not self._tests:
            tests.end()


def _report(results: list[Result], trust: str, started: float) -> dict[str, Any]:
    seconds = time.perf_counter() - started
    nothing = {"stdout": "", "stderr": "", "starved": False, "needed_s": 0.0}
    return {"tests": results, "trust": trust, "seconds": seconds, **nothing}


def main(tier: str, user: int | None, parent: int) -> None:
    """Serve jobs until the parent goes away."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.setrecursionlimit(5000)
    _leave_with(parent)
    worker = Worker(Tier(tier), user, lambda: _write(replies, GIVES_WAY.decode()))
    try:
        problem = worker.prepare()
        _say(replies, {"error": problem} if problem else {"ready": True})
        if problem:
            return
        gc.freeze()
        for job in _jobs(parent):
            _say(replies, worker.run(json.loads(job)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        worker.close()


def _say(replies: TextIO, answer: dict[str, Any]) -> None:
    _write(replies, json.dumps(answer))


def _write(replies: TextIO, line: str) -> None:
    with suppress(BrokenPipeError):
        replies.write(line + "\n")
        replies.flush()


def _leave_with(parent: int) -> None:
    """Stop in the middle of a job, too, when the parent has been killed: its program must not run on."""

    def look(*_: object) -> None:
        if os.getppid() != parent:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise SystemExit

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _IDLE_CHECK_S, _IDLE_CHECK_S)


def _jobs(parent: int) -> Iterator[str]:
    """Lines of the standard input, until it ends or the parent is gone (a fork of it may hold the pipe open)."""
    while os.getppid() == parent:
        if select.select([sys.stdin], [], [], _IDLE_CHECK_S)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            yield line
