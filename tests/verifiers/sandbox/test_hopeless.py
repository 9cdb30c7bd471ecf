"""Programs that cannot end in time are ended at once, and no other is."""

import time

import pytest

from verifiers.sandbox import AssertTests, CallTests, Limits, Outcome, Sandbox, StdioTests
from verifiers.sandbox.capabilities import capabilities

FULL = all(found.works for found in capabilities() if found.needed == "full")
pytestmark = pytest.mark.skipif(not FULL, reason="no namespaces here: see `python -m verifiers.sandbox doctor`")
LIMITS = Limits(timeout_s=60.0)
SECONDS = 30
"""Much less than the limit, much more than it takes."""


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2) as made:
        yield made


HOPELESS = {
    "nothing": "while True:\n    pass",
    "in a function": "def f():\n    n = 3\n    while n:\n        continue\nf()",
    "a search that stands still": (
        "def find(a, x):\n    low, high = 0, len(a) - 1\n    while low <= high:\n        middle = (low + high) // 2\n"
        "        if a[middle] < x: low = middle\n        else: high = middle\nfind([1, 3, 5, 7, 9], 6)"
    ),
    "a counter that is never raised": "i = 0\nt = 0.5\nwhile i < 10:\n    if i % 2 == 1: i += 1\n    t = t * 1",
    "round and round": "i = 0\nwhile True:\n    i = (i + 1) % 10",
    "a swap": "a = [1, 2]\nwhile a[0] != a[1]:\n    a[0], a[1] = a[1], a[0]",
    "a count up to nothing": "n = 0\nwhile True:\n    n += 1",
    "sums without an end": (
        "def f():\n    a, b = 0, 1\n    while 1:\n        a, b = b, a + b\n        if a > 9: b -= a\nf()"
    ),
    "inside a loop over others": "for k in range(3):\n    x = 0\n    while x < 5: x = x * k",
    "a global": "n = 0\ndef f():\n    global n\n    while n < 3: n = -n\nf()",
    "a long sleep": "import time\ntime.sleep(1000)",
    "a sleep in a call": "from time import sleep\ndef f(): sleep(61.5)\nf()",
}


@pytest.mark.parametrize("name", HOPELESS)
def test_hopeless_programs_are_not_waited_for(sandbox, name):
    started = time.monotonic()
    report = sandbox.run_tests(HOPELESS[name], StdioTests((("", "1"),)), LIMITS)
    assert report.outcome is Outcome.TIMEOUT, report
    assert time.monotonic() - started < SECONDS


