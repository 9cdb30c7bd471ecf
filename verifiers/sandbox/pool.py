"""Workers that run programs in boxes: a few for each core, and more beside programs that sleep."""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
import warnings
from typing import Any

from verifiers.sandbox import wire
from verifiers.sandbox.assertions import count_tests
from verifiers.sandbox.types import (
    AssertTests,
    CallTests,
    Limits,
    Outcome,
    Report,
    SandboxUnavailable,
    StdioTests,
    TestResult,
    Tests,
    Tier,
)
from verifiers.sandbox.worker_process import WorkerFailed, WorkerHangs, WorkerProcess, start_workers

TIER_VARIABLE = "REASONING_SANDBOX_TIER"
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_RUNNING_PER_CORE = 3
BOXES = max(8 * _CORES, 48)
"""That there may be at a time: also on a small machine enough for the endless loops of a large batch."""
_LEAST_PATIENCE, _MOST_PATIENCE = 1 / 40, 1 / 4
"""Of a program's limit."""
_PATIENCE = 4
"""Times what others needed in the same tests."""
_DEFAULT_LIMITS = Limits()
_SLACK_S = 60.0
_LEAVE_S = 5.0


class Sandbox:
    """Runs as many programs at a time as it has `workers`, on a system that gives at least `tier`.

    Three programs run for each core. Beside one that sleeps, maybe until its time is up, another starts: nobody waits
    for it. One that computes is counted, so that each gets its share of a processor. Without `workers` there may be
    BOXES. One for each core starts at the first use, the others when wanted. Without `tier`, the variable
    REASONING_SANDBOX_TIER names it; without that it is `full`. Thread-safe; a fork starts its own.

    Raises:
        SandboxUnavailable: from the first use, if this system gives less than `tier`.
    """

    def __init__(self, *, workers: int | None = None, tier: Tier | None = None) -> None:
        self._count = workers or BOXES
        self._at_first = min(self._count, _CORES)
        self._running_count = min(self._count, _CORES * _RUNNING_PER_CORE)
        self._required = tier or _tier_of_environment()
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(self._count)
        self._running = threading.BoundedSemaphore(self._running_count)
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._tier: Tier | None = None
        self._needs: dict[int, float] = {}  # by tests: seconds of processor time that a test took at most

    @property
    def tier(self) -> Tier:
        """What this system gives: found by trying, the strongest first."""
        self._start()
        assert self._tier is not None
        return self._tier

    def run_tests(
        self,
        program: str,
        tests: Tests,
        limits: Limits = _DEFAULT_LIMITS,
        *,
        fail_fast: bool = False,
        fair: bool = True,
    ) -> Report:
        """Run a program and make the verdict. Waits for a free worker.

        `fail_fast` ends a series of tests at the first that does not pass; the others are then `not_run`.
        `fair` gives a program back what it waits for a processor (`verifiers.sandbox.deadline`). Without that a test
        takes its limit at most, the series ends with the first that runs out of time, and a program that takes much
        longer than others in the same tests, or a quarter of its limit, lets all others go first.
        What goes wrong with the program is in the report, never raised.

        Raises:
            TypeError: the program is no text.
            ValueError: the tests are no plain data, or no Python.
            SandboxUnavailable: see the class.
        """
        if not isinstance(program, str):
            raise TypeError(f"the program must be text, not {type(program).__name__}")
        job = _job(tests)
        same = None if fair else hash(json.dumps(job))
        job |= {"program": program, "limits": _fields(limits), "fail_fast": fail_fast, "patience_s": None}
        tier = self.tier
        with self._slots, _Turn(self._running) as turn:
            if same is not None:
                job["patience_s"] = self._patience_s(same, limits)
            answer = self._ask(json.dumps(job), 6 * limits.timeout_s * (job["count"] + 1) + _SLACK_S, turn)
        report = _report(answer, job["count"], tier)
        if same is not None and report.outcome in (Outcome.PASS, Outcome.FAIL):
            self._needs[same] = max(self._needs.get(same, 0.0), answer["needed_s"])
        return report

    def _patience_s(self, same: int, limits: Limits) -> float:
        """Processor time from which on a program lets others go first; a quarter of its limit until more is known."""
        share = _PATIENCE * self._needs.get(same, limits.timeout_s) / limits.timeout_s
        return limits.timeout_s * min(_MOST_PATIENCE, max(_LEAST_PATIENCE, share))

    def close(self) -> None:
        """End the processes. A later use starts new ones."""
        with self._lock:
            for worker in self._all:
                worker.dismiss()
            deadline = time.monotonic() + _LEAVE_S
            for worker in self._all:
                worker.close(max(0.1, deadline - time.monotonic()))
            self._all.clear()
            self._idle.clear()
            self._tier = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        with self._lock:
            if self._tier is not None:
                return
            reasons = []
            for tier in Tier:
                try:
                    self._idle = start_workers(self._at_first, tier)
                except WorkerFailed as error:
                    reasons.append(f"{tier.value}: {error}")
                    if tier is self._required:
                        raise SandboxUnavailable(_unavailable(tier, reasons)) from None
                    continue
                self._all = set(self._idle)
                self._tier = tier
                break
        if self._tier is not Tier.FULL:
            warnings.warn(f"programs run in a sandbox of tier {self._tier} only ({reasons[0]})", stacklevel=4)

    def _ask(self, job: str, patience: float, turn: _Turn) -> dict[str, Any]:
        problem = ""
        for _ in range(2):
            try:
                worker = self._take()
            except WorkerFailed as error:
                problem = str(error)
                continue
            try:
                answer = worker.ask(job, patience, turn.give_up)
            except BaseException as error:
                with self._lock:
                    self._all.discard(worker)
                worker.close()
                if not isinstance(error, WorkerFailed):
                    raise
                problem = str(error)
                if isinstance(error, WorkerHangs):
                    break
                continue
            with self._lock:
                self._idle.append(worker)
            return answer
        return {"problem": problem}

    def _take(self) -> WorkerProcess:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._tier is None:
                raise WorkerFailed("the sandbox was closed")
            worker = WorkerProcess(self._tier)
            self._all.add(worker)
        try:
            worker.wait_until_ready()
        except BaseException:
            with self._lock:
                self._all.discard(worker)
            worker.close()
            raise
        return worker


