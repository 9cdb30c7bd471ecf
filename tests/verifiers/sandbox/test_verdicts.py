"""Verdicts of the three forms of tests: complete, right, and not to be had by a program that only pretends."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from verifiers.sandbox import AssertTests, CallTests, Limits, Outcome, Sandbox, StdioTests, parse_tests
from verifiers.sandbox.capabilities import capabilities

FULL = all(found.works for found in capabilities() if found.needed == "full")
pytestmark = pytest.mark.skipif(not FULL, reason="no namespaces here: see `python -m verifiers.sandbox doctor`")
LIMITS = Limits(timeout_s=5.0)
INC = "def inc(x):\n    return x + 1\n"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2) as made:
        yield made


def outcomes(report):
    return [test.outcome.value for test in report.tests]


def run(sandbox, program, tests, limits=LIMITS, **options):
    return sandbox.run_tests(program, tests, limits, **options)


def test_each_test_has_its_result(sandbox):
    program = "import os\ndef f(n):\n    if n == 1: return 10 // 0\n    if n == 2: os._exit(0)\n    return n"
    report = run(sandbox, program, CallTests("f", tuple(((n,), n if n != 3 else 99) for n in range(5))))
    assert outcomes(report) == ["pass", "crash", "crash", "fail", "pass"]
    assert report.outcome is Outcome.CRASH
    assert report.detail == "ZeroDivisionError: integer division or modulo by zero"
    assert (report.trust, report.tier.value) == ("split", "full")


def test_after_a_timeout_the_others_run_in_a_fresh_box(sandbox):
    tests = CallTests("f", (((1,), 1), ((2,), 2), ((3,), 3)))
    program = "def f(n):\n    while n == 2: pass\n    return n"
    limits = Limits(timeout_s=0.7)
    assert outcomes(run(sandbox, program, tests, limits)) == ["pass", "timeout", "pass"]
    assert outcomes(run(sandbox, program, tests, limits, fail_fast=True)) == ["pass", "timeout", "not_run"]


def test_two_timeouts_in_a_row_end_the_series(sandbox):
    tests = StdioTests((("", "1"),) * 4)
    report = run(sandbox, "while True: pass", tests, Limits(timeout_s=0.5))
    assert outcomes(report) == ["timeout", "timeout", "not_run", "not_run"]
    assert "two timeouts" in report.tests[3].detail


def test_every_assert_is_a_test_with_a_deadline_of_its_own(sandbox):
    wait = "time.sleep(0.4)"
    lines = [
        "import time",
        "assert inc(1) == 2",
        "assert inc(1) == 3",
        wait,
        "assert inc(2) == 3",
        wait,
        "assert inc(3) == 4",
    ]
    code = "\n".join(lines)
    report = run(sandbox, INC, AssertTests(code), Limits(timeout_s=0.7))
    assert outcomes(report) == ["pass", "fail", "pass", "pass"]
    report = run(sandbox, INC, AssertTests(code), fail_fast=True)
    assert outcomes(report) == ["pass", "fail", "not_run", "not_run"]


def test_a_hang_in_asserts_leaves_the_rest_out(sandbox):
    program = "def f(n):\n    while n == 2: pass\n    return n"
    report = run(
        sandbox, program, AssertTests("assert f(1) == 1\nassert f(2) == 2\nassert f(3) == 3"), Limits(timeout_s=0.7)
    )
    assert outcomes(report) == ["pass", "timeout", "not_run"]


@pytest.mark.parametrize(
    "program", ["def f(:", "1 / 0", "import nothing_like_it", "raise SystemExit(0)", "", "\0", "\ud800"]
)
def test_a_program_that_does_not_load(sandbox, program):
    for tests in (CallTests("f", (((1,), 1), ((2,), 2))), AssertTests("assert f(1) == 1"), StdioTests((("", "x"),))):
        report = run(sandbox, program, tests)
        assert {*outcomes(report)} <= {"crash", "fail"}, report
        assert len(report.tests) == (2 if isinstance(tests, CallTests) else 1)


FORGERIES = {
    "equal to all": "class E:\n    __eq__ = __contains__ = __lt__ = __gt__ = __ge__ = lambda s, o: True\n"
    "    __ne__ = lambda s, o: False\n"
    "    __sub__ = __rsub__ = __add__ = __abs__ = lambda s, *o: 0\n    __hash__ = None\ndef inc(x): return E()",
    "equal int": "class E(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\ndef inc(x): return E(7)",
    "exit": "import os\ndef inc(x): os._exit(0)",
    "sys.exit": "import sys\ndef inc(x): sys.exit(0)",
    "list append": "import gc, os\ndef inc(x):\n    for o in gc.get_objects():\n"
    "        if type(o) is list: o.append('passed')\n    os._exit(0)",
    "trace": "import sys\nsys.settrace(lambda *a: None)\ndef inc(x): return None",
    "patches": "import builtins\n"
    "for n in ('len', 'abs', 'isinstance', 'set', 'sorted'): setattr(builtins, n, lambda *a: 1)\n"
    "set = sorted = abs = len = isinstance = lambda *a: 1\ndef inc(x): return 0",
    "messages": "import json, os\nfor m in ({'value': 2}, {'nonce': ''}, {'tests': [['pass', 0, '']], 'gone': ''}):\n"
    "    d = json.dumps(m).encode()\n    os.write(3, len(d).to_bytes(4, 'big') + d)\ndef inc(x): return 0",
    "setup message": "import os\nd = b'{\"setup\": \"x\"}'\nos.write(3, len(d).to_bytes(4, 'big') + d)\nos._exit(1)",
    "load says pass": "import json, os\n"
    "d = json.dumps({'error': {'reason': 'pass', 'name': '', 'text': ''}}).encode()\n"
    "os.write(3, len(d).to_bytes(4, 'big') + d)\nimport time\ntime.sleep(9)",
    "call says pass": "import json, os\ndef inc(x):\n"
    "    e = {'reason': 'pass', 'name': 'a', 'text': '', 'args': {'t': []}, 'class': [['ValueError', 'builtins']]}\n"
    "    d = json.dumps({'error': e}).encode()\n    os.write(3, len(d).to_bytes(4, 'big') + d)\n"
    "    import time\n    time.sleep(9)",
    "wrong shapes": "import json, os, time\n"
    "for m in ({'loaded': 5}, {'value': {'held': 3}}, {'error': 7}, {'call': 'x'}):\n"
    "    d = json.dumps(m).encode()\n    os.write(3, len(d).to_bytes(4, 'big') + d)\ntime.sleep(9)",
    "no channel": "import os\nos.close(3)\ndef inc(x): return 0",
    "base exception": "class X(BaseException): pass\ndef inc(x): raise X",
    "opaque": "def inc(x): return iter([x + 1])",
}
CODE = "assert set([inc(1)]) == set([2])\nassert abs(inc(4) - 5) < 1e-9\nassert inc(1) in [2]\nassert inc(0) == 1"


@pytest.mark.parametrize("name", FORGERIES)
def test_no_forgery_passes(sandbox, name):
    for tests in (
        CallTests("inc", (((1,), 2), ((4,), 5))),
        AssertTests(CODE),
        AssertTests("def check(inc):\n    assert inc(1) == 2\ncheck(inc)"),
    ):
        report = run(sandbox, FORGERIES[name], tests)
        assert report.outcome in (Outcome.FAIL, Outcome.CRASH), (name, report)
        assert "pass" not in outcomes(report)[:1]
    assert run(sandbox, INC, AssertTests(CODE)).outcome is Outcome.PASS


def test_a_program_cannot_end_a_test_that_swallows_exceptions(sandbox):
    code = "try:\n    inc(1)\nexcept BaseException:\n    pass\n"
    assert run(sandbox, "import os\ndef inc(x): os._exit(0)", AssertTests(code)).outcome is Outcome.CRASH
    assert run(sandbox, INC, AssertTests(code)).outcome is Outcome.PASS


def test_a_program_cannot_hide_a_builtin_from_the_tests(sandbox):
    tests = AssertTests("assert sorted(f()) == [1, 2]")
    assert run(sandbox, "def sorted(x): return [1, 2]\ndef f(): return [3]", tests).outcome is Outcome.FAIL
    assert run(sandbox, "def sum(a, b): return a * b", AssertTests("assert sum(2, 3) == 6")).outcome is Outcome.PASS


def test_expected_values_are_not_in_the_program_s_memory(sandbox):
    hunt = (
        "import re\ndef f():\n    for l in open('/proc/self/maps'):\n        if ' rw-p ' in l:\n"
        "            a, b = (int(x, 16) for x in l.split()[0].split('-'))\n"
        "            with open('/proc/self/mem', 'rb') as m:\n                m.seek(a)\n"
        "                k = re.search(rb'needle-[0-9]{6}', m.read(b - a))\n"
        "                if k: return k[0].decode()\n    return ''"
    )
    for number in (123456, 654321):
        expected = f"needle-{number}"
        assert run(sandbox, hunt, CallTests("f", (((), expected),))).outcome is Outcome.FAIL
        assert run(sandbox, hunt, AssertTests(f"assert f() == {expected!r}")).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("x = 'a' * (4 << 30)", "memory"),
        ("open('/usr/x', 'w')", "blocked"),
        ("import socket\nsocket.socket()", "blocked"),
        ("import ctypes\nctypes.string_at(0)", "crash"),
        ("import os\nos.kill(os.getpid(), 9)", "crash"),
        ("import sys\nsys.exit(3)", "crash"),
        ("print('a' * (2 << 20))", "output_limit"),
        ("print(1)", "fail"),
        ("print('?')", "pass"),
    ],
)
def test_outcomes_of_a_script(sandbox, program, outcome):
    report = run(sandbox, program, StdioTests((("", "?"),)))
    assert report.outcome.value == outcome, report


def test_much_output_is_no_matter_where_it_does_not_count(sandbox):
    program = "def f(x):\n    for _ in range(300): print('y' * 10000)\n    return x"
    report = run(sandbox, program, CallTests("f", (((1,), 1),)))
    assert report.outcome is Outcome.PASS
    assert report.stdout == "y" * 1999 + "\n"


def test_values_that_are_too_long_or_too_deep(sandbox):
    long = run(sandbox, "def f(): return 'x' * (20 << 20)", CallTests("f", (((), "x"),)))
    deep = run(
        sandbox, "def f():\n    x = []\n    for _ in range(10 ** 5): x = [x]\n    return x", CallTests("f", (((), []),))
    )
    assert (long.outcome, deep.outcome) == (Outcome.OUTPUT_LIMIT, Outcome.FAIL)


def test_large_arguments_and_a_program_that_does_not_read_them(sandbox):
    big = list(range(10**6))
    assert run(sandbox, "def f(x): return len(x)", CallTests("f", (((big,), 10**6),))).outcome is Outcome.PASS
    started = time.monotonic()
    deaf = "import os, time\nos.write(3, b'\\0\\0\\0\\x11{\"loaded\": true }')\ntime.sleep(60)"
    assert run(sandbox, deaf, CallTests("f", (((big,), 1),)), Limits(timeout_s=1.0)).outcome is Outcome.TIMEOUT
    assert time.monotonic() - started < 15


def test_shared_tests_say_so(sandbox):
    code = "class Sub(Base): pass\nassert Sub().f() == 1"
    program = "class Base:\n    def f(self): return 1"
    assert run(sandbox, program, AssertTests(code)).outcome is Outcome.FAIL
    shared = run(sandbox, program, AssertTests(code, shared_state=True))
    assert (shared.outcome, shared.trust) == (Outcome.PASS, "shared")
    wrong = run(sandbox, program, AssertTests("assert Base().f() == 2", shared_state=True))
    assert wrong.outcome is Outcome.FAIL
    assert run(sandbox, "import os\nos._exit(0)", AssertTests(code, shared_state=True)).outcome is Outcome.CRASH


def test_tests_that_meddle_do_not_reach_the_next(sandbox):
    meddle = "import math\nmath.sqrt = lambda x: 0\nassert inc(1) == 2"
    for _ in range(4):
        assert run(sandbox, INC, AssertTests(meddle)).outcome is Outcome.PASS
        assert run(sandbox, INC, AssertTests("import math\nassert inc(math.sqrt(4)) == 3")).outcome is Outcome.PASS


def test_many_threads_get_their_own_results(sandbox):
    def one(n):
        program = f"def f(x): return x + {n}" if n % 5 else "import os\nos._exit(0)"
        return run(sandbox, program, CallTests("f", (((1,), 1 + n),))).outcome

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(one, range(40)))
    assert found == [Outcome.PASS if n % 5 else Outcome.CRASH for n in range(40)]


@pytest.mark.parametrize("program", [None, 3, b"print(1)"])
def test_a_program_must_be_text(sandbox, program):
    with pytest.raises(TypeError, match="must be text"):
        run(sandbox, program, StdioTests((("", ""),)))


def test_a_program_of_ten_megabytes(sandbox):
    report = run(sandbox, "#" * 10_000_000, StdioTests((("", ""), ("", ""))))
    assert outcomes(report) == ["crash", "crash"]
    assert "10000000 characters" in report.detail


@pytest.mark.parametrize("field", ["timeout_s", "memory_mb", "pids", "output_kb", "fsize_mb"])
@pytest.mark.parametrize("value", [0, -1, "5", True, None, float("nan"), float("inf"), 10**9])
def test_limits_are_positive_numbers(field, value):
    with pytest.raises(ValueError, match=f"limits.{field} is"):
        Limits(**{field: value})


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (None, "test must be an object"),
        ({}, "test.type is None"),
        ({"type": "pytest"}, "test.type is 'pytest'; write one of assert, call, stdio"),
        ({"type": "assert"}, "test.code must be text"),
        ({"type": "assert", "code": " "}, "test.code is empty"),
        ({"type": "assert", "code": "assert 1", "shared_state": 1}, "test.shared_state must be true or false"),
        ({"type": "call", "entry": "f", "cases": []}, "test.cases must be a list with at least one"),
        ({"type": "call", "cases": [{"args": [], "expected": 1}]}, "test.entry must be text"),
        ({"type": "call", "entry": "f", "cases": [{"args": 1, "expected": 1}]}, r"test.cases\[0\].args must be a list"),
        ({"type": "call", "entry": "f", "cases": [{"args": []}]}, r"test.cases\[0\].expected is missing"),
        ({"type": "stdio", "cases": [{"stdin": "", "stdout": ""}, {"stdin": ""}]}, r"test.cases\[1\].stdout must be"),
        ({"type": "stdio", "cases": [{"stdin_parts": [["a"]], "stdout": ""}]}, r"test.cases\[0\].stdin_parts must be"),
        ({"type": "stdio", "cases": [{"stdin": "", "stdout": ""}], "compare": "exact"}, "unknown comparison 'exact'"),
    ],
)
def test_tests_that_are_wrong_are_named(record, message):
    with pytest.raises(ValueError, match=message):
        parse_tests(record)


@pytest.mark.parametrize("shared", [True, False])
def test_tests_that_are_no_python(shared):
    with pytest.raises(ValueError, match=r"test\.code is no Python"):
        AssertTests("assert inc(1) ==", shared)


@pytest.mark.parametrize("code", ["# none", "'''none'''", "import math", "def check(f):\n    assert f(1) == 2", "pass"])
def test_tests_that_check_nothing(code):
    with pytest.raises(ValueError, match=r"test\.code cannot be used: it checks nothing"):
        AssertTests(code)


@pytest.mark.parametrize("entry", ["", "f(", "f; import os", "x = f"])
def test_an_entry_that_is_no_expression(entry):
    with pytest.raises(ValueError, match=r"test\.entry is .*`Solution\(\).f`"):
        CallTests(entry, (((1,), 2),))


def test_the_largest_limits_can_be_used(sandbox):
    most = Limits(timeout_s=1e6, memory_mb=10**6, pids=10**6, output_kb=10**6, fsize_mb=10**6)
    assert run(sandbox, INC, CallTests("inc", (((1,), 2),)), most).outcome is Outcome.PASS


def test_long_texts_may_come_in_parts():
    record = {"type": "stdio", "cases": [{"stdin_parts": [["ab", 3], ["c", 1]], "stdout": "x"}]}
    assert parse_tests(record).cases == (("abababc", "x"),)
