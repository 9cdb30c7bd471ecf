"""The forms of tests: how each is run in boxes, and what makes its verdicts."""

from __future__ import annotations

import secrets
import time
from typing import Any, Protocol

from verifiers.sandbox import wire
from verifiers.sandbox.client import SandboxError
from verifiers.sandbox.compare import compare_output, compare_values
from verifiers.sandbox.deadline import Deadline
from verifiers.sandbox.running import Box, Stopped
from verifiers.sandbox.tests_process import TestsProcess
from verifiers.sandbox.types import Limits, Outcome

_GRACE_S = 1.0
_DETAIL = 300
_TOO_LONG = "a value that is too long to be compared"

Result = list[Any]
"""Of one test: outcome, seconds, detail."""


class Boxes(Protocol):
    """Where boxes come from."""

    def box(self, limits: Limits, patience_s: float | None, stdin: bytes, *, floods: bool) -> Box: ...

    def tests_for(self, code: str) -> TestsProcess:
        """A process for this test code."""
        ...

    def done_with(self, tests: TestsProcess) -> None: ...


class Form:
    """One job. `results` has an entry for every test from the start.

    `starved` and `needed_s` are those of all its boxes together: any, and the most.
    """

    def __init__(self, worker: Boxes, job: dict[str, Any]) -> None:
        self.worker, self.job = worker, job
        self.limits = Limits(**job["limits"])
        self.results: list[Result] = [[Outcome.NOT_RUN, 0.0, ""] for _ in range(job["count"])]
        self.stdout = self.stderr = ""
        self.starved, self.needed_s = False, 0.0
        self._fair = job["patience_s"] is None

    def run(self) -> None:
        raise NotImplementedError

    def box(self, stdin: bytes = b"", *, floods: bool = False) -> Box:
        return self.worker.box(self.limits, self.job["patience_s"], stdin, floods=floods)

    def deadline(self, box: Box) -> Deadline:
        """Of a test that begins now. After a first that took too long, no wait for a processor is given back."""
        fair = self._fair and all(outcome != Outcome.TIMEOUT for outcome, _, _ in self.results)
        return Deadline(self.limits.timeout_s, box.pid, fair=fair)

    def keep_output(self, box: Box) -> None:
        self.stdout = box.stdout.tail() or self.stdout
        self.stderr = box.stderr.tail() or self.stderr
        self.starved = self.starved or box.starved
        self.needed_s = max(self.needed_s, box.needed_s)
        if box.lacked_memory:
            self._take_back_pass()

    def _take_back_pass(self) -> None:
        """The last test that was run has not passed if a process that belonged to it was ended for want of memory."""
        ran = [result for result in self.results if result[0] != Outcome.NOT_RUN]
        if ran and ran[-1][0] == Outcome.PASS:
            ran[-1][::2] = [Outcome.MEMORY, "more memory than allowed"]

    def put(self, index: int, outcome: Outcome, started: float, detail: str = "") -> None:
        self.results[index] = [outcome, time.perf_counter() - started, detail[:_DETAIL]]

    def stops(self, index: int) -> bool:
        """Whether the series ends after this test: at the first failure if so wished, or when it only costs time."""
        most = 2 if self._fair else 1
        last = [result[0] for result in self.results[max(0, index + 1 - most) : index + 1]]
        if last[-1] != Outcome.PASS and self.job["fail_fast"]:
            return True
        if len(last) == most and set(last) == {Outcome.TIMEOUT}:
            for result in self.results[index + 1 :]:
                result[2] = "not run after two timeouts in a row" if self._fair else "not run after a timeout"
            return True
        return False


class Call(Form):
    def run(self) -> None:
        index = 0
        while index < len(self.results):
            index = self._run_box(index)

    def _run_box(self, index: int) -> int:
        """Run tests from `index` on in one box, for as long as it lasts. The index of the next."""
        with self.box() as box:
            try:
                index = self._run_cases(box, index)
            finally:
                box.end()
                self.keep_output(box)
        return index

    def _run_cases(self, box: Box, index: int) -> int:
        started = time.perf_counter()
        try:
            box.start({"mode": "call", "program": self.job["program"], "entry": self.job["entry"]})
            deadline = self.deadline(box)
            loaded = box.receive(deadline)
        except Stopped as stop:
            self._fail_all(index, stop.outcome, stop.detail, started)
            return len(self.results)
        if "error" in loaded:
            self._fail_all(index, *_describe(loaded["error"]), started)
            return len(self.results)
        while index < len(self.results):
            arguments, expected = self.job["cases"][index]
            lives = True
            try:
                answer = box.ask({"args": arguments}, deadline)
                outcome, detail = self._judge(answer, expected)
            except Stopped as stop:
                outcome, detail, lives = stop.outcome, stop.detail, False
            self.put(index, outcome, started, detail)
            if self.stops(index):
                return len(self.results)
            index += 1
            if not lives:
                break
            started, deadline = time.perf_counter(), self.deadline(box)
        return index

    def _fail_all(self, index: int, outcome: Outcome, detail: str, started: float) -> None:
        """The program cannot be loaded, so no test passes."""
        self.put(index, outcome, started, detail)
        if not self.job["fail_fast"] and outcome is not Outcome.TIMEOUT:
            for rest in range(index + 1, len(self.results)):
                self.results[rest] = [outcome, 0.0, detail[:_DETAIL]]

    def _judge(self, answer: dict[str, Any], expected: Any) -> tuple[Outcome, str]:
        if "value" in answer:
            try:
                value = wire.unpack(answer["value"])
                right = compare_values(self.job["compare"], wire.unpack(expected), value)
            except (ValueError, TypeError, ArithmeticError, AttributeError, RecursionError, MemoryError) as error:
                return Outcome.FAIL, f"the value cannot be read: {error}"
            return (Outcome.PASS, "") if right else (Outcome.FAIL, f"it gave {_short(value)}")
        if "error" in answer:
            return _describe(answer["error"])
        if "too_long" in answer:
            return Outcome.OUTPUT_LIMIT, _TOO_LONG
        return Outcome.FAIL, f"it gave no plain data: {answer.get('opaque')!s:.100}"