class _Turn:
    """One of the programs that are let run together, until it ends or gives way."""

    def __init__(self, running: threading.BoundedSemaphore) -> None:
        self._running = running
        self._holds = False

    def __enter__(self) -> _Turn:
        self._running.acquire()
        self._holds = True
        return self

    def __exit__(self, *_: object) -> None:
        self.give_up()

    def give_up(self) -> None:
        if self._holds:
            self._holds = False
            self._running.release()


def _tier_of_environment() -> Tier:
    name = os.environ.get(TIER_VARIABLE, Tier.FULL.value)
    try:
        return Tier(name)
    except ValueError:
        names = ", ".join(tier.value for tier in Tier)
        raise ValueError(f"{TIER_VARIABLE} is '{name}'; write one of {names}") from None


def _unavailable(tier: Tier, reasons: list[str]) -> str:
    return (
        f"this system gives no sandbox of tier {tier.value} ({'; '.join(reasons)}). "
        f"`python -m verifiers.sandbox doctor` says why and what to do. To accept less: {TIER_VARIABLE}=landlock "
        "(or process, which gives no isolation)"
    )


def _fields(limits: Limits) -> dict[str, Any]:
    return {name: getattr(limits, name) for name in Limits.__dataclass_fields__}


def _job(tests: Tests) -> dict[str, Any]:
    match tests:
        case CallTests(entry, cases, compare):
            packed = [[[wire.pack(argument) for argument in args], wire.pack(expected)] for args, expected in cases]
            return {"form": "call", "entry": entry.strip(), "compare": compare, "cases": packed, "count": len(cases)}
        case StdioTests(cases, compare):
            return {"form": "stdio", "compare": compare, "cases": cases, "count": len(cases)}
        case AssertTests(code, shared_state):
            form, count = ("shared", 1) if shared_state else ("assert", count_tests(code))
            return {"form": form, "code": code, "count": count}
    raise TypeError(f"tests must be CallTests, AssertTests or StdioTests, not {type(tests).__name__}")


def _report(answer: dict[str, Any], count: int, tier: Tier) -> Report:
    if "problem" in answer:
        failed = TestResult(Outcome.SANDBOX_ERROR, 0.0, answer["problem"])
        return Report(Outcome.SANDBOX_ERROR, (failed,) * count, tier, "split", detail=answer["problem"])
    tests = tuple(TestResult(Outcome(outcome), seconds, detail) for outcome, seconds, detail in answer["tests"])
    worst = next((test for test in tests if test.outcome is not Outcome.PASS), tests[0])
    return Report(
        worst.outcome,
        tests,
        tier,
        answer["trust"],
        answer["seconds"],
        answer["stdout"],
        answer["stderr"],
        worst.detail,
        answer["starved"],
    )


_DEFAULT: Sandbox | None = None
_DEFAULT_LOCK = threading.Lock()


def run_tests(
    program: str, tests: Tests, limits: Limits = _DEFAULT_LIMITS, *, fail_fast: bool = False, fair: bool = True
) -> Report:
    """`Sandbox.run_tests` with workers that all of this process shares. They start at the first call."""
    global _DEFAULT
    with _DEFAULT_LOCK:
        if _DEFAULT is None:
            _DEFAULT = Sandbox()
    return _DEFAULT.run_tests(program, tests, limits, fail_fast=fail_fast, fair=fair)


def close() -> None:
    """End the shared workers. They start again when needed."""
    if _DEFAULT is not None:
        _DEFAULT.close()


atexit.register(close)
