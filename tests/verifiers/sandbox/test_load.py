"""Many programs at once: hostile ones hold up nobody, and a busy machine changes no verdict."""

import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from benchmarks.sandbox_stress import load
from reasoning.grading import Grader
from reasoning.types import SampleKey, Task
from verifiers.base import Status
from verifiers.sandbox import CallTests, Limits, Outcome, Sandbox, StdioTests
from verifiers.sandbox.capabilities import capabilities

FULL = all(found.works for found in capabilities() if found.needed == "full")
pytestmark = pytest.mark.skipif(not FULL, reason="no namespaces here: see `python -m verifiers.sandbox doctor`")
TIMEOUT_S = 2.0
RIGHT = "def f(x):\n    return x + 1\n"
HOSTILE = [
    "import time\ndef f(x):\n    time.sleep(99)\n",
    "def f(x):\n    while True:\n        pass\n",
    "import os\nwhile True:\n    os.fork()\n",
    "x = []\nwhile True:\n    x.append(bytearray(1 << 24))\n",
    "import os\ndef f(x):\n    os._exit(0)\n",
    "import time\ntime.sleep(99)\n",
]


def seconds_of(programs):
    tests = {"type": "call", "entry": "f", "cases": [{"args": [1], "expected": 2}]}
    limits = {"timeout_s": TIMEOUT_S, "memory_mb": 256}
    tasks = {"t": Task("t", (), "all tests pass", "code", meta={"tests": tests, "limits": limits})}
    grader = Grader(tasks, "reward")
    try:
        started = time.monotonic()
        for n, program in enumerate(programs):
            grader.submit((SampleKey("t", n, 0),), f"```python\n{program}```")
        graded = {keys[0].sample: verdict for keys, verdict in grader.finish()}
        return time.monotonic() - started, graded
    finally:
        grader.close()


def test_a_batch_with_hostile_programs_waits_for_no_more_than_their_deadlines():
    programs = [RIGHT] * 58 + HOSTILE
    seconds_of([RIGHT] * 8)  # starts the workers
    clean, _ = seconds_of([RIGHT] * 64)
    mixed, graded = seconds_of(programs)
    assert all(graded[n].status is Status.CORRECT for n in range(58))
    assert all(graded[n].status is Status.WRONG for n in range(58, 64))
    print(f"clean {clean:.1f} s, mixed {mixed:.1f} s")
    assert mixed < 2 * clean + 2 * TIMEOUT_S + 3  # what waits for a processor may take twice its time


def test_a_right_program_that_takes_most_of_its_time_is_right_on_a_busy_machine():
    program = "import time\nwhile time.process_time() < 0.7: pass\nprint(1)"
    with Sandbox(workers=1) as sandbox, ExitStack() as stack:
        stack.enter_context(load(1))
        report = sandbox.run_tests(program, StdioTests((("", "1"),)), Limits(timeout_s=2.0))
    assert report.outcome is Outcome.PASS, report


def test_time_that_a_program_sleeps_or_uses_is_not_given_back():
    spin = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"
    with Sandbox(workers=1) as sandbox:
        for program, most in (("import time\ntime.sleep(99)", 1.0 + 1.0), (spin, 2.0 + 1.0)):
            report = sandbox.run_tests(program, CallTests("f", (((1,), 1),)), Limits(timeout_s=1.0))
            assert report.outcome is Outcome.TIMEOUT
            assert report.tests[0].seconds < most


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
