"""What goes into the sandbox and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from verifiers.sandbox.assertions import count_tests
from verifiers.sandbox.compare import check_compare
from verifiers.sandbox.tier import Tier

_MOST = 1_000_000


class Outcome(StrEnum):
    """What became of a test, or of all of them together."""

    PASS = "pass"
    FAIL = "fail"  # wrong: a value, an output, an assertion
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASH = "crash"  # an exception, a signal or an exit status that is not 0
    OUTPUT_LIMIT = "output_limit"
    BLOCKED = "blocked"  # the program failed because the box refused it something
    SANDBOX_ERROR = "sandbox_error"  # says nothing about the program: neither a reward nor a zero
    NOT_RUN = "not_run"  # a test after one that ended the series


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use. All must be positive, and at most a million.

    `timeout_s` is wall time, for loading the program and for each test. `memory_mb` counts all its processes together,
    `pids` processes and threads, `output_kb` what it prints. A file may have `fsize_mb`, all files together twice that.
    """

    timeout_s: float = 10.0
    memory_mb: int = 512
    pids: int = 64
    output_kb: int = 1024
    fsize_mb: int = 64

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            number = type(value) in (int, float) if field.name == "timeout_s" else type(value) is int
            if not number or not 0 < value <= _MOST:
                kind = "a positive number" if field.name == "timeout_s" else "a positive whole number"
                most = f"of at most {_MOST:,}"
                raise ValueError(f"limits.{field.name} is {value!r}; it must be {kind} {most}, such as {field.default}")


@dataclass(frozen=True, slots=True)
class CallTests:
    """Calls of one function. `entry` is an expression for it: `f` or `Solution().f`; each case is (args, expected)."""

    entry: str
    cases: tuple[tuple[tuple[Any, ...], Any], ...]
    compare: str = "python_eq"

    def __post_init__(self) -> None:
        _check_cases("call", self.cases, self.compare)
        try:
            compile(self.entry.strip(), "<entry>", "eval")
        except (SyntaxError, ValueError, RecursionError):
            example = "an expression for the function to call, such as `f` or `Solution().f`"
            raise ValueError(f"test.entry is {self.entry!r:.80}; it must be {example}") from None


@dataclass(frozen=True, slots=True)
class AssertTests:
    """Code that runs after the program and raises if the program is wrong. It must come from a source that is trusted.

    `shared_state`: the tests work only in the program's own interpreter, where a program can forge the verdict.
    """

    code: str
    shared_state: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.code, str) or not self.code.strip():
            raise ValueError("test.code is empty: it must be Python code that raises if the program is wrong")
        try:
            count_tests(self.code)
        except (SyntaxError, RecursionError) as error:
            raise ValueError(f"test.code is no Python: {error}") from None
        except ValueError as error:
            raise ValueError(f"test.code cannot be used: {error}") from None


@dataclass(frozen=True, slots=True)
class StdioTests:
    """What the program prints for what it reads: cases of (stdin, stdout)."""

    cases: tuple[tuple[str, str], ...]
    compare: str = "lines"

    def __post_init__(self) -> None:
        _check_cases("stdio", self.cases, self.compare)


Tests = CallTests | AssertTests | StdioTests


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test: of assert tests, one top-level `assert`, or all of the code if it has none."""

    __test__ = False  # no test class of pytest

    outcome: Outcome
    seconds: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one program. `outcome` is pass if every test passed, otherwise the first that is not pass.

    `trust` is "split" where the verdict was made outside the program's process, "shared" where it was not.
    `stdout` and `stderr` are the last part of what the program printed. `starved`: it ran out of time, for more than a
    tenth of which it waited for a processor.
    """

    outcome: Outcome
    tests: tuple[TestResult, ...]
    tier: Tier
    trust: str
    seconds: float = 0.0
    stdout: str = ""
    stderr: str = ""
    detail: str = ""
    starved: bool = False


class SandboxUnavailable(Exception):
    """This system cannot give the isolation that was asked for. The message names what is missing and the fix."""


def _check_cases(form: str, cases: tuple[Any, ...], compare: str) -> None:
    check_compare(compare, form)
    if not cases:
        raise ValueError("test.cases is empty: there must be at least one")
