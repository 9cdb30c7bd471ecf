"""Limits as training has them: of wall time, and a program that takes long lets all others go first."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.sandbox_batch import RIGHT, STUBBORN, batches
from benchmarks.sandbox_stress import load
from verifiers import grade
from verifiers.sandbox import BOXES, AssertTests, CallTests, Limits, Outcome, Sandbox, StdioTests
from verifiers.sandbox.capabilities import capabilities

FULL = all(found.works for found in capabilities() if found.needed == "full")
pytestmark = pytest.mark.skipif(not FULL, reason="no namespaces here: see `python -m verifiers.sandbox doctor`")
ONE = CallTests("f", (((1,), 2),))
HEAVY = "import time\ndef f(x):\n    while time.process_time() < {}: pass\n    return x + 1\n"
WAIT = (
    "import os, threading, time\ndef priority(): return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())\n"
    "def work():\n    first = priority()\n    while time.process_time() < 1.0 and priority() == first: pass\n"
    "    print(priority(), flush=True)\n    os._exit(0)\n"
)
STARTS = {
    "alone": "work()",
    "a child": "if os.fork(): os.wait()\nelse: work()",
    "a thread": "threading.Thread(target=work).start()\nthreading.Event().wait()",
    "a session": "if os.fork(): os.wait()\nelse:\n    os.setsid()\n    work()",
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("fair", [True, False])
def test_what_takes_long_lets_others_go_first(start, fair):
    """Here half a second, a fortieth: what is left to do with the lowest priority would take long on a busy machine."""
    priority = str(os.getpriority(os.PRIO_PROCESS, 0) if fair else 19)
    tests = StdioTests((("", priority),))
    with Sandbox(workers=1) as sandbox:
        sandbox.run_tests(f"print({priority})", tests, fair=fair)
        report = sandbox.run_tests(WAIT + STARTS[start], tests, Limits(20.0), fair=fair)
    assert report.outcome is Outcome.PASS, report


def test_it_is_less_than_a_quarter_where_others_needed_less():
    limits = Limits(4.0)
    with Sandbox(workers=1) as sandbox:
        assert sandbox._patience_s(1, limits) == 1.0
        for needed, patience in ((0.0, 0.1), (0.05, 0.2), (0.3, 1.0)):
            sandbox._needs[1] = needed
            assert sandbox._patience_s(1, limits) == pytest.approx(patience)
        assert sandbox._patience_s(2, limits) == 1.0


def test_what_tests_need_is_learnt_from_programs_that_end():
    with Sandbox(workers=1) as sandbox:
        sandbox.run_tests(STUBBORN, ONE, Limits(0.3), fair=False)
        assert not sandbox._needs
        for program in (RIGHT, HEAVY.format(0.3), RIGHT):
            sandbox.run_tests(program, ONE, fair=False)
        [needed] = sandbox._needs.values()
        assert 0.1 < needed < 0.5


@pytest.mark.parametrize(
    "tests",
    [
        CallTests("f", (((1,), 2),) * 4),
        AssertTests("assert f(1) == 2\nassert f(1) == 2\nassert f(1) == 2\nassert f(1) == 2\n"),
        StdioTests((("", "2"),) * 4),
    ],
)
def test_one_test_that_runs_out_of_time_ends_the_series(tests):
    program = STUBBORN + ("f(1)\n" if isinstance(tests, StdioTests) else "")
    with Sandbox(workers=1) as sandbox:
        report = sandbox.run_tests(program, tests, Limits(timeout_s=0.5), fair=False)
    outcomes = [test.outcome for test in report.tests]
    assert outcomes.count(Outcome.TIMEOUT) == 1
    assert Outcome.PASS not in outcomes


def test_a_verdict_says_that_others_took_the_time():
    asleep = "import select\ndef f(x):\n    select.select([], [], [], 99)\n"
    meta = {"tests": {"type": "call", "entry": "f", "cases": [{"args": [1], "expected": 2}]}, "fair": False}
    found = {}
    for name, program in (("loop", STUBBORN), ("asleep", asleep)):
        with load(4 * len(os.sched_getaffinity(0))):
            found[name] = grade("code", f"```python\n{program}```", "", {**meta, "limits": {"timeout_s": 1.0}})
    assert [(one.rule, one.starved) for one in found.values()] == [("timeout", True), ("timeout", False)]
    assert "waited" in found["loop"].detail


@pytest.mark.slow
def test_right_programs_beside_endless_ones_stay_right():
    """One in ten is endless, and the others take a fifth of the limit."""
    right = HEAVY.format(0.4)
    programs = [STUBBORN if program == STUBBORN else right for program in batches(64)["spread"]]
    limits = Limits(timeout_s=2.0)
    with Sandbox() as sandbox, ThreadPoolExecutor(BOXES) as threads:
        reports = list(threads.map(lambda one: sandbox.run_tests(one, ONE, limits, fair=False), programs))
    expected = [Outcome.TIMEOUT if program == STUBBORN else Outcome.PASS for program in programs]
    assert [report.outcome for report in reports] == expected
