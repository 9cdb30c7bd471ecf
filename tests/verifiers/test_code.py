"""Verdicts on answers that hold a program, from the real sandbox."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from verifiers import grade
from verifiers.base import Status

CALL = {"type": "call", "entry": "f", "cases": [{"args": [n], "expected": n + 1} for n in range(4)]}
ASSERT = {"type": "assert", "code": "assert f(0) == 1\nassert f(1) == 2\nassert f(2) == 3\nassert f(3) == 4\n"}
STDIO = {"type": "stdio", "cases": [{"stdin": f"{n}\n", "stdout": f"{n + 1}\n"} for n in range(4)]}
LIMITS = {"timeout_s": 2.0, "memory_mb": 256}

RIGHT = "def f(x):\n    return x + 1\n"
HALF = "def f(x):\n    return x + 1 if x < 2 else 0\n"
READS = "print(int(input()) + 1)\n"


def verdict(program, tests=CALL, **meta):
    return grade(
        "code", f"Here:\n```python\n{program}```\n", "all tests pass", {"tests": tests, "limits": LIMITS, **meta}
    )


@pytest.mark.parametrize(("program", "tests"), [(RIGHT, CALL), (RIGHT, ASSERT), (READS, STDIO)])
def test_right(program, tests):
    found = verdict(program, tests)
    assert (found.status, found.rule, found.score, found.detail) == (Status.CORRECT, "pass", 1.0, "")
    assert (found.extracted, found.reference, found.verifier) == (program, "all tests pass", "code")
    assert found.seconds > 0


@pytest.mark.parametrize(
    ("program", "tests"), [(HALF, CALL), (HALF, ASSERT), ("n = int(input())\nprint(n + 1 if n < 2 else 0)\n", STDIO)]
)
def test_half_right_is_wrong_and_half_a_score(program, tests):
    found = verdict(program, tests)
    assert (found.status, found.rule, found.score) == (Status.WRONG, "fail", 0.5)
    assert found.detail.startswith("test 3 of 4: fail")


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        ("def f(x):\n    while True:\n        pass\n", "timeout"),
        ("def f(x):\n    raise KeyError(x)\n", "crash"),
        ("def f(x)\n", "crash"),
        ("x = [0] * 10**9\n" + RIGHT, "memory"),
    ],
)
def test_what_a_program_does_wrong_is_its_own_fault(program, rule):
    found = verdict(program)
    assert (found.status, found.rule, found.score) == (Status.WRONG, rule, 0.0)
    assert rule in found.detail


def test_no_program():
    found = grade("code", "I would rather not say.", "all tests pass", {"tests": CALL})
    assert (found.status, found.rule, found.extracted, found.score) == (Status.NO_ANSWER, "no_program", None, 0.0)
    assert found.detail == "no program: neither a fenced block nor a line of code"


def test_the_name_that_is_called_chooses_the_block():
    answer = f"```python\n{RIGHT}```\nTry it:\n```python\nprint(f(1))\n```"
    assert grade("code", answer, "", {"tests": CALL}).status is Status.CORRECT
    assert grade("code", answer, "", {"tests": ASSERT}).status is Status.WRONG
    assert grade("code", answer, "", {"tests": ASSERT, "entry_point": "f"}).status is Status.CORRECT
    method = {"type": "call", "entry": "Solution().f", "cases": [{"args": [1], "expected": 2}]}
    answer = (
        "```python\nclass Solution:\n    def f(self, x):\n        return x + 1\n```\n```python\nSolution().f(1)\n```"
    )
    assert grade("code", answer, "", {"tests": method}).status is Status.CORRECT


def test_a_body_continues_its_prefix():
    meta = {"tests": ASSERT, "entry_point": "f", "prefix": 'import math\n\ndef f(x):\n    """Adds one."""\n'}
    assert grade("code", "    return x + math.ceil(0.5)\n", "", meta).status is Status.CORRECT
    assert grade("code", "```python\n    return x\n```", "", meta).status is Status.WRONG


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({}, "tests are missing"),
        ({"tests": {"type": "x"}}, "test.type is 'x'"),
        ({"tests": CALL, "limits": {"pids": 0}}, "limits.pids is 0"),
        ({"tests": CALL, "limits": {"cpu": 1}}, "limits.cpu is unknown"),
    ],
)
def test_tests_that_cannot_be_used_are_an_error_of_the_verifier(meta, message):
    found = grade("code", f"```python\n{RIGHT}```", "", meta)
    assert (found.status, found.score) == (Status.ERROR, None)
    assert message in found.detail


def test_many_threads_get_their_own_verdicts():
    jobs = [(RIGHT if n % 2 else HALF, [CALL, ASSERT][n // 2 % 2]) for n in range(24)]
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda job: verdict(*job), jobs))
    assert [v.status is Status.CORRECT for v in found] == [bool(n % 2) for n in range(24)]


def test_a_program_of_megabytes_is_no_danger():
    started = time.monotonic()
    found = verdict("x = 1\n" * 2_000_000 + RIGHT)
    assert found.status in (Status.WRONG, Status.CORRECT)
    assert time.monotonic() - started < 30