class Assert(Form):
    def run(self) -> None:
        code = self.job["code"]
        tests = self.worker.tests_for(code)
        try:
            with self.box() as box:
                try:
                    self._run(code, tests, box)
                finally:
                    box.end()
                    self.keep_output(box)
        finally:
            self.worker.done_with(tests)

    def _run(self, code: str, tests: TestsProcess, box: Box) -> None:
        box.start({"mode": "names", "program": self.job["program"]})
        started = time.perf_counter()
        stop: Stopped | None = None
        readable = tests.start(code, box, fail_fast=self.job["fail_fast"])
        result: dict[str, Any] | None = {"goes_on": True}
        while result is not None and "goes_on" in result:
            if stop is None:
                try:
                    box.wait_for(readable, self.deadline(box))
                except Stopped as stopped:
                    stop = stopped
                    box.end()
            result = tests.result(_GRACE_S)
        if result is None:  # the tests themselves hang
            tests.end()
            self.put(0, Outcome.TIMEOUT if stop is None else stop.outcome, started, "the tests do not end")
            return
        if "invalid" in result:
            raise SandboxError(f"the tests are no Python: {result['invalid']}")
        if "tests" not in result:
            raise SandboxError(f"the tests could not be run: {result.get('setup')}")
        self.results[:] = result["tests"]
        for index, (outcome, _, _) in enumerate(self.results):
            if outcome == "gone":
                stop = stop or _ending(result["gone"], box)
                self.put(index, stop.outcome, started, stop.detail)
        if stop is not None and all(outcome == Outcome.PASS for outcome, _, _ in self.results):
            self.put(-1, stop.outcome, started, stop.detail)  # stopped just when the tests were done


class Stdio(Form):
    def run(self) -> None:
        for index in range(len(self.results)):
            started = time.perf_counter()
            stdin, stdout = self.job["cases"][index]
            with self.box(stdin.encode("utf-8", "surrogatepass"), floods=True) as box:
                try:
                    outcome, detail = self._run_case(box, stdout)
                except Stopped as stop:
                    outcome, detail = stop.outcome, stop.detail
                finally:
                    box.end()
                    self.keep_output(box)
            self.put(index, outcome, started, detail)
            if self.stops(index):
                return

    def _run_case(self, box: Box, expected: str) -> tuple[Outcome, str]:
        box.start({"mode": "stdio", "program": self.job["program"]})
        status = box.wait_for_end(self.deadline(box))
        box.end()
        if box.lacked_memory:
            return Outcome.MEMORY, "more memory than allowed"
        if box.stdout.too_much:
            return Outcome.OUTPUT_LIMIT, "more output than allowed"
        if status == 0:
            right = compare_output(self.job["compare"], expected, bytes(box.stdout.data))
            return (Outcome.PASS, "") if right else (Outcome.FAIL, "another output was expected")
        reason = box.end_reason()
        words = box.stderr.tail().splitlines()[-1:]
        if status == 1 and words:
            return _outcome_of(words[0]), words[0]
        return reason.outcome, reason.detail


class Shared(Form):
    def run(self) -> None:
        nonce = secrets.token_hex(16)
        started = time.perf_counter()
        with self.box() as box:
            try:
                box.start({"mode": "shared", "program": self.job["program"]})
                deadline = self.deadline(box)
                answer = box.receive(deadline)
                if "error" not in answer:
                    answer = box.ask({"code": self.job["code"], "nonce": nonce}, deadline)
                outcome, detail = _describe(answer["error"]) if "error" in answer else (Outcome.FAIL, "a wrong answer")
                if answer.get("nonce") == nonce:
                    outcome, detail = Outcome.PASS, ""
                elif detail.startswith("AssertionError"):
                    outcome = Outcome.FAIL
            except Stopped as stop:
                outcome, detail = stop.outcome, stop.detail
            finally:
                box.end()
                self.keep_output(box)
        self.put(0, outcome, started, detail)


def _ending(gone: str, box: Box) -> Stopped:
    reason = box.why_it_ended()
    return reason if reason.outcome is not Outcome.CRASH else Stopped(Outcome.CRASH, f"{reason.detail}; {gone}")


def _describe(error: Any) -> tuple[Outcome, str]:
    reason, text = wire.read_exception(error)
    return Outcome(reason), text


def _outcome_of(last_words: str) -> Outcome:
    if last_words.startswith("MemoryError"):
        return Outcome.MEMORY
    blocked = ("PermissionError", "OSError: [Errno 30]", "OSError: [Errno 97]", "OSError: [Errno 101]")
    return Outcome.BLOCKED if last_words.startswith(blocked) else Outcome.CRASH


def _short(value: Any) -> str:
    try:
        text = repr(value) if not isinstance(value, str | bytes) else repr(value[:120])
    except (ValueError, RecursionError):  # a number of too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 120 else text[:117] + "..."


FORMS: dict[str, type[Form]] = {"call": Call, "assert": Assert, "stdio": Stdio, "shared": Shared}
