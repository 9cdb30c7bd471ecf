"""Many programs at once: hostile ones hold up nobody, and a busy machine changes no verdict."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.sandbox_batch import HOSTILE, RIGHT
from benchmarks.sandbox_stress import load
from reasoning.grading import Grader
from reasoning.types import SampleKey, Task
from verifiers.base import Status
from verifiers.sandbox import CallTests, Limits, Outcome, Sandbox, StdioTests, deadline, pool
from verifiers.sandbox.capabilities import capabilities
from verifiers.sandbox.usage import Use

FULL = all(found.works for found in capabilities() if found.needed == "full")
pytestmark = pytest.mark.skipif(not FULL, reason="no namespaces here: see `python -m verifiers.sandbox doctor`")
TIMEOUT_S = 2.0


def seconds_of(programs):
    tests = {"type": "call", "entry": "f", "cases": [{"args": [1], "expected": 2}]}
    limits = {"timeout_s": TIMEOUT_S, "memory_mb": 256}
    tasks = {"t": Task("t", (), "all tests pass", "code", meta={"tests": tests, "limits": limits})}
    grader = Grader(tasks, "reward", fair=False)
    try:
        started = time.monotonic()
        for n, program in enumerate(programs):
            grader.submit((SampleKey("t", n, 0),), f"```python\n{program}```")
        graded = {keys[0].sample: verdict for keys, verdict in grader.finish()}
        return time.monotonic() - started, graded
    finally:
        grader.close()


def test_a_batch_with_hostile_programs_waits_for_no_more_than_a_deadline():
    programs = [*[RIGHT] * 58, *HOSTILE]
    seconds_of([RIGHT] * 8)  # starts the workers
    clean, _ = seconds_of([RIGHT] * 64)
    mixed, graded = seconds_of(programs)
    assert all(graded[n].status is Status.CORRECT for n in range(58))
    assert all(graded[n].status is Status.WRONG for n in range(58, 64))
    print(f"clean {clean:.1f} s, mixed {mixed:.1f} s")
    assert mixed < 2 * clean + TIMEOUT_S + 3


def test_nobody_waits_for_programs_that_sleep(monkeypatch):
    """As many as may run together sleep until their time is up: others still run."""
    monkeypatch.setattr(pool, "_LEAVE_S", 0.1)
    asleep, limits = "import select\nselect.select([], [], [], 99)", Limits(timeout_s=60)
    with Sandbox() as sandbox, ThreadPoolExecutor(sandbox._count) as threads:
        slow = [
            threads.submit(sandbox.run_tests, asleep, StdioTests((("", "1"),)), limits)
            for _ in range(sandbox._running_count)
        ]
        report = threads.submit(sandbox.run_tests, RIGHT, CallTests("f", (((1,), 2),))).result()
        assert report.outcome is Outcome.PASS
        assert not any(future.done() for future in slow)
        sandbox.close()


def test_a_right_program_that_takes_half_of_its_time_is_right_on_a_busy_machine():
    program = "import time\nwhile time.process_time() < 1.0: pass\nprint(1)"
    with Sandbox(workers=1) as sandbox, load(4 * len(os.sched_getaffinity(0))):
        report = sandbox.run_tests(program, StdioTests((("", "1"),)), Limits(timeout_s=2.0))
    assert report.outcome is Outcome.PASS, report


def test_time_that_a_program_sleeps_or_uses_is_not_given_back():
    spin = "import os\nfor _ in range(3): os.fork()\nn = 0\nwhile True: n += 1"
    with Sandbox(workers=1) as sandbox:
        for program, most in (("import select\nselect.select([], [], [], 99)", 1.0 + 1.0), (spin, 2.0 + 1.0)):
            report = sandbox.run_tests(program, CallTests("f", (((1,), 1),)), Limits(timeout_s=1.0))
            assert report.outcome is Outcome.TIMEOUT
            assert report.tests[0].seconds < most


@pytest.mark.parametrize(
    ("processors", "ends"),
    [
        (1.0, 10.0),  # all to itself: plain wall time
        (0.8, 12.5),
        (0.4, 20.0),  # at twice the limit it has had more than 0.6 of it
        (0.25, 24.0),  # 0.6 of the limit
        (0.1, 50.0),  # five times the limit
        (0.0, 50.0),
    ],
)
def test_how_long_a_busy_program_is_waited_for(monkeypatch, processors, ends):
    now = 100.0
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now)
    monkeypatch.setattr(deadline, "uses", lambda pid: [Use(pid, 0, processors * (now - 100), processors * (now - 100))])
    monkeypatch.setattr(deadline, "longest_wait", lambda _: (1 - processors) * (now - 100))
    watched = deadline.Deadline(10.0, pid=1)
    while (then := watched.next(now)) > now:
        now = then
    assert now - 100 == pytest.approx(ends, abs=0.1)


@pytest.mark.parametrize(("processors", "lacked"), [(1.0, None), (0.95, None), (0.8, 2.0), (0.1, 9.0)])
def test_a_deadline_that_is_not_fair_ends_in_time_and_knows_what_was_lacking(monkeypatch, processors, lacked):
    now = 100.0
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now)
    monkeypatch.setattr(deadline, "uses", lambda pid: [Use(pid, 0, processors * (now - 100), processors * (now - 100))])
    monkeypatch.setattr(deadline, "longest_wait", lambda _: (1 - processors) * (now - 100))
    watched = deadline.Deadline(10.0, pid=1, fair=False)
    while (then := watched.next(now)) > now:
        now = then
    assert now == 110.0
    assert watched.lacked() == (lacked and pytest.approx(lacked))


def test_a_program_that_sleeps_or_has_many_processes_gets_its_limit(monkeypatch):
    now, used = 100.0, 0.0
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now)
    monkeypatch.setattr(deadline, "uses", lambda pid: [Use(pid, 0, 0.0, used * (now - 100))])
    monkeypatch.setattr(deadline, "longest_wait", lambda _: 0.9 * used * (now - 100))
    for used in (0.0, 4.0):  # noqa: B007 - the functions above read it
        now = 100.0
        watched = deadline.Deadline(10.0, pid=1)
        while (then := watched.next(now)) > now:
            now = then
        assert now == 110.0


def test_a_full_temporary_folder_is_no_matter(tmp_path):
    """With namespaces nothing is written on this machine."""
    code = (
        "from verifiers.sandbox import *\n"
        "print(run_tests('open(\"x\", \"w\").write(\"y\" * 10 ** 6)\\nprint(1)', StdioTests((('', '1'),))).outcome)"
    )
    full = f'mount -t tmpfs -o size=4k none {tmp_path} && head -c 99999 /dev/zero > {tmp_path}/x; exec "$@"'
    command = ["unshare", "-Urm", "sh", "-c", full, "sh", sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"TMPDIR": str(tmp_path)}, timeout=60, check=False
    )
    assert done.stdout.strip() == "pass", done