HOPEFUL = {
    "a long count": "i = 0\nwhile i < 5 * 10 ** 6:\n    i += 1",
    "a count that is left": "n = 0\nwhile True:\n    n += 1\n    if n == 5 * 10 ** 6: break",
    "a count that fails": (
        "k = 3 * 10 ** 6\ntry:\n    while 1:\n        k -= 1\n        1 / k\nexcept ArithmeticError: pass"
    ),
    "sums that overflow": (
        "def f():\n    n, k, x = 0, 1, 0.0\n    while True:\n        n += 1\n        x += k\n"
        "        if n > 3 * 10 ** 6: k += k\ntry:\n    f()\nexcept OverflowError: pass"
    ),
    "an inner loop that starts anew": "n = 0\nwhile n < 600:\n    k = 0\n    while k < 5000: k += 1\n    n += 1",
    "a thread": (
        "import threading, time\ndone = False\ndef work():\n    global done\n    time.sleep(0.6)\n    done = True\n"
        "threading.Thread(target=work).start()\nwhile not done: pass"
    ),
    "a signal": (
        "import signal\ndone = False\ndef stop(*_):\n    global done\n    done = True\n"
        "signal.signal(signal.SIGALRM, stop)\nsignal.setitimer(signal.ITIMER_REAL, 0.6)\nwhile not done: pass"
    ),
    "a property": (
        "class C:\n    n = 0\n    @property\n    def more(self):\n        C.n += 1\n        return C.n < 10 ** 6\n"
        "c = C()\nwhile c.more: pass"
    ),
    "an operator": (
        "class C(int):\n    n = 0\n    def __eq__(self, other):\n        C.n += 1\n        return C.n > 10 ** 6\n"
        "c = C()\nwhile not c == 1: pass"
    ),
    "an operator of an element": (
        "class C(int):\n    n = 0\n    def __eq__(self, other):\n        C.n += 1\n        return C.n > 10 ** 6\n"
        "c = [C()]\nwhile 5 not in c: pass"
    ),
    "a list that grows": "a = []\nb = a\nwhile b != [1] * 2000:\n    a += [1]",
    "an iterator": "i = iter(range(5 * 10 ** 6))\nx = 0\nwhile x is not None:\n    x = next(i, None)\n    x = x and 1",
    "a child": (
        "import os, signal, time\nparent = os.getpid()\nif os.fork() == 0:\n    time.sleep(0.6)\n"
        "    os.kill(parent, signal.SIGINT)\n    os._exit(0)\n"
        "def spin():\n    while parent: pass\ntry:\n    spin()\nexcept KeyboardInterrupt:\n    pass"
    ),
    "a child that sleeps": (
        "import os, signal, time\nchild = os.fork()\nif child == 0:\n    time.sleep(1000)\n"
        "time.sleep(0.3)\nassert os.waitpid(child, os.WNOHANG) == (0, 0)\n"
        "os.kill(child, signal.SIGKILL)\nos.waitpid(child, 0)"
    ),
    "a short sleep": "import time\ntime.sleep(0.3)",
    "a sleep that is ended": (
        "import signal, time\nclass Done(Exception): pass\ndef stop(*_): raise Done\n"
        "signal.signal(signal.SIGALRM, stop)\nsignal.setitimer(signal.ITIMER_REAL, 0.3)\n"
        "try:\n    time.sleep(1000)\nexcept Done:\n    pass"
    ),
    "a handler of its own": (
        "import signal\nseen = []\nfor n in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(n, lambda *_: seen.append(1))\ni = 0\nwhile i < 5 * 10 ** 6:\n    i += 1"
    ),
    "a variable beyond the first 256": (
        "\n".join(f"v{i} = {i}" for i in range(300)) + "\nv299 = 0\nwhile v299 < 3 * 10 ** 6:\n    v299 += 1"
    ),
    "a local variable beyond the first 256": (
        "def f():\n" + "\n".join(f"    v{i} = {i}" for i in range(300)) + "\n    v299 = 0\n"
        "    while v299 < 3 * 10 ** 6: v299 += 1\nf()"
    ),
    "locals that were asked for": (
        "def f(a, b):\n    parameters = locals()\n    i = 0\n    while i < 5 * 10 ** 6: i += 1\n"
        "    return sorted(parameters)\nassert f(1, 2) == ['a', 'b']"
    ),
    "an object that is let go": (
        "gone = []\nclass C:\n    def __del__(self): gone.append(1)\ndef f():\n    c = [C()]\n    i = 0\n"
        "    while i < 5 * 10 ** 6: i += 1\n    del c\n    return gone == [1]\nassert f()"
    ),
    "a child's child": (
        "import os, signal, time\nparent = os.getpid()\nchild = os.fork()\nif child == 0:\n    if os.fork() == 0:\n"
        "        time.sleep(0.6)\n        os.kill(parent, signal.SIGINT)\n    os._exit(0)\nos.waitpid(child, 0)\n"
        "def spin():\n    while parent: pass\ntry:\n    spin()\nexcept KeyboardInterrupt:\n    pass"
    ),
    "a sleep that a class has": "import time\nclass C:\n    nap = time.sleep\nC().nap(0.01)",
    "a sleep that is pickled": (
        "import pickle, time\nassert pickle.loads(pickle.dumps(time.sleep)) is time.sleep\n"
        "assert (time.sleep.__module__, time.sleep.__name__) == ('time', 'sleep')"
    ),
    "another program": (
        "import os, sys\ncode = 'i = 0\\nwhile i < 5 * 10 ** 6: i += 1\\nprint(1)'\n"
        "os.execv(sys.executable, [sys.executable, '-c', code])"
    ),
}


@pytest.mark.parametrize("name", HOPEFUL)
def test_programs_that_end_are_waited_for(sandbox, name):
    report = sandbox.run_tests(HOPEFUL[name] + "\nprint(1)", StdioTests((("", "1"),)), LIMITS)
    assert report.outcome is Outcome.PASS, report


def test_in_every_form_of_tests(sandbox):
    program = "def f(x):\n    while x: pass\n    return 1"
    calls = sandbox.run_tests(program, CallTests("f", (((0,), 1), ((1,), 1), ((0,), 1))), LIMITS)
    assert [test.outcome for test in calls.tests] == [Outcome.PASS, Outcome.TIMEOUT, Outcome.PASS]
    asserts = sandbox.run_tests(program, AssertTests("assert f(0) == 1\nassert f(1) == 1"), LIMITS)
    assert [test.outcome for test in asserts.tests] == [Outcome.PASS, Outcome.TIMEOUT]


def test_a_trace_of_the_program_stays(sandbox):
    program = (
        "import sys\nseen = set()\n"
        "def trace(frame, event, argument):\n    seen.add(frame.f_code.co_name)\n    return trace\n"
        "sys.settrace(trace)\ndef f():\n    i = 0\n    while i < 10 ** 5: i += 1\nf()\n"
        "print(sys.gettrace() is trace, 'f' in seen)"
    )
    report = sandbox.run_tests(program, StdioTests((("", "True True"),)), LIMITS)
    assert report.outcome is Outcome.PASS, report
